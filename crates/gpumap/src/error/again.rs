//! The figures of a batch that found too little memory.

use super::Error;

impl Error {
    /// Of a map that is full because it did not grow, if that has a reason of its own.
    pub(crate) fn because(self, refusal: Option<Self>) -> Self {
        let refusal = match refusal {
            Some(Self::Full { growth, .. }) => growth,
            refusal => refusal.map(Box::new),
        };
        match self {
            Self::Full {
                len,
                slots,
                batch,
                unplaced,
                partial,
                growth: None,
            } => Self::Full {
                len,
                slots,
                batch,
                unplaced,
                partial,
                growth: refusal,
            },
            other => other,
        }
    }

    /// Of a batch that had taken so many bytes when it was refused.
    pub(crate) fn of_batch_with(self, taken: u64) -> Self {
        match self {
            Self::OutOfMemory { needed, available } => Self::OutOfMemory {
                needed: needed.saturating_add(taken),
                available,
            },
            other => other,
        }
    }

    /// Of a batch that has freed what it had taken, so that so much is available now. It is less than what is needed,
    /// unless something else was freed as well.
    pub(crate) fn of_batch_beside(self, now: u64) -> Self {
        match self {
            Self::OutOfMemory { needed, .. } if now < needed => Self::OutOfMemory {
                needed,
                available: now,
            },
            other => other,
        }
    }

    /// Of a batch that would have needed so many bytes in all.
    pub(crate) fn of_batch_of(self, bytes: u64) -> Self {
        match self {
            Self::OutOfMemory { needed, available } => Self::OutOfMemory {
                needed: needed.max(bytes),
                available,
            },
            other => other,
        }
    }
}
