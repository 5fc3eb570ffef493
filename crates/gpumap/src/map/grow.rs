//! Growing, shrinking and compacting: moving the pairs to new slabs, one submap after the other.

use gpumap_kernels::rebuild::{self, RebuildArgs};
use gpumap_kernels::source::Slots;
use gpumap_simt::kernel::Grid;

use super::launch::{Notes, share_out};
use super::shape::{Shape, Wish};
use super::table::{Slab, Table};
use super::{Core, Growth, Held, Key, Map, Place, Value};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::scratch::Workspace;

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A map grows by at least one in so many of the absent keys that it has no room for. Not by all of
/// them: many may be equal.
pub(super) const PARTS: usize = 32;

/// Pairs of a submap that may remain without a slot when its pages have been made, for that many
/// slots. At load 0.9 there are a few in a million, but small maps are out of balance.
fn leftovers(slots: usize) -> usize {
    (slots / 16).clamp(32, 1 << 14)
}

/// How often a map that shrinks tries with more room if keys collide.
pub(super) const TRIES: usize = 4;

/// A map is compacted rather than grown if that leaves at least one in so many of its capacity
/// free.
const WORTHWHILE: usize = 16;

/// # Capacity
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// Makes room for `more` pairs beyond those it has, whatever its growth setting. Waits for the
    /// calls in flight.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.reserve(10_000)?;
    /// assert!(map.capacity() >= 10_000);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`]: the map is as it was.
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn reserve(&self, more: usize) -> Result<()> {
        self.held.reserve(more)
    }

    /// Gives back the memory that the pairs it has do not need, or most of it if their keys
    /// collide. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is not even room to move a submap: the map is as it was.
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn shrink_to_fit(&self) -> Result<()> {
        self.held.shrink_to_fit()
    }
}

impl Core {
    /// See [`Map::reserve`].
    pub(crate) fn reserve(&self, more: usize) -> Result<()> {
        let mut table = self.exclusive()?;
        self.expect_sound()?;
        if self.state.occupancy.left() >= more {
            return Ok(());
        }
        let pairs = self.state.occupancy.len().saturating_add(more);
        self.or_give_back(&mut table, |table| {
            self.rebuild(table, pairs.max(self.capacity()))
        })
    }

    /// See [`Map::shrink_to_fit`].
    pub(crate) fn shrink_to_fit(&self) -> Result<()> {
        let mut table = self.exclusive()?;
        let mut capacity = self.state.occupancy.len();
        for _ in 0..TRIES {
            match self.rebuild(&mut table, capacity) {
                Err(Error::Full { .. }) => capacity += capacity / 4 + 1,
                done => return done,
            }
        }
        Ok(())
    }

    /// Makes room for some of the `more` absent keys of a batch at least, by compacting or growing. If it grows, then for
    /// about as many as are `likely` to be new.
    pub(super) fn make_room(&self, table: &mut Table, more: usize, likely: usize) -> Result<()> {
        let (len, capacity) = (self.state.occupancy.len(), self.capacity());
        let least = len.saturating_add(more.div_ceil(PARTS).max(1));
        let has_tombstones = self.state.occupancy.used() > len;
        let Growth::By(factor) = self.growth else {
            if has_tombstones && least <= capacity {
                return self.rebuild(table, capacity);
            }
            return Err(self.full(more, more, false));
        };
        if has_tombstones && least <= capacity - capacity / WORTHWHILE {
            return self.rebuild(table, capacity);
        }
        // A little more than is likely, so that it does not grow twice for want of a few.
        let likely = (likely + likely / WORTHWHILE).min(more);
        let wanted = ((capacity as f64 * factor) as usize).max(least);
        let wanted = wanted.max(len.saturating_add(likely));
        match self.rebuild(table, wanted) {
            Err(Error::OutOfMemory { .. } | Error::CapacityOverflow { .. }) => {}
            done => return done,
        }
        // As much as there is memory for, if that is worth the while; else only if it is enough, so
        // that a map does not move again and again to grow by next to nothing.
        let affordable = self.affordable(table)?.min(wanted);
        let enough = len.saturating_add(more).max(capacity.saturating_add(1));
        let worthwhile = least.max(capacity + capacity / WORTHWHILE);
        if affordable >= enough.min(worthwhile)
            && let Ok(()) = self.rebuild(table, affordable)
        {
            return Ok(());
        }
        if has_tombstones && least <= capacity {
            return self.rebuild(table, capacity);
        }
        self.rebuild(table, enough)
    }

