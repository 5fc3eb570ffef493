//! What the environment may choose: the device and its kernels.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use super::ComputeCapability;
use crate::cuda::PtxText;
use crate::error::{Error, Result};

/// Which device `GPUMAP_DEVICE` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceChoice {
    /// Not set: the first CUDA device that works, else the CPU.
    Auto,
    /// `cpu`.
    Cpu,
    /// `cuda`: the first that works.
    AnyCuda,
    /// `cuda:N`.
    Cuda(usize),
}

impl DeviceChoice {
    pub(super) fn from_env() -> Result<Self> {
        Self::parse(variable("GPUMAP_DEVICE").as_deref())
    }

    pub(super) fn parse(value: Option<&OsStr>) -> Result<Self> {
        let Some(value) = value else {
            return Ok(Self::Auto);
        };
        let unknown = || Error::DeviceChoice {
            value: value.to_owned(),
        };
        match value.to_str().ok_or_else(unknown)? {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::AnyCuda),
            text => {
                let number = text.strip_prefix("cuda:").ok_or_else(unknown)?;
                // `parse` alone would take a sign.
                if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(unknown());
                }
                number.parse().map(Self::Cuda).map_err(|_| unknown())
            }
        }
    }
}

/// Which build of the kernels runs on a CUDA device.
///
/// `GPUMAP_PTX` names one: `auto`, `sm_70`, `sm_90`, or the path of a PTX file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PtxChoice {
    /// By compute capability: the newest of the built-in ones that the device can run.
    #[default]
    Auto,
    /// The built-in one for compute capability 7.0 and newer.
    Sm70,
    /// The built-in one for compute capability 9.0 and newer.
    Sm90,
    /// A file, for kernels under development.
    File(PathBuf),
}

impl PtxChoice {
    /// What `GPUMAP_PTX` asks for. A file is read here, whatever the device turns out to be, so
    /// that a path that does not work is an error everywhere.
    pub(super) fn from_env() -> Result<Self> {
        let choice = Self::parse(variable("GPUMAP_PTX").as_deref());
        PtxText::of(&choice)?;
        Ok(choice)
    }

    /// Every text that is not one of the names is a path.
    pub(super) fn parse(value: Option<&OsStr>) -> Self {
        let Some(value) = value else {
            return Self::Auto;
        };
        match value.to_str() {
            Some("auto") => Self::Auto,
            Some("sm_70") => Self::Sm70,
            Some("sm_90") => Self::Sm90,
            _ => Self::File(value.into()),
        }
    }

    /// What `Auto` means for a device.
    pub(crate) fn for_capability(capability: ComputeCapability) -> Self {
        if capability.major >= 9 {
            Self::Sm90
        } else {
            Self::Sm70
        }
    }
}

impl fmt::Display for PtxChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Sm70 => f.write_str("sm_70"),
            Self::Sm90 => f.write_str("sm_90"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// A variable of the environment; empty counts as not set, as shells have it.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_parsed() {
        let parse = |text: &str| DeviceChoice::parse(Some(text.as_ref()));
        assert_eq!(DeviceChoice::parse(None).unwrap(), DeviceChoice::Auto);
        assert_eq!(parse("cpu").unwrap(), DeviceChoice::Cpu);
        assert_eq!(parse("cuda").unwrap(), DeviceChoice::AnyCuda);
        assert_eq!(parse("cuda:0").unwrap(), DeviceChoice::Cuda(0));
        assert_eq!(parse("cuda:17").unwrap(), DeviceChoice::Cuda(17));
        let bad = [
            "gpu",
            "CPU",
            "cuda:",
            "cuda:x",
            "cuda:-1",
            "cuda:+1",
            "cuda:1 ",
            "cuda0",
            "cuda:99999999999999999999999",
        ];
        for text in bad {
            match parse(text) {
                Err(Error::DeviceChoice { value }) => assert_eq!(value, text),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn kernels_are_parsed() {
        let parse = |text: &str| PtxChoice::parse(Some(text.as_ref()));
        assert_eq!(PtxChoice::parse(None), PtxChoice::Auto);
        assert_eq!(parse("auto"), PtxChoice::Auto);
        assert_eq!(parse("sm_70"), PtxChoice::Sm70);
        assert_eq!(parse("sm_90"), PtxChoice::Sm90);
        assert_eq!(parse("sm_80"), PtxChoice::File("sm_80".into()));
        assert_eq!(parse("/a/b.ptx").to_string(), "/a/b.ptx");
    }

    #[test]
    fn kernels_follow_the_capability() {
        let of = |major, minor| PtxChoice::for_capability(ComputeCapability { major, minor });
        assert_eq!(of(7, 0), PtxChoice::Sm70);
        assert_eq!(of(8, 9), PtxChoice::Sm70);
        assert_eq!(of(9, 0), PtxChoice::Sm90);
        assert_eq!(of(12, 0), PtxChoice::Sm90);
    }
}
