//! Sending: from a batch to the receive buffers of its owners, or to a send buffer.

use super::{OwnerOf, ReceiveBuffer, turn};
use crate::build::pair::{self, side_by_side};
use crate::primitives::binning::DigitOf;
use crate::primitives::partition::{Payload, Route, Run, Tile, scatter};
#[cfg(not(target_arch = "nvptx64"))]
use crate::primitives::partition::{ScatterKernel, THREADS, key_bytes, part_bytes};
use crate::slot::Bits;
use core::ptr;
use gpumap_simt::atomic::{self, Relaxed};
#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::layout::Layout;
use gpumap_simt::mem::{self, Vector};
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{U64x2, kernel, kernel_args, thread};

kernel_args! {
    /// Arguments of the kernels that send a batch, or sort it to be fetched: one block per tile, of the threads that the kernel
    /// is for.
    pub struct SendArgs<K, V> {
        /// `len` keys.
        pub keys: *const K,
        /// `len` values, or nothing.
        pub values: *const V,
        /// How many there are.
        pub len: u64,
        /// Keys per tile: a multiple of 64, at most what the kernel's threads rank.
        pub tile: u32,
        /// Bit 0: the keys are aligned to 16 bytes; bit 1: the values are.
        pub aligned: u32,
        /// The rank of a key.
        pub owner: OwnerOf,
        /// The rank that sends.
        pub me: u32,
        /// The bin of a key in the receive buffer of its rank.
        pub bin: DigitOf,
        /// A receive buffer has `1 << bits` bins: at most as many in all as the block has threads.
        pub bits: u32,
        /// For each rank, by turn, where this one's part of the first bin begins in the receive buffer there.
        pub boxes: *const ReceiveBuffer,
        /// Places of such a part.
        pub capacity: u64,
        /// Places from one bin of a receive buffer to the next.
        pub stride: u64,
        /// In: zero; out: for each bin of each rank, by turn, how many keys went there.
        pub cursors: *mut u64,
        /// Out, of the kernels that send keys alone, and unless null: for each key the place of its answer.
        pub places: *mut u32,
    }
}

/// From the tile of a block to the receive buffers; if `LINES`, over a link.
struct ToOwners<'a, K, V, const LINES: bool>(&'a SendArgs<K, V>);

/// The place of runs that find no room.
const DROPPED: u64 = 0;

/// Bytes that go over a link at once.
const LINE: u64 = 128;

impl<K, V: Payload, const LINES: bool> ToOwners<'_, K, V, LINES> {
    /// Whether pairs lie side by side in receive buffers.
    const JOINED: bool = side_by_side::<K, V>();

    /// Bytes from one key of a receive buffer to the next.
    const STEP: u64 = size_of::<K>() as u64 + if Self::JOINED { V::BYTES as u64 } else { 0 };

    /// Where the tile of the calling block begins.
    #[inline(always)]
    fn begin(&self) -> u64 {
        u64::from(thread::block_idx_x()) * u64::from(self.0.tile)
    }
}

impl<K: Bits, V: Payload, const LINES: bool> Route<K, V> for ToOwners<'_, K, V, LINES> {
    /// The address of the run's first key, and that of its first value, or, of keys alone, the place of its
    /// first answer; each less the run's position in the tile's order.
    type Place = U64x2;

    const TELLS: bool = V::BYTES == 0;
    const BY_LINES: bool = LINES;
    const TOGETHER: bool = Self::JOINED;

    #[inline(always)]
    fn tile(&self) -> Tile<K, V> {
        let args = self.0;
        Tile::of_array(args.keys, args.values, args.len, args.tile, args.aligned)
    }

    #[inline(always)]
    fn parts(&self) -> u32 {
        self.0.owner.ranks << self.0.bits
    }

    #[inline(always)]
    fn part(&self, key: K) -> u32 {
        turn(self.0.me, self.0.owner.rank(key), self.0.owner.ranks) << self.0.bits
            | self.0.bin.digit(key)
    }

    #[inline(always)]
    unsafe fn take(&self, part: u32, len: u32) -> u64 {
        if len == 0 {
            return 0;
        }
        // SAFETY: a cursor for each part.
        unsafe { atomic::fetch_add(self.0.cursors.add(part as usize), u64::from(len), Relaxed) }
    }

    #[inline(always)]
    unsafe fn place(&self, part: u32, Run { to, len, start }: Run) -> U64x2 {
        if len == 0 || to + u64::from(len) > self.0.capacity {
            return U64x2::new(DROPPED, 0);
        }
        let (turn, bin) = (part >> self.0.bits, part & ((1 << self.0.bits) - 1));
        // SAFETY: a receive buffer for each rank.
        let receive_buffer = unsafe { ptr::read(self.0.boxes.add(turn as usize)) };
        let start = u64::from(start);
        let at = (u64::from(bin) * self.0.stride + to).wrapping_sub(start);
        let keys = receive_buffer
            .keys
            .wrapping_add(at.wrapping_mul(Self::STEP) as usize);
        let beside = if V::BYTES == 0 {
            (u64::from(part) * self.0.capacity + to).wrapping_sub(start)
        } else {
            let values = receive_buffer
                .values
                .cast::<V::Word>()
                .wrapping_add(at as usize);
            values.expose_provenance() as u64
        };
        U64x2::new(keys.expose_provenance() as u64, beside)
    }

    #[inline(always)]
    fn ahead(&self, place: U64x2, start: u32) -> u32 {
        const { assert!(LINE.is_multiple_of(Self::STEP)) };
        let run = place.x.wrapping_add(u64::from(start) * Self::STEP);
        (run % LINE / Self::STEP) as u32
    }

    #[inline(always)]
    unsafe fn tell(&self, i: u32, place: U64x2, at: u32) {
        if place.x != DROPPED && !self.0.places.is_null() {
            let to = (self.begin() + u64::from(i)) as usize;
            // SAFETY: a place for each key of the batch, which one thread has.
            unsafe { mem::store(self.0.places.add(to), (place.y as u32).wrapping_add(at)) };
        }
    }

    #[inline(always)]
    unsafe fn put_key(&self, place: U64x2, i: u32, key: K, _: *const V::Word) {
        if place.x != DROPPED {
            let keys = ptr::with_exposed_provenance_mut::<K>(place.x as usize);
            // SAFETY: in this rank's part of a bin; each place is one key's.
            unsafe { mem::store(keys.wrapping_add(i as usize), key) };
        }
    }

    #[inline(always)]
    unsafe fn put_value(&self, place: U64x2, i: u32, value: V::Word) {
        if place.x != DROPPED {
            let values = ptr::with_exposed_provenance_mut::<V::Word>(place.y as usize);
            // SAFETY: as above.
            unsafe { mem::store(values.wrapping_add(i as usize), value) };
        }
    }

    #[inline(always)]
    unsafe fn put_pair(&self, place: U64x2, i: u32, key: K, value: V::Word, from: *const V::Word) {
        // SAFETY: as above.
        unsafe {
            if !Self::JOINED {
                self.put_key(place, i, key, from);
                self.put_value(place, i, value);
            } else if place.x != DROPPED {
                let pairs = ptr::with_exposed_provenance_mut(place.x as usize);
                pair::store(pairs, i.into(), key, value);
            }
        }
    }
}

