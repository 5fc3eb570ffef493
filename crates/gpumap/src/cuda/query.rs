//! Asking the driver about a device, without a context.

use std::ffi::{CStr, c_char, c_void};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUmemorytype, CUpointer_attribute};

use super::driver::cu;
use crate::device::ComputeCapability;
use crate::error::{Error, Result};

/// One number that the driver knows about a device.
pub(super) fn attribute(device: CUdevice, which: CUdevice_attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: `device` came from the driver, and the place is valid.
    unsafe { cu!(cuDeviceGetAttribute(&mut value, which, device)) }?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// What its hardware can do.
pub(super) fn capability(device: CUdevice) -> Result<ComputeCapability> {
    use CUdevice_attribute as A;
    Ok(ComputeCapability {
        major: attribute(device, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        minor: attribute(device, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    })
}

/// The driver's name of it.
pub(super) fn name(device: CUdevice) -> Result<String> {
    let mut bytes = [0u8; 256];
    // SAFETY: the place has the bytes that are promised; the driver ends the text with NUL.
    unsafe {
        cu!(cuDeviceGetName(
            bytes.as_mut_ptr().cast::<c_char>(),
            256,
            device
        ))
    }?;
    let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

/// Whether the driver knows an address as page-locked memory of the host. To be called while a context is
/// current.
pub(super) fn is_locked(address: *const u8) -> bool {
    let mut which = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let mut kind = 0u32;
    let mut place = (&raw mut kind).cast::<c_void>();
    // The plural: an address that the driver does not know is no error of it, and of no kind.
    // SAFETY: one attribute, which is a number of 32 bits; any address may be passed.
    let asked = unsafe {
        cu!(cuPointerGetAttributes(
            1,
            &raw mut which,
            &raw mut place,
            address.addr() as u64
        ))
    };
    asked.is_ok() && kind == CUmemorytype::CU_MEMORYTYPE_HOST as u32
}

/// An error for a device that the kernels are not built for.
pub(super) fn check_supported(device: CUdevice) -> Result<()> {
    let capability = capability(device)?;
    if capability >= ComputeCapability::OLDEST {
        return Ok(());
    }
    Err(Error::UnsupportedDevice {
        name: name(device)?,
        major: capability.major,
        minor: capability.minor,
    })
}
