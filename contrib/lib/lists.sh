# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Which Debian packages are needed for what. To be sourced.

# llhttp_package: a library where Debian has one (13 and later), else its C sources in the package for node.
llhttp_package() {
    if apt-cache show libllhttp-dev >/dev/null 2>&1; then echo libllhttp-dev; else echo node-llhttp; fi
}

# packages_to_build: compilers, tools and libraries for mvproxy itself.
packages_to_build() {
    echo gcc libc6-dev make autoconf automake pkg-config \
        libevent-dev libssl-dev libjson-c-dev libnghttp2-dev libyaml-dev zlib1g-dev "$(llhttp_package)"
}

# packages_to_have_go: with the others in one go, where there is none yet (go_ensure does the rest).
packages_to_have_go() {
    command -v go >/dev/null || echo golang-go
}

# packages_to_run_cluster: what the sandbox with a cluster in it is made with (kube-apiserver and kubectl are built).
packages_to_run_cluster() {
    echo python3 openssl iproute2 etcd-server ca-certificates
}

# packages_to_check: what the tests and lints use besides.
packages_to_check() {
    echo clang-format-14 etcd-server mandoc python3 python3-yaml openssl git systemd acl curl nghttp2-client tinyproxy stunnel4 socat strace
}

# packages_to_check_all: the other compiler, and large programs for a few tests each, which are skipped without them.
packages_to_check_all() {
    # Whoever has a node of his own has npm with it.
    command -v npm >/dev/null || echo nodejs npm
    echo ccache clang-14 libclang-rt-14-dev chromium prometheus testssl.sh sslscan slowhttptest gcovr zsh gdb containerd
    packages_to_package
}

# packages_to_package: what contrib/lib/check-package uses besides.
packages_to_package() {
    echo debootstrap debhelper lintian fakeroot dpkg-dev
}

# packages_to_bench: whom mvproxy is measured against, and the tools.
packages_to_bench() {
    echo nginx haproxy nghttp2-proxy nghttp2-client python3 openssl iproute2
}