/// The body of the kernels that send or sort.
///
/// # Safety
/// See [`SendArgs`].
#[inline(always)]
unsafe fn send<K, V, const THREADS: u32, const EACH: usize, const LINES: bool>(
    args: &SendArgs<K, V>,
) where
    K: Bits + SharedWord + Vector,
    V: Payload,
{
    // SAFETY: the launch is as the arguments say.
    unsafe {
        scatter::<_, _, _, THREADS, EACH, false, false>(ToOwners::<_, _, LINES>(args), args.tile);
    };
}

/// Keys and payloads that there is a kernel for that sends them.
#[cfg(not(target_arch = "nvptx64"))]
pub trait Sent<V: Layout + Copy + 'static>: Layout + Copy + 'static {
    /// The kernel.
    const SEND: ScatterKernel<SendArgs<Self, V>>;
}

/// Keys and values that there is a kernel for that sorts them for the ranks that fetch them.
#[cfg(not(target_arch = "nvptx64"))]
pub trait Sorted<V: Layout + Copy + 'static>: Layout + Copy + 'static {
    /// The kernel.
    const SORT: ScatterKernel<SendArgs<Self, V>>;
}

macro_rules! send_kernels {
    ($trait:ident :: $const:ident, $lines:literal, $about:literal: $($key:ty, $value:ty:
        $kernel:ident = $entry:ident, $threads:literal x $each:literal x $blocks:literal;
    )*) => {$(
        kernel! {
            #[doc = $about]
            pub static $kernel = fn $entry(args: SendArgs<$key, $value>) by block {
                // SAFETY: the launch is as the arguments say.
                unsafe { send::<_, _, $threads, $each, $lines>(&args) };
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        impl $trait<$value> for $key {
            const $const: ScatterKernel<SendArgs<$key, $value>> = ScatterKernel {
                kernel: &$kernel,
                threads: $threads,
                keys_per_thread: $each,
                blocks: $blocks,
                most_parts: $threads,
                key_bytes: key_bytes::<$key, $value>(side_by_side::<$key, $value>(), false),
                part_bytes: part_bytes(size_of::<U64x2>() as u32, $threads, false),
            };
        }
    )*};
}

// One block with all of the shared memory, for keys alone as well: what goes over a link goes in long runs.
send_kernels! {
    Sent::SEND, true, "Writes a batch to the receive_buffers of its owners.":
    u32, (): SEND_4_0 = mail_send_4_0, 1024 x 18 x 1;
    u32, u32: SEND_4_4 = mail_send_4_4, 1024 x 18 x 1;
    u32, u64: SEND_4_8 = mail_send_4_8, 1024 x 15 x 1;
    u64, (): SEND_8_0 = mail_send_8_0, 1024 x 18 x 1;
    u64, u32: SEND_8_4 = mail_send_8_4, 1024 x 15 x 1;
    u64, u64: SEND_8_8 = mail_send_8_8, 1024 x 11 x 1;
}

// As for bins on one device.
send_kernels! {
    Sorted::SORT, false, "Sorts a batch for its owners, which fetch it.":
    u32, u32: SORT_4_4 = mail_sort_4_4, 512 x 18 x 2;
    u32, u64: SORT_4_8 = mail_sort_4_8, 1024 x 15 x 1;
    u64, u32: SORT_8_4 = mail_sort_8_4, 1024 x 15 x 1;
    u64, u64: SORT_8_8 = mail_sort_8_8, 512 x 11 x 2;
}

/// The most bins that a batch is sent to, of all receive buffers together.
#[cfg(not(target_arch = "nvptx64"))]
pub const MOST_BINS: u32 = THREADS;
