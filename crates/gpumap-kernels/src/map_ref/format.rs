//! Which slot format a kernel works with, chosen by the sizes of key and value and by what it is
//! compiled for.

#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::slot::{Bits, Format, Keys, Packed};
use gpumap_simt::atomic::part::Part;
use gpumap_simt::layout;

/// A slot format, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SlotKind {
    /// [`Packed`].
    Packed = 1,
    /// [`Wide`](crate::slot::Wide).
    Wide = 2,
    /// [`Split`](crate::slot::Split).
    Split = 3,
    /// [`Keys`].
    Keys = 4,
}
layout!(
    enum SlotKind {
        Packed,
        Wide,
        Split,
        Keys,
    }
);

/// A format that has a name.
pub trait Named: Format {
    /// The name.
    const KIND: SlotKind;
}

impl Named for Packed {
    const KIND: SlotKind = SlotKind::Packed;
}

impl<K: Bits> Named for Keys<K> {
    const KIND: SlotKind = SlotKind::Keys;
}

#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
impl<K: Bits, V: Bits + Part> Named for Wide<K, V> {
    const KIND: SlotKind = SlotKind::Wide;
}

#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
impl<K: Bits, V: Bits + Part> Named for Split<K, V> {
    const KIND: SlotKind = SlotKind::Split;
}

/// A key and a value that a map can have: implemented for the tuples of `u32` and `u64`, and for
/// either with `()`, the pairs of a set.
///
/// | compiled for | no value | 4 + 4 bytes | all others |
/// |---|---|---|---|
/// | PTX for sm_90 and newer | [`Keys`] | [`Packed`] | [`Wide`](crate::slot::Wide) |
/// | PTX for sm_70 | `Keys` | `Packed` | [`Split`](crate::slot::Split) |
/// | the CPU | `Keys` | `Packed` | `Wide`, and `Split` for maps that have it |
pub trait Pair {
    /// The bits of a key.
    type Key: Bits;
    /// The bits of a value.
    type Value: Bits;
    /// The format that maps have here.
    type Native: Named<Key = Self::Key, Value = Self::Value>;
    /// The other one that they may have on the CPU.
    #[cfg(not(target_arch = "nvptx64"))]
    type Other: Named<Key = Self::Key, Value = Self::Value>;
}

impl Pair for (u32, u32) {
    type Key = u32;
    type Value = u32;
    type Native = Packed;
    #[cfg(not(target_arch = "nvptx64"))]
    type Other = Packed;
}

macro_rules! keys {
    ($($k:ty)*) => {$(
        impl Pair for ($k, ()) {
            type Key = $k;
            type Value = ();
            type Native = Keys<$k>;
            #[cfg(not(target_arch = "nvptx64"))]
            type Other = Keys<$k>;
        }
    )*};
}

keys! { u32 u64 }

macro_rules! sixteen_bytes {
    ($($k:ty, $v:ty;)*) => {$(
        impl Pair for ($k, $v) {
            type Key = $k;
            type Value = $v;
            #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
            type Native = Wide<$k, $v>;
            #[cfg(all(target_arch = "nvptx64", not(gpumap_sm90)))]
            type Native = Split<$k, $v>;
            #[cfg(not(target_arch = "nvptx64"))]
            type Other = Split<$k, $v>;
        }
    )*};
}

sixteen_bytes! {
    u32, u64;
    u64, u32;
    u64, u64;
}

/// Calls a function that is generic over the format with that of the map, or refuses the map:
/// `by_format!(map, function(arguments), answer if refused)`.
macro_rules! by_format {
    ($map:expr, $function:ident($($argument:expr),*), $refused:expr) => {{
        let map = $map;
        if map.slots == <<(K, V) as Pair>::Native as Named>::KIND {
            return $function::<<(K, V) as Pair>::Native>(map, $($argument),*);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        if map.slots == <<(K, V) as Pair>::Other as Named>::KIND {
            return $function::<<(K, V) as Pair>::Other>(map, $($argument),*);
        }
        map.refuse();
        $refused
    }};
}
pub(crate) use by_format;
