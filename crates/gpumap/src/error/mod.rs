//! Everything that can go wrong, with the figures that say why.
//!
//! One enum for the whole crate. Fields, not strings: a program can ask how many bytes were
//! missing instead of reading a message. Messages are one line, say what was wrong and what to
//! do about it. They include their cause, which is a field: `source()` would only say it again.

mod again;
mod kind;
mod setting;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use gpumap_simt::executor::{Fault, FaultKind};

use crate::device::PtxChoice;
use crate::file::FileError;
use crate::memory::host_memory;
use crate::sharded::GroupError;
pub use kind::ErrorKind;
pub use setting::Setting;

/// A [`std::result::Result`] with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong on the way to a device, and on it. [`kind`](Self::kind) says in a few words what a program can do
/// about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no CUDA driver library on this machine.
    #[error(
        "no CUDA driver found: install an NVIDIA driver, or use Device::cpu() or GPUMAP_DEVICE=cpu"
    )]
    NoDriver,

    /// The driver is older than what this build needs.
    #[error(
        "the CUDA driver is too old: {missing} is missing; install a driver for CUDA 12.3 or newer"
    )]
    DriverTooOld {
        /// The first thing found missing: a driver function, or the PTX version of the kernels.
        missing: &'static str,
    },

    /// The driver works but has no device of this number.
    #[error(
        "no CUDA device {ordinal}: the driver shows {count}; check GPUMAP_DEVICE and CUDA_VISIBLE_DEVICES"
    )]
    NoDevice {
        /// The number that was requested.
        ordinal: usize,
        /// How many devices there are.
        count: usize,
    },

    /// The device is older than the oldest one the kernels are built for.
    #[error(
        "{name} has compute capability {major}.{minor}, and 7.0 or newer is needed: choose another device by GPUMAP_DEVICE, or use Device::cpu()"
    )]
    UnsupportedDevice {
        /// The driver's name of the device.
        name: String,
        /// Its major compute capability.
        major: u32,
        /// Its minor compute capability.
        minor: u32,
    },

    /// A text, most likely that of `GPUMAP_DEVICE`, is none of `auto`, `cpu`, `checked`, `cuda` and `cuda:N`.
    #[error("`{}` is not a device: use auto, cpu, checked, cuda or cuda:N; check GPUMAP_DEVICE", .value.display())]
    DeviceChoice {
        /// The text.
        value: OsString,
    },

    /// A variable of the environment has a value that means nothing, such as a `GPUMAP_THREADS` of `0`.
    #[error("{name} is `{}`: set it to {expected}, or unset it", .value.display())]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: OsString,
        /// What it may be.
        expected: &'static str,
    },

    /// `GPUMAP_DEVICE` requests the CPU, and the program for a GPU.
    #[error(
        "GPUMAP_DEVICE is cpu or checked, and this program needs a GPU: unset it, or set it to auto, cuda or cuda:N"
    )]
    CpuChosen,

    /// The kernels could not be taken from a PTX text.
    #[error("{}: {cause}", ptx_origin(.path.as_ref()))]
    Ptx {
        /// The file, or none for a text that was built in or passed in.
        path: Option<PathBuf>,
        /// What was wrong with it.
        cause: PtxError,
    },

    /// No module loaded on the device has a kernel of this name.
    #[error(
        "no kernel {kernel} in the PTX loaded on the device: rebuild it with `cargo xtask ptx`, or add it with Device::register_ptx"
    )]
    KernelMissing {
        /// The kernel's name.
        kernel: &'static str,
    },

    /// The device cannot run a launch of this shape.
    #[error(
        "{kernel} cannot be launched with {blocks} blocks of {threads} threads and {shared_bytes} bytes of shared memory: the device takes at most {max_blocks}, {max_threads} and {max_shared_bytes}"
    )]
    LaunchShape {
        /// The kernel's name.
        kernel: &'static str,
        /// Blocks requested.
        blocks: u32,
        /// Threads per block requested; none is as wrong as too many.
        threads: u32,
        /// Bytes of dynamic shared memory per block requested.
        shared_bytes: u32,
        /// Most blocks.
        max_blocks: u32,
        /// Most threads per block.
        max_threads: u32,
        /// Most bytes of dynamic shared memory per block.
        max_shared_bytes: u32,
    },

    /// The device, the host or a [memory budget](crate::Device::with_memory_budget) has too
    /// little memory left.
    ///
    /// A batch that stores is refused as a whole: the map has the pairs and the memory that it had
    /// before, and its scratch memory is freed. Its figures are those of the whole batch. With
    /// `needed` bytes free the same batch succeeds, whatever its values are; fewer may do if many of
    /// its keys are equal. `available` is what was free for it, with what it had taken by then.
    /// Anywhere else the figures are of the one allocation that failed.
    #[error(
        "out of memory: {needed} bytes needed, {available} available; use a smaller capacity or batch"
    )]
    OutOfMemory {
        /// Bytes that are needed, more than `available`.
        needed: u64,
        /// Bytes that were free.
        available: u64,
    },

    /// A size does not fit the machine's address range.
    #[error(
        "{elements} elements of {element_bytes} bytes are more than can be addressed; use a smaller capacity"
    )]
    CapacityOverflow {
        /// How many elements.
        elements: usize,
        /// The size of one.
        element_bytes: usize,
    },

    /// Elements need a stricter alignment than page-locked memory has.
    #[error("elements are aligned to {align} bytes, and page-locked memory to {most}: use a Vec")]
    Alignment {
        /// The alignment of an element.
        align: usize,
        /// The alignment of the memory: a page.
        most: usize,
    },

    /// Arrays of a batch that belong together differ in length: as many values as keys are needed, as many
    /// operations as keys, and as many flags as elements of a filter.
    #[error(
        "the arrays of a batch have {keys} and {values} elements: pass arrays of the same length"
    )]
    LengthMismatch {
        /// How many keys, or elements.
        keys: usize,
        /// How many values, operations or flags.
        values: usize,
    },

    /// What runs operations does not run this one, or not in this form.
    #[error(
        "{receiver} has no {operation}{form}: the table in the documentation of gpumap::op says what has it"
    )]
    Unsupported {
        /// The name of the operation, as in [`op`](crate::op).
        operation: &'static str,
        /// The form in which it is lacking, as " with outcomes"; empty if it is in all.
        form: &'static str,
        /// What was to run it.
        receiver: &'static str,
    },

    /// A grouping has no aggregate, or too many.
    #[error("a grouping with {given} aggregates: ask for one to {most}")]
    Aggregates {
        /// How many it has.
        given: usize,
        /// How many it may have.
        most: usize,
    },

    /// A batch asks for other aggregates than the groups have.
    #[error(
        "the batch asks for {given}, and the groups have {expected}: ask for the same in each batch"
    )]
    OtherAggregates {
        /// Those of the groups, in order.
        expected: String,
        /// Those of the batch.
        given: String,
    },

    /// A column of an Arrow record batch does not do, or an Arrow array.
    #[error("{column} {problem}")]
    Column {
        /// Its name, or what it is.
        column: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },

    /// Places for a column of answers have another type.
    #[error("the places for column {column} are of {given}: pass places of {expected}")]
    ColumnType {
        /// Which, from 0.
        column: usize,
        /// The type of the answers.
        expected: &'static str,
        /// The type of the places.
        given: &'static str,
    },

    /// The two sides of a copy differ in length.
    #[error(
        "the two sides of a copy have {needed} and {given} elements: both need the same length"
    )]
    CopyLength {
        /// Elements of the buffer, or of the part of one.
        needed: usize,
        /// Elements of the other side.
        given: usize,
    },

    /// An output has no room for the result.
    #[error("the output has room for {given} elements, and {needed} are needed: pass a longer one")]
    OutputTooSmall {
        /// Elements needed.
        needed: usize,
        /// Elements there was room for.
        given: usize,
    },

    /// A range does not lie inside a buffer.
    #[error(
        "range {start}..{end} is not inside a buffer of {len} elements: choose one inside 0..{len}"
    )]
    OutOfRange {
        /// First element.
        start: usize,
        /// One past the last element.
        end: usize,
        /// Elements in the buffer.
        len: usize,
    },

    /// Pairs of a batch found no room in a map that does not grow.
    ///
    /// The map is as it was before, unless `partial`: that takes thousands of keys that collide
    /// under this map's seed, and then all pairs of the batch but `unplaced` have been stored or
    /// added.
    #[error(
        "the map is full: a batch of {batch} pairs does not fit beside {len} pairs in {slots} slots; {}",
        way_out(.growth.as_deref())
    )]
    Full {
        /// Pairs in the map.
        len: usize,
        /// Slots of the map; of a multimap those of its pool, which any keys can use; of a map with rows how many of these it may
        /// have.
        slots: usize,
        /// Pairs in the batch; of a multimap those that need room.
        batch: usize,
        /// Pairs that found no room, at least: a batch that is refused as a whole is given up
        /// with the first.
        unplaced: usize,
        /// Whether the rest of the batch is in the map all the same.
        partial: bool,
        /// Why a map that may grow did not: [`Error::OutOfMemory`] most likely. None if it may not, if growth
        /// would not help, as with keys that collide, and after calls on streams, which do not grow.
        growth: Option<Box<Self>>,
    },

    /// A saved map cannot be read or written.
    #[error("{}{cause}", file_name(.path.as_ref()))]
    File {
        /// Which file, or none for a reader or writer that was passed in.
        path: Option<PathBuf>,
        /// What was wrong with it.
        cause: FileError,
    },

    /// A call that writes to the map failed on the device half-way, so what the map holds is not
    /// known.
    #[error(
        "an earlier call failed half-way through writing to this map: clear() makes it usable again"
    )]
    Poisoned,

    /// A call would change a map from code that runs while a call of the same thread keeps the map from changing: what was
    /// passed to `for_each_chunk`, `retain` or `launch_with`, or the writer of `save_to`. It would wait for itself. Such code may look
    /// the map up.
    #[error(
        "a change of a map from code that one of the map's own calls runs, as for_each_chunk or launch_with do: look up only there, and make changes when that call has returned"
    )]
    Nested,

    /// What the call needs stayed with the process that this one was forked from: a CUDA device that it had opened, or work
    /// that it had queued, which never ends here.
    #[error(
        "this process was forked, and {lost} stayed with the one before: start processes without a fork (spawn), or open the device and queue the work in the forked one"
    )]
    Forked {
        /// What it is.
        lost: &'static str,
    },

    /// A kernel that a map was lent to was compiled for slots of another kind than the map's. It did
    /// nothing to the map.
    #[error(
        "a kernel that was lent this map was compiled for other slots: register its PTX for {needed}, see Device::register_ptx_pair"
    )]
    WrongSlots {
        /// What its PTX must be for.
        needed: PtxChoice,
    },

    /// A setting of a builder is out of its range.
    #[error("{setting} is {value}: choose from {least} to {most}")]
    Setting {
        /// Which one.
        setting: Setting,
        /// What it was set to.
        value: f64,
        /// The least it may be.
        least: f64,
        /// The most it may be.
        most: f64,
    },

    /// Pairs that a sort or a partition cannot move.
    #[error(
        "a sort or a partition cannot move keys of {key} bytes with values of {value}: keys have 4 or 8 and values 0, 4 or 8, aligned as u32 or u64; move the places of others"
    )]
    PairSize {
        /// Bytes of a key.
        key: usize,
        /// Bytes of a value.
        value: usize,
    },

    /// The range of a histogram has no values, or its width is not finite.
    #[error("no value lies in {start}..{end}: a range from a lower to a higher value is needed")]
    EmptyRange {
        /// About where it starts.
        start: f64,
        /// About where it ends.
        end: f64,
    },

    /// The edges of a histogram are not in ascending order.
    #[error("edge {at} is below the one before, or NaN: sort the edges")]
    UnsortedEdges {
        /// The first edge that is not at least the one before.
        at: usize,
    },

    /// Memory, a stream or an event of one device was used with another.
    #[error(
        "{}: copy it through the host, or create it on the same Device",
        of_another_device(.expected, .found)
    )]
    WrongDevice {
        /// The device that was needed.
        expected: String,
        /// The device it belongs to.
        found: String,
    },

    /// The time of an event that was never recorded was requested.
    #[error("the event was never recorded: call Event::record first")]
    EventNotRecorded,

    /// A stream that was passed in, or whose handle was taken, is being captured into a CUDA graph.
    /// Nothing was queued, and the capture goes on.
    #[error(
        "the stream is being captured into a CUDA graph: end the capture first, or use another stream; Map::graph launches several operations together"
    )]
    StreamIsCaptured,

    /// A call into the CUDA driver failed. An error of a kernel shows up here at the next call
    /// that waits for it, and leaves the device unusable for this process.
    #[error("{call} failed: {code}; {}", remedy_of_driver(*.code))]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// What it returned.
        code: DriverCode,
    },

    /// Something is wrong with a group of ranks, or went wrong between them.
    #[error(transparent)]
    Group(GroupError),

    /// A kernel broke a rule on the [checked executor](crate::Device::checked), or panicked on the CPU.
    #[error("{0}; correct the kernel, or the launch")]
    Kernel(Box<Fault>),
}

