#!/usr/bin/env bash
# Runs this bundle of gpumap's tests and benchmarks on a machine with an NVIDIA GPU. It needs
# the driver, and for `sanitize` NVIDIA's compute-sanitizer; no Rust and no CUDA toolkit.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: run.sh tests [sm_90|sm_70] [test arguments]   every test on the GPU, with that PTX;
                                                     without a name, with each that runs here
       run.sh sanitize [tool...]                     the tests named sanitizer_* under
                                                     compute-sanitizer (memcheck racecheck
                                                     initcheck synccheck)
       run.sh soak [arguments]                       all verbs from many streams, for minutes
       run.sh litmus [seconds] [arguments]           the map's protocols and controls of them, with
                                                     each PTX that runs here for as long, by default
                                                     60; fails on an outcome that PTX forbids
       run.sh torch [seconds]                        maps beside graph captures of PyTorch, if a
                                                     python3 on the PATH has it
       run.sh bench [arguments]                      the benchmark program, suites and commands
       run.sh gpumap [arguments]                     the command line program
TEXT
}

die() {
    echo "run.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Where the tests find what a checkout would have.
export GPUMAP_DATA="$here/data"
export GPUMAP_BIN="$here/bin/gpumap"
# A test that finds no GPU must fail here, not fall back to the CPU.
export GPUMAP_TEST_DEVICE=cuda
export RUST_BACKTRACE=${RUST_BACKTRACE:-1}
cd "$here"

require_gpu() {
    command -v nvidia-smi >/dev/null || die "no NVIDIA driver here: nvidia-smi is missing"
    gpus=$(nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader) ||
        die "nvidia-smi fails: $gpus"
    [ -n "$gpus" ] || die "no NVIDIA GPU here"
    echo "$gpus"
    # The first GPU's compute capability as one number, 90 for 9.0.
    capability=$(head -n 1 <<<"$gpus" | cut -d , -f 2 | tr -cd 0-9)
}

passed=0
failed=0
broken=()
# What the sanitizer reported about the program that ran last; empty if it printed no summary.
reports=

# Adds up the numbers that come, a line each; prints nothing if none come.
add_up() {
    local number sum=
    while read -r number; do
        sum=$((sum + number))
    done
    echo "$sum"
}

# run_tests LABEL COMMAND...: runs one test program and adds up its result lines.
run_tests() {
    local label=$1 log code=0 count
    shift
    log=$(mktemp)
    echo "== $label"
    "$@" 2>&1 | tee "$log" || code=$?
    count=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$log" | add_up)
    passed=$((passed + ${count:-0}))
    count=$(sed -n 's/^test result: .* \([0-9]*\) failed.*/\1/p' "$log" | add_up)
    failed=$((failed + ${count:-0}))
    reports=$(sed -n -e 's/^=* *ERROR SUMMARY: \([0-9]*\) error.*/\1/p' \
        -e 's/^=* *RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p' "$log" | add_up)
    rm -f "$log"
    if [ "$code" -ne 0 ]; then
        broken+=("$label")
    fi
}

summary() {
    echo
    for label in "${broken[@]+"${broken[@]}"}"; do
        echo "FAILED: $label"
    done
    echo "$passed passed, $failed failed"
    [ ${#broken[@]} -eq 0 ] || exit 1
    [ "$passed" -gt 0 ] || die "no test ran"
}

# Asks for a GPU, and sets `variants` to the PTX that it can run.
require_variants() {
    require_gpu
    variants=(sm_70)
    if [ "$capability" -ge 90 ]; then
        variants=(sm_90 sm_70)
    fi
}

tests() {
    require_variants
    case ${1-} in
    sm_70 | sm_90)
        variants=("$1")
        shift
        ;;
    esac
    local variant program
    for variant in "${variants[@]}"; do
        for program in tests/*; do
            GPUMAP_PTX=$variant run_tests "$(basename "$program"), $variant" "$program" "$@"
        done
    done
    summary
}

litmus() {
    require_variants
    local variant code=0
    for variant in "${variants[@]}"; do
        echo "== litmus, $variant"
        GPUMAP_PTX=$variant GPUMAP_DEVICE=cuda bin/gpumap-litmus "$@" || code=1
    done
    exit "$code"
}

sanitize() {
    require_gpu
    local sanitizer tool program programs=() totals=()
    sanitizer=$(PATH="$PATH:/usr/local/cuda/bin" command -v compute-sanitizer) ||
        die "compute-sanitizer is not on the PATH"
    [ $# -gt 0 ] || set -- memcheck racecheck initcheck synccheck
    # Only the programs that have such tests: a start under the sanitizer is slow.
    for program in tests/*; do
        if grep -q ': test$' <("$program" --list sanitizer_ 2>/dev/null); then
            programs+=("$program")
        fi
    done
    for tool in "$@"; do
        sanitize_with "$tool"
    done
    echo
    printf '%s\n' "${totals[@]}"
    summary
}

# sanitize_with TOOL: a section, and its line of the totals. The sanitizer's exit status is 0 for some
# of what it reports, and a tool that does not run here may say so and no more; so its own count is read.
sanitize_with() {
    local tool=$1 program label kernel sum=0 before=("$passed" "$failed") options=()
    echo
    echo "#### $tool"
    if [ "$tool" = synccheck ]; then
        # It takes a barrier for divergent that warps reach at different places of a kernel.
        echo "without the kernels of retrieve_all, whose control warp has a loop of its own"
        for kernel in 4_0 8_0 4_4 {4_8,8_4,8_8}_{split,wide}; do
            options+=(--kernel-name-exclude "kernel_name=retrieve_all_$kernel")
        done
    fi
    for program in "${programs[@]+"${programs[@]}"}"; do
        label="$(basename "$program"), $tool"
        # What initcheck must not report, the tests write first.
        GPUMAP_SANITIZER=$tool run_tests "$label" "$sanitizer" --tool "$tool" --error-exitcode 9 "${options[@]+"${options[@]}"}" \
            "$program" sanitizer_ --test-threads=1
        if [ -z "$reports" ]; then
            broken+=("$label: no summary of the sanitizer")
        elif [ "$reports" -ne 0 ]; then
            broken+=("$label: $reports reported")
            sum=$((sum + reports))
        fi
    done
    totals+=("$tool: $((passed - before[0])) passed, $((failed - before[1])) failed, $sum reported")
}

command=${1-}
[ $# -eq 0 ] || shift
case $command in
tests) tests "$@" ;;
sanitize) sanitize "$@" ;;
bench)
    require_gpu
    exec "$here/bin/gpumap-bench" "$@"
    ;;
litmus) litmus "$@" ;;
soak)
    require_gpu
    GPUMAP_DEVICE=cuda exec "$here/bin/gpumap-soak" "$@"
    ;;
torch)
    require_gpu
    python3 -c 'import torch' || die "python3 has no PyTorch"
    exec python3 "$here/bin/beside_torch.py" "$here/bin/libbeside_torch.so" "$@"
    ;;
gpumap) exec "$GPUMAP_BIN" "$@" ;;
*)
    usage
    exit 2
    ;;
esac
