//! [`RowSlot`]: what a slot holds.

/// What an answer has where there is no row.
pub const NO_ROW: u32 = !0;

/// The slot of a key that had a row before its batch: there are fewer slots than this.
pub const NO_SLOT: u32 = !0;

/// The most rows of a map.
pub const MOST_ROWS: u64 = 1 << 31;

/// The most keys of a batch: the last place that 31 bits can name would make a claim an empty slot.
pub const MOST_KEYS: u64 = (1 << 31) - 1;

/// A slot: the tag of a key above, and below its row or, marked by the highest bit, the place that claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct RowSlot(u64);

impl RowSlot {
    /// No key was ever here: all ones, so that slots are emptied by filling them with `0xff`.
    pub const EMPTY: Self = Self(!0);

    /// A key was here that was removed. Of tag 0, and with a place that no batch has: so only a key of that tag looks at it
    /// twice, and to lookups it is a claim.
    pub const TOMBSTONE: Self = Self((Self::CLAIM as u64) | MOST_KEYS);

    const CLAIM: u32 = 1 << 31;

    /// A key with this tag, in this row.
    #[inline(always)]
    pub const fn row_of(tag: u32, row: u32) -> Self {
        Self((tag as u64) << 32 | row as u64)
    }

    /// A key with this tag, that this place of the batch claims a row for: below [`MOST_KEYS`].
    #[inline(always)]
    pub const fn claim_of(tag: u32, place: u32) -> Self {
        Self((tag as u64) << 32 | (Self::CLAIM | place) as u64)
    }

    /// The slot that has these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// All bits.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The tag of its key, if it is not empty.
    #[inline(always)]
    pub const fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether it is empty, claimed or a tombstone: it has no row.
    #[inline(always)]
    pub const fn has_no_row(self) -> bool {
        self.0 as u32 & Self::CLAIM != 0
    }

    /// Whether it is claimed.
    #[inline(always)]
    pub fn is_claim(self) -> bool {
        self.has_no_row() && self != Self::EMPTY && self != Self::TOMBSTONE
    }

    /// Its row, or the place that claims it, if it is not empty.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0 as u32 & !Self::CLAIM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_and_no_claim_is_an_empty_slot_or_a_tombstone() {
        for tag in [0, 1, !0] {
            for number in [0, 7, MOST_KEYS as u32 - 1] {
                let claim = RowSlot::claim_of(tag, number);
                assert!(claim != RowSlot::EMPTY && claim != RowSlot::TOMBSTONE);
                assert_eq!((claim.tag(), claim.number()), (tag, number));
                assert!(claim.has_no_row() && claim.is_claim());
            }
            for number in [0, 7, (MOST_ROWS - 1) as u32] {
                let row = RowSlot::row_of(tag, number);
                assert!(row != RowSlot::EMPTY && row != RowSlot::TOMBSTONE);
                assert_eq!((row.tag(), row.number()), (tag, number));
                assert!(!row.has_no_row() && !row.is_claim());
            }
        }
        assert_ne!(RowSlot::EMPTY, RowSlot::TOMBSTONE);
        assert!(RowSlot::EMPTY.has_no_row() && RowSlot::TOMBSTONE.has_no_row());
        assert!(!RowSlot::EMPTY.is_claim() && !RowSlot::TOMBSTONE.is_claim());
    }
}
