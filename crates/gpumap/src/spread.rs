//! [`Spread`]: something that each thread has for itself, so that calls side by side write to no cache line of others.

use crate::sync::{LINE, lane, lanes};

/// One of something for each of some lanes. A thread has a lane for life; threads share lanes if they are more than
/// processors.
#[derive(Debug)]
pub(crate) struct Spread<T>(Box<[Line<T>]>);

/// Alone on its cache lines: processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

const _: () = assert!(align_of::<Line<u8>>() == LINE);

impl<T> Spread<T> {
    /// One for each lane.
    pub fn new(make: impl Fn() -> T) -> Self {
        Self((0..lanes()).map(|_| Line(make())).collect())
    }

    /// That of this thread.
    #[inline]
    pub fn mine(&self) -> &T {
        // A power of two.
        &self.0[lane() & (self.0.len() - 1)].0
    }

    /// That of each lane.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|line| &line.0)
    }
}
