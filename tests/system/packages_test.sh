#!/bin/sh
# packages_test.sh: how make handles missing packages, tested with stand-ins for apt-get, dpkg-query, id and sudo.
set -eu
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "packages: $*, not as expected:"; cat "$root/said" "$root/called"; exit 1; }
unset INSTALL

mkdir "$root/bin"
cat >"$root/bin/id" <<'END'
#!/bin/sh
echo "$USER_ID"
END
cat >"$root/bin/dpkg-query" <<'END'
#!/bin/sh
for package; do :; done
case " $MISSING " in *" $package "*) exit 1 ;; *) echo installed ;; esac
END
cat >"$root/bin/apt-get" <<'END'
#!/bin/sh
echo "apt-get $*" >>"$CALLED"
END
cat >"$root/bin/sudo" <<'END'
#!/bin/sh
echo "sudo" >>"$CALLED"
exec "$@"
END
chmod +x "$root"/bin/*

# tried STATUS USER-ID MISSING COMMAND...
tried() {
    wanted=$1 user=$2 missing=$3 status=0
    shift 3
    : >"$root/called"
    env USER_ID="$user" MISSING="$missing" CALLED="$root/called" PATH="$root/bin:$PATH" MAKEFLAGS="" "$@" \
        >"$root/said" 2>&1 || status=$?
    test $status = "$wanted" || fail "status $status"
}
says() { grep -q -- "$1" "$root/said" || fail "no '$1' is said"; }
calls() { grep -q -- "$1" "$root/called" || fail "no '$1' is called"; }
calls_nothing() { test ! -s "$root/called" || fail "something is called"; }
small() { tried "$1" "$2" "$3" "${MAKE:-make}" -s B="$root/build" ${4:+"$4"} "$root/build/mpi"; }

# ---- a user is shown the list and the command; sudo is not called ----
small 2 1000 "libgloo-dev zlib1g-dev"
says '^gradsum: these packages are missing: libgloo-dev zlib1g-dev'
says '^    sudo apt-get install --no-install-recommends libgloo-dev zlib1g-dev'
says 'make INSTALL=1'
calls_nothing
small 2 1000 libgloo-dev INSTALL=/usr/bin/install # other Makefiles use this name for their install program
calls_nothing

# ---- with INSTALL=1, and as root, make installs them ----
small 0 1000 libgloo-dev INSTALL=1
calls '^sudo'
calls '^apt-get .* install .* libgloo-dev$'
small 0 0 libgloo-dev
calls '^apt-get .* install .* libgloo-dev$'
! grep -q sudo "$root/called" || fail "root calls sudo"
says 'installing with apt-get: libgloo-dev'

# ---- lint installs nothing by itself ----
tried 2 0 cppcheck "${MAKE:-make}" -s B="$root/build" lint
says 'missing: cppcheck'
calls_nothing
tried 0 0 "" "${MAKE:-make}" -n B="$root/build" lint INSTALL=1
says '^INSTALL=1 tests/packages.sh'

# ---- nothing is missing; only optional packages are missing ----
small 0 1000 ""
calls_nothing
test ! -s "$root/said" || fail "something is printed"
tried 0 1000 openmpi-bin tests/packages.sh libgloo-dev openmpi-bin
says 'continuing without openmpi-bin'
calls_nothing
tried 0 0 openmpi-bin tests/packages.sh libgloo-dev openmpi-bin
calls '^apt-get .* install .* openmpi-bin$'
echo "packages: make installs as root and with INSTALL=1, and else prints the command"