    /// Makes room for all of `pairs`, by compacting or growing, as far as the growth setting allows.
    pub(super) fn make_room_for_all(&self, table: &mut Table, pairs: usize) -> Result<()> {
        let (len, capacity) = (self.state.occupancy.len(), self.capacity());
        let needed = len.saturating_add(pairs);
        let Growth::By(factor) = self.growth else {
            return match needed.checked_sub(capacity) {
                None | Some(0) => self.rebuild(table, capacity),
                Some(missing) => Err(self.full(pairs, missing, false)),
            };
        };
        if needed <= capacity - capacity / WORTHWHILE {
            return self.rebuild(table, capacity);
        }
        let needed = needed.max(capacity);
        let wanted = needed.max((capacity as f64 * factor) as usize);
        match self.rebuild(table, wanted) {
            Err(Error::OutOfMemory { .. } | Error::CapacityOverflow { .. }) if wanted > needed => {
                self.rebuild(table, needed)
            }
            done => done,
        }
    }

    /// Bytes beyond those of the table that are needed while it is rebuilt.
    pub(super) fn needed(&self, table: &Table, shape: &Shape) -> u64 {
        // In a workspace of its own.
        Workspace::BYTES
            + if shape.matches(&table.shape) {
                let leftovers = self.leftover_bytes(&table.shape, shape) as u64;
                shape.bytes_to_replace(&table.shape) + leftovers
            } else {
                Table::bytes(shape)
            }
    }

    /// Bytes of the list of remaining pairs when a table of one shape is rebuilt as one of the
    /// other. What does not find room on it is looked for in the old table, so the smaller one says
    /// how long it is: giving memory back takes no more of it than growing has left.
    fn leftover_bytes(&self, from: &Shape, to: &Shape) -> usize {
        let slot_bytes = self.kernels.slot_bytes as usize;
        let submap = from.largest_submap_bytes().min(to.largest_submap_bytes());
        leftovers(submap as usize / slot_bytes) * slot_bytes
    }

    /// About how many pairs the map could have room for, with the memory that there is.
    fn affordable(&self, table: &Table) -> Result<usize> {
        let submaps = table.shape.pages.len() as f64;
        let available = self.device.available_bytes()? as f64;
        // One submap is in memory twice. A fiftieth is left to the rest of the program.
        let bytes = if submaps > 1.0 {
            (table.shape.bytes() as f64 + available) * submaps / (submaps + 1.0)
        } else {
            available
        } * 0.98;
        let slots = bytes / f64::from(self.kernels.slot_bytes);
        Ok((slots * self.wish.max_load_factor) as usize)
    }

    /// The arrangement for so many pairs.
    pub(super) fn shape_for(&self, capacity: usize) -> Result<Shape> {
        let submaps = match &self.wish.submap_slots {
            Some(slots) => u32::try_from(slots.len()).ok(),
            None => self.wish.submaps,
        };
        let wish = Wish {
            capacity,
            submaps,
            submap_slots: None,
            ..self.wish.clone()
        };
        Shape::new(&wish, self.kernels.slot_bytes)
    }

    /// An error unless there is memory to clear tombstones away.
    pub(super) fn expect_compactable(&self, table: &Table) -> Result<()> {
        self.expect_memory_for(table, &table.shape)
    }

