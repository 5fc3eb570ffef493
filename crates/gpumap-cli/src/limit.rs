//! How much of an input is read for one record: a parser keeps all of a record, and the input may never
//! end it. Sequences are measured in [`crate::pieces`] and [`crate::ledger`], rows of text in [`crate::rows`].

/// Bytes that a line end counts as in a sequence: the parser notes the place of each.
pub const LINE_END: u64 = 8;

/// Default of the most bytes of a record: the longest chromosomes of man and wheat have a quarter and four
/// fifths of it.
pub const MOST_RECORD: u64 = 1 << 30;
