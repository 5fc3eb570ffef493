//! Multimaps: every verb against a model, room and its end, threads, and what slab hashes are known to
//! have got wrong.

mod errors;
mod get_all;
mod histories;
mod interleaved;
mod known_bugs;
mod patterns;
mod room;
mod threads;
mod verbs;
