//! `--device` and `--ptx`, `GPUMAP_DEVICE` and `GPUMAP_PTX`: what they may say.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};

/// What to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device that works, else the CPU.
    Auto,
    /// The CPU, whatever else there is.
    Cpu,
    /// The first CUDA device that works.
    AnyCuda,
    /// This CUDA device and no other.
    Cuda(usize),
}

/// Why a text is no [`DeviceChoice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown device, use auto, cpu, cuda or cuda:N")]
pub struct UnknownDevice;

impl FromStr for DeviceChoice {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::AnyCuda),
            _ => {
                let ordinal = text.strip_prefix("cuda:").ok_or(UnknownDevice)?;
                // `parse` alone would take a sign.
                if !ordinal.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(UnknownDevice);
                }
                ordinal.parse().map(Self::Cuda).map_err(|_| UnknownDevice)
            }
        }
    }
}

impl DeviceChoice {
    /// What `GPUMAP_DEVICE` asks for.
    pub fn from_variable() -> Result<Self> {
        let Some(value) = variable("GPUMAP_DEVICE") else {
            return Ok(Self::Auto);
        };
        let choice = value.to_str().ok_or(UnknownDevice).and_then(str::parse);
        choice.map_err(|source| Error::DeviceVariable { value, source })
    }
}

/// Devices that work together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceList(pub Vec<DeviceChoice>);

/// Why a text is no [`DeviceList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of devices, use 0,1 or cuda:0,cuda:1 or cpu,cpu")]
pub struct UnknownDevices;

impl FromStr for DeviceList {
    type Err = UnknownDevices;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let one = |name: &str| match name.parse() {
            Ok(choice @ (DeviceChoice::Cpu | DeviceChoice::Cuda(_))) => Ok(choice),
            // A number alone is that of a CUDA device.
            _ => match format!("cuda:{name}").parse() {
                Ok(choice @ DeviceChoice::Cuda(_)) => Ok(choice),
                _ => Err(UnknownDevices),
            },
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Self)
    }
}

/// Which device code to load on a CUDA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PtxChoice {
    /// The newest of the built-in ones that the device takes.
    Auto,
    /// The built-in one for compute capability 7.0 and newer.
    Sm70,
    /// The built-in one for compute capability 9.0 and newer.
    Sm90,
    /// A file.
    File(PathBuf),
}

impl FromStr for PtxChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Self::Auto,
            "sm_70" => Self::Sm70,
            "sm_90" => Self::Sm90,
            _ => Self::File(text.into()),
        })
    }
}

impl PtxChoice {
    /// What `GPUMAP_PTX` asks for.
    pub fn from_variable() -> Self {
        let Some(value) = variable("GPUMAP_PTX") else {
            return Self::Auto;
        };
        match value.to_str().map(str::parse) {
            Some(Ok(choice)) => choice,
            None => Self::File(value.into()),
        }
    }
}

/// A variable of the environment; an empty one is not set, as in the library.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_name() {
        assert_eq!("auto".parse(), Ok(DeviceChoice::Auto));
        assert_eq!("cpu".parse(), Ok(DeviceChoice::Cpu));
        assert_eq!("cuda".parse(), Ok(DeviceChoice::AnyCuda));
        assert_eq!("cuda:12".parse(), Ok(DeviceChoice::Cuda(12)));
        for text in [
            "",
            "gpu",
            "CPU",
            "cuda:",
            "cuda:x",
            "cuda:-1",
            "cuda:+1",
            "cuda:99999999999999999999999",
        ] {
            assert_eq!(text.parse::<DeviceChoice>(), Err(UnknownDevice), "{text:?}");
        }
    }

    #[test]
    fn lists_of_devices() {
        let list = |text: &str| text.parse::<DeviceList>().map(|list| list.0);
        let both = vec![DeviceChoice::Cuda(0), DeviceChoice::Cuda(3)];
        assert_eq!(list("0,3"), Ok(both.clone()));
        assert_eq!(list("cuda:0,3"), Ok(both));
        assert_eq!(list("cpu,cpu"), Ok(vec![DeviceChoice::Cpu; 2]));
        for text in ["", "0,", "auto", "cuda,cuda", "0 1", "-1", "cuda:cuda:0"] {
            assert_eq!(list(text), Err(UnknownDevices), "{text:?}");
        }
    }

    #[test]
    fn device_code_by_name_or_path() {
        assert_eq!("auto".parse(), Ok(PtxChoice::Auto));
        assert_eq!("sm_90".parse(), Ok(PtxChoice::Sm90));
        assert_eq!("sm_80".parse(), Ok(PtxChoice::File("sm_80".into())));
    }
}
