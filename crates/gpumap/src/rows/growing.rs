//! [`Growing`]: by how much a map with rows grows, or that it does not.

use std::sync::atomic::{AtomicUsize, Ordering};

use gpumap_kernels::rows::MOST_ROWS;

use crate::error::{Error, Result};
use crate::map::Growth;

/// What a map with rows does when rows do not fit.
#[derive(Debug)]
pub(crate) struct Growing {
    /// How many times as many slots, and as much memory of each row; none if it does not grow.
    factors: Option<(f64, f64)>,
    /// How many rows there may be. More only after [`allow`](Self::allow).
    most: AtomicUsize,
}

impl Default for Growing {
    /// Slots are the smaller part, and making them costs more.
    fn default() -> Self {
        Self::by(2.0, 1.5)
    }
}

impl Growing {
    fn by(slots: f64, rows: f64) -> Self {
        Self {
            factors: Some((slots, rows)),
            most: AtomicUsize::new(MOST_ROWS as usize),
        }
    }

    /// That of a builder, for a map that is made with room for so many rows. `None` is the default.
    pub fn of(growth: Option<Growth>, rows: usize) -> Self {
        match growth {
            None => Self::default(),
            Some(Growth::By(factor)) => Self::by(factor, factor),
            Some(Growth::Fixed) => Self {
                factors: None,
                most: AtomicUsize::new(rows),
            },
        }
    }

    /// Whether it does not grow.
    pub fn is_fixed(&self) -> bool {
        self.factors.is_none()
    }

    /// How many rows there may be.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::Acquire)
    }

    /// Room for how many rows to make slots for, if there is memory for it, where there is room for `rows` now.
    pub fn slots(&self, rows: usize) -> usize {
        self.wished(self.factors.map_or(1.0, |(slots, _)| slots), rows)
    }

    /// The same, for what each row has.
    pub fn rows(&self, rows: usize) -> usize {
        self.wished(self.factors.map_or(1.0, |(_, rows)| rows), rows)
    }

    fn wished(&self, factor: f64, rows: usize) -> usize {
        ((rows as f64 * factor) as usize).min(self.most())
    }

    /// An error if a map of a fixed capacity, which has `len` keys, would have `rows` rows after a batch of so many keys.
    pub fn expect_fits(&self, rows: usize, len: usize, batch: usize) -> Result<()> {
        let most = self.most();
        if self.is_fixed() && rows > most {
            return Err(Error::Full {
                len,
                slots: most,
                batch,
                unplaced: rows - most,
                partial: false,
                growth: None,
            });
        }
        Ok(())
    }

    /// Lets a map of a fixed capacity have so many rows: it was given the room for them.
    pub fn allow(&self, rows: usize) {
        self.most.fetch_max(rows, Ordering::AcqRel);
    }
}
