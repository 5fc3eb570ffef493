//! The models, without those of calls in flight, which have a crate root like the library's. One program, so that it links once.

mod cells;
mod chains;
mod counts;
mod gate;
mod slots;
mod work;

/// What the library calls its module.
mod sync {
    pub use gpumap_loom::sync::*;
}
