//! Atomics on pointers into any memory, and fences, with the ordering as a value: a constant, in kernels that are fast.
//!
//! A sequentially consistent one is a fence and an acquire. On the executor all are of the device's scope, and each is a point where
//! another lane may run. A result that is acquired must be read: assemblers drop the acquire of one that is not.

use core::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};

#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::atomic as simt;

/// Of each scope all functions, whose names end with it.
macro_rules! scopes {
    ($($scope:ident $ptx:literal)*) => {$(
        fence! { $scope $ptx }
        access! { $scope $ptx u32 32 reg32 }
        access! { $scope $ptx u64 64 reg64 }
        fetch! { $scope $ptx
            add u32 u32 reg32 "add.u32", |old, val| old.wrapping_add(val);
            add u64 u64 reg64 "add.u64", |old, val| old.wrapping_add(val);
            add i32 u32 reg32 "add.u32", |old, val| old.wrapping_add(val);
            add i64 u64 reg64 "add.u64", |old, val| old.wrapping_add(val);
            add f32 u32 reg32 "add.f32", |old, val| old + val;
            add f64 u64 reg64 "add.f64", |old, val| old + val;
            min u32 u32 reg32 "min.u32", |old, val| old.min(val);
            min u64 u64 reg64 "min.u64", |old, val| old.min(val);
            min i32 u32 reg32 "min.s32", |old, val| old.min(val);
            min i64 u64 reg64 "min.s64", |old, val| old.min(val);
            max u32 u32 reg32 "max.u32", |old, val| old.max(val);
            max u64 u64 reg64 "max.u64", |old, val| old.max(val);
            max i32 u32 reg32 "max.s32", |old, val| old.max(val);
            max i64 u64 reg64 "max.s64", |old, val| old.max(val);
        }
        bitwise! { $scope $ptx and "and.b" | or "or.b" | xor "xor.b" | exch "exch.b" }
        sub! { $scope u32 u64 i32 i64 f32 f64 }
    )*};
}

