//! Layouts as numbers: the host and the device compare how each lays out the arguments of a kernel.
//!
//! PTX is compiled apart from the program that launches it. Where one of them is older, fields of
//! the arguments lie elsewhere, and a launch reads and writes wrong memory. So the layout of the
//! arguments is computed for both, by the compiler of each, and the PTX carries that of the device
//! beside each kernel ([`SYMBOL_PREFIX`]). Hosts compare before they launch.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// How the symbol of a kernel's layout begins; the kernel's name follows, and its value is the
/// kernel's [`signature`].
pub const SYMBOL_PREFIX: &str = "gpumap_layout_";

/// A type whose layout is known as a number, as the fields of kernel arguments must be.
///
/// Numbers, pointers and arrays have it; [`kernel_args!`](crate::kernel_args) and
/// [`layout!`](crate::layout!) implement it for structs.
///
/// # Safety
/// `LAYOUT` is made from all that decides where the bytes of a value are and what they mean: size,
/// alignment, and the names, offsets and layouts of all fields. Two types that differ in one of them must differ
/// in `LAYOUT`.
pub unsafe trait Layout {
    /// A hash of the layout.
    const LAYOUT: u64;
    /// The same hash without what pointers lead to.
    const PLACES: u64;
}

/// The number of a kernel: its name, and the layout of its arguments.
pub const fn signature<A: Layout>(kernel: &str) -> u64 {
    Digest::new().text(kernel).number(A::LAYOUT).finish()
}

/// The line of PTX that gives a kernel its signature. [`kernel!`](crate::kernel!) makes the compiler write it; PTX from
/// elsewhere, written by hand or compiled from CUDA C++, needs it beside each kernel that is launched.
#[cfg(not(target_arch = "nvptx64"))]
pub fn declaration(kernel: &str, signature: u64) -> String {
    let bytes = signature.to_le_bytes().map(|byte| byte.to_string());
    let bytes = bytes.join(", ");
    format!(".visible .global .align 1 .b8 {SYMBOL_PREFIX}{kernel}[8] = {{{bytes}}};\n")
}

/// A hash in the making: 64-bit FNV-1a, which is enough between compilers that mean well.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Digest(u64);

#[doc(hidden)]
impl Digest {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// That of a type of this kind.
    pub const fn of<T>(kind: &str) -> Self {
        let digest = Self::new().text(kind);
        digest
            .number(size_of::<T>() as u64)
            .number(align_of::<T>() as u64)
    }

    /// A field, which is found by its accessor, so that its type need not be named.
    pub const fn field<S, F: Layout>(self, name: &str, offset: usize, _: fn(&S) -> &F) -> Self {
        let digest = self.text(name).number(offset as u64);
        digest.number(size_of::<F>() as u64).number(F::LAYOUT)
    }

    /// A field without what it leads to.
    pub const fn place<S, F: Layout>(self, name: &str, offset: usize, _: fn(&S) -> &F) -> Self {
        let digest = self.text(name).number(offset as u64);
        digest.number(size_of::<F>() as u64).number(F::PLACES)
    }

    /// A text, with its length after it.
    pub const fn text(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            self = self.byte(bytes[i]);
            i += 1;
        }
        self.number(bytes.len() as u64)
    }

    /// A number.
    pub const fn number(mut self, number: u64) -> Self {
        let bytes = number.to_le_bytes();
        let mut i = 0;
        while i < bytes.len() {
            self = self.byte(bytes[i]);
            i += 1;
        }
        self
    }

    const fn byte(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    }

    /// The hash.
    pub const fn finish(self) -> u64 {
        self.0
    }
}

macro_rules! scalars {
    ($($t:ty)*) => {$(
        // SAFETY: the name says what the bytes mean.
        unsafe impl Layout for $t {
            const LAYOUT: u64 = Digest::of::<$t>(stringify!($t)).finish();
            const PLACES: u64 = Self::LAYOUT;
        }
    )*};
}

scalars! { () bool u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 c_void AtomicU32 AtomicU64 }

macro_rules! pointers {
    ($($pointer:ty)*) => {$(
        // SAFETY: a pointer, and what lies where it leads to.
        unsafe impl<T: Layout> Layout for $pointer {
            const LAYOUT: u64 = Digest::of::<$pointer>("*").number(T::LAYOUT).finish();
            const PLACES: u64 = Digest::of::<$pointer>("*").finish();
        }
    )*};
}

pointers! { *const T *mut T }

// SAFETY: the elements and, by the size, how many.
unsafe impl<T: Layout, const N: usize> Layout for [T; N] {
    const LAYOUT: u64 = Digest::of::<[T; N]>("[]").number(T::LAYOUT).finish();
    const PLACES: u64 = Digest::of::<[T; N]>("[]").number(T::PLACES).finish();
}

