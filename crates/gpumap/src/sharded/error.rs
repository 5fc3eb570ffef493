//! What can go wrong between ranks.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What was wrong with a group of ranks, or went wrong between them.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A group of no devices.
    #[error("a group of 0 devices was asked for: pass one device at least")]
    Empty,
    /// CUDA devices and the CPU in one group.
    #[error(
        "rank {rank} runs on another kind of device than rank 0: all run on CUDA, or all on the CPU"
    )]
    Mixed {
        /// The first that differs.
        rank: usize,
    },
    /// Two ranks on one GPU.
    #[error(
        "ranks {first} and {second} have the same GPU: give each its own, or use Ranks::on_one"
    )]
    SameDevice {
        /// One of them.
        first: usize,
        /// The other.
        second: usize,
    },
    /// More ranks than a batch can be split for.
    #[error("{ranks} ranks are more than the {most} that a batch is split for: use fewer")]
    TooMany {
        /// How many were requested.
        ranks: usize,
        /// How many there may be.
        most: usize,
    },
    /// A rank that is not in its group.
    #[error(
        "there is no rank {rank} in a group of {ranks}: ranks count from 0, so choose one below {ranks}"
    )]
    NoSuchRank {
        /// Which one.
        rank: usize,
        /// How many there are.
        ranks: usize,
    },
    /// `GPUMAP_DEVICES` is no list of devices.
    #[error("`{}` is no list of devices: use cuda:0,cuda:1 or 0,1 or cpu,cpu or checked,checked", .text.display())]
    DeviceList {
        /// What it said.
        text: OsString,
    },
    /// `GPUMAP_RANK`, `GPUMAP_RANKS`, `GPUMAP_ID` or `GPUMAP_ID_FILE` is missing or makes no sense.
    #[error("{name} is not set or makes no sense: set it to {expected}")]
    Variable {
        /// Which one.
        name: &'static str,
        /// What it has to say.
        expected: &'static str,
    },
    /// Another rank failed at the same step, so that this one could not go on. The other has the
    /// error that says why.
    #[error(
        "rank {rank} failed in the same call, and this rank cannot go on without it: read the error of rank {rank}"
    )]
    Failed {
        /// Which one.
        rank: usize,
    },
    /// The work of another rank had ended, and well, before this call.
    #[error(
        "rank {rank} ended its work without coming to this call: each rank must make the same calls"
    )]
    Left {
        /// Which one.
        rank: usize,
    },
    /// The work of a rank panicked. The group has been given up.
    #[error("the work of rank {rank} panicked: make a new group")]
    Panicked {
        /// Which one.
        rank: usize,
    },
    /// The closure of a `retain` panicked on a rank. No rank has removed anything, and the group goes on.
    #[error("the closure of retain panicked on rank {rank}, and no pair was removed: correct it")]
    Predicate {
        /// Which one.
        rank: usize,
    },
    /// Some rank did not come in time. The group has been given up.
    #[error(
        "other ranks did not come within {waited:?}: make a new group, with a longer timeout if they are slow"
    )]
    Silent {
        /// How long was waited.
        waited: Duration,
    },
    /// The system has no thread for a rank, or for what watches over it.
    #[error(
        "no thread for a rank: {cause}; use fewer threads at a time, or allow the process more"
    )]
    NoThread {
        /// What the system said.
        cause: Arc<io::Error>,
    },
    /// The group was given up after an earlier failure.
    #[error("the group was given up after an earlier failure: make a new one")]
    Ended,
    /// Work that runs on a group called for all of the same group, which would wait for itself; or for another group
    /// whose work waits for this one.
    #[error(
        "work of a group cannot call for the whole group again, or for a group whose work waits for it: use the rank and the shard that it was given, or call when it is over"
    )]
    Nested,
    /// Ranks called different collectives, or the same with different settings: their calls are not in
    /// the same order.
    #[error(
        "mismatched collective, the ranks made different calls: each must make the same calls in the same order, with the same settings"
    )]
    OutOfStep,
    /// A batch of one rank is too long for the places of its answers.
    #[error("a batch of {len} keys on one rank is too long: split it into batches below 2^32")]
    BatchTooLong {
        /// How long.
        len: usize,
    },
    /// Devices that cannot reach each other's memory.
    #[error(
        "device {from} cannot reach the memory of device {to}: there is no peer access between them; use other devices, or a process for each rank"
    )]
    NoPeerAccess {
        /// The number of the device that would.
        from: usize,
        /// The number of the other.
        to: usize,
    },
    /// Memory of ranks in other processes cannot be mapped.
    #[error(
        "ranks in other processes do not share memory: drive all GPUs from one process, or use Form::Replicated"
    )]
    OtherProcess,
    /// There is no NCCL on this machine, which links ranks of several processes.
    #[error(
        "libnccl.so.2 not found: install NCCL 2.18 or newer (the package libnccl2, or pip's nvidia-nccl-cu13) and put its folder into LD_LIBRARY_PATH, or its path into GPUMAP_NCCL"
    )]
    NoNccl,
    /// The library was built without its feature `nccl`, by which ranks of several processes are linked.
    #[error(
        "this program has gpumap without its feature `nccl`: enable it, or drive all GPUs from one process"
    )]
    NcclDisabled,
    /// NCCL is older than what is needed.
    #[error("NCCL is too old: it has no {missing}; install 2.18 or newer")]
    NcclTooOld {
        /// The first function found missing.
        missing: &'static str,
    },
    /// NCCL, which links ranks of several processes, would be free to use NVLink multicast.
    #[error("NVLink multicast must be off: set NCCL_NVLS_ENABLE=0 before the program starts")]
    Multicast,
    /// A call into NCCL failed. The group has been given up.
    #[error("{call} failed: {code}; make a new group, and set NCCL_DEBUG=WARN to see why")]
    Nccl {
        /// NCCL's function.
        call: &'static str,
        /// What it returned.
        code: NcclCode,
    },
    /// The file through which ranks find each other cannot be written or read.
    #[error("{}: {cause}; the file must not be there before rank 0 starts", .path.display())]
    IdFile {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: Arc<io::Error>,
    },
}

impl GroupError {
    /// That the system has no thread.
    pub(super) fn no_thread(cause: io::Error) -> Self {
        let cause = Arc::new(cause);
        Self::NoThread { cause }
    }
}

/// What a call into NCCL returned: an `ncclResult_t`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NcclCode(pub(super) u32);

impl NcclCode {
    /// The number of the code, as `nccl.h` has it.
    pub fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for NcclCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0 => "ncclSuccess",
            1 => "ncclUnhandledCudaError",
            2 => "ncclSystemError",
            3 => "ncclInternalError",
            4 => "ncclInvalidArgument",
            5 => "ncclInvalidUsage",
            6 => "ncclRemoteError",
            7 => "ncclInProgress",
            8 => "ncclTimeout",
            _ => "a code of a newer NCCL",
        };
        write!(f, "{name} ({})", self.0)
    }
}

impl fmt::Debug for NcclCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use crate::sharded::GroupId;

    #[test]
    fn a_variable_that_makes_no_sense_says_what_was_expected() {
        let error = "x".parse::<GroupId>().unwrap_err();
        let said = "GPUMAP_ID is not set or makes no sense: set it to 256 hexadecimal digits";
        assert!(error.to_string().starts_with(said), "{error}");
    }
}
