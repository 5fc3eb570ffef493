//! Tiles of every size, converged and diverging.

use crate::RowArgs;
use gpumap_simt::kernel;
use gpumap_simt::tile::Tile;
use gpumap_simt::warp;

/// Results per thread.
pub const ROW: u32 = 12;

/// Every operation of a converged tile, then a loop that each tile leaves in its own time.
///
/// # Safety
/// Blocks are whole warps.
#[inline(always)]
unsafe fn tile<const N: u32>(args: &RowArgs) {
    // SAFETY: the whole warp reaches the collectives of the converged tile; to those of the
    // diverging one all lanes of a tile, since what the loop depends on is the same in them.
    unsafe {
        let v = args.word();
        let tile = Tile::<N>::converged();
        args.put(0, u64::from(tile.rank() | tile.size() << 8));
        args.put(1, u64::from(tile.ballot(v & 1 != 0).bits()));
        args.put(2, u64::from(tile.any(v.is_multiple_of(7))));
        args.put(3, u64::from(tile.all(!v.is_multiple_of(7))));
        args.put(4, tile.shfl(v, v as u32));
        args.put(5, u64::from(tile.shfl_up(v as u32, 1)));
        args.put(6, tile.shfl_down(v, 1));
        args.put(7, tile.shfl_xor(v, N - 1));
        args.put(8, u64::from(tile.match_any(v as u32 & 1).bits()));
        tile.sync();

        let tile = Tile::<N>::diverging();
        let rounds = warp::lane_id() / N + 1;
        let mut sum = 0;
        let mut i = 0;
        while i < rounds {
            let votes = tile.ballot((v >> (i & 63)) & 1 != 0);
            sum = sum * 3 + u64::from(votes.bits()) + tile.shfl(v, i) % 1000;
            if tile.any(v >> 60 == 15) {
                sum += 1;
            }
            i += 1;
        }
        tile.sync();
        args.put(9, sum);
        args.put(10, u64::from(tile.match_any(v as u32 & 3).bits()));
        args.put(11, tile.shfl_xor(v, 1));
    }
}

kernel! {
    /// Tiles of 2 lanes.
    pub static TILE_2 = fn facade_tile_2(args: RowArgs) {
        // SAFETY: passed on.
        unsafe { tile::<2>(&args) }
    }
    /// Tiles of 4 lanes.
    pub static TILE_4 = fn facade_tile_4(args: RowArgs) {
        // SAFETY: passed on.
        unsafe { tile::<4>(&args) }
    }
    /// Tiles of 8 lanes.
    pub static TILE_8 = fn facade_tile_8(args: RowArgs) {
        // SAFETY: passed on.
        unsafe { tile::<8>(&args) }
    }
    /// Tiles of 16 lanes.
    pub static TILE_16 = fn facade_tile_16(args: RowArgs) {
        // SAFETY: passed on.
        unsafe { tile::<16>(&args) }
    }
    /// Tiles of 32 lanes.
    pub static TILE_32 = fn facade_tile_32(args: RowArgs) {
        // SAFETY: passed on.
        unsafe { tile::<32>(&args) }
    }
}
