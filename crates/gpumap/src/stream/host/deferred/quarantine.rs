//! [`Quarantine`]: memory that was freed, and that nothing may use any more.

use std::collections::VecDeque;

use crate::memory::HostBlock;

/// What memory is filled with when it is freed: no pointer, no count and no key that a test stores.
pub(super) const FREED: u8 = 0xdd;

/// What memory holds when it has just been allocated.
pub(super) const FRESH: u8 = 0xa5;

/// How much is kept: a few tables of the size that tests have.
const MOST_BYTES: usize = 32 << 20;

/// Freed blocks, full of a pattern. They are kept for a while, and then looked at: a write to one of them is a bug. Whatever
/// is read from them is wrong.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    blocks: VecDeque<HostBlock>,
    bytes: usize,
}

impl Quarantine {
    /// Takes a block that was freed. Says what is wrong with those that have been here for long, and go.
    pub fn put(&mut self, block: HostBlock) -> Result<(), String> {
        // SAFETY: the block has as many bytes, and it is this quarantine's now.
        unsafe { block.ptr.write_bytes(FREED, block.bytes()) };
        self.bytes += block.bytes();
        self.blocks.push_back(block);
        let mut outcome = Ok(());
        while self.bytes > MOST_BYTES {
            outcome = outcome.and(self.release_first());
        }
        outcome
    }

    /// Says what is wrong with what is here, all of which goes.
    pub fn release_all(&mut self) -> Result<(), String> {
        let mut outcome = Ok(());
        while !self.blocks.is_empty() {
            outcome = outcome.and(self.release_first());
        }
        outcome
    }

    fn release_first(&mut self) -> Result<(), String> {
        let Some(block) = self.blocks.pop_front() else {
            self.bytes = 0;
            return Ok(());
        };
        let bytes = block.bytes();
        self.bytes -= bytes;
        // SAFETY: all of it was written to by `put`.
        let contents = unsafe { std::slice::from_raw_parts(block.ptr, bytes) };
        match contents.iter().position(|&byte| byte != FREED) {
            None => Ok(()),
            Some(at) => Err(format!(
                "byte {at} of {bytes} bytes of memory was written to after the memory was freed"
            )),
        }
    }
}
