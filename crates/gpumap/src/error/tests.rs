//! What messages say.

use std::io;

use super::*;
use crate::executor::{Config, Schedule};
use crate::file::Kind;
use crate::{Buffer, Device, Map, Operation, Stream};

/// The messages of an error and of its sources.
fn chain(error: &Error) -> Vec<String> {
    let mut said = Vec::new();
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        said.push(error.to_string());
        next = error.source();
    }
    said
}

#[test]
fn causes_are_said_once() {
    let denied = || io::Error::new(io::ErrorKind::PermissionDenied, "not for you");
    let path = || Some(PathBuf::from("a.file"));
    let errors = [
        Error::File {
            path: path(),
            cause: denied().into(),
        },
        Error::from(FileError::NotAMap),
        Error::Ptx {
            path: path(),
            cause: PtxError::Read(denied().into()),
        },
        Error::Group(GroupError::Empty),
        fault(),
    ];
    for error in &errors {
        let said = chain(error);
        assert_eq!(said.len(), 1, "{said:?}");
    }
    let said = errors[0].to_string();
    assert_eq!(
        said,
        "a.file: cannot be read or written: not for you; check the path, its permissions and the free space"
    );
}

/// What a kernel that runs out of steps gives.
fn fault() -> Error {
    let device = Device::cpu_with(Config {
        step_budget: 1,
        ..Config::default()
    });
    let map = Map::<u32, u32>::new(&device).unwrap();
    let error = map.insert(&[1], &[1]).unwrap_err();
    assert!(matches!(error, Error::Kernel(_)), "{error}");
    error
}

#[test]
fn lengths_are_not_called_what_they_are_not() {
    let device = Device::cpu();
    let map = Map::<u32, u32>::new(&device).unwrap();
    let error = map.apply(&[Operation::Get], &[1, 2], &[0, 0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the arrays of a batch have 2 and 1 elements: pass arrays of the same length"
    );
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::from_slice(&stream, &[1u8, 2, 3, 4]).unwrap();
    let error = buffer.copy_to_slice(&mut [0; 3]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the two sides of a copy have 4 and 3 elements: both need the same length"
    );
}

#[test]
fn devices_of_one_name_are_told_apart() {
    let schedule = Schedule::Random { seed: 7 };
    let other = Device::cpu_with(Config {
        schedule,
        ..Config::default()
    });
    let keys = Buffer::from_slice(&Stream::new(&other).unwrap(), &[1u32]).unwrap();
    let map = Map::<u32, u32>::new(&Device::checked()).unwrap();
    let error = map.get(&keys).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this belongs to another CPU executor: copy it through the host, or create it on the same Device"
    );
    let error = Error::WrongDevice {
        expected: "a CUDA device".to_owned(),
        found: other.to_string(),
    };
    assert!(
        error
            .to_string()
            .starts_with("this belongs to CPU executor, not to a CUDA device:")
    );
}

