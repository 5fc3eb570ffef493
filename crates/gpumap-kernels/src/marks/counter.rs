//! The counter of a slab whose page is being made.

use core::marker::PhantomData;

use super::class;
use crate::slot::Format;
use crate::table::SLAB_BYTES;
use gpumap_simt::shared_ptr::SharedPtr;

/// Where the classes begin.
const CLASSES: u32 = 28;

/// Where the bits begin that are set by the tags of keys.
const TAGS: u32 = 17;

/// The bits that count.
const COUNT: u32 = (1 << TAGS) - 1;

/// What is added to the count of a slab that was full before its page was loaded.
const FULL_BEFORE: u32 = 1 << (TAGS - 1);

/// What a slab has for a key whose home it is.
#[derive(Clone, Copy, Debug)]
pub enum AtHome {
    /// A slot.
    Slot(u32),
    /// Nothing. If the key is not a new one, one whose home is the slab as well may have gone
    /// past before it, and be the same.
    Full {
        /// Whether there was certainly none with the same tag.
        is_new: bool,
    },
}

/// A word in shared memory that hands out the slots of a slab, and knows of the keys that went past it.
/// Zero at first, or [loaded](Self::load).
///
/// | bits | |
/// |---|---|
/// | 0 to 16 | how many pairs it was to take; 2^16 more if it was loaded full |
/// | 17 to 27 | a filter of the tags of those whose home it is, and that found it full or made way |
/// | 28 to 31 | the classes of the keys that went past |
///
/// Any thread of the block may call it, between barriers; the counter is accessed by this alone. There are fewer
/// than 2^17 pairs, or than 2^16 if it was loaded.
#[derive(Clone, Copy)]
pub struct SlabCounter<F> {
    word: SharedPtr<u32>,
    _format: PhantomData<F>,
}

/// What a counter said at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Counted<F> {
    word: u32,
    _format: PhantomData<F>,
}

impl<F: Format> Counted<F> {
    /// That no pair has come.
    pub const NOTHING: Self = Self {
        word: 0,
        _format: PhantomData,
    };

    /// Whether all slots of the slab were taken: so they stay.
    #[inline(always)]
    pub const fn is_full(&self) -> bool {
        self.word & COUNT >= SLAB_BYTES / F::SLOT_BYTES
    }

    /// Whether they were before the page was [loaded](SlabCounter::load), if fewer than 2^16 pairs have come since.
    #[inline(always)]
    pub const fn was_full(&self) -> bool {
        self.word & FULL_BEFORE != 0
    }
}

impl<F: Format> SlabCounter<F> {
    /// The counter in a word.
    #[inline(always)]
    pub fn of(word: SharedPtr<u32>) -> Self {
        Self {
            word,
            _format: PhantomData,
        }
    }

