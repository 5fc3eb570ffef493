//! What has to come before what, on streams: each test fails on some order of
//! [deferred streams](Device::cpu_deferred) if one ordering, or one wait, is missing. For audit finding 6; the bugs are
//! planted by `xtask/mutants.toml`, in its section on the order of streams.
//!
//! Inputs are on their way when they are used, what outputs held is still being written, and both are written to
//! again as soon as the call has returned.

mod graphs;
mod kinds;
mod lent;
mod verbs;
mod waits;

use bytemuck::Pod;

use crate::testing::{Arriving, in_many_orders, map};
use crate::{Buffer, Device, Map, Stream};

const N: usize = 24;

/// What outputs hold before, and inputs after a call.
const JUNK: u8 = 0xee;

fn keys(first: u64) -> Vec<u64> {
    (first..first + N as u64).collect()
}

fn values(first: u64) -> Vec<u64> {
    keys(first).into_iter().map(|key| 3 * key + 1).collect()
}

fn streams<const COUNT: usize>(device: &Device) -> [Stream; COUNT] {
    [(); COUNT].map(|()| Stream::new(device).unwrap())
}

/// An output to which something else is still being written.
fn output<T: Pod>(stream: &Stream, len: usize) -> Buffer<T> {
    // SAFETY: all of it is written in the next line.
    let mut buffer = unsafe { Buffer::uninit(stream, len) }.unwrap();
    buffer.fill_bytes(JUNK).unwrap();
    buffer
}

/// Sees that a map holds these keys with their values.
#[track_caller]
fn holds(map: &Map<u64, u64>, first: u64) {
    assert_eq!(map.len(), N);
    let found = map.get(&keys(first)).unwrap();
    let found: Vec<_> = found.into_iter().flatten().collect();
    assert_eq!(found, values(first));
}
