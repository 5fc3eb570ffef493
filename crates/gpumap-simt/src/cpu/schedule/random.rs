//! Random numbers that are the same on every machine.

/// SplitMix64: one word of state, good enough to pick lanes.
#[derive(Clone, Debug)]
pub(in super::super) struct Random(u64);

impl Random {
    pub(in super::super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(in super::super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, or 0.
    pub(in super::super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() >> 63 != 0
    }
}
