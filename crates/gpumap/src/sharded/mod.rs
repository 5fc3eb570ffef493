//! Maps over several devices: [`ShardedMap`], [`ShardedRowMap`], and what they are made of.
//!
//! Each device of a *group* is a *rank* and has a [`Shard`]: a map of the keys that it owns. A
//! key's owner follows from its hash, under a seed of the group's own. A batch may come from any
//! rank: it is partitioned by owner on its device, parts go to their owners, each shard works on
//! what it got, and answers go back, into the order of the batch.
//!
//! | | driven by | made by |
//! |---|---|---|
//! | [`ShardedMap`] | one process, a thread for each rank; batches of the host are split | [`Ranks::new`] |
//! | [`Ranks::run`] with a [`Shard`] each | the same, with batches on the devices | [`Ranks::new`] |
//! | [`ShardedRowMap`] | one process, as a [`ShardedMap`]: places of keys, which are a rank and a row there | [`Ranks::new`] |
//! | [`Rank::join`] with a [`Shard`] | one process for each rank, on one node or several | [`Membership`] |
//!
//! ```
//! use gpumap::ShardedMap;
//! use gpumap::sharded::{Ranks, devices};
//!
//! let ranks = Ranks::new(&devices("cpu,cpu")?)?; // or "cuda:0,cuda:1"
//! let map = ShardedMap::<u64, u32>::with_capacity(&ranks, 1_000)?;
//! assert_eq!(map.insert(&[1, 2, 3], &[10, 20, 30])?, 3);
//! assert_eq!(map.get(&[3, 4, 1])?, [Some(30), None, Some(10)]);
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! # The link
//! Large batches of one process are written straight into the memory of the GPUs that own their
//! keys, and answers into that of the requesting GPU; where pages are made from them, the owners
//! copy their parts, and make pages from those that have come. Everything else within a process is
//! copied from device to device ([`Transport`]), between GPUs without peer access through memory of
//! the host. Ranks on the CPU, and several on one GPU ([`Ranks::on_one`]), do the same: for tests,
//! and for programs that are written for several devices and find one.
//!
//! Ranks in processes of their own talk through NCCL, which is loaded when the first of them joins;
//! without it there is [`GroupError::NoNccl`], and without the feature `nccl`
//! [`GroupError::NcclDisabled`]. `NCCL_NVLS_ENABLE=0` has to be set
//! ([`GroupError::Multicast`]).
//!
//! # Many groups
//! One process may have any number of groups on the same devices, and any number of threads may make,
//! use and drop them at the same time. No kernel and no copy of a group in one process waits on its
//! device for another device; ranks wait for each other on the host alone, and each such wait has a
//! timeout. So groups cannot deadlock on the devices (`docs/decisions/rendezvous.md`).
//!
//! # Failures
//! A step that fails on one rank, for want of memory for instance, is an error on every rank: its
//! own there, [`GroupError::Failed`] on the others, and the group goes on. Of a batch that is
//! refused so, some shards may have stored or removed their part; a map of the layout
//! [`Rows`](crate::Layout::Rows) and a [`ShardedRowMap`] change nothing on any rank. Ranks that make different calls, which no
//! rank can detect by itself, all have [`GroupError::OutOfStep`], and the group goes on too. If a
//! rank is gone for good, the others have an error when their time is up, and the group is given
//! up.

mod direct;
mod dump;
mod error;
mod exchange;
mod host_chunks;
mod keyed;
mod keys;
mod list;
mod map;
mod membership;
#[cfg(feature = "nccl")]
mod nccl;
mod owner;
mod p2p;
mod rank;
mod ranks;
mod rendezvous;
mod reused;
mod route;
mod rows;
mod run;
mod scatter;
mod scatter_gather;
mod seats;
mod shard;
mod spread;
mod step;
mod transport;
mod within;
mod words;

pub(crate) use step::Step;

pub use error::{GroupError, NcclCode};
pub use list::{devices, devices_from_env, open_devices, parse_devices};
pub use map::ShardedMap;
pub use membership::{GroupId, Membership};
pub use rank::Rank;
pub use ranks::{DEFAULT_TIMEOUT, Ranks};
pub use rows::{RowShard, ShardRow, ShardedRowMap};
pub use shard::Shard;
pub use transport::{Parcel, Plan, Transport, Window};
