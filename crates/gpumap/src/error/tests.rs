//! What messages say.

use std::io;

use super::*;
use crate::executor::{Config, Schedule};
use crate::{Buffer, Device, Map, Operation, Stream};

/// The messages of an error and of what is behind it.
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
            cause: FileError::Io(denied()),
        },
        Error::from(FileError::NotAMap),
        Error::Ptx {
            path: path(),
            cause: PtxError::Read(denied()),
        },
        Error::Group(GroupError::Empty),
        fault(),
    ];
    for error in &errors {
        let said = chain(error);
        assert_eq!(said.len(), 1, "{said:?}");
    }
    let said = errors[0].to_string();
    assert_eq!(said, "a.file: not for you");
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
    let map = Map::<u32, u32>::new(&Device::cpu()).unwrap();
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

/// Audit finding 7: nothing said which errors are worth another try.
#[test]
fn each_error_says_whether_it_passes() {
    let io = |kind: io::ErrorKind| FileError::Io(kind.into());
    let file = |cause| Error::File { path: None, cause };
    let ptx = |cause| Error::Ptx { path: None, cause };
    let code = DriverCode(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let waited = std::time::Duration::from_secs(120);
    let transient = [
        Error::OutOfMemory {
            needed: 2,
            available: 1,
        },
        file(io(io::ErrorKind::Interrupted)),
        file(io(io::ErrorKind::TimedOut)),
        ptx(PtxError::Read(io::ErrorKind::WouldBlock.into())),
        Error::StreamIsCaptured,
        Error::Driver {
            call: "",
            code: DriverCode(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
        },
    ];
    let lasting = [
        Error::NoDriver,
        Error::DriverTooOld { missing: "" },
        Error::NoDevice {
            ordinal: 1,
            count: 1,
        },
        Error::UnsupportedDevice {
            name: String::new(),
            major: 6,
            minor: 1,
        },
        Error::DeviceChoice {
            value: OsString::new(),
        },
        Error::CpuChosen,
        ptx(PtxError::NotPtx),
        ptx(PtxError::Read(io::ErrorKind::NotFound.into())),
        Error::KernelMissing { kernel: "" },
        Error::LaunchShape {
            kernel: "",
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
        },
        file(FileError::NotAMap),
        file(io(io::ErrorKind::StorageFull)),
        Error::Poisoned,
        Error::WrongSlots {
            needed: PtxChoice::Sm90,
        },
        Setting::Bins.refused(0.0, 1.0..=2.0),
        Error::EmptyRange {
            start: 1.0,
            end: 0.0,
        },
        Error::UnsortedEdges { at: 1 },
        Error::WrongDevice {
            expected: String::new(),
            found: String::new(),
        },
        Error::EventNotRecorded,
        Error::Driver { call: "", code },
        GroupError::Silent { waited }.into(),
        fault(),
    ];
    for error in &transient {
        assert!(error.is_transient(), "{error}");
    }
    for error in &lasting {
        assert!(!error.is_transient(), "{error}");
    }
    let kinds = transient.iter().chain(&lasting).map(std::mem::discriminant);
    let kinds: std::collections::HashSet<_> = kinds.collect();
    // A new one belongs in one of the lists: they have all of them.
    assert_eq!(kinds.len(), 29);
}
