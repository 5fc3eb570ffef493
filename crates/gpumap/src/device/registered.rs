//! [`Registered`]: what the PTX of the caller's own kernels says, on the CPU, where the kernels are Rust functions.
//!
//! A launch is refused where a GPU would refuse it: so PTX that is older than the source is found on a machine without a GPU.

use parking_lot::RwLock;

use crate::cuda::{PtxText, Symbol};
use crate::error::{Error, Result};

/// The texts that were registered on a CPU device. While there is none, all kernels may be launched.
#[derive(Debug, Default)]
pub(crate) struct Registered(RwLock<Vec<Texts>>);

/// Texts of one source: where several have a kernel, all must agree with this program.
type Texts = Vec<PtxText>;

impl Registered {
    /// Adds texts of one source, for GPUs of several kinds.
    pub fn add(&self, texts: impl IntoIterator<Item = PtxText>) {
        let texts: Texts = texts.into_iter().map(PtxText::without_text).collect();
        let mut all = self.0.write();
        // Programs that register for each of many handles of one device take no more memory.
        if !all.contains(&texts) {
            all.push(texts);
        }
    }

    /// An error unless a launch of a kernel of another crate would find it on a GPU, as this program has it.
    pub fn expect(&self, kernel: Symbol) -> Result<()> {
        let all = self.0.read();
        // The first that has it, as in the modules of a GPU.
        let found = |texts: &Texts| {
            let mut found = texts.iter().filter_map(|text| text.find(kernel)).peekable();
            found.peek()?;
            Some(found.collect::<Result<()>>())
        };
        match all.iter().find_map(found) {
            Some(found) => found,
            None if all.is_empty() => Ok(()),
            None => Err(Error::KernelMissing {
                kernel: kernel.name,
            }),
        }
    }
}