impl Error {
    /// Whether a graph capture is why a call was refused: it can be made when the capture has ended.
    pub(crate) fn is_of_capture(&self) -> bool {
        match self {
            Self::StreamIsCaptured => true,
            Self::Driver { code, .. } => code.is_capture(),
            _ => false,
        }
    }

    /// Whether the driver [refused](DriverCode::is_refusal) a call: what was queued before goes on.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Driver { code, .. } if code.is_refusal())
    }
}

/// Whether an output of `given` elements has room for `needed`.
pub(crate) fn expect_room(needed: usize, given: usize) -> Result<()> {
    if needed > given {
        return Err(Error::OutputTooSmall { needed, given });
    }
    Ok(())
}

/// An error unless there are as many values, or whatever goes with keys, as keys.
pub(crate) fn expect_same_len(keys: usize, values: usize) -> Result<()> {
    if keys != values {
        return Err(Error::LengthMismatch { keys, values });
    }
    Ok(())
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            // Nothing was run.
            FaultKind::NoStacks { threads, bytes, .. } => Self::OutOfMemory {
                needed: u64::from(threads) * bytes as u64,
                available: host_memory().map_or(0, |memory| memory.available),
            },
            _ => Self::Kernel(Box::new(fault)),
        }
    }
}

/// What can be done about a full map.
fn way_out(growth: Option<&Error>) -> String {
    growth.map_or_else(
        || "build it with a larger capacity, or let it grow".to_owned(),
        |error| format!("it could not grow: {error}"),
    )
}

