#!/bin/sh
# tidy.sh FILE.c...: clang-tidy with the project's checks (.clang-tidy) and flags; prints and fails on findings only.
# TIDY_NODES: how many states of a function the analyzer follows. 225,000 is clang's limit, and takes 6 times as long as
# 25,000.
set -eu
libraries="OpenCL openblas libcjson nettle zlib libprotobuf-c libjpeg libpng libpcre2-8"
mpi=
if pkg-config --exists ompi-c; then mpi=-DGRADSUM_MPI libraries="$libraries ompi-c"; fi # checked if installed
# shellcheck disable=SC2046,SC2086
clang-tidy --quiet --warnings-as-errors='*' "$@" -- -Xclang -analyzer-config -Xclang "max-nodes=${TIDY_NODES:-225000}" \
    -std=c11 -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 \
    -DGS_PREFIX='"/usr/local"' $mpi -Isrc -I. -Ilessons \
    -I"${B:-build}/src" $(pkg-config --cflags $libraries) 2>/dev/null
