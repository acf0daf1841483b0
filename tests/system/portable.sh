#!/bin/sh
# portable.sh BUILD [PART ...]: the project with another compiler (clang), without optimisation (O0), with its header in
# C++ (header), for another processor (arm64, emulated by qemu), and on another OpenCL (opencl). A missing part is
# skipped with a message; with GRADSUM_PORTABLE=required that is a failure. It works without root: the files of the
# other processor and of the other OpenCL are unpacked in BUILD/portable.
set -eu
build=$(realpath "$1") out=$(realpath "$1")/portable
shift
parts=${*:-header clang O0 arm64 opencl}
mkdir -p "$out"
make="${MAKE:-make} --no-print-directory"
export POCL_SIGFPE_HANDLER=0

leave_out() {
    echo "test-portable: $part left out: $1"
    [ "${GRADSUM_PORTABLE:-}" != required ] || exit 1
}
need() { command -v "$1" >/dev/null || { leave_out "there is no $1"; return 1; }; }

# run GROUPS COMMAND ...: runs each group of tests separately, two at a time; shows a group's output only if it fails.
run() {
    groups=$1
    shift
    export part out
    # shellcheck disable=SC2016
    echo "$groups" | tr ' ' '\n' | xargs -P 2 -I GROUP sh -c '
        group=$1
        shift
        if timeout -k 5 600 "$@" "$group" >"$out/$part-$group.log" 2>&1; then
            passed=$(sed -n "s/^\[  PASSED  \] //p" "$out/$part-$group.log" | head -n 1)
            echo "test-portable: $part: $group: $passed passed"
        else
            cat "$out/$part-$group.log"
            echo "test-portable: $part: $group failed" >&2
            exit 255
        fi' run GROUP "$@"
}

# hashes PROGRAM STEPS [MODELS]: the program's weights after so many steps are those of the table (bits.sh).
hashes() {
    program=$1 && shift
    said=$("$(dirname "$0")/bits.sh" "$program" cpu "$@") ||
        { echo "$said"; echo "test-portable: $part failed" >&2; exit 1; }
    echo "test-portable: $part: $said"
}

# The whole library through its header, with each C++ compiler, in the oldest supported standard.
part_header() {
    cat >"$out/header.cc" <<'END'
#include "model/model.h"
int main() {
    gs_model_config config = {};
    config.text = "lenet";
    config.in = gs_shape{1, 28, 28, 0};
    gs_model *model;
    if (gs_model_create(nullptr, &config, &model) != GS_OK) return 1;
    const bool right = model->params == 61706;
    gs_model_free(model);
    return right ? 0 : 1;
}
END
    for compiler in g++ clang++; do
        need $compiler || continue
        for standard in c++11 c++17; do
            $compiler -std=$standard -Wall -Wextra -Werror -Isrc -o "$out/header" "$out/header.cc" \
                "$build/libgradsum.so"
            LD_LIBRARY_PATH=$build "$out/header"
        done
        echo "test-portable: header: $compiler compiles it"
    done
}

formats="idx safetensors safetensors_harm" # groups of tests

part_clang() {
    need clang && need clang++ || return 0
    $make B="$out/clang" CC=clang CXX=clang++ "$out/clang/gradsum" "$out/clang/gradsum-test"
    run "philox operators operators_plain sgd optimizers fused wire sync $formats model train" "$out/clang/gradsum-test"
    hashes "$out/clang/gradsum" 50
    # Also a lab with its sanitizers; here the compilers come from the environment.
    CC=clang CXX=clang++ $make B="$out/clang" SOLUTIONS=1 lab-07 >"$out/clang.log" 2>&1 || true
    if ! grep -q '^  total 10/10$' "$out/clang.log"; then
        cat "$out/clang.log"
        echo "test-portable: clang: lab 07 failed" >&2
        exit 1
    fi
    echo "test-portable: clang: the solution of lab 07 gets all points"
}

