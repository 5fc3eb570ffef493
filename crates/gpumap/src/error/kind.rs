//! [`ErrorKind`]: what a program can do about an error, and whether the call is worth another try.

use std::io;

use super::{Error, PtxError};
use crate::file::FileError;

/// What a program can do about an [`Error`]; made by [`Error::kind`].
///
/// ```
/// use gpumap::{Device, ErrorKind, Growth, Map};
///
/// let map = Map::<u64, u64>::builder(&Device::cpu()).capacity(100).growth(Growth::Fixed).build()?;
/// let keys: Vec<u64> = (0..10_000).collect();
/// match map.insert(&keys, &keys).map_err(|error| error.kind()) {
///     Ok(_) => unreachable!("there is no room"),
///     Err(ErrorKind::Full | ErrorKind::OutOfMemory) => map.clear()?, // evict pairs
///     Err(kind) => panic!("{kind:?}"),
/// }
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No device that can be used: install a driver, choose another device, or use [`Device::cpu`](crate::Device::cpu).
    NoDevice,
    /// The PTX does not fit the program or the device: rebuild or register it.
    Kernels,
    /// Too little memory: free some, wait for other calls, or split the batch.
    OutOfMemory,
    /// Refused for the moment, by a graph capture or the system: call again later.
    Busy,
    /// A map that does not grow is full: remove pairs, or build it with a larger capacity.
    Full,
    /// The map was written to half-way: [`Map::clear`](crate::Map::clear) makes it usable again.
    Poisoned,
    /// The call is wrong: lengths, a range, a setting, another device's memory, or a change of a map from code that the map
    /// itself calls. Correct the program.
    InvalidInput,
    /// A saved map cannot be read or written.
    File,
    /// A group of ranks cannot be made, or failed: [`GroupError`](crate::sharded::GroupError) says whether it goes on.
    Group,
    /// The driver failed, and the device may be of no use to this process any more.
    Driver,
    /// A kernel broke a rule on the checked executor, or panicked on the CPU: correct it.
    KernelFault,
    /// This process was forked, and what the call needs stayed with the one before.
    Forked,
}

impl Error {
    /// What a program can do about it.
    pub fn kind(&self) -> ErrorKind {
        // Without a rest, so that each new variant is thought about.
        match self {
            Self::NoDriver
            | Self::DriverTooOld { .. }
            | Self::NoDevice { .. }
            | Self::UnsupportedDevice { .. }
            | Self::DeviceChoice { .. }
            | Self::Variable { .. }
            | Self::CpuChosen => ErrorKind::NoDevice,
            Self::File {
                cause: FileError::Io(cause),
                ..
            }
            | Self::Ptx {
                cause: PtxError::Read(cause),
                ..
            } if is_of_the_moment(cause) => ErrorKind::Busy,
            Self::Driver { .. } if self.is_refusal() => ErrorKind::Busy,
            Self::StreamIsCaptured => ErrorKind::Busy,
            Self::Ptx { .. } | Self::KernelMissing { .. } | Self::WrongSlots { .. } => {
                ErrorKind::Kernels
            }
            Self::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Self::Full { .. } => ErrorKind::Full,
            Self::Poisoned => ErrorKind::Poisoned,
            Self::LaunchShape { .. }
            | Self::CapacityOverflow { .. }
            | Self::LengthMismatch { .. }
            | Self::Unsupported { .. }
            | Self::Aggregates { .. }
            | Self::OtherAggregates { .. }
            | Self::Column { .. }
            | Self::ColumnType { .. }
            | Self::CopyLength { .. }
            | Self::OutputTooSmall { .. }
            | Self::OutOfRange { .. }
            | Self::Setting { .. }
            | Self::EmptyRange { .. }
            | Self::PairSize { .. }
            | Self::UnsortedEdges { .. }
            | Self::WrongDevice { .. }
            | Self::EventNotRecorded
            | Self::Nested
            | Self::Alignment { .. } => ErrorKind::InvalidInput,
            Self::File { .. } => ErrorKind::File,
            Self::Group(_) => ErrorKind::Group,
            Self::Driver { .. } => ErrorKind::Driver,
            Self::Kernel(_) => ErrorKind::KernelFault,
            Self::Forked { .. } => ErrorKind::Forked,
        }
    }

    /// Whether the same call may succeed later though the program changes nothing but waits, or makes batches
    /// smaller: when other calls have ended, or memory is free again. Nothing has to be repaired before.
    ///
    /// True for the kinds [`OutOfMemory`](ErrorKind::OutOfMemory) and [`Busy`](ErrorKind::Busy), and for no others.
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
        matches!(self.kind(), ErrorKind::OutOfMemory | ErrorKind::Busy)
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
