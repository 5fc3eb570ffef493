//! Lists of devices, as `GPUMAP_DEVICES` and command lines have them.

use std::ffi::OsStr;

use super::error::GroupError;
use crate::device::{Device, DeviceChoice, PtxChoice, ordinal, threads, variable};
use crate::error::Result;
use crate::executor::Config;

/// The devices of a list such as `cuda:0,cuda:1`, shorter `0,1`; or `cpu,cpu`, each with a
/// share of the CPU's threads, or `checked,checked`. `GPUMAP_PTX` chooses the kernels, see [`PtxChoice`].
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
/// [`GroupError::DeviceList`]; those of [`open_devices`].
pub fn devices(list: impl AsRef<OsStr>) -> Result<Vec<Device>> {
    let choices = parse_devices(list)?;
    open_devices(&choices, &PtxChoice::from_env()?)
}

/// The devices that `GPUMAP_DEVICES` requests; none if it is empty or not set.
///
/// # Errors
/// As for [`devices`].
pub fn devices_from_env() -> Result<Option<Vec<Device>>> {
    variable("GPUMAP_DEVICES").map(devices).transpose()
}

/// What a list requests, as [`devices`] takes it, with nothing opened yet: for programs with an option
/// that is such a list.
///
/// ```
/// use gpumap::DeviceChoice;
/// use gpumap::sharded::parse_devices;
///
/// let both = [DeviceChoice::Cuda(0), DeviceChoice::Cuda(3)];
/// assert_eq!(parse_devices("cuda:0,3")?, both);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Errors
/// [`GroupError::DeviceList`], also for `auto` and for `cuda` without a number: a list says which.
pub fn parse_devices(list: impl AsRef<OsStr>) -> Result<Vec<DeviceChoice>> {
    let list = list.as_ref();
    let choice = |name: &str| match name {
        "cpu" => Some(DeviceChoice::Cpu),
        "checked" => Some(DeviceChoice::Checked),
        _ => ordinal(name.strip_prefix("cuda:").unwrap_or(name)).map(DeviceChoice::Cuda),
    };
    let choices = list.to_str().map(|text| text.split(',').map(choice));
    choices
        .and_then(Iterator::collect)
        .ok_or_else(|| GroupError::DeviceList { text: list.into() }.into())
}

/// Opens devices for a group, with these kernels. Each [`DeviceChoice::Cpu`] is a device of its own with a share of
/// the CPU's threads, each [`DeviceChoice::Checked`] an executor of its own.
///
/// ```
/// use gpumap::sharded::{Ranks, open_devices};
/// use gpumap::{DeviceChoice, PtxChoice};
///
/// let two = open_devices(&[DeviceChoice::Cpu; 2], &PtxChoice::Auto)?;
/// assert_eq!(Ranks::new(&two)?.len(), 2);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Errors
/// As for [`Device::choose`].
pub fn open_devices(choices: &[DeviceChoice], ptx: &PtxChoice) -> Result<Vec<Device>> {
    ptx.check()?;
    threads()?;
    let of_cpu = choices
        .iter()
        .filter(|&&choice| choice == DeviceChoice::Cpu)
        .count() as u32;
    // Asked only where there is one: a program on GPUs alone makes no executor.
    let share = || Device::cpu().multiprocessors() / of_cpu;
    let open = |&choice: &DeviceChoice| match choice {
        DeviceChoice::Cpu => Ok(Device::cpu_with_threads(share())),
        DeviceChoice::Checked => Ok(Device::cpu_with(Config::default())),
        _ => Device::choose(choice, ptx).map(|(device, _)| device),
    };
    choices.iter().map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn lists_are_parsed() {
        let both = [DeviceChoice::Cuda(0), DeviceChoice::Cuda(3)];
        assert_eq!(parse_devices("0,3").unwrap(), both);
        assert_eq!(parse_devices("cuda:0,3").unwrap(), both);
        let cpu = [DeviceChoice::Cpu, DeviceChoice::Checked];
        assert_eq!(parse_devices("cpu,checked").unwrap(), cpu);
        let bad = [
            "",
            "0,",
            ",0",
            "auto",
            "cuda,cuda",
            "0 1",
            "0, 1",
            "-1",
            "+1",
            "cuda:cuda:0",
        ];
        for list in bad {
            match parse_devices(list) {
                Err(Error::Group(GroupError::DeviceList { text })) => assert_eq!(text, list),
                other => panic!("{list}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_file_that_is_no_ptx_is_an_error_for_the_cpu_too() {
        let missing = PtxChoice::File("/no/such.ptx".into());
        let error = open_devices(&[DeviceChoice::Cpu], &missing).unwrap_err();
        assert!(matches!(error, Error::Ptx { .. }), "{error}");
    }
}
