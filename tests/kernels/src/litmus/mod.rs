//! Litmus tests: the protocols of the map, each at many places at once, to see what a GPU makes of them.
//!
//! A *shape* is a program of `gpumap-axioms` (its name is that of the protocol there), and an *instance* a copy of its places. A
//! thread takes one role of one instance, then the next role of another, so that the roles of an instance are run by threads far
//! apart at about the same time. What registers get goes to a row for each instance, and [`CHECK`] counts what came of all.
//!
//! Each shape has a **control**: the same with less order, or with an access in two parts. If it never comes to what the shape must
//! not come to, the threads never met, and the counts of the shape say nothing.

mod check;
mod counts;
mod slots;

pub use check::*;
pub use counts::*;
pub use slots::*;

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel_args, mem, thread, warp};

/// The key word of an empty slot, here and in the programs.
pub const EMPTY: u64 = !0;
/// That of a tombstone.
pub const TOMBSTONE: u64 = !0 - 1;
/// That of a slot which is being written.
pub const BUSY: u64 = !0 - 2;
/// A key.
pub const KEY: u64 = 5;
/// What a row has for a register whose instruction did not run.
pub const NONE: u64 = !0 - 99;

/// Lanes that release in [`LANES`], and rows of each of its instances.
pub const LANES: u32 = warp::SIZE;

/// How often a reader looks for a change before it takes what there is.
const TRIES: u32 = 32;

kernel_args! {
    /// Arguments of a shape: a thread for each instance; of [`RELEASES`] a block of a warp.
    pub struct LitmusArgs {
        /// The places of all instances.
        pub memory: *mut u8,
        /// Bytes from a place of an instance to that of the next one.
        pub stride: u32,
        /// Instances, a power of two.
        pub instances: u32,
        /// Bytes from a place of an instance to its next place.
        pub region: u64,
        /// Out: a row of registers for each instance; of [`RELEASES`] [`LANES`] rows.
        pub rows: *mut u64,
        /// Words of a row.
        pub registers: u32,
        /// Of which instance a thread takes a role: its number times this, which is odd,
        pub scatter: u32,
        /// and for each role before it this one further. It also decides which role is first.
        pub shift: u32,
        /// Additions elsewhere before each role, to keep the memory busy.
        pub noise: u32,
        /// Where they go: words,
        pub elsewhere: *mut u64,
        /// as many as this and one more, a power of two.
        pub elsewhere_mask: u32,
    }
}

/// One instance.
#[derive(Clone, Copy)]
struct Instance {
    places: *mut u8,
    region: u64,
    row: *mut u64,
}

impl Instance {
    /// A place of the program, in its order.
    #[inline(always)]
    fn place<T>(self, number: u64) -> *mut T {
        self.places
            .wrapping_add((number * self.region) as usize)
            .cast()
    }

    /// Says what a register has got.
    ///
    /// # Safety
    /// The row has such a word, which this thread alone writes.
    #[inline(always)]
    unsafe fn put(self, register: u32, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { mem::store(self.row.wrapping_add(register as usize), value) };
    }

    /// The same of two registers.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline(always)]
    unsafe fn put_pair(self, register: u32, pair: U64x2) {
        // SAFETY: the caller's promise.
        unsafe {
            self.put(register, pair.x);
            self.put(register + 1, pair.y);
        }
    }
}

/// A program, by thread.
trait Shape {
    /// How many threads it has.
    const ROLES: u32;

    /// Runs one of them; as the control, if it is that.
    ///
    /// # Safety
    /// The places and the row of the instance are there, and each role runs once.
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32);
}

impl LitmusArgs {
    /// An instance.
    ///
    /// # Safety
    /// There is such a one.
    #[inline(always)]
    unsafe fn instance(&self, number: u32, rows: u32) -> Instance {
        let row = u64::from(number) * u64::from(rows) * u64::from(self.registers);
        Instance {
            places: self
                .memory
                .wrapping_add(number as usize * self.stride as usize),
            region: self.region,
            row: self.rows.wrapping_add(row as usize),
        }
    }

    /// Keeps the memory busy.
    ///
    /// # Safety
    /// See [`LitmusArgs`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn make_noise(&self, seed: u32) {
        let mut at = seed;
        let mut n = 0;
        while n < self.noise {
            at = at.wrapping_mul(0x9e37_79b1).rotate_left(13) ^ n;
            let word = self
                .elsewhere
                .wrapping_add((at & self.elsewhere_mask) as usize);
            // SAFETY: one of the words.
            unsafe { atomic::fetch_add(word, 1, Relaxed) };
            n += 1;
        }
    }
}

/// The body of the kernels of shapes.
///
/// # Safety
/// See [`LitmusArgs`].
#[inline(always)]
unsafe fn run<S: Shape, const CONTROL: bool>(args: &LitmusArgs) {
    let i = thread::index() as u32;
    // The same for a whole warp, so that its lanes stay together.
    let mut role = ((i / warp::SIZE) ^ args.shift).wrapping_mul(0x9e37_79b1) >> 16;
    role %= S::ROLES;
    let mut n = 0;
    while n < S::ROLES {
        let number = i
            .wrapping_mul(args.scatter)
            .wrapping_add(args.shift.wrapping_mul(role));
        // SAFETY: each role of each instance is taken once, since the factor is odd.
        unsafe {
            let at = args.instance(number & (args.instances - 1), 1);
            args.make_noise(i ^ role << 24);
            S::run::<CONTROL>(at, role);
        }
        role += 1;
        if role == S::ROLES {
            role = 0;
        }
        n += 1;
    }
}

/// What is there, when it is no longer so, or after some looks.
#[inline(always)]
fn look_until<T: Copy>(look: impl Fn() -> T, is_new: impl Fn(T) -> bool) -> T {
    let mut seen = look();
    let mut n = 0;
    while !is_new(seen) && n < TRIES {
        seen = look();
        n += 1;
    }
    seen
}

/// A relaxed load of a pair.
///
/// # Safety
/// There is one, accessed atomically only.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn pair(p: *mut U64x2) -> U64x2 {
    // SAFETY: the caller's promise.
    unsafe { atomic::load(p.cast_const(), Relaxed) }
}

/// The same by two loads, the first half first.
///
/// # Safety
/// As for [`pair`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn halves(p: *mut U64x2) -> U64x2 {
    let first = p.cast::<u64>().cast_const();
    // SAFETY: the caller's promise.
    unsafe {
        let x = atomic::load(first, Relaxed);
        U64x2::new(x, atomic::load(first.wrapping_add(1), Relaxed))
    }
}

/// Two relaxed stores of the halves of a pair.
///
/// # Safety
/// As for [`pair`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store_halves(p: *mut U64x2, pair: U64x2) {
    let first = p.cast::<u64>();
    // SAFETY: the caller's promise.
    unsafe {
        atomic::store(first, pair.x, Relaxed);
        atomic::store(first.wrapping_add(1), pair.y, Relaxed);
    }
}

macro_rules! shapes {
    ($($(#[$meta:meta])* $shape:ty, $name:ident $entry:ident, $control:ident $control_entry:ident;)*) => {
        kernel! {
            $($(#[$meta])*
            pub static $name = fn $entry(args: LitmusArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { run::<$shape, false>(&args) }
            }
            $(#[$meta])*
            /// The control of it.
            pub static $control = fn $control_entry(args: LitmusArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { run::<$shape, true>(&args) }
            })*
        }
    };
}
use shapes;
