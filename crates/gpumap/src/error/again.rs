//! The figures of a batch that found too little memory, or too little room.

use super::Error;

impl Error {
    /// Of a map that is full because it did not grow, if that has a reason of its own.
    pub(crate) fn because(mut self, refusal: Option<Self>) -> Self {
        if let Self::Full { growth, .. } = &mut self {
            *growth = match refusal {
                Some(Self::Full { growth, .. }) => growth,
                refusal => refusal.map(Box::new),
            };
        }
        self
    }

    /// Of a full map that has room for so many of the keys all the same.
    pub(crate) fn with_room_for(mut self, keys: usize) -> Self {
        if let Self::Full { unplaced, .. } = &mut self {
            *unplaced -= keys;
        }
        self
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
