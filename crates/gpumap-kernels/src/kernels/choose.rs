//! Choosing the kernels of a map by the sizes of its keys and values, and what the device can do.

use super::set::*;
use super::{Encoding, KERNELS_4_0, KERNELS_8_0};

/// The bits of keys: `u32` and `u64`.
pub trait KeyBits: crate::chained::kernels::ChainedBits {}

impl KeyBits for u32 {}
impl KeyBits for u64 {}

/// The bits of values: `u32` and `u64`, and `()` for maps that are sets.
pub trait ValueBits: crate::slot::Bits {}

impl ValueBits for () {}
impl ValueBits for u32 {}
impl ValueBits for u64 {}

/// The kernels for keys of so many bytes, 4 or 8, values of so many, 0, 4 or 8, and an encoding.
#[must_use]
pub const fn kernels_of(
    [key_bytes, value_bytes]: [u32; 2],
    encoding: Encoding,
) -> &'static KernelSet {
    use Encoding::{Split, Wide};
    match (key_bytes, value_bytes, encoding) {
        (4, 0, _) => &KERNELS_4_0,
        (_, 0, _) => &KERNELS_8_0,
        (4, 4, _) => &KERNELS_4_4,
        (4, _, Wide) => &KERNELS_4_8_WIDE,
        (4, _, Split) => &KERNELS_4_8_SPLIT,
        (_, 4, Wide) => &KERNELS_8_4_WIDE,
        (_, 4, Split) => &KERNELS_8_4_SPLIT,
        (_, _, Wide) => &KERNELS_8_8_WIDE,
        (_, _, Split) => &KERNELS_8_8_SPLIT,
    }
}
