//! Capsules of DLPack, made by hand: two structs of C and a destructor, as in `dlpack.h`. A crate for it would bring
//! tensors of other libraries that are not needed here.

use std::ffi::{CStr, c_void};
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::dtype::Item;

/// Memory of a GPU.
pub const CUDA: i32 = 2;

/// What is handed out.
pub struct Tensor {
    pub at: usize,
    pub len: usize,
    pub item: Item,
    pub device: (i32, i32),
    /// Whether it is the consumer's own.
    pub is_copied: bool,
}

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// What lives as long as a tensor that was handed out.
struct Manager {
    shape: [i64; 2],
    strides: [i64; 2],
    owner: Option<Py<PyAny>>,
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Also called by threads that do not have the interpreter.
        Python::attach(|_| self.owner.take());
    }
}

/// `DLPACK_FLAG_BITMASK_IS_COPIED`.
const IS_COPIED: u64 = 1 << 1;

const NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";

/// A capsule of an array, which its owner keeps. It is of the versioned kind if the consumer takes version 1.
pub fn capsule<'py>(
    owner: Py<PyAny>,
    py: Python<'py>,
    of: Tensor,
    max_version: Option<(u32, u32)>,
) -> PyResult<Bound<'py, PyAny>> {
    let width = of.item.width.unwrap_or(1) as i64;
    let manager = Box::leak(Box::new(Manager {
        shape: [of.len as i64, width],
        strides: [width, 1],
        owner: Some(owner),
    }));
    let tensor = DlTensor {
        data: ptr::with_exposed_provenance_mut(of.at),
        device_type: of.device.0,
        device_id: of.device.1,
        ndim: 1 + i32::from(of.item.width.is_some()),
        code: of.item.dtype.dlpack_code(),
        bits: 8 * of.item.dtype.bytes() as u8,
        lanes: 1,
        shape: manager.shape.as_mut_ptr(),
        strides: manager.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let manager = ptr::from_mut(manager).cast();
    let (pointer, name, destructor): (*mut c_void, _, ffi::PyCapsule_Destructor) =
        if max_version.is_some_and(|(major, _)| major >= 1) {
            let managed = Box::new(Versioned {
                major: 1,
                minor: 0,
                manager,
                deleter: Some(delete_versioned),
                flags: if of.is_copied { IS_COPIED } else { 0 },
                tensor,
            });
            (
                Box::into_raw(managed).cast(),
                VERSIONED_NAME,
                drop_versioned,
            )
        } else {
            let managed = Box::new(Managed {
                tensor,
                manager,
                deleter: Some(delete),
            });
            (Box::into_raw(managed).cast(), NAME, drop_unversioned)
        };
    // SAFETY: the pointer is not null, and the name is static. A consumer renames the capsule and calls the deleter
    // itself; otherwise the destructor does.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// # Safety
/// The tensor was made by [`capsule`], and is deleted once.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: both were boxes.
    unsafe { drop(Box::from_raw((*managed).manager.cast::<Manager>())) };
    // SAFETY: the same.
    unsafe { drop(Box::from_raw(managed)) };
}

/// # Safety
/// The same.
unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: both were boxes.
    unsafe { drop(Box::from_raw((*managed).manager.cast::<Manager>())) };
    // SAFETY: the same.
    unsafe { drop(Box::from_raw(managed)) };
}

/// # Safety
/// Called by Python with a capsule of [`capsule`].
unsafe extern "C" fn drop_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that a consumer took has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

/// # Safety
/// The same.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that a consumer took has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED_NAME.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED_NAME.as_ptr()).cast());
        }
    }
}
