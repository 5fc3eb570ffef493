//! What a filter keeps of its elements: on its way through shared memory to the output.

use gpumap_simt::shared_ptr::{SharedPtr, SharedWord};
use gpumap_simt::{mem, warp};

use super::select::Kept;
use crate::primitives::word::{Span, Word};

/// What is kept of an element.
pub trait Emit<W: Word> {
    /// What goes through shared memory, no larger than the element.
    type Staged: SharedWord;
    /// What is written.
    type Out: mem::Vector;
    /// What is staged of an element and its place in the tile.
    fn stage(element: W, in_tile: u32) -> Self::Staged;
    /// What is written of it.
    fn out(staged: Self::Staged, tile_begin: u64) -> Self::Out;
}

/// The element.
pub struct Value;
/// Its position in the input.
pub struct Position;

impl<W: Word> Emit<W> for Value {
    type Staged = W;
    type Out = W;
    #[inline(always)]
    fn stage(element: W, _: u32) -> W {
        element
    }
    #[inline(always)]
    fn out(staged: W, _: u64) -> W {
        staged
    }
}

impl<W: Word> Emit<W> for Position {
    type Staged = u32;
    type Out = u64;
    #[inline(always)]
    fn stage(_: W, in_tile: u32) -> u32 {
        in_tile
    }
    #[inline(always)]
    fn out(staged: u32, tile_begin: u64) -> u64 {
        tile_begin.wrapping_add(staged as u64)
    }
}

/// Writes what a thread keeps to its places in shared memory, which begin at `place` for its warp.
///
/// # Safety
/// There is room from `packed` on for all that the block keeps; `below` and `of_rounds` say by
/// rounds how many the warp's lower lanes keep, and the whole warp.
#[inline(always)]
pub unsafe fn pack<W: Word, E: Emit<W>, const R: usize>(
    packed: SharedPtr<E::Staged>,
    in_tile: u32,
    mut place: u32,
    below: u32,
    of_rounds: u32,
    kept: Kept,
    v: &[W::Vector; R],
) {
    let mut r = 0;
    while r < R {
        let mut at = packed.add(place + (below >> (8 * r as u32) & 0xff));
        let mut i = 0;
        while i < W::PER_VECTOR {
            if kept >> (8 * r as u32 + i) & 1 != 0 {
                let from = in_tile + Span::offset::<W>(r, i);
                // SAFETY: each element that is kept has a place of its own.
                unsafe { at.store(E::stage(W::get(&v[r], i), from)) };
                at = at.add(1);
            }
            i += 1;
        }
        place += of_rounds >> (8 * r as u32) & 0xff;
        r += 1;
    }
}

/// What is kept of a tile.
pub struct Part<T> {
    /// Packed in shared memory.
    pub packed: SharedPtr<T>,
    /// Where it begins in the output.
    pub begin: u64,
    /// How much it is.
    pub len: u32,
    /// The position of the tile's first element.
    pub tile_begin: u64,
}

impl<T: SharedWord> Part<T> {
    /// Stores it, thread `t` of `workers` its share: from the last boundary of a line before its
    /// begin, so that each warp writes one line.
    ///
    /// # Safety
    /// The output has this `room`; nothing else writes there.
    #[inline(always)]
    pub unsafe fn store<W: Word, E: Emit<W, Staged = T>>(
        &self,
        output: *mut E::Out,
        room: u64,
        workers: u32,
        t: u32,
    ) {
        let output = output.wrapping_add(self.begin as usize);
        let skew = (output as usize / size_of::<E::Out>()) as u32 % warp::SIZE;
        let mut len = self.len;
        let room = room.saturating_sub(self.begin);
        if (len as u64) > room {
            len = room as u32;
        }
        // SAFETY: indices are below the length.
        unsafe {
            let mut i = t.wrapping_sub(skew);
            if t < skew {
                i = i.wrapping_add(workers);
            }
            // Four on their way at a time.
            while i.wrapping_add(3 * workers) < len {
                let mut staged = [self.packed.add(i).load(); 4];
                let mut k = 1;
                while k < 4 {
                    staged[k] = self.packed.add(i + k as u32 * workers).load();
                    k += 1;
                }
                let mut k = 0;
                while k < 4 {
                    let at = output.wrapping_add((i + k as u32 * workers) as usize);
                    mem::store(at, E::out(staged[k], self.tile_begin));
                    k += 1;
                }
                i += 4 * workers;
            }
            while i < len {
                let staged = self.packed.add(i).load();
                mem::store(
                    output.wrapping_add(i as usize),
                    E::out(staged, self.tile_begin),
                );
                i += workers;
            }
        }
    }
}
