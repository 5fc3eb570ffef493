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
