//! Floats that threads change together, at the scope of the block, the device or the system.
//!
//! They work in kernels, on every back end; outside of a launch the CPU has no executor for them. [`mid`] has the functions on
//! pointers, for integers too.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

pub mod mid;

macro_rules! floats {
    ($($name:ident($t:ident, $width:literal, $scope:ident, $align:literal) $($unsafety:ident)?;)*) => {$(
        #[doc = concat!("An `", stringify!($t), "` that is changed at the scope of the ", stringify!($scope), ".")]
        #[derive(Debug)]
        #[repr(C, align($align))]
        pub struct $name {
            v: UnsafeCell<$t>,
        }

        // SAFETY: it is changed by atomics only.
        unsafe impl Sync for $name {}

        impl $name {
            /// One of this value.
            pub const fn new(v: $t) -> Self {
                Self { v: UnsafeCell::new(v) }
            }

            /// The value.
            pub fn into_inner(self) -> $t {
                self.v.into_inner()
            }
        }

        floats! { methods $name $t $width $scope ($($unsafety)?)
            /// Adds, and returns what was there.
            fetch_add add
            /// Subtracts, and returns what was there.
            fetch_sub sub
            /// Bitwise and of the bits; returns what was there.
            fetch_and and
            /// Bitwise or of the bits; returns what was there.
            fetch_or or
            /// Bitwise exclusive or of the bits; returns what was there.
            fetch_xor xor
        }
    )*};
    (methods $name:ident $t:ident $width:literal $scope:ident ($($unsafety:ident)?) $($(#[$doc:meta])* $fetch:ident $op:ident)*) => {
        floats! { each $name $t $width $scope ($($unsafety)?) { $({ $(#[$doc])* $fetch $op })* } }
    };
    (each $name:ident $t:ident $width:literal $scope:ident $unsafety:tt { $({ $(#[$doc:meta])* $fetch:ident $op:ident })* }) => {
        $(floats! { fetch $name $t $scope $unsafety $(#[$doc])* $fetch $op })*
        floats! { access $name $t $width $scope $unsafety }
    };
    (fetch $name:ident $t:ident $scope:ident ($($unsafety:ident)?) $(#[$doc:meta])* $fetch:ident $op:ident) => {
        impl $name {
            $(#[$doc])*
            $(
                #[doc = concat!("\n\n# Safety\nAll threads that change it are of one ", stringify!($scope), ".")]
                #[doc = concat!("So it is ", stringify!($unsafety), ".")]
            )?
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub $($unsafety)? fn $fetch(&self, val: $t, order: Ordering) -> $t {
                // SAFETY: valid, aligned, and changed by atomics only.
                pastey::paste! { unsafe { mid::[<atomic_fetch_ $op _ $t _ $scope>](self.v.get(), order, val) } }
            }
        }
    };
    (access $name:ident $t:ident $width:literal $scope:ident ($($unsafety:ident)?)) => {
        impl $name {
            /// The value. Not for `Release` and `AcqRel`.
            $(
                #[doc = concat!("\n\n# Safety\nAll threads that change it are of one ", stringify!($scope), ".")]
                #[doc = concat!("So it is ", stringify!($unsafety), ".")]
            )?
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub $($unsafety)? fn load(&self, order: Ordering) -> $t {
                // SAFETY: as above.
                let bits = pastey::paste! { unsafe { mid::[<atomic_load_ $width _ $scope>](self.v.get().cast(), order) } };
                $t::from_bits(bits)
            }

            /// Replaces the value. Not for `Acquire` and `AcqRel`.
            $(
                #[doc = concat!("\n\n# Safety\nAll threads that change it are of one ", stringify!($scope), ".")]
                #[doc = concat!("So it is ", stringify!($unsafety), ".")]
            )?
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub $($unsafety)? fn store(&self, val: $t, order: Ordering) {
                // SAFETY: as above.
                pastey::paste! { unsafe { mid::[<atomic_store_ $width _ $scope>](self.v.get().cast(), order, val.to_bits()) } }
            }
        }
    };
}

floats! {
    AtomicF32(f32, 32, device, 4);
    AtomicF64(f64, 64, device, 8);
    BlockAtomicF32(f32, 32, block, 4) unsafe;
    BlockAtomicF64(f64, 64, block, 8) unsafe;
    SystemAtomicF32(f32, 32, system, 4);
    SystemAtomicF64(f64, 64, system, 8);
}
