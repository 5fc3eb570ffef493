#!/usr/bin/env bash
# cust 0.3.2 and cuda_std 0.2.2, the last of rust-cuda in the registry. cust needs no CUDA toolkit to compile: its build script (of
# find_cuda_helper 0.2.0) fails with "Could not find a cuda installation" unless a folder that CUDA_LIBRARY_PATH names has a folder
# lib64, which may be empty; CUDA_PATH, with header and all, is not looked at on Linux. cuda_std compiles for the host, and not for
# nvptx64-nvidia-cuda with rustc's own back end: 34 errors of rustc 1.96.0, of which 30 are asm! without an import, and the others a
# removed feature (register_attr), the two attributes that it stood for, and CUDA_ARCH, which its own builder sets.
#
# Prints what it saw; fails if these versions behave in another way. It needs a rustc with the source of core: Debian's rustc-web,
# cargo-web and rust-web-src, or GPUMAP_PTX_RUSTC and GPUMAP_PTX_CARGO.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset CUDA_LIBRARY_PATH CUDA_PATH CUDA_ROOT CUDA_TOOLKIT_ROOT_DIR CUDA_ARCH RUSTFLAGS CARGO_TARGET_DIR
if compgen -G '/usr/local/cuda*/lib64' >/dev/null || [ -d /opt/cuda/lib64 ]; then
    echo "a CUDA toolkit is installed here: cust finds it"
    exit 1
fi
rustc=${GPUMAP_PTX_RUSTC:-$(dpkg -L rustc-web | grep 'bin/rustc$' | grep -v /share/)}
cargo=${GPUMAP_PTX_CARGO:-$(dpkg -L cargo-web | grep 'bin/cargo$' | grep -v /share/)}

package() { # name, dependency
    mkdir -p "$1/src"
    printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s\n' "$1" "$2" >"$1/Cargo.toml"
}
package with-cust 'cust = "=0.3.2"'
echo 'pub use cust::quick_init;' >with-cust/src/lib.rs
package with-cuda-std 'cuda_std = "=0.2.2"'
printf '#![no_std]\npub use cuda_std::thread;\n' >with-cuda-std/src/lib.rs
mkdir -p empty/lib64 toolkit/lib64 toolkit/include
touch toolkit/include/cuda.h

failed=0
expect() { # what, yes or no, the command
    local what=$1 wanted=$2 found=yes
    shift 2
    "$@" >said 2>&1 || found=no
    echo "$what: compiles: $found"
    [ "$found" = "$wanted" ] || failed=1
}
cd with-cust
expect "cust 0.3.2" no cargo check --quiet
grep -q 'Could not find a cuda installation' said || failed=1
expect "cust 0.3.2, CUDA_PATH with a header and lib64" no env CUDA_PATH="$folder/toolkit" cargo check --quiet
grep -q 'Could not find a cuda installation' said || failed=1
expect "cust 0.3.2, CUDA_LIBRARY_PATH with an empty lib64" yes env CUDA_LIBRARY_PATH="$folder/empty" cargo check --quiet
cd ../with-cuda-std
expect "cuda_std 0.2.2 for the host" yes cargo check --quiet
expect "cuda_std 0.2.2 for nvptx64, $("$rustc" -V | cut -d' ' -f1,2)" no \
    env RUSTC_BOOTSTRAP=1 RUSTC="$rustc" CARGO_TARGET_DIR=ptx "$cargo" check -Zbuild-std=core,alloc --target nvptx64-nvidia-cuda
grep -E '^error' said | sort | uniq -c
[ "$(grep -c 'cannot find macro `asm` in this scope' said)" -eq 30 ] || failed=1
grep -q 'feature has been removed' said || failed=1
grep -q '`CUDA_ARCH` not defined' said || failed=1

cd ..
package newest 'cuda_std = "*"'
touch newest/src/lib.rs
cargo generate-lockfile --quiet --manifest-path newest/Cargo.toml
newest=$(grep -A1 '^name = "cuda_std"' newest/Cargo.lock | sed -n 's/^version = "\(.*\)"/\1/p')
echo "newest cuda_std in the registry: $newest"
[ "$newest" = 0.2.2 ] || failed=1
[ "$failed" -eq 0 ] || {
    echo "another behaviour than described"
    exit 1
}
