//! Calls on devices of which most of the memory is taken.

use gpumap::{Buffer, Error, Result};

use crate::Target;
use crate::device::noting;

/// Memory of a device that runs out of it.
pub const BUDGET: u64 = 64 << 20;

/// Takes all memory of a device with this [budget](BUDGET) but so many bytes.
pub fn starve(on: &Target, left: u64) -> Buffer<u8> {
    let taken = BUDGET - on.device().allocated_bytes() - left;
    Buffer::zeroed(&on.stream(), taken as usize).unwrap()
}

/// Runs a call with so many bytes left.
pub fn with_left<R>(on: &Target, left: u64, call: impl FnOnce() -> R) -> R {
    let _taken = starve(on, left);
    noting(&format!("{left} bytes left"), call)
}

/// How a call has come through.
#[derive(Debug)]
pub struct Enough {
    /// How often it was refused before.
    pub refused: usize,
    /// What it needed by its last refusal.
    pub needed: u64,
    /// What was left.
    pub left: u64,
}

impl Enough {
    /// Panics if it was given much more than it needed.
    pub fn assert_near(&self, most: u64) {
        let Self { needed, left, .. } = self;
        assert!(
            *left <= needed + most,
            "{needed} bytes needed, {left} were enough"
        );
    }
}

/// Has a call try on a device with this [budget](BUDGET), of which it leaves so many bytes: more and more, until it is enough.
pub fn until_enough(
    on: &Target,
    step: u64,
    mut call: impl FnMut(&Target, u64) -> Result<()>,
) -> Enough {
    let mut needed = 0;
    for (refused, left) in (0..BUDGET).step_by(step as usize).enumerate() {
        match call(&on.with_memory_budget(BUDGET), left) {
            Ok(()) => {
                assert!(left > 0, "there was memory from the beginning");
                return Enough {
                    refused,
                    needed,
                    left,
                };
            }
            Err(Error::OutOfMemory {
                needed: of_call,
                available,
            }) => {
                assert!(available < of_call, "{available} of {of_call}");
                needed = of_call;
            }
            Err(error) => panic!("{left} bytes left: {error}"),
        }
    }
    panic!("refused with {BUDGET} bytes left");
}
