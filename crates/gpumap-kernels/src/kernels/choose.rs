//! Choosing the kernels of a map by the sizes of its keys and values, and what the device can do.

use super::set::*;
use super::{Encoding, KERNELS_4_0, KERNELS_8_0, ids};

/// The keys' half of choosing a set: implemented by `u32` and `u64`.
pub trait KeyBits: ids::IdKeyBits + crate::chained::kernels::ChainedBits {
    /// The kernels for these keys, values of type `V`, and an encoding.
    fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V>;
}

/// The values' half of choosing a set: implemented by `u32` and `u64`, and by `()` for maps that are
/// sets.
pub trait ValueBits: crate::slot::Bits {
    /// The kernels for 4-byte keys.
    fn with_u32_keys(encoding: Encoding) -> &'static KernelSet<u32, Self>;
    /// The kernels for 8-byte keys.
    fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self>;
}

impl KeyBits for u32 {
    fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V> {
        V::with_u32_keys(encoding)
    }
}

impl KeyBits for u64 {
    fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V> {
        V::with_u64_keys(encoding)
    }
}

impl ValueBits for () {
    fn with_u32_keys(_: Encoding) -> &'static KernelSet<u32, Self> {
        &KERNELS_4_0
    }
    fn with_u64_keys(_: Encoding) -> &'static KernelSet<u64, Self> {
        &KERNELS_8_0
    }
}

impl ValueBits for u32 {
    fn with_u32_keys(_: Encoding) -> &'static KernelSet<u32, Self> {
        &KERNELS_4_4
    }
    fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self> {
        match encoding {
            Encoding::Wide => &KERNELS_8_4_WIDE,
            Encoding::Split => &KERNELS_8_4_SPLIT,
        }
    }
}

impl ValueBits for u64 {
    fn with_u32_keys(encoding: Encoding) -> &'static KernelSet<u32, Self> {
        match encoding {
            Encoding::Wide => &KERNELS_4_8_WIDE,
            Encoding::Split => &KERNELS_4_8_SPLIT,
        }
    }
    fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self> {
        match encoding {
            Encoding::Wide => &KERNELS_8_8_WIDE,
            Encoding::Split => &KERNELS_8_8_SPLIT,
        }
    }
}
