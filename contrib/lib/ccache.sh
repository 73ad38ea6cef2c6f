# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What has been compiled before comes from a cache, where ccache is installed. To be sourced.

# ccache_use: from now on, for build folders within the tree, wherever that is. Not for what is handed out (build-package).
ccache_use() {
    [ -d /usr/lib/ccache ] || return 0
    # Paths count as seen from the build folder, and it does not count where that is.
    export CCACHE_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/mvproxy/ccache" CCACHE_MAXSIZE=1G CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1
    PATH=/usr/lib/ccache:$PATH
}