    /// An error unless there is memory to move all pairs into another shape.
    fn expect_memory_for(&self, table: &Table, shape: &Shape) -> Result<()> {
        let needed = self.needed(table, shape);
        let mut available = self.device.available_bytes()?;
        if needed > available {
            // What earlier calls have left for later ones.
            self.scratch.trim();
            available = self.device.available_bytes()?;
        }
        if needed > available {
            return Err(Error::OutOfMemory { needed, available });
        }
        Ok(())
    }

    /// Moves all pairs to new slabs, with room for `capacity` pairs, and leaves all tombstones
    /// behind. If it fails for want of memory, the map holds what it held.
    ///
    /// To be called under the table's exclusive lock.
    pub(super) fn rebuild(&self, table: &mut Table, capacity: usize) -> Result<()> {
        let shape = self.shape_for(capacity)?.aligned_to(&table.shape);
        self.rebuild_to(table, shape)
    }

    /// As [`rebuild`](Self::rebuild), in this shape.
    pub(super) fn rebuild_to(&self, table: &mut Table, shape: Shape) -> Result<()> {
        self.expect_sound()?;
        self.expect_memory_for(table, &shape)?;
        let kernels = &self.kernels;
        self.device
            .load_kernels([kernels.rebuild.entry(), kernels.rehash.entry()])?;
        tracing::debug!(
            pairs = self.state.occupancy.len(),
            from = table.shape.slots(),
            to = shape.slots(),
            "rebuilding the table"
        );
        let capacity = shape.capacity;
        let mut scratch = self.scratch.take()?;
        let one_by_one = shape.matches(&table.shape);
        let rebuilt = if one_by_one {
            self.rebuild_submaps(table, &shape, &mut scratch)
        } else {
            self.rebuild_whole(table, shape, &mut scratch)
        };
        self.set_shape(&table.shape);
        if let Err(error) = rebuilt {
            if one_by_one && capacity < table.shape.capacity {
                // Some submaps may have shrunk.
                table.shape.capacity = capacity;
                self.state.occupancy.resized(capacity);
            }
            return Err(error);
        }
        table.shape.capacity = capacity;
        self.state
            .occupancy
            .rebuilt(self.state.occupancy.len(), capacity);
        Ok(())
    }

    /// Takes note of the slots and the submaps that the table has now.
    pub(super) fn set_shape(&self, shape: &Shape) {
        self.state.slots.store(shape.slots(), Ordering::Release);
        self.submaps.store(shape.pages.len(), Ordering::Release);
    }

    /// One submap after the other. If memory ends on the way, some are new and some are old: the
    /// map holds what it held.
    fn rebuild_submaps(
        &self,
        table: &mut Table,
        shape: &Shape,
        scratch: &mut Workspace,
    ) -> Result<()> {
        let bytes = self.leftover_bytes(&table.shape, shape);
        let mut leftovers = Buffer::<u8>::unwritten(scratch.stream(), bytes)?;
        let mut marked = true;
        for submap in 0..shape.pages.len() {
            let slabs = match Buffer::<Slab>::unwritten(table.stream(), shape.slabs(submap)) {
                Ok(slabs) => Arc::new(slabs),
                Err(error) => {
                    self.or_poison(scratch, |_| table.publish())?;
                    return Err(error);
                }
            };
            self.or_poison(scratch, |scratch| {
                scratch.stream().wait_stream(table.stream())?;
                let old = table.replace(submap, slabs);
                let left = self.make_pages(table, submap, &old, &mut leftovers, scratch)?;
                if left == 0 {
                    return Ok(Ok(()));
                }
                marked = false;
                table.publish()?;
                let unplaced = self.place_left(table, left, &old, &leftovers, scratch)?;
                if unplaced != 0 {
                    // Keys that collide, in a smaller table than they were in.
                    table.replace(submap, old);
                    table.publish()?;
                    return Ok(Err(self.full(0, unplaced, false)));
                }
                Ok(Ok(()))
            })??;
        }
        self.or_poison(scratch, |_| table.publish())?;
        table.set_marked(marked);
        Ok(())
    }

