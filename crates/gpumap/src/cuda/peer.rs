//! Memory of one device in the kernels of another.

use cudarc::driver::sys::{CUdevice, CUmemAccessDesc, CUresult};

use super::context::Context;
use super::driver::{check, cu};
use crate::error::{Error, Result};
use crate::sharded::GroupError;

/// Lets kernels of `user` reach the memory of `owner`: what is allocated at once, and what comes from
/// the pool.
pub(crate) fn allow_peer(user: &Context, owner: &Context) -> Result<()> {
    if user.handle() == owner.handle() {
        return Ok(());
    }
    let current = user.enter()?;
    let mut can = 0;
    // SAFETY: the place is valid, both devices came from the driver.
    unsafe {
        cu!(cuDeviceCanAccessPeer(
            &mut can,
            user.device(),
            owner.device()
        ))
    }?;
    let no_access = Error::Group(GroupError::NoPeerAccess {
        from: user.ordinal,
        to: owner.ordinal,
    });
    if can == 0 {
        return Err(no_access);
    }
    // SAFETY: a context is current and the other is alive; flags must be 0.
    match unsafe { cudarc::driver::sys::cuCtxEnablePeerAccess(owner.handle(), 0) } {
        CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
        CUresult::CUDA_ERROR_TOO_MANY_PEERS => return Err(no_access),
        code => check("cuCtxEnablePeerAccess", code)?,
    }
    drop(current);
    let Some(pool) = owner.pool() else {
        return Ok(());
    };
    const ON_DEVICE: u32 = 1;
    const READ_AND_WRITE: u32 = 3;
    let access = Access {
        kind: ON_DEVICE,
        device: user.device(),
        flags: READ_AND_WRITE,
    };
    let _current = owner.enter()?;
    // SAFETY: the pool lives as long as the process; one description, of the driver's layout, is read.
    unsafe { cu!(cuMemPoolSetAccess(pool, (&raw const access).cast(), 1)) }
}

/// A `CUmemAccessDesc`: which device may access memory, and how. In bindings of newer versions of
/// CUDA the number of the device is in a union.
#[repr(C)]
struct Access {
    kind: u32,
    device: CUdevice,
    flags: u32,
}
const _: () = assert!(size_of::<Access>() == size_of::<CUmemAccessDesc>());