part_O0() {
    $make B="$out/O0" CFLAGS=-O0 CXXFLAGS=-O0 "$out/O0/gradsum" "$out/O0/gradsum-test"
    run "philox fused wire idx safetensors model exact" "$out/O0/gradsum-test"
    hashes "$out/O0/gradsum" 5
}

# ---- arm64 -----------------------------------------------------------------------------------------------------------

# The packages of the other processor with all dependencies, unpacked in $root as if nothing were installed.
arm64_packages() {
    [ ! -e "$root/done" ] || return 0
    apt=$out/arm64/apt
    rm -rf "$root" "$apt"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    : >"$apt/status"
    apt_get="apt-get -qq -o Dir::State=$apt -o Dir::State::lists=$apt/lists -o Dir::State::status=$apt/status
        -o Dir::Cache=$apt -o Dir::Cache::archives=$apt/archives -o APT::Architecture=arm64
        -o APT::Architectures::=arm64 -o Debug::NoLocking=1 -o APT::Sandbox::User="
    cxx=libstdc++-$(aarch64-linux-gnu-g++ -dumpversion)-dev
    # shellcheck disable=SC2086
    $apt_get update >"$out/arm64.log" 2>&1 &&
        $apt_get install -y --no-install-recommends --download-only libc6-dev "$cxx" libopenblas-pthread-dev \
            libgloo-dev ocl-icd-opencl-dev opencl-headers zlib1g-dev libjpeg-dev libpng-dev libpcre2-dev libcjson-dev \
            nettle-dev libprotobuf-c-dev libcmocka-dev >>"$out/arm64.log" 2>&1 || return 1
    for folder in lib bin sbin; do
        mkdir -p "$root/usr/$folder"
        ln -s "usr/$folder" "$root/$folder"
    done
    for package in "$apt"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -C "$root" --keep-directory-symlink --no-same-owner -xf -
    done
    # Links from / lead out of $root.
    find "$root" -type l -lname '/*' | while read -r link; do
        ln -sf "$(realpath -ms --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
    done
    ln -sf openblas-pthread/libopenblas.so.0 "$root/usr/lib/aarch64-linux-gnu/libopenblas.so.0"
    rm -rf "$apt"
    touch "$root/done"
}

# A sealed handout with its objects for arm64, which were compiled without arm64 packages (lessons/handout.sh). Unsealed
# files have been compiled already.
sealed_arm64() {
    handout=$out/arm64/handout
    rm -rf "$handout"
    env -u MAKEFLAGS -u PKG_CONFIG_SYSROOT_DIR -u PKG_CONFIG_LIBDIR make -s handout FOR=aarch64 OUT="$handout"
    mkdir "$handout/build"
    tar -C "$out/arm64" -cf - src cl cpu lessons prefix mpi | tar -C "$handout/build" -xf -
    (cd "$handout/lessons/sealed/aarch64" && find . -name '*.o') | while read -r object; do
        rm -f "$handout/build/$object" "$handout/build/${object%.o}.d"
    done
    $make -s -C "$handout" B=build SEALED=lessons/sealed/aarch64 ISAS=base CC="aarch64-linux-gnu-gcc --sysroot=$root" \
        CXX="aarch64-linux-gnu-g++ --sysroot=$root" build/gradsum
    set -- train --model lenet --steps 3 --batch 32 --threads 1 --save
    "$out/arm64/gradsum" "$@" "$out/arm64/open.safetensors" >"$out/arm64.log" 2>&1 &&
        "$qemu" -L "$root" "$handout/build/gradsum" "$@" "$out/arm64/sealed.safetensors" >"$out/arm64.log" 2>&1 &&
        cmp "$out/arm64/open.safetensors" "$out/arm64/sealed.safetensors" >"$out/arm64.log" 2>&1 ||
        { cat "$out/arm64.log"
          echo "test-portable: arm64: a sealed handout does not train as the whole source does" >&2; exit 1; }
    echo "test-portable: arm64: a sealed handout trains as the whole source does"
}