// SAFETY: no bytes, but what the holder takes and gives.
unsafe impl<K: Layout, V: Layout> Layout for PhantomData<fn(K) -> V> {
    const LAYOUT: u64 = {
        let digest = Digest::of::<Self>("fn").number(K::LAYOUT);
        digest.number(V::LAYOUT).finish()
    };
    const PLACES: u64 = Digest::of::<Self>("fn").finish();
}

/// Implements [`Layout`] for a `repr(C)` struct or an enum of a fixed size, which it must name all fields or
/// variants of: `layout!(Name<T> { first, second })`, `layout!(enum Name { First, Second })`.
///
/// For structs that are fields of kernel arguments, or that those point to.
#[macro_export]
macro_rules! layout {
    (enum $name:ident { $($variant:ident),* $(,)? }) => {
        // SAFETY: all variants, by the exhaustive match, and their numbers.
        unsafe impl $crate::layout::Layout for $name {
            const LAYOUT: u64 = {
                let _: fn(Self) = |value| match value { $(Self::$variant => {})* };
                $crate::layout::Digest::of::<Self>("enum")
                    $(.text(stringify!($variant)).number(Self::$variant as u64))*
                    .finish()
            };
            const PLACES: u64 = Self::LAYOUT;
        }
    };
    ($name:ident $(<$($g:ident),*>)? { $($field:tt),* $(,)? }) => {
        // SAFETY: all fields, by the exhaustive pattern, and where each lies.
        unsafe impl $(<$($g: $crate::layout::Layout),*>)? $crate::layout::Layout
            for $name $(<$($g),*>)?
        {
            const LAYOUT: u64 = {
                let _: fn(&Self) = |Self { $($field: _),* }| {};
                $crate::layout::Digest::of::<Self>("struct")
                    $(.field(
                        stringify!($field),
                        ::core::mem::offset_of!(Self, $field),
                        |all: &Self| &all.$field,
                    ))*
                    .finish()
            };
            const PLACES: u64 = $crate::layout::Digest::of::<Self>("struct")
                $(.place(
                    stringify!($field),
                    ::core::mem::offset_of!(Self, $field),
                    |all: &Self| &all.$field,
                ))*
                .finish();
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Declares `Args` in a module of its own, and gives the signature of a kernel that takes it.
    macro_rules! signature_of {
        ($kernel:literal, { $($body:tt)* }) => {{
            #[allow(dead_code, reason = "only its signature is looked at")]
            mod apart {
                crate::kernel_args! {
                    /// Arguments.
                    pub struct Args { $($body)* }
                }
            }
            signature::<apart::Args>($kernel)
        }};
    }

    // Audit finding 14.
    #[test]
    fn any_other_arguments_have_another_signature() {
        let all = [
            signature_of!("k", { a: u32, b: u32, c: *mut u64 }),
            // The kernel's name, a field's name, the order, a size, the meaning of a field.
            signature_of!("l", { a: u32, b: u32, c: *mut u64 }),
            signature_of!("k", { a: u32, d: u32, c: *mut u64 }),
            signature_of!("k", { b: u32, a: u32, c: *mut u64 }),
            signature_of!("k", { a: u32, b: u64, c: *mut u64 }),
            signature_of!("k", { a: u32, b: i32, c: *mut u64 }),
            // The pointee; an array instead of two fields; one field fewer.
            signature_of!("k", { a: u32, b: u32, c: *mut u32 }),
            signature_of!("k", { a: [u32; 2], c: *mut u64 }),
            signature_of!("k", { a: u32, c: *mut u64 }),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i} has the signature of another");
        }
        // Writing through a pointer is no matter of layout.
        assert_eq!(
            all[0],
            signature_of!("k", { a: u32, b: u32, c: *const u64 })
        );
    }

    #[test]
    fn layouts_go_down_into_fields_and_pointers() {
        mod old {
            #[repr(C)]
            pub struct Inner {
                pub first: u32,
                pub second: u32,
            }
            layout!(Inner { first, second });
            #[repr(C)]
            pub struct Outer<T> {
                pub inner: T,
            }
            layout!(Outer<T> { inner });
        }
        mod new {
            #[repr(C)]
            pub struct Inner {
                pub second: u32,
                pub first: u32,
            }
            layout!(Inner { second, first });
        }
        let layouts = [
            <old::Outer<old::Inner>>::LAYOUT,
            <old::Outer<new::Inner>>::LAYOUT,
            <old::Outer<*const old::Inner>>::LAYOUT,
            <old::Outer<*const new::Inner>>::LAYOUT,
        ];
        assert_ne!(layouts[0], layouts[1]);
        assert_ne!(layouts[2], layouts[3]);
    }

    #[test]
    fn variants_count_with_their_numbers() {
        #[repr(u32)]
        enum One {
            A = 1,
            B = 2,
        }
        layout!(
            enum One {
                A,
                B,
            }
        );
        #[repr(u32)]
        enum Two {
            A = 2,
            B = 1,
        }
        layout!(
            enum Two {
                A,
                B,
            }
        );
        assert_ne!(One::LAYOUT, Two::LAYOUT);
        let _ = (One::A, One::B, Two::A, Two::B);
    }
}
