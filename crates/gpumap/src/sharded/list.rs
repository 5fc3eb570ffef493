//! Lists of devices, as `GPUMAP_DEVICES` and command lines have them.

use std::ffi::OsStr;

use super::error::GroupError;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::executor::Config;

/// The devices of a list such as `cuda:0,cuda:1`, shorter `0,1`; or `cpu,cpu`, each an executor of its
/// own.
///
/// ```
/// use gpumap::sharded::devices;
///
/// let two = devices("cpu,cpu")?;
/// assert!(two.len() == 2 && two[0] != two[1]);
/// assert!(devices("cpu,gpu").is_err());
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Errors
/// [`GroupError::DeviceList`]; those of [`Device::cuda`].
pub fn devices(list: impl AsRef<OsStr>) -> Result<Vec<Device>> {
    let list = list.as_ref();
    let unknown = || {
        Error::Group(GroupError::DeviceList {
            text: list.to_owned(),
        })
    };
    let text = list.to_str().ok_or_else(unknown)?;
    let device = |name: &str| match name {
        "cpu" => Ok(Device::cpu_with(Config::default())),
        _ => {
            let number = name.strip_prefix("cuda:").unwrap_or(name);
            // `parse` alone would take a sign.
            if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(unknown());
            }
            Device::cuda(number.parse().map_err(|_| unknown())?)
        }
    };
    text.split(',').map(device).collect()
}

/// The devices that `GPUMAP_DEVICES` asks for; none if it is not set.
///
/// # Errors
/// As for [`devices`].
pub fn devices_from_env() -> Result<Option<Vec<Device>>> {
    let list = std::env::var_os("GPUMAP_DEVICES").filter(|list| !list.is_empty());
    list.map(devices).transpose()
}
