#!/bin/sh
# Makes ./configure from a fresh clone.
set -e
cd "$(dirname "$0")"
exec autoreconf --force --install "$@"