    /// The next slot of the slab for a key whose home it is. If there is none, one of those that have it for
    /// their home is to [pass](Self::pass) it.
    ///
    /// # Safety
    /// As the type says; the tag is that of the key's hash.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn take_slot_at_home(self, tag: u32) -> AtHome {
        // SAFETY: the caller's promise.
        unsafe {
            let slot = self.word.fetch_add(1) & COUNT;
            if slot < SLAB_BYTES / F::SLOT_BYTES {
                return AtHome::Slot(slot);
            }
            AtHome::Full {
                is_new: self.leave_home(tag),
            }
        }
    }

    /// Notes that a key is to leave the slab, its home, for it is full. Whether there was certainly none with the
    /// same tag before.
    ///
    /// # Safety
    /// As the type says; the tag is that of the key's hash.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn leave_home(self, tag: u32) -> bool {
        let tag = 1 << (TAGS + ((tag * (CLASSES - TAGS)) >> 16));
        // SAFETY: the caller's promise.
        let before = unsafe { self.word.fetch_or(tag) };
        before & tag == 0
    }

    /// The next slot of the slab; none if there is none, and then the key passes it.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn take_slot(self, key: F::Word) -> Option<u32> {
        // SAFETY: the caller's promise.
        unsafe {
            let counter = self.word.fetch_add(1);
            let slot = counter & COUNT;
            if slot < SLAB_BYTES / F::SLOT_BYTES {
                return Some(slot);
            }
            let class = class::<F>(key) << CLASSES;
            if counter & class == 0 {
                self.word.set_bits(class);
            }
            None
        }
    }

    /// What the counter says now.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn peek(self) -> Counted<F> {
        // SAFETY: the caller's promise.
        let word = unsafe { self.word.peek() };
        Counted {
            word,
            _format: PhantomData,
        }
    }

    /// Notes that a key passes a slab that was seen full.
    ///
    /// # Safety
    /// As the type says; `seen` is what was [seen](Self::peek) of this counter.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn pass_full(self, seen: Counted<F>, key: F::Word) {
        let class = class::<F>(key) << CLASSES;
        if seen.word & class == 0 {
            // SAFETY: the caller's promise.
            unsafe { self.word.set_bits(class) };
        }
    }

    /// Notes that a key passes the slab.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn pass(self, key: F::Word) {
        // SAFETY: the caller's promise.
        unsafe { self.word.set_bits(class::<F>(key) << CLASSES) };
    }

    /// The classes that have passed, when a barrier lies after the last of them.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    pub unsafe fn passed(self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.word.load() >> CLASSES }
    }

    /// Begins with a slab that has so many pairs, and with the classes that have passed, while nothing else uses
    /// it.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    pub unsafe fn load(self, pairs: u32, classes: u32) {
        let is_full = pairs >= SLAB_BYTES / F::SLOT_BYTES;
        let before = if is_full { FULL_BEFORE } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { self.word.store(classes << CLASSES | before | pairs) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Wide;
    use gpumap_simt::executor::Executor;
    use gpumap_simt::kernel::Grid;
    use gpumap_simt::{kernel, kernel_args, mem, thread};

    type Counter = SlabCounter<Wide<u64, u64>>;

    /// What a lane saw: a slot, or one of these.
    const NEW: u32 = 100;
    const KNOWN: u32 = 101;

    kernel_args! {
        /// One warp, one slab.
        struct HomeArgs {
            /// The tag of each lane's key.
            tags: *const u32,
            /// Out: what each saw.
            seen: *mut u32,
        }
    }

    kernel! {
        /// Every lane takes a slot of the same home.
        static TAKE_AT_HOME = fn take_at_home(args: HomeArgs) {
            let word = SharedPtr::<u32>::dynamic();
            let lane = thread::thread_idx_x() as usize;
            // SAFETY: a word of shared memory, which one lane clears before a barrier.
            unsafe {
                if lane == 0 {
                    word.store(0);
                }
                thread::sync_threads();
                let tag = mem::load(args.tags.add(lane));
                let seen = match Counter::of(word).take_slot_at_home(tag) {
                    AtHome::Slot(slot) => slot,
                    AtHome::Full { is_new: true } => NEW,
                    AtHome::Full { is_new: false } => KNOWN,
                };
                mem::store(args.seen.add(lane), seen);
            }
        }
    }

    fn seen(tags: &[u32; 32]) -> [u32; 32] {
        let mut seen = [0; 32];
        let args = HomeArgs {
            tags: tags.as_ptr(),
            seen: seen.as_mut_ptr(),
        };
        let grid = Grid {
            shared_bytes: 4,
            ..Grid::new(1, 32)
        };
        // SAFETY: arrays as the arguments say.
        unsafe { TAKE_AT_HOME.run(Executor::global(), grid, args) }.unwrap();
        seen
    }

    #[test]
    fn a_tag_that_has_passed_is_known() {
        for tag in [0, 1, 0x8000, 0xffff] {
            let seen = seen(&[tag; 32]);
            let count = |what| seen.iter().filter(|&&s| s == what).count();
            for slot in 0..4 {
                assert_eq!(count(slot), 1, "slot {slot}");
            }
            assert_eq!((count(NEW), count(KNOWN)), (1, 27));
        }
    }

    #[test]
    fn tags_far_apart_are_told_from_each_other() {
        let mut tags = [0; 32];
        for (lane, tag) in tags.iter_mut().enumerate() {
            *tag = (lane as u32 % (CLASSES - TAGS)) << 16;
            *tag = tag.div_ceil(CLASSES - TAGS);
        }
        let seen = seen(&tags);
        for class in 0..CLASSES - TAGS {
            let own = (0..32).filter(|lane| lane % (CLASSES - TAGS) == class);
            let full: Vec<u32> = own
                .map(|lane| seen[lane as usize])
                .filter(|&s| s >= NEW)
                .collect();
            let new = full.iter().filter(|&&s| s == NEW).count();
            assert_eq!(new, usize::from(!full.is_empty()), "{class}: {full:?}");
        }
    }
}
