//! NCCL's functions, loaded when the first group of several GPUs is made.
//!
//! The types are those of `cudarc`'s bindings. Its functions are not used: they look for `libnccl.so`,
//! which neither the run-time packages of distributions nor pip's have, and panic if it is not there.

use std::ffi::{OsString, c_int, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclUniqueId};

use crate::device::variable;
use crate::error::{Error, Result};
use crate::raw::CUstream;
use crate::sharded::error::{GroupError, NcclCode};

/// What a function returns: an `ncclResult_t`, as a number, since newer libraries have more of them.
pub(super) type Code = u32;

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $name:literal: fn($($arg:ty),* $(,)?);)*) => {
        /// NCCL's functions.
        pub(super) struct Library {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($arg),*) -> Code,)*
            /// Keeps them valid. Tests have functions of their own.
            pub _library: Option<libloading::Library>,
        }

        impl Library {
            /// # Safety
            /// The library is NCCL.
            unsafe fn of(library: libloading::Library) -> Result<Self, Absent> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the types are those of nccl.h.
                        let function = unsafe { library.get($name.as_bytes()) };
                        *function.map_err(|_| Absent::Function($name))?
                    },)*
                    _library: Some(library),
                })
            }
        }
    };
}

functions! {
    /// A new id of a group.
    get_unique_id = "ncclGetUniqueId": fn(*mut ncclUniqueId);
    /// Joins a group.
    init = "ncclCommInitRankConfig": fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t);
    /// How far it has come.
    async_error = "ncclCommGetAsyncError": fn(ncclComm_t, *mut Code);
    /// Ends what is queued; all ranks call it.
    finalize = "ncclCommFinalize": fn(ncclComm_t);
    /// Frees it after that.
    destroy = "ncclCommDestroy": fn(ncclComm_t);
    /// Frees it at once.
    abort = "ncclCommAbort": fn(ncclComm_t);
    /// Begins to collect calls.
    group_start = "ncclGroupStart": fn();
    /// Queues them as one.
    group_end = "ncclGroupEnd": fn();
    /// Sends bytes.
    send = "ncclSend": fn(*const c_void, usize, c_int, c_int, ncclComm_t, CUstream);
    /// Receives bytes.
    receive = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, ncclComm_t, CUstream);
    /// Sums over all ranks.
    all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream);
    /// What all ranks have.
    all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, ncclComm_t, CUstream);
}

/// Why there is no NCCL.
#[derive(Clone, Copy, Debug)]
enum Absent {
    Library,
    Function(&'static str),
}

/// NCCL, loaded once per process, if multicast is off.
pub(super) fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Result<Library, Absent>> = OnceLock::new();
    let library = LIBRARY.get_or_init(load).as_ref();
    let library = library.map_err(|absent| {
        Error::Group(match absent {
            Absent::Library => GroupError::NoNccl,
            Absent::Function(missing) => GroupError::NcclTooOld { missing },
        })
    })?;
    // A program that uses it can put GPUs out of service that others share. NCCL reads the variable
    // when a group is made, and has no other way to say it.
    if std::env::var_os("NCCL_NVLS_ENABLE").is_none_or(|value| value != "0") {
        return Err(Error::Group(GroupError::Multicast));
    }
    Ok(library)
}

fn load() -> Result<Library, Absent> {
    let candidates = match variable("GPUMAP_NCCL") {
        Some(path) => vec![path],
        None => ["libnccl.so.2", "libnccl.so"].map(OsString::from).to_vec(),
    };
    for name in candidates {
        // SAFETY: NCCL's initialisers may run at any time.
        match unsafe { libloading::Library::new(&name) } {
            // SAFETY: a library of this name, or that was named as NCCL.
            Ok(library) => return unsafe { Library::of(library) },
            Err(error) => tracing::debug!(?name, %error, "no NCCL here"),
        }
    }
    Err(Absent::Library)
}

/// The code of a call as a result; one that is still in progress is well.
pub(super) fn check(call: &'static str, code: Code) -> Result<()> {
    const SUCCESS: Code = 0;
    match code {
        SUCCESS | IN_PROGRESS => Ok(()),
        code => Err(Error::Group(GroupError::Nccl {
            call,
            code: NcclCode(code),
        })),
    }
}

/// What calls return that go on by themselves.
pub(super) const IN_PROGRESS: Code = 7;
