# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Where things are after a build. To be sourced.

# built_mvproxy DIR: the program in the build folder DIR.
built_mvproxy() { printf '%s/mvproxy\n' "$1"; }
