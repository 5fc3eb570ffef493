//! The ladders: the kernels that explain why the library's own are the way they are.
//!
//! Filter, `retrieve_all` and scan are each here several times, from the naive kernel up. A rung
//! changes one thing against the rung before it, and is as short as it can be; the guide's chapter
//! on the ladders walks through them with measured figures. The top rung of each ladder is the
//! library's own kernel, which is not here.
//!
//! | module | what it has |
//! |---|---|
//! | [`compact`] | how a thread finds where its element goes: the rungs of filter and `retrieve_all` |
//! | [`filter`] | those rungs over an array |
//! | [`retrieve_all`] | the same rungs over the slots of several submaps |
//! | [`scan`] | inclusive sums |
//!
//! [`pairs`] and [`ceilings`] are none of them: the first makes what the benchmarks fill maps with, the second measures what the
//! device can do at best.
//!
//! They are for measuring and reading, not for use: inputs are aligned to 16 bytes, grids cover
//! them exactly, and nothing is checked but the end of the input.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod ceilings;
pub mod compact;
pub mod filter;
pub mod pairs;
pub mod retrieve_all;
pub mod scan;
