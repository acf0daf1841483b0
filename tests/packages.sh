#!/bin/sh
# packages.sh "NEEDED ..." "OPTIONAL ...": finds the Debian packages of both lists that are missing; prints nothing if
# none is. As root it installs them; INSTALL=1 lets any user install them with sudo. It fails if a needed package cannot
# be installed, and reports an optional one. Without root and INSTALL=1 it installs nothing: it prints the command, and
# fails if a needed package is missing.
# packages.sh --list "NEEDED ..." "OPTIONAL ...": prints the names for each distribution instead.
listing=
[ "$1" != --list ] || { listing=1; shift; }
needed=$1 optional=$2

# The packages for building and testing on other distributions.
fedora="gcc gcc-c++ make pkgconf-pkg-config OpenCL-ICD-Loader-devel opencl-headers openblas-devel gloo-devel \
zlib-devel libjpeg-turbo-devel libpng-devel pcre2-devel cjson-devel nettle-devel protobuf-c-devel \
protobuf-c-compiler pocl libcmocka-devel openmpi-devel"
arch="base-devel ocl-icd opencl-headers openblas zlib libjpeg-turbo libpng pcre2 cjson nettle protobuf-c pocl \
cmocka openmpi"

print_lists() {
    # shellcheck disable=SC2086
    echo "Debian, Ubuntu: apt-get install" $1
    echo "Fedora: dnf install $fedora"
    echo "        Open MPI is found after 'module load mpi/openmpi-x86_64'"
    echo "Arch:   pacman -S $arch"
    echo "        there is no package of Gloo: build commit 5354032 of github.com/pytorch/gloo with"
    echo "        cmake -DBUILD_SHARED_LIBS=ON, and install it; commits from 2025 on do not fit"
    echo "Both:   there is no package of Chart.js 3.9: make CHART_JS=FILE, where FILE is its chart.min.js"
}

missing_of() {
    for p in $1; do
        dpkg-query -W -f='${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || printf '%s ' "$p"
    done
}

give_up() {
    echo "gradsum: $1" >&2
    echo "gradsum needs these packages (Debian's names): $2" >&2
    exit 1
}

if [ -n "$listing" ]; then
    print_lists "$needed $optional"
    exit 0
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
    [ -n "$GRADSUM_PACKAGES_OK" ] && exit 0
    echo "gradsum: apt is not available. Install what is missing, then set GRADSUM_PACKAGES_OK=1:" >&2
    print_lists "$needed" >&2
    exit 1
fi

missing=$(missing_of "$needed")
wished=$(missing_of "$optional")
[ -z "$missing$wished" ] && exit 0

if [ "$(id -u)" = 0 ] && [ "$INSTALL" != no ]; then
    as_root=
elif [ "$INSTALL" != 1 ]; then
    if [ -z "$missing" ]; then
        echo "gradsum: continuing without $wished(make INSTALL=1 installs with sudo)" >&2
        exit 0
    fi
    cat >&2 <<END
gradsum: these packages are missing: $missing
gradsum: install them, or let make do so (make INSTALL=1):
    sudo apt-get install --no-install-recommends $missing$wished
END
    exit 1
elif command -v sudo >/dev/null 2>&1; then
    as_root=sudo
elif [ -n "$missing" ]; then
    give_up "INSTALL=1 needs root or sudo" "$missing"
else
    exit 0
fi

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# Another program may be installing, such as the updates of a new machine: wait for it.
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" \
    >"$log" 2>&1; }

echo "gradsum: installing with apt-get: $missing$wished" >&2
apt update || { cat "$log" >&2; echo "gradsum: apt-get update failed; trying with the existing lists" >&2; }
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $missing || { cat "$log" >&2; give_up "apt-get failed" "$missing"; }
fi
if [ -n "$wished" ]; then
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $wished || echo "gradsum: could not install $wished; continuing without" >&2
fi
exit 0