    /// Makes the pages of a submap from those it had before, and waits. Returns how many pairs
    /// remain; they are on the list, if it has room for all of them.
    fn make_pages(
        &self,
        table: &Table,
        submap: usize,
        old: &Buffer<Slab>,
        leftovers: &mut Buffer<u8>,
        scratch: &mut Workspace,
    ) -> Result<usize> {
        let view = table.view();
        let new_pages = table.shape.pages[submap];
        let shared_bytes = |together| rebuild::shared_bytes(together, view.page_log2);
        let fits = |together: &u32| shared_bytes(*together) <= self.device.shared_memory();
        let together = (1..=rebuild::MOST_PAGES).rev().find(fits).unwrap_or(1);
        let args = RebuildArgs {
            old: old.as_ptr().cast(),
            new: table.slabs(submap).as_ptr().cast_mut().cast(),
            old_pages: (old.len() >> table.shape.page_log2) as u32,
            new_pages,
            together,
            page_log2: view.page_log2,
            submap_count: view.submap_count,
            seed: view.seed,
            leftovers: leftovers.as_mut_ptr(),
            room: self.slots_in(leftovers) as u64,
            count: scratch.counting()?,
        };
        let grid = Grid {
            blocks: new_pages.div_ceil(together),
            threads: rebuild::THREADS,
            shared_bytes: shared_bytes(together),
        };
        // SAFETY: the kernel set fits the map's types; both submaps and the list are live, and the
        // caller keeps all other operations away until this has ended.
        unsafe { self.kernels.rebuild.launch(scratch.stream(), grid, args) }?;
        let [left, _] = scratch.counted()?;
        Ok(left as usize)
    }

    /// Stores the remaining pairs in the table, and waits. Returns how many pairs found no room.
    fn place_left(
        &self,
        table: &Table,
        left: usize,
        old: &Buffer<Slab>,
        leftovers: &Buffer<u8>,
        scratch: &mut Workspace,
    ) -> Result<usize> {
        if left <= self.slots_in(leftovers) {
            return self.rehash(table, leftovers.as_ptr(), left, scratch);
        }
        // All once more: those that were placed are found, and stay.
        let slots = old.len() * table.shape.slab_slots as usize;
        self.rehash(table, old.as_ptr().cast(), slots, scratch)
    }

    /// How many slots are as long as that.
    fn slots_in(&self, bytes: &Buffer<u8>) -> usize {
        bytes.len() / self.kernels.slot_bytes as usize
    }

    /// All at once, for maps that are small or change the size of their pages.
    fn rebuild_whole(
        &self,
        table: &mut Table,
        shape: Shape,
        scratch: &mut Workspace,
    ) -> Result<()> {
        let mut new = Table::new(table.stream(), shape, self.seed)?;
        new.copy_reserved(table)?;
        let mut unplaced = 0;
        for submap in 0..table.shape.pages.len() {
            let old = table.slabs(submap);
            let slots = old.len() * table.shape.slab_slots as usize;
            unplaced += self.rehash(&new, old.as_ptr().cast(), slots, scratch)?;
        }
        if unplaced != 0 {
            return Err(self.full(0, unplaced, false));
        }
        *table = new;
        Ok(())
    }

    /// Stores the pairs of some slots in the table, and waits. Returns how many found no room.
    fn rehash(
        &self,
        table: &Table,
        slabs: *const u8,
        slots: usize,
        scratch: &mut Workspace,
    ) -> Result<usize> {
        let slots = slots as u64;
        let (grid, per_warp) = share_out(slots, u64::from(self.device.multiprocessors()));
        let slots = Slots {
            slabs,
            len: slots,
            per_warp,
        };
        let account = Notes::of(scratch.counting()?).account(ptr::null_mut());
        let args = self.operation_args(table.view_to_store(), slots, account);
        // SAFETY: the kernel set fits the map's types; both tables are live, and the caller keeps
        // all other operations away until this has ended.
        unsafe { self.kernels.rehash.launch(scratch.stream(), grid, args) }?;
        let [_, unplaced] = scratch.counted()?;
        Ok(unplaced as usize)
    }
}
