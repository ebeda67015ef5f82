#!/bin/sh
# Numba reads its cache from folders that it can write to: copy the image's kernels to the tmpfs.
set -eu
mkdir -p "$NUMBA_CACHE_DIR"
cp -R /opt/kernels/. "$NUMBA_CACHE_DIR"/
exec rankwright serve --log-format json "$@"
