//! Whether a call is worth another try, and with how much memory.

use std::io;

use super::{Error, PtxError};
use crate::file::FileError;

impl Error {
    /// Whether the same call may succeed later though the program changes nothing but waits, or makes batches
    /// smaller: when other calls have ended, or memory is free again. Nothing has to be repaired before.
    ///
    /// | | |
    /// |---|---|
    /// | [`OutOfMemory`](Self::OutOfMemory) | yes: a refused call has changed nothing; free memory, wait for other calls, or split the batch |
    /// | [`File`](Self::File), [`Ptx`](Self::Ptx) | if the system says so: interrupted, would block, timed out, busy |
    /// | [`Full`](Self::Full) | no: a map that does not grow needs pairs removed, or a larger capacity |
    /// | [`Group`](Self::Group) | no: after a failure between ranks, also a timeout, the group is given up; make a new one |
    /// | [`Poisoned`](Self::Poisoned) | no: `clear` is needed |
    /// | [`StreamIsCaptured`](Self::StreamIsCaptured) | yes: when the capture has ended |
    /// | [`Driver`](Self::Driver) | if the code [is a refusal](crate::DriverCode::is_refusal), as during a capture; else the device may be of no use any more |
    /// | [`Kernel`](Self::Kernel) | no: the kernel is wrong |
    /// | all others | no: the call itself, a setting, or the machine has to change |
    ///
    /// ```
    /// use gpumap::{Device, Error, Map};
    ///
    /// let device = Device::cpu().with_memory_budget(64 << 10);
    /// let map = Map::<u64, u64>::new(&device)?;
    /// let keys: Vec<u64> = (0..10_000).collect();
    /// let (mut rest, mut most) = (&keys[..], keys.len());
    /// while !rest.is_empty() && most > 0 {
    ///     let part = &rest[..most.min(rest.len())];
    ///     match map.insert(part, part) {
    ///         Ok(_) => rest = &rest[part.len()..],
    ///         Err(error) if error.is_transient() => most /= 2,
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// assert!(map.len() > 1_000 && most == 0); // as many as there is memory for
    /// # Ok::<(), Error>(())
    /// ```
    pub fn is_transient(&self) -> bool {
        // Without a rest, so that each new variant is thought about.
        match self {
            Self::OutOfMemory { .. } | Self::StreamIsCaptured => true,
            Self::Driver { .. } => self.is_refusal(),
            Self::File {
                cause: FileError::Io(cause),
                ..
            }
            | Self::Ptx {
                cause: PtxError::Read(cause),
                ..
            } => is_of_the_moment(cause),
            Self::NoDriver
            | Self::DriverTooOld { .. }
            | Self::NoDevice { .. }
            | Self::UnsupportedDevice { .. }
            | Self::DeviceChoice { .. }
            | Self::CpuChosen
            | Self::Ptx { .. }
            | Self::KernelMissing { .. }
            | Self::LaunchShape { .. }
            | Self::CapacityOverflow { .. }
            | Self::LengthMismatch { .. }
            | Self::CopyLength { .. }
            | Self::OutputTooSmall { .. }
            | Self::OutOfRange { .. }
            | Self::Full { .. }
            | Self::File { .. }
            | Self::Poisoned
            | Self::WrongSlots { .. }
            | Self::Setting { .. }
            | Self::EmptyRange { .. }
            | Self::UnsortedEdges { .. }
            | Self::WrongDevice { .. }
            | Self::EventNotRecorded
            | Self::Alignment { .. }
            | Self::Group(_)
            | Self::Kernel(_) => false,
        }
    }

    /// Of a batch that had taken so many bytes when it was refused.
    pub(crate) fn of_batch_with(self, taken: u64) -> Self {
        match self {
            Self::OutOfMemory { needed, available } => Self::OutOfMemory {
                needed: needed.saturating_add(taken),
                available,
            },
            other => other,
        }
    }

    /// Of a batch that has freed what it had taken, so that so much is available now. It is less than what is needed,
    /// unless something else was freed as well.
    pub(crate) fn of_batch_beside(self, now: u64) -> Self {
        match self {
            Self::OutOfMemory { needed, .. } if now < needed => Self::OutOfMemory {
                needed,
                available: now,
            },
            other => other,
        }
    }

    /// Of a batch that would have needed so many bytes in all.
    pub(crate) fn of_batch_of(self, bytes: u64) -> Self {
        match self {
            Self::OutOfMemory { needed, available } => Self::OutOfMemory {
                needed: needed.max(bytes),
                available,
            },
            other => other,
        }
    }
}

/// Whether the system may do later what it did not do now.
fn is_of_the_moment(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::ResourceBusy
    )
}
