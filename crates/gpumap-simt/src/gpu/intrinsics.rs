//! The LLVM intrinsics behind the collectives. LLVM knows them to be convergent: it neither
//! duplicates nor merges nor sinks them across branches.

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    pub fn lane_id() -> u32;
    #[link_name = "llvm.nvvm.activemask"]
    pub fn active_mask() -> u32;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    pub fn vote_ballot(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    pub fn vote_any(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    pub fn vote_all(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    pub fn match_any_32(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i64"]
    pub fn match_any_64(mask: u32, value: u64) -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    pub fn sync_warp(mask: u32);
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    pub fn barrier(number: u32);
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    pub fn shfl_idx(mask: u32, value: u32, lane: u32, segment: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    pub fn shfl_up(mask: u32, value: u32, delta: u32, segment: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    pub fn shfl_down(mask: u32, value: u32, delta: u32, segment: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    pub fn shfl_xor(mask: u32, value: u32, bits: u32, segment: u32) -> u32;
    #[cfg(gpumap_sm90)]
    #[link_name = "llvm.nvvm.redux.sync.add"]
    pub fn reduce_add(value: u32, mask: u32) -> u32;
    #[cfg(gpumap_sm90)]
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    pub fn reduce_min(value: u32, mask: u32) -> u32;
}
