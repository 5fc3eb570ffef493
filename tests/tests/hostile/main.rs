//! Hostile company: what a map does where other threads, processes and the system do not do as it would like. Each case runs in a
//! process of its own, for so many seconds at most: a case that hangs fails.
//!
//! | module | company |
//! |---|---|
//! | `waiting_writer` | code of the caller that runs under a lock of the map, while another thread waits to change it |
//! | `forked` | a process that was forked from one that used the library |
//! | `system` | signals, a full disk, a memory limit, an empty file, a reader that has stopped |
//! | `threads` | which thread runs what |

mod forked;
mod process;
mod system;
mod threads;
mod verbs;
mod waiting_writer;