part_arm64() {
    need aarch64-linux-gnu-g++ && need apt-get || return 0
    qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
        { leave_out "there is no qemu-aarch64"; return 0; }
    root=$out/arm64/root
    arm64_packages || { leave_out "no packages of arm64: see $out/arm64.log"; return 0; }
    lib=$root/usr/lib/aarch64-linux-gnu
    export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$lib/pkgconfig:$lib/openblas-pthread/pkgconfig"
    $make B="$out/arm64" ISAS=base CC="aarch64-linux-gnu-gcc --sysroot=$root" \
        CXX="aarch64-linux-gnu-g++ --sysroot=$root" \
        "$out/arm64/gradsum" "$out/arm64/gradsum-test"
    # Some tests start the program, which this machine cannot run: a script with its name starts it under qemu.
    if ! head -c 2 "$out/arm64/gradsum" | grep -q '#!'; then
        mv "$out/arm64/gradsum" "$out/arm64/gradsum-arm64"
        printf '#!/bin/sh\nexec %s -L %s %s/arm64/gradsum-arm64 "$@"\n' "$qemu" "$root" "$out" >"$out/arm64/gradsum"
        chmod +x "$out/arm64/gradsum"
    fi
    (sealed_arm64)
    unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR
    "$out/arm64/gradsum" devices | grep -q 'own loops: NEON' ||
        { echo "test-portable: arm64 without NEON" >&2; exit 1; }
    hashes "$out/arm64/gradsum" 5 "mlp|lenet" # the others take minutes under qemu
    export GRADSUM_TEST_DEVICES=cpu GRADSUM_TEST_SMALL=1
    run "philox pool shard model model_text step_time $formats wire fused operators operators_plain sgd optimizers" \
        "$qemu" -L "$root" "$out/arm64/gradsum-test"
    unset GRADSUM_TEST_DEVICES GRADSUM_TEST_SMALL
}

# ---- Intel's OpenCL for CPUs -----------------------------------------------------------------------------------------

part_opencl() {
    [ "$(uname -m)" = x86_64 ] || { leave_out "Intel's OpenCL is for x86-64"; return 0; }
    need python3 || return 0
    home=$out/opencl
    if [ ! -e "$home/icd/intel.icd" ]; then
        rm -rf "$home"
        mkdir -p "$home/lib" "$home/icd"
        python3 -m venv "$home/venv" >"$out/opencl.log" 2>&1 &&
            "$home/venv/bin/pip" install -q intel-opencl-rt intel-cmplr-lib-rt >>"$out/opencl.log" 2>&1 ||
            { leave_out "Intel's OpenCL could not be installed: see $out/opencl.log"; return 0; }
        for file in "$home"/venv/lib/*; do
            case $file in */libOpenCL*) ;; *) [ ! -f "$file" ] || ln -s "$file" "$home/lib/" ;; esac
        done
        echo "$home/lib/libintelocl.so" >"$home/icd/intel.icd"
    fi
    # A separate cache keeps its compiled kernels apart from those of other platforms.
    export OCL_ICD_VENDORS="$home/icd" LD_LIBRARY_PATH="$home/lib" GRADSUM_CACHE="$home/cache"
    "$build/gradsum" devices | grep -q 'Intel(R) OpenCL' ||
        { "$build/gradsum" devices; echo "test-portable: no Intel" >&2; exit 1; }
    run "cl_vectors operators operators_plain sgd optimizers train collectives sync" "$build/gradsum-test"
    unset OCL_ICD_VENDORS LD_LIBRARY_PATH GRADSUM_CACHE
}

begin=$(date +%s)
for part in $parts; do
    "part_$part"
done
echo "test-portable: done in $(($(date +%s) - begin)) s"
