#!/usr/bin/env bash
# ptxas 12.3.107 and 13.5.37: a fence or an acquire of cluster scope is the machine code of GPU scope. The blocks of a cluster share a
# GPC, so the scope between block and GPU promises something cheaper than `.gpu`. There is nothing of the kind on sm_90, sm_100, sm_103 and sm_120:
# `fence.acq_rel.cluster` waits with MEMBAR.ALL.GPU and invalidates the L1 cache (CCTL.IVALL), `ld.acquire.cluster` invalidates it too,
# instruction for instruction as with `.gpu`; only `.cta` is cheaper. Who narrows a protocol of several blocks
# from `.gpu` to `.cluster` gains nothing, and each acquire still costs the lines of the whole L1.
#
# Prints what it saw; fails if these versions behave in another way.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

wheel() { # folder, package, program: the path of the program
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$1" "$2" 2>/dev/null
    find "$PWD/$1" -type f -name "$3"
}
old=$(wheel old nvidia-cuda-nvcc-cu12==12.3.107 ptxas)
new=$(wheel new nvidia-cuda-nvcc==13.5.37 ptxas)
disassembler=$(wheel disassembler nvidia-cuda-nvdisasm==13.5.37 nvdisasm)
chmod +x "$old" "$new" "$disassembler"

# One value is published behind another, and one is read behind another.
kernels() { # scope
    cat <<PTX
.version 8.3
.target sm_90
.address_size 64
.visible .entry publish(.param .u64 place)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [place];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 7;
    st.global.u32 [%rd2], %r1;
    fence.acq_rel.$1;
    st.relaxed.$1.global.u32 [%rd2+4], %r1;
    ret;
}
.visible .entry look(.param .u64 place)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [place];
    cvta.to.global.u64 %rd2, %rd1;
    ld.acquire.$1.global.u32 %r1, [%rd2];
    ld.global.u32 %r2, [%rd2+4];
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%rd2+8], %r1;
    ret;
}
PTX
}

# Orders and accesses of both kernels, in the order of the code.
orders() { # assembler, GPU, scope
    kernels "$3" >kernels.ptx
    "$1" -arch "$2" kernels.ptx -o kernels.cubin
    "$disassembler" --no-dataflow kernels.cubin 2>/dev/null |
        grep -oE '\b(MEMBAR|CCTL|LDG|STG)(\.[A-Z0-9]+)+' | tr '\n' ' '
}

failed=0
for pair in "$old sm_90" "$new sm_90" "$new sm_100" "$new sm_103" "$new sm_120"; do
    read -r assembler gpu <<<"$pair"
    release=$("$assembler" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    cluster=$(orders "$assembler" "$gpu" cluster)
    whole=$(orders "$assembler" "$gpu" gpu)
    block=$(orders "$assembler" "$gpu" cta)
    echo "ptxas $release, $gpu"
    echo "    cluster: $cluster"
    echo "    gpu:     $whole"
    echo "    cta:     $block"
    [ "$cluster" = "$whole" ] && [ "$cluster" != "$block" ] || failed=1
    [[ $cluster == *MEMBAR.ALL.GPU*CCTL.IVALL*LDG*CCTL.IVALL* || $cluster == *LDG*CCTL.IVALL*MEMBAR.ALL.GPU*CCTL.IVALL* ]] || failed=1
    [[ $block != *CCTL.IVALL* && $block != *MEMBAR.ALL.GPU* ]] || failed=1
done
[ "$failed" -eq 0 ] || {
    echo "another behaviour than described"
    exit 1
}