macro_rules! fence {
    ($scope:ident $ptx:literal) => { pastey::paste! {
        #[doc = concat!("A fence among the threads of the ", stringify!($scope), "; none, if relaxed.")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn [<$scope _thread_fence>](ordering: Ordering) {
            if ordering == Relaxed {
                return;
            }
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: orders memory accesses.
            unsafe {
                if ordering == SeqCst {
                    core::arch::asm!(concat!("fence.sc.", $ptx, ";"), options(nostack));
                } else {
                    core::arch::asm!(concat!("fence.acq_rel.", $ptx, ";"), options(nostack));
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            simt::fence();
        }
    }};
}

macro_rules! access {
    ($scope:ident $ptx:literal $t:ident $width:literal $reg:ident) => { pastey::paste! {
        #[doc = concat!("The word at `ptr`, at the scope of the ", stringify!($scope), ". Not for `Release` and `AcqRel`.")]
        ///
        /// # Safety
        /// `ptr` is aligned and valid, and while the launch lasts the word is written by atomics only.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn [<atomic_load_ $width _ $scope>](ptr: *mut $t, ordering: Ordering) -> $t {
            if ordering == SeqCst {
                [<$scope _thread_fence>](SeqCst);
            }
            #[cfg(target_arch = "nvptx64")]
            {
                macro_rules! load {
                    ($order:literal) => {{
                        let word: $t;
                        // SAFETY: the caller's promise.
                        unsafe {
                            core::arch::asm!(
                                concat!("ld.", $order, ".", $ptx, ".u", $width, " {0}, [{1}];"),
                                out($reg) word, in(reg64) ptr, options(nostack)
                            );
                        }
                        word
                    }};
                }
                match ordering {
                    Relaxed => load!("relaxed"),
                    Acquire | SeqCst => load!("acquire"),
                    _ => panic!("no ordering of a load"),
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller's promise.
            unsafe {
                match ordering {
                    Relaxed => simt::load(ptr, simt::Relaxed),
                    Acquire | SeqCst => simt::load(ptr, simt::Acquire),
                    _ => panic!("no ordering of a load"),
                }
            }
        }

        #[doc = concat!("Writes the word at `ptr`, at the scope of the ", stringify!($scope), ". Not for `Acquire` and `AcqRel`.")]
        ///
        /// # Safety
        /// `ptr` is aligned and valid, and while the launch lasts the word is accessed by atomics only.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn [<atomic_store_ $width _ $scope>](ptr: *mut $t, ordering: Ordering, val: $t) {
            if ordering == SeqCst {
                [<$scope _thread_fence>](SeqCst);
            }
            #[cfg(target_arch = "nvptx64")]
            {
                macro_rules! store {
                    ($order:literal) => {
                        // SAFETY: the caller's promise.
                        unsafe {
                            core::arch::asm!(
                                concat!("st.", $order, ".", $ptx, ".u", $width, " [{0}], {1};"),
                                in(reg64) ptr, in($reg) val, options(nostack)
                            )
                        }
                    };
                }
                match ordering {
                    Relaxed | SeqCst => store!("relaxed"),
                    Release => store!("release"),
                    _ => panic!("no ordering of a store"),
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller's promise.
            unsafe {
                match ordering {
                    Relaxed | SeqCst => simt::store(ptr, val, simt::Relaxed),
                    Release => simt::store(ptr, val, simt::Release),
                    _ => panic!("no ordering of a store"),
                }
            }
        }
    }};
}

/// Types with their bits.
trait Bits<B> {
    fn to(self) -> B;
    fn from(bits: B) -> Self;
}

macro_rules! bits {
    ($($t:ty, $bits:ty, $to:expr, $from:expr;)*) => {$(
        impl Bits<$bits> for $t {
            #[inline(always)]
            fn to(self) -> $bits {
                let to: fn($t) -> $bits = $to;
                to(self)
            }
            #[inline(always)]
            fn from(bits: $bits) -> $t {
                let from: fn($bits) -> $t = $from;
                from(bits)
            }
        }
    )*};
}

bits! {
    u32, u32, |v| v, |b| b;
    i32, u32, |v| v as u32, |b| b as i32;
    f32, u32, f32::to_bits, f32::from_bits;
    u64, u64, |v| v, |b| b;
    i64, u64, |v| v as u64, |b| b as i64;
    f64, u64, f64::to_bits, f64::from_bits;
}

macro_rules! fetch {
    ($scope:ident $ptx:literal $($op:ident $t:ident $bits:ident $reg:ident $instruction:expr, |$old:ident, $val:ident| $new:expr;)*) => {
        $(pastey::paste! {
            #[doc = concat!("`", stringify!($op), "` on the value at `ptr`, at the scope of the ", stringify!($scope), ". Returns what was there.")]
            ///
            /// # Safety
            /// `ptr` is aligned and valid, and while the launch lasts the value is accessed by atomics only.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn [<atomic_fetch_ $op _ $t _ $scope>](ptr: *mut $t, ordering: Ordering, val: $t) -> $t {
                if ordering == SeqCst {
                    [<$scope _thread_fence>](SeqCst);
                }
                #[cfg(target_arch = "nvptx64")]
                {
                    macro_rules! atom {
                        ($order:literal) => {{
                            let old: $bits;
                            // SAFETY: the caller's promise.
                            unsafe {
                                core::arch::asm!(
                                    concat!("atom.", $order, ".", $ptx, ".", $instruction, " {0}, [{1}], {2};"),
                                    out($reg) old, in(reg64) ptr, in($reg) Bits::<$bits>::to(val), options(nostack)
                                );
                            }
                            old
                        }};
                    }
                    <$t as Bits<$bits>>::from(match ordering {
                        Relaxed => atom!("relaxed"),
                        Acquire | SeqCst => atom!("acquire"),
                        Release => atom!("release"),
                        _ => atom!("acq_rel"),
                    })
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let change = |bits: $bits| {
                        let ($old, $val) = (<$t as Bits<$bits>>::from(bits), val);
                        let _ = $old;
                        Bits::<$bits>::to($new)
                    };
                    // SAFETY: the caller's promise.
                    <$t as Bits<$bits>>::from(unsafe { update(ptr.cast(), ordering, change) })
                }
            }
        })*
    };
}

macro_rules! bitwise {
    ($scope:ident $ptx:literal and $and:literal | or $or:literal | xor $xor:literal | exch $exch:literal) => {
        bitwise! { each $scope $ptx u32 u32 reg32 32 $and $or $xor $exch }
        bitwise! { each $scope $ptx i32 u32 reg32 32 $and $or $xor $exch }
        bitwise! { each $scope $ptx f32 u32 reg32 32 $and $or $xor $exch }
        bitwise! { each $scope $ptx u64 u64 reg64 64 $and $or $xor $exch }
        bitwise! { each $scope $ptx i64 u64 reg64 64 $and $or $xor $exch }
        bitwise! { each $scope $ptx f64 u64 reg64 64 $and $or $xor $exch }
    };
    (each $scope:ident $ptx:literal $t:ident $bits:ident $reg:ident $width:literal $and:literal $or:literal $xor:literal $exch:literal) => {
        fetch! { $scope $ptx
            and $t $bits $reg concat!($and, $width), |old, val| <$t as Bits<$bits>>::from(Bits::<$bits>::to(old) & Bits::<$bits>::to(val));
            or $t $bits $reg concat!($or, $width), |old, val| <$t as Bits<$bits>>::from(Bits::<$bits>::to(old) | Bits::<$bits>::to(val));
            xor $t $bits $reg concat!($xor, $width), |old, val| <$t as Bits<$bits>>::from(Bits::<$bits>::to(old) ^ Bits::<$bits>::to(val));
            exch $t $bits $reg concat!($exch, $width), |old, val| val;
        }
    };
}

macro_rules! negative {
    (f32 $val:ident) => {
        -$val
    };
    (f64 $val:ident) => {
        -$val
    };
    ($t:ident $val:ident) => {
        $val.wrapping_neg()
    };
}

macro_rules! sub {
    ($scope:ident $($t:ident)*) => {$(pastey::paste! {
        #[doc = concat!("Subtracts, at the scope of the ", stringify!($scope), ": adds the negative, as there is no instruction. Returns what was there.")]
        ///
        /// # Safety
        /// As for the addition.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn [<atomic_fetch_sub_ $t _ $scope>](ptr: *mut $t, ordering: Ordering, val: $t) -> $t {
            // SAFETY: passed on.
            unsafe { [<atomic_fetch_add_ $t _ $scope>](ptr, ordering, negative!($t val)) }
        }
    })*};
}

scopes! { block "cta" device "gpu" system "sys" }

/// Replaces a word by what `change` makes of it, and returns what was there.
///
/// # Safety
/// As for the atomics.
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
#[track_caller]
unsafe fn update<B: simt::Swap + PartialEq>(
    ptr: *mut B,
    ordering: Ordering,
    change: impl Fn(B) -> B,
) -> B {
    // SAFETY: the caller's promise.
    unsafe {
        let mut seen = simt::load(ptr, simt::Relaxed);
        loop {
            let new = change(seen);
            let found = match ordering {
                Relaxed => simt::compare_exchange(ptr, seen, new, simt::Relaxed),
                Acquire => simt::compare_exchange(ptr, seen, new, simt::Acquire),
                Release => simt::compare_exchange(ptr, seen, new, simt::Release),
                _ => simt::compare_exchange(ptr, seen, new, simt::AcqRel),
            };
            if found == seen {
                return seen;
            }
            seen = found;
        }
    }
}
