# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A Go toolchain that is new enough, from whatever the machine has. To be sourced after say.sh and packages.sh.
#
# A machine's own `go` is used when it is new enough. Otherwise Debian's golang-go (1.19 on Debian 12) fetches a newer one,
# which is published as the Go module golang.org/toolchain, through the Go module proxy and verified by the checksum database.

# The Go release that is fetched; it compiles every Kubernetes version that the tests use.
GO_FETCHED_RELEASE=${MVPROXY_GO_RELEASE:-1.26.8}

# go_release GO: the release of the program GO as MAJOR.MINOR.PATCH, empty if it does not run.
go_release() {
    GOTOOLCHAIN=local "$1" version 2>/dev/null | sed -n 's/^go version go\([0-9][0-9.]*\).*/\1/p'
}

# release_at_least A B: whether release A is B or newer.
release_at_least() {
    [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# go_arch: this machine's processor in Go's words.
go_arch() {
    case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "no Go toolchain known for $(uname -m)" ;;
    esac
}

# go_fetch LOG: fetches the newer toolchain with the old `go`, sets GO.
go_fetch() {
    local log=$1 module root
    module="golang.org/toolchain@v0.0.1-go$GO_FETCHED_RELEASE.linux-$(go_arch)"
    root="$(GOTOOLCHAIN=local go env GOMODCACHE)/$module"
    if [ ! -d "$root" ]; then
        need_disk "$(dirname "$root")" 700 "the Go $GO_FETCHED_RELEASE toolchain"
        step "$log" "fetching Go $GO_FETCHED_RELEASE (the module golang.org/toolchain)" \
            env -C / GOTOOLCHAIN=local GOFLAGS=-mod=mod go mod download "$module" || return 1
    fi
    # Files of a module never have the execute bit, not even these.
    chmod +x "$root"/bin/* "$root"/pkg/tool/*/*
    GO=$root/bin/go
}

# go_ensure RELEASE LOG: sets GO to a Go program of at least RELEASE.
go_ensure() {
    local wanted=$1 log=$2
    GO=$(command -v go || true)
    if [ -z "$GO" ]; then
        packages_ensure golang-go || return 1
        GO=$(command -v go)
    fi
    release_at_least "$(go_release "$GO")" "$wanted" && return 0
    go_fetch "$log" || return 1
    release_at_least "$(go_release "$GO")" "$wanted" ||
        die "this needs Go $wanted, but $GO is $(go_release "$GO"): set MVPROXY_GO_RELEASE"
}
