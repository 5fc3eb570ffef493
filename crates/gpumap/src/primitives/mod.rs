//! Primitives on arrays of the device: histograms, partitions, counts of keys.
//!
//! A [`Primitives`] handle owns the scratch memory that they need. Inputs are slices of the host
//! or [`Buffer`](crate::Buffer)s of the device ([`Input`](crate::Input)); calls that write into
//! buffers of the caller allocate nothing on the device once they have run for a size.
//!
//! ```
//! use gpumap::Device;
//! use gpumap::primitives::Primitives;
//!
//! let primitives = Primitives::new(&Device::cpu());
//! let histogram = primitives.histogram_even(&[1, 2, 2, 9, -4], 0..8, 4)?;
//! assert_eq!(histogram.counts, [1, 2, 0, 0]);
//! assert_eq!((histogram.below, histogram.above), (1, 1));
//! # Ok::<(), gpumap::Error>(())
//! ```

mod counts;
mod histogram;
mod partition;

pub use histogram::{Histogram, Outside, Sample};
pub use partition::{Digit, MAX_PARTS};

use crate::device::{Device, Kind};
use crate::scratch::ScratchPool;

/// The primitives on one device, with the scratch memory that their calls share.
///
/// Every call takes `&self`, from any thread; on a GPU each has a stream of its own, so calls
/// overlap. They return when the device is done.
#[derive(Debug)]
pub struct Primitives {
    device: Device,
    scratch: ScratchPool,
}

impl Primitives {
    /// Primitives on a device. Allocates nothing yet.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            scratch: ScratchPool::new(device),
        }
    }

    /// The device they run on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of shared memory that a block may have.
    fn max_shared_bytes(&self) -> u32 {
        match self.device.kind() {
            // As little as every GPU has: the same cases come up with less data.
            Kind::Cpu(_) => 48 << 10,
            Kind::Cuda(context) => context.max_shared_bytes,
        }
    }
}