/// One error of each variant at least: those that are worth another try, and the others.
fn of_each_variant() -> [Vec<Error>; 2] {
    let io = |kind: io::ErrorKind| FileError::from(io::Error::from(kind));
    let file = |cause| Error::File { path: None, cause };
    let ptx = |cause| Error::Ptx { path: None, cause };
    let code = DriverCode(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let waited = std::time::Duration::from_secs(120);
    let transient = vec![
        Error::OutOfMemory {
            needed: 2,
            available: 1,
        },
        file(io(io::ErrorKind::Interrupted)),
        file(io(io::ErrorKind::TimedOut)),
        ptx(PtxError::Read(Arc::new(io::ErrorKind::WouldBlock.into()))),
        Error::StreamIsCaptured,
        Error::Driver {
            call: "cuStreamSynchronize",
            code: DriverCode(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
        },
    ];
    let lasting = vec![
        Error::NoDriver,
        Error::DriverTooOld {
            missing: "cuGraphLaunch",
        },
        Error::NoDevice {
            ordinal: 1,
            count: 1,
        },
        Error::UnsupportedDevice {
            name: "an old card".to_owned(),
            major: 6,
            minor: 1,
        },
        Error::DeviceChoice {
            value: "gpu".into(),
        },
        Error::Variable {
            name: "GPUMAP_THREADS",
            value: "0".into(),
            expected: "a number of threads, 1 or more",
        },
        Error::CpuChosen,
        ptx(PtxError::NotPtx),
        ptx(PtxError::Read(Arc::new(io::ErrorKind::NotFound.into()))),
        Error::KernelMissing { kernel: "insert" },
        Error::LaunchShape {
            kernel: "insert",
            blocks: 1,
            threads: 0,
            shared_bytes: 0,
            max_blocks: 1,
            max_threads: 1,
            max_shared_bytes: 0,
        },
        Error::Alignment {
            align: 8_192,
            most: 4_096,
        },
        Error::CapacityOverflow {
            elements: 1,
            element_bytes: 1,
        },
        Error::LengthMismatch { keys: 1, values: 2 },
        Error::CopyLength {
            needed: 1,
            given: 2,
        },
        Error::Aggregates { given: 0, most: 1 },
        Error::OtherAggregates {
            expected: "count".to_owned(),
            given: "sum of f32".to_owned(),
        },
        Error::Column {
            column: "column \"price\"".to_owned(),
            problem: "has 3 nulls: fill or filter them before".to_owned(),
        },
        Error::ColumnType {
            column: 0,
            expected: "u32",
            given: "f32",
        },
        Error::OutputTooSmall {
            needed: 2,
            given: 1,
        },
        Error::OutOfRange {
            start: 0,
            end: 2,
            len: 1,
        },
        Error::Full {
            len: 1,
            slots: 1,
            batch: 1,
            unplaced: 1,
            partial: false,
            growth: None,
        },
        file(FileError::NotAMap),
        file(io(io::ErrorKind::StorageFull)),
        Error::Poisoned,
        Error::Nested,
        Error::Forked { lost: "work" },
        Error::WrongSlots {
            needed: PtxChoice::Sm90,
        },
        Setting::Bins.refused(0.0, 1.0..=2.0),
        Error::PairSize { key: 4, value: 16 },
        Error::EmptyRange {
            start: 1.0,
            end: 0.0,
        },
        Error::UnsortedEdges { at: 1 },
        Error::WrongDevice {
            expected: "CUDA device 0".to_owned(),
            found: "CPU executor".to_owned(),
        },
        Error::EventNotRecorded,
        Error::Driver {
            call: "cuStreamSynchronize",
            code,
        },
        GroupError::Silent { waited }.into(),
        fault(),
    ];
    [transient, lasting]
}

#[test]
fn each_error_says_whether_it_passes() {
    let [transient, lasting] = of_each_variant();
    for error in &transient {
        assert!(error.is_transient(), "{error}");
        assert!(
            matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::Busy),
            "{error}"
        );
    }
    for error in &lasting {
        assert!(!error.is_transient(), "{error}");
    }
    let kinds = transient.iter().chain(&lasting).map(std::mem::discriminant);
    let kinds: std::collections::HashSet<_> = kinds.collect();
    // A new one belongs in one of the lists: they have all of them.
    assert_eq!(kinds.len(), 37);
}

/// What a group, a file and a PTX text can have.
fn causes() -> [Vec<Error>; 3] {
    use GroupError as Group;
    let io = || Arc::new(io::Error::other("no such thing"));
    let text = || "x".to_owned();
    let waited = std::time::Duration::from_secs(120);
    let group = [
        Group::Empty,
        Group::Mixed { rank: 1 },
        Group::SameDevice {
            first: 0,
            second: 1,
        },
        Group::TooMany {
            ranks: 99,
            most: 64,
        },
        Group::NoSuchRank { rank: 2, ranks: 2 },
        Group::DeviceList { text: "x".into() },
        Group::Variable {
            name: "GPUMAP_RANK",
            expected: "a number",
        },
        Group::Failed { rank: 1 },
        Group::Left { rank: 1 },
        Group::Panicked { rank: 1 },
        Group::Predicate { rank: 1 },
        Group::Silent { waited },
        Group::NoThread { cause: io() },
        Group::Ended,
        Group::Nested,
        Group::OutOfStep,
        Group::BatchTooLong { len: 1 << 33 },
        Group::NoPeerAccess { from: 0, to: 1 },
        Group::OtherProcess,
        Group::NoNccl,
        Group::NcclDisabled,
        Group::NcclTooOld {
            missing: "ncclCommInitRankConfig",
        },
        Group::Multicast,
        Group::IdFile {
            path: text().into(),
            cause: io(),
        },
    ];
    let file = [
        FileError::Io(io()),
        FileError::NotAMap,
        FileError::Version { found: 9, known: 2 },
        FileError::ByteOrder,
        FileError::KeySize {
            found: 4,
            expected: 8,
        },
        FileError::ValueSize {
            found: 4,
            expected: 8,
        },
        FileError::KeyType {
            found: Kind::of::<i64>(),
            expected: Kind::of::<u64>(),
            bytes: 8,
        },
        FileError::ValueType {
            found: Kind::of::<[f32; 3]>(),
            expected: Kind::of::<[i32; 3]>(),
            bytes: 12,
        },
        FileError::Field { field: "capacity" },
        FileError::Group {
            rank: 1,
            ranks: 2,
            wanted: 0,
            wanted_ranks: 3,
        },
        FileError::Moment,
        FileError::Slots {
            slots: 9,
            pairs: 1,
            most: 2,
        },
        FileError::BlockSize {
            block: 1,
            pairs: 9,
            most: 8,
        },
        FileError::Checksum {
            part: crate::file::FilePart::Block(3),
        },
        FileError::Pairs {
            found: 1,
            expected: 2,
        },
        FileError::Truncated { bytes: 5 },
        FileError::TrailingBytes { at: 5 },
    ];
    let ptx = [
        PtxError::Read(io()),
        PtxError::NotPtx,
        PtxError::NoLayout { kernel: text() },
        PtxError::Layout {
            kernel: text(),
            expected: 1,
            found: 2,
        },
        PtxError::Rejected {
            code: DriverCode(CUresult::CUDA_ERROR_INVALID_PTX),
            log: text(),
        },
    ];
    [
        group.map(Error::from).into(),
        file.map(Error::from).into(),
        ptx.map(|cause| Error::Ptx { path: None, cause }).into(),
    ]
}

/// The parts of a text that say what to do begin after a colon or a semicolon.
#[test]
fn each_text_says_what_happened_and_what_to_do() {
    let errors = of_each_variant().into_iter().chain(causes()).flatten();
    for error in errors {
        let said = error.to_string();
        println!("{:?}: {said}", error.kind());
        let cut = said
            .rfind(": ")
            .max(said.rfind("; "))
            .unwrap_or(said.len() - 1);
        let rest = &said[cut + 1..];
        let words = rest.split_whitespace().count();
        assert!(words > 1, "no remedy: {said}");
        assert!(!said.contains('\n') && !said.contains("  "), "{said}");
        assert!(!said.ends_with('.'), "{said}");
        assert_eq!(error.clone().to_string(), said);
        assert_eq!(chain(&error).len(), 1, "{said}");
    }
}
