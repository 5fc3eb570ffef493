//! Maps of values of up to 256 bytes: the verbs, what they do beside each other, and their memory.
//! That lanes do not take each other's ids is in `interleaved_ids.rs`.

mod memory;
mod stateful;
mod threads;
mod verbs;
