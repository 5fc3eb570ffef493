//! What the conformance suite is made of: the devices it runs on, the pairs it stores and the
//! oracle it compares with. The tests themselves are in `tests/`, one file per behaviour.
//!
//! A test body is written once, generic over the pair, and [`on_every_pair!`] or
//! [`on_every_format!`] runs it for each type of pair, on each [`Target`]. Which targets there
//! are is chosen by `GPUMAP_TEST_DEVICE`; see [`device`].

pub mod adversary;
pub mod blob;
pub mod captures;
pub mod device;
pub mod explore;
pub mod faults;
pub mod group;
pub mod history;
pub mod interleave;
pub mod litmus;
pub mod memory;
pub mod multi;
pub mod oracle;
pub mod pairs;
pub mod scheduled;
pub mod sequence;
pub mod shape;
pub mod soak;
pub mod table;

pub use device::{Target, on_every_target};
pub use group::{Group, on_every_group};
pub use oracle::{Oracle, assert_holds, contents};
pub use pairs::{Batch, key, key_bits, value, value_bits};
pub use shape::Shape;

/// Runs `body::<K, V>(&Target)` for one pair of types per slot format, on every target. On the checked executor keys and
/// values have the same size, unless [`on_every_pair!`] runs the body: kernels of other sizes have the same source.
#[macro_export]
macro_rules! on_every_format {
    ($body:ident) => {{
        $crate::on_formats_with_values!($body);
        $crate::on_pairs!($body: u32 => (), u64 => ())
    }};
}

/// Runs `body::<K, V>(&Target)` for values of several sizes that lie in rows, on every target.
#[macro_export]
macro_rules! on_blobs_by_row {
    ($body:ident) => {{
        use $crate::blob::{Bytes, Line, run};
        use $crate::pairs::{Halves32, Halves64};
        run::<Halves32, Bytes<9>>($body::<Halves32, Bytes<9>>);
        run::<Halves64, [u64; 3]>($body::<Halves64, [u64; 3]>);
        run::<Halves32, Line>($body::<Halves32, Line>);
        run::<Halves64, Bytes<31>>($body::<Halves64, Bytes<31>>);
        run::<Halves64, [u64; 32]>($body::<Halves64, [u64; 32]>);
    }};
}

/// As [`on_every_format!`], for tests of values: sets are left out.
#[macro_export]
macro_rules! on_formats_with_values {
    ($body:ident) => {
        $crate::on_pairs!($body: u32 => u32, u64 => u64);
        $crate::device::run_mixed::<u32, u64>($body::<u32, u64>);
        $crate::device::run_mixed::<u64, u32>($body::<u64, u32>);
    };
}

/// Runs `body::<K, V>(&Target)` for every kind of key and value, newtypes included, on every
/// target.
#[macro_export]
macro_rules! on_every_pair {
    ($body:ident) => {{
        use $crate::pairs::{Edge, Ticket};
        $crate::on_pairs_with_values!($body);
        $crate::on_pairs!($body: u32 => (), u64 => ());
        $crate::on_pairs_of_known_kernels!($body: i64 => (), Ticket => (), Edge => ())
    }};
}

/// As [`on_every_pair!`], for tests of values: sets are left out.
#[macro_export]
macro_rules! on_pairs_with_values {
    ($body:ident) => {{
        use $crate::pairs::{Celsius, Edge, Ticket, UserId};
        $crate::on_pairs!(
            $body: u32 => u32, u32 => u64, u64 => u32, u64 => u64, i32 => f32, i64 => f64, u32 => i64, Ticket => i32
        );
        $crate::on_pairs_of_known_kernels!($body: Edge => Celsius, UserId => UserId)
    }};
}

/// Runs `body::<K, V>(&Target)` for one pair of types per slot format of multimaps, on every target.
#[macro_export]
macro_rules! on_every_multi_format {
    ($body:ident) => {
        $crate::on_pairs!($body: u32 => u32, u64 => u64)
    };
}

/// Runs `body::<K, V>(&Target)` for every kind of key and value that a multimap can have, newtypes
/// included, on every target.
#[macro_export]
macro_rules! on_every_multi_pair {
    ($body:ident) => {{
        use $crate::pairs::{Celsius, Cents, Edge, Ticket, UserId};
        $crate::on_every_multi_format!($body);
        $crate::on_pairs!($body: i32 => f32, i64 => f64);
        $crate::on_pairs_of_known_kernels!($body: Ticket => Celsius, Edge => Cents, UserId => UserId)
    }};
}

/// As [`on_pairs!`], for types whose kernels are those of others that the body runs with: not on the checked executor.
#[macro_export]
macro_rules! on_pairs_of_known_kernels {
    ($body:ident: $($k:ty => $v:ty),*) => {{
        $($crate::device::run_mixed::<$k, $v>($body::<$k, $v>);)*
    }};
}

/// Runs `body::<K, V>(&Target)` for these pairs of types, on every target.
#[macro_export]
macro_rules! on_pairs {
    ($body:ident: $($k:ty => $v:ty),*) => {{
        $($crate::device::run_pair::<$k, $v>($body::<$k, $v>);)*
    }};
}

/// Runs `body::<K, V>(&Target)` for keys of both sizes and values of an arena map of every kind of
/// size, on every target.
#[macro_export]
macro_rules! on_every_blob {
    ($body:ident) => {
        $crate::on_every_blob!(@values $body: u32);
        $crate::on_every_blob!(@values $body: u64);
    };
    (@values $body:ident: $k:ty) => {{
        use $crate::blob::{Bytes, Line, run};
        run::<$k, Bytes<9>>($body::<$k, Bytes<9>>);
        run::<$k, [u64; 2]>($body::<$k, [u64; 2]>);
        run::<$k, [u64; 3]>($body::<$k, [u64; 3]>);
        run::<$k, Bytes<31>>($body::<$k, Bytes<31>>);
        run::<$k, Line>($body::<$k, Line>);
        run::<$k, [u32; 25]>($body::<$k, [u32; 25]>);
        run::<$k, [u64; 32]>($body::<$k, [u64; 32]>);
    }};
}
