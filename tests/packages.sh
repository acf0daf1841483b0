#!/bin/sh
# packages.sh "NEEDED ..." "OPTIONAL ...": install the Debian packages of both lists that are missing.
# Silent when nothing is missing. Fails if a needed one cannot be installed; says so if an optional one cannot.
needed=$1 optional=$2

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

if ! command -v dpkg-query >/dev/null 2>&1; then
    [ -n "$GRADSUM_PACKAGES_OK" ] && exit 0
    give_up "this is not Debian; install what is missing by hand, then set GRADSUM_PACKAGES_OK=1" "$needed"
fi

missing=$(missing_of "$needed")
wished=$(missing_of "$optional")
[ -z "$missing$wished" ] && exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1; then
    as_root=sudo
elif [ -n "$missing" ]; then
    give_up "packages are missing, and cannot be installed without root or sudo" "$missing"
else
    exit 0
fi

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1; }

echo "gradsum: installing with apt-get: $missing$wished" >&2
apt update || { cat "$log" >&2; echo "gradsum: apt-get update failed; trying with the lists there are" >&2; }
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $missing || { cat "$log" >&2; give_up "apt-get failed" "$missing"; }
fi
if [ -n "$wished" ]; then
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $wished || echo "gradsum: could not install $wished; going on without" >&2
fi
exit 0
