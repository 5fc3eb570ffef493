//! The nvptx back end: LLVM intrinsics for everything convergent, PTX for the rest.
//!
//! Inline assembly is not convergent for LLVM: a ballot written as `asm!` was seen merged across
//! branches. So every vote, shuffle, match and barrier here is an intrinsic, and CI counts them
//! in the PTX.

mod intrinsics;

use core::arch::{asm, global_asm, nvptx};
use intrinsics as llvm;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the kernel; the host sees a failed launch.
    unsafe { nvptx::trap() }
}

macro_rules! special_registers {
    ($($name:ident = $read:path;)*) => {$(
        #[inline(always)]
        pub fn $name() -> u32 {
            // SAFETY: reads a special register.
            unsafe { $read() as u32 }
        }
    )*};
}

special_registers! {
    thread_idx_x = nvptx::_thread_idx_x;
    block_idx_x = nvptx::_block_idx_x;
    block_dim_x = nvptx::_block_dim_x;
    grid_dim_x = nvptx::_grid_dim_x;
    lane_id = llvm::lane_id;
    active_mask = llvm::active_mask;
    converged_mask = llvm::active_mask;
}

macro_rules! pass_on {
    ($($name:ident($($arg:ident: $t:ty),*) $(-> $r:ty)?;)*) => {$(
        #[inline(always)]
        pub unsafe fn $name($($arg: $t),*) $(-> $r)? {
            // SAFETY: the facade's contract is the intrinsic's.
            unsafe { llvm::$name($($arg),*) }
        }
    )*};
}

pass_on! {
    vote_ballot(mask: u32, predicate: bool) -> u32;
    vote_any(mask: u32, predicate: bool) -> bool;
    vote_all(mask: u32, predicate: bool) -> bool;
    match_any_32(mask: u32, value: u32) -> u32;
    match_any_64(mask: u32, value: u64) -> u32;
    sync_warp(mask: u32);
}

#[cfg(gpumap_sm90)]
#[inline(always)]
pub unsafe fn reduce_add(mask: u32, value: u32) -> u32 {
    // SAFETY: the facade's contract is the intrinsic's.
    unsafe { llvm::reduce_add(value, mask) }
}

#[cfg(gpumap_sm90)]
#[inline(always)]
pub unsafe fn reduce_min(mask: u32, value: u32) -> u32 {
    // SAFETY: as above.
    unsafe { llvm::reduce_min(value, mask) }
}

#[inline(always)]
pub unsafe fn sync_threads() {
    // SAFETY: barrier 0 is the block barrier; the caller's contract is the same.
    unsafe { llvm::barrier(0) }
}

#[inline(always)]
pub fn nanosleep(nanos: u32) {
    // SAFETY: a hint to the scheduler, no memory access. Volatile, so it stays in its loop.
    unsafe { asm!("nanosleep.u32 {0};", in(reg32) nanos, options(nostack, nomem)) }
}

/// The last operand of `shfl.sync`: segment mask in bits 8 to 12, clamp lane in bits 0 to 4.
#[inline(always)]
const fn segment(width: u32, clamp: u32) -> u32 {
    (32 - width) << 8 | clamp
}

macro_rules! shuffles {
    ($($narrow:ident $wide:ident = $intrinsic:ident, $clamp:literal;)*) => {$(
        #[inline(always)]
        pub unsafe fn $narrow(mask: u32, value: u32, arg: u32, width: u32) -> u32 {
            // SAFETY: the facade's contract is the intrinsic's.
            unsafe { llvm::$intrinsic(mask, value, arg, segment(width, $clamp)) }
        }
        #[inline(always)]
        pub unsafe fn $wide(mask: u32, value: u64, arg: u32, width: u32) -> u64 {
            // SAFETY: as above, once for each half.
            unsafe {
                let low = $narrow(mask, value as u32, arg, width);
                let high = $narrow(mask, (value >> 32) as u32, arg, width);
                low as u64 | (high as u64) << 32
            }
        }
    )*};
}

shuffles! {
    shfl_idx_32 shfl_idx_64 = shfl_idx, 0x1f;
    shfl_up_32 shfl_up_64 = shfl_up, 0;
    shfl_down_32 shfl_down_64 = shfl_down, 0x1f;
    shfl_xor_32 shfl_xor_64 = shfl_xor, 0x1f;
}

/// A function-scope array in the shared state space: `link_section` would silently put it in
/// global memory.
#[inline(always)]
pub fn shared_array<const BYTES: usize>() -> *mut u8 {
    let generic: u64;
    // SAFETY: declares memory and takes its address. Not `pure`: a second copy of the block
    // would be a second array.
    unsafe {
        asm!(
            "{{ .shared .align 16 .b8 gpumap_shared[{bytes}];",
            "mov.u64 {p}, gpumap_shared; cvta.shared.u64 {p}, {p}; }}",
            bytes = const BYTES,
            p = out(reg64) generic,
            options(nostack, nomem)
        );
    }
    generic as *mut u8
}

global_asm!(".extern .shared .align 16 .b8 gpumap_dynamic_shared[];");

#[inline(always)]
pub fn dynamic_shared() -> *mut u8 {
    let generic: u64;
    // SAFETY: takes the address of the launch's dynamic shared memory.
    unsafe {
        asm!(
            "mov.u64 {p}, gpumap_dynamic_shared; cvta.shared.u64 {p}, {p};",
            p = out(reg64) generic,
            options(nostack, nomem)
        );
    }
    generic as *mut u8
}
