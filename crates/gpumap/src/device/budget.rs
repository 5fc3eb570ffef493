//! How much has been allocated through a device, and how much may be.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Device;
use crate::error::{Error, Result};

/// A limit and what is used of it. Invariant: `used <= limit`.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

// The counters order nothing else, so all of this is relaxed.
impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    pub(super) fn charge(&self, bytes: u64) -> Result<()> {
        let add = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        let before = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .map_err(|used| Error::OutOfMemory {
                needed: bytes,
                available: self.limit - used,
            })?;
        self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn refund(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn left(&self) -> u64 {
        self.limit - self.used()
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// Bytes counted against a device's budget; given back on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    device: Device,
    bytes: u64,
}

impl Charge {
    pub(super) fn new(device: Device, bytes: u64) -> Self {
        Self { device, bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.device.refund(self.bytes);
    }
}
