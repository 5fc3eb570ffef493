//! Host memory and sizes.

use super::*;
use crate::device::Device;
use crate::error::DriverCode;

#[test]
fn host_memory_is_zeroed_and_page_aligned() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    for bytes in [1, 127, 4096, 100_000] {
        let memory = Memory::new(&stream, bytes).unwrap();
        assert_eq!(memory.ptr().align_offset(HOST_ALIGN), 0);
        // SAFETY: on the CPU device memory is host memory of `bytes` zeroed bytes.
        let all = unsafe { std::slice::from_raw_parts(memory.ptr(), bytes) };
        assert!(all.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn sizes_that_cannot_be_are_errors() {
    assert_eq!(bytes_of::<u64>(3).unwrap(), 24);
    for len in [usize::MAX, usize::MAX / 8 + 1, isize::MAX as usize / 8] {
        let error = bytes_of::<u64>(len).unwrap_err();
        let Error::CapacityOverflow {
            elements,
            element_bytes: 8,
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(elements, len);
    }
}

#[test]
fn more_than_the_host_has_is_an_error() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    let bytes = isize::MAX as usize / 2;
    let error = Memory::new(&stream, bytes).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { needed, .. } if needed == bytes as u64),
        "{error}"
    );
    assert!(matches!(
        host_vec::<u8>(bytes),
        Err(Error::OutOfMemory { .. })
    ));
    assert_eq!(stream.device().allocated_bytes(), 0);
}

#[test]
fn memory_that_cannot_be_locked_is_memory_that_is_missing() {
    let says = |code| Error::Driver {
        call: "cuMemHostAlloc",
        code: DriverCode(code),
    };
    let refused = or_host_is_full(says(CUresult::CUDA_ERROR_OUT_OF_MEMORY), 80);
    assert!(
        matches!(refused, Error::OutOfMemory { needed: 80, .. }),
        "{refused}"
    );
    let other = or_host_is_full(says(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS), 80);
    assert!(matches!(other, Error::Driver { .. }), "{other}");
}
