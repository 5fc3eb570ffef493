//! Primitives on plain arrays of words.
//!
//! | module | idea |
//! |---|---|
//! | [`binning`] | which bin a word falls into, without a division |
//! | [`sweep`] | every word of an array once, sixteen bytes at a time |
//! | [`histogram`] | counters in shared memory, several copies of each |
//! | [`partition`] | pairs sorted by a digit, through a tile in shared memory |

pub mod binning;
pub mod histogram;
pub mod partition;
pub mod sweep;
