# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Free disk space, asked for before something large is begun. To be sourced after say.sh.

# existing_dir DIR: DIR, or the nearest of its parents that exists.
existing_dir() {
    local dir=$1
    while [ ! -d "$dir" ]; do dir=$(dirname "$dir"); done
    printf '%s\n' "$dir"
}

# need_disk DIR MEGABYTES WHAT: ends the script with a clear message when the file system of DIR has less than MEGABYTES.
need_disk() {
    local dir free
    dir=$(existing_dir "$1")
    free=$(df -Pm "$dir" | awk 'NR == 2 { print $4 }')
    [ "$free" -ge "$2" ] ||
        die "$3 needs $2 MB on the file system of $dir, and only $free MB are free there"
}