fn ptx_origin(path: Option<&PathBuf>) -> String {
    path.map_or_else(
        || "the PTX of the kernels".to_owned(),
        |path| path.display().to_string(),
    )
}

impl From<GroupError> for Error {
    fn from(cause: GroupError) -> Self {
        Self::Group(cause)
    }
}

impl From<FileError> for Error {
    /// Of a file whose name is not known here.
    fn from(cause: FileError) -> Self {
        Self::File { path: None, cause }
    }
}

/// What to do when a call of the driver failed.
fn remedy_of_driver(code: DriverCode) -> &'static str {
    match code.is_refusal() {
        true => "call again when the graph capture or the callback of the driver has ended",
        false => "start the process again; compute-sanitizer finds the kernel if one is wrong",
    }
}

fn file_name(path: Option<&PathBuf>) -> String {
    path.map_or_else(
        || "the saved map: ".to_owned(),
        |path| format!("{}: ", path.display()),
    )
}

/// That something is not of the device that was needed. Devices of one name are distinguished all the
/// same.
fn of_another_device(expected: &str, found: &str) -> String {
    if expected == found {
        format!("this belongs to another {found}")
    } else {
        format!("this belongs to {found}, not to {expected}")
    }
}

/// What was wrong with a PTX text.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PtxError {
    /// The file could not be read.
    #[error("cannot be read: {0}; check GPUMAP_PTX, which takes auto, sm_70, sm_90 or a path")]
    Read(Arc<std::io::Error>),
    /// The text has no PTX header.
    #[error(
        "is not PTX: a text with .version and .target lines, or one compressed by Brotli, is needed"
    )]
    NotPtx,
    /// A kernel does not say how its arguments are laid out, as those do that `kernel!` declares.
    #[error(
        "does not say how the arguments of {kernel} are laid out: it is older than this program, or the kernel was not declared by kernel!; rebuild it with `cargo xtask ptx`"
    )]
    NoLayout {
        /// The kernel.
        kernel: String,
    },
    /// A kernel takes other arguments than this program would pass: the two were built from different
    /// sources.
    #[error(
        "{kernel} takes other arguments than this program passes (layout {found:016x}, not {expected:016x}): rebuild it from the same source, with `cargo xtask ptx`"
    )]
    Layout {
        /// The kernel.
        kernel: String,
        /// The [`signature`](gpumap_simt::layout::signature) that this program has for it.
        expected: u64,
        /// The signature in the text.
        found: u64,
    },
    /// The driver would not compile it for the device.
    #[error(
        "the driver rejected it, {code}: {log}; install a newer driver, or choose other kernels by GPUMAP_PTX"
    )]
    Rejected {
        /// What the driver returned.
        code: DriverCode,
        /// The driver's own words, on one line; may be empty.
        log: String,
    },
}

/// What a driver call returned: a `CUresult`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DriverCode(pub(crate) CUresult);

impl DriverCode {
    /// The number of the code, as `cuda.h` has it.
    pub fn value(self) -> u32 {
        self.0 as u32
    }

    /// Whether the driver refused only this call, and the context works on: the call did nothing, and
    /// work that was queued before goes on. So it is while a graph is being captured (codes 900 to
    /// 908), and in a callback of the driver, where no call is allowed (800).
    ///
    /// After any other code of a wait the context is gone: nothing runs in it any more.
    pub fn is_refusal(self) -> bool {
        self.is_capture() || self.0 == CUresult::CUDA_ERROR_NOT_PERMITTED
    }

    /// Whether it is a refusal because of a graph capture.
    pub(crate) fn is_capture(self) -> bool {
        let first = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as u32;
        let last = CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD as u32;
        (first..=last).contains(&self.value())
    }
}

impl fmt::Display for DriverCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self.0, self.0 as u32)
    }
}

impl fmt::Debug for DriverCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
