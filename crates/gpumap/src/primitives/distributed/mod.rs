//! Primitives over several devices: each rank of a group has a part of the input.
//!
//! The functions are *collectives*: every rank of the group calls them with the same settings, and each
//! has the whole result.

mod histogram;

pub use histogram::{Form, histogram_even, histogram_even_into};
