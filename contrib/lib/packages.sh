# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Debian packages: what is missing is installed, and it is said what. To be sourced after say.sh.

# package_present NAME: whether the package is installed.
package_present() {
    dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# packages_ensure NAME...: installs those that are missing; nothing to do is nothing said. Services that packages bring are
# not started (etcd, nginx and haproxy are run by the tests as programs of their own).
packages_ensure() {
    local name missing=() log status=0
    for name in "$@"; do
        package_present "$name" || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] ||
        die "these Debian packages are missing and only root can install them: ${missing[*]}"
    say "Changing this machine: installing the Debian packages ${missing[*]} (and what they depend on)."
    log=$(mktemp) || return 1
    packages_hold_services
    {
        step "$log" "apt-get update" apt-get update -q &&
            step "$log" "apt-get install" env DEBIAN_FRONTEND=noninteractive \
                apt-get install -q -y --no-install-recommends "${missing[@]}"
    } || status=$?
    packages_release_services
    rm -f "$log"
    return "$status"
}

# While packages are being installed, policy-rc.d says that no service is to be started; one that is there already stays.
packages_policy=/usr/sbin/policy-rc.d
packages_policy_ours=''
packages_hold_services() {
    [ ! -e "$packages_policy" ] || return 0
    printf '#!/bin/sh\nexit 101\n' >"$packages_policy"
    chmod 755 "$packages_policy"
    packages_policy_ours=1
}
packages_release_services() {
    [ -n "$packages_policy_ours" ] || return 0
    rm -f "$packages_policy"
    packages_policy_ours=''
}
