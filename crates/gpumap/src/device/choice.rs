//! What a program or its environment may choose: the device and its kernels.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::{ComputeCapability, MAX_CPU_THREADS};
use crate::cuda::PtxText;
use crate::error::{Error, Result};

/// Which device to take: see [`Device::choose`](super::Device::choose).
///
/// `GPUMAP_DEVICE` names one, and so may an option of your program: it is read from text, and
/// shown as the same.
///
/// ```
/// use gpumap::{Device, DeviceChoice, PtxChoice};
///
/// let wish = std::env::args().nth(1); // of a command line such as `program cuda:1`
/// # let wish = Some("cpu".to_owned());
/// let choice = match wish {
///     Some(text) => text.parse()?,
///     None => DeviceChoice::from_env()?,
/// };
/// let (device, _) = Device::choose(choice, &PtxChoice::from_env()?)?;
/// # assert!(choice == DeviceChoice::Cpu && !device.is_cuda());
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceChoice {
    /// `auto`: the first CUDA device that works, or else the CPU.
    #[default]
    Auto,
    /// `cpu`: the CPU, whatever else there is.
    Cpu,
    /// `checked`: the executor that [checks](super::Device::checked) kernels on the CPU.
    Checked,
    /// `cuda`: the first CUDA device that works.
    AnyCuda,
    /// `cuda:N`: this CUDA device and no other.
    Cuda(usize),
}

impl DeviceChoice {
    /// What `GPUMAP_DEVICE` requests; [`Auto`](Self::Auto) if it is empty or not set.
    ///
    /// # Errors
    /// [`Error::DeviceChoice`].
    pub fn from_env() -> Result<Self> {
        let Some(value) = variable("GPUMAP_DEVICE") else {
            return Ok(Self::Auto);
        };
        let choice = value.to_str().and_then(Self::parse);
        choice.ok_or(Error::DeviceChoice { value })
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "checked" => Some(Self::Checked),
            "cuda" => Some(Self::AnyCuda),
            _ => ordinal(text.strip_prefix("cuda:")?).map(Self::Cuda),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    /// # Errors
    /// [`Error::DeviceChoice`].
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| Error::DeviceChoice { value: text.into() })
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Checked => f.write_str("checked"),
            Self::AnyCuda => f.write_str("cuda"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// How many threads `GPUMAP_THREADS` requests; none if it is empty or not set.
///
/// # Errors
/// [`Error::Variable`].
pub(crate) fn threads() -> Result<Option<usize>> {
    let Some(value) = variable("GPUMAP_THREADS") else {
        return Ok(None);
    };
    match value.to_str().and_then(parse_threads) {
        Some(threads) => Ok(Some(threads)),
        None => Err(Error::Variable {
            name: "GPUMAP_THREADS",
            value,
            expected: "a number of threads, 1 or more",
        }),
    }
}

/// So many threads, but no more than a CPU device has; says so.
pub(super) fn bounded(threads: usize) -> u32 {
    let most = MAX_CPU_THREADS;
    match u32::try_from(threads) {
        Ok(threads) if threads <= most => threads,
        _ => {
            tracing::warn!(threads, "GPUMAP_THREADS is more than {most}: taking {most}");
            most
        }
    }
}

fn parse_threads(text: &str) -> Option<usize> {
    ordinal(text).filter(|&threads| threads > 0)
}

/// The number of a CUDA device.
pub(crate) fn ordinal(text: &str) -> Option<usize> {
    // `parse` alone would take a sign.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Which build of the kernels runs on a CUDA device.
///
/// `GPUMAP_PTX` names one: `auto`, `sm_70`, `sm_90`, or the path of a PTX file. It is read from
/// text, and shown as the same.
///
/// ```
/// use gpumap::PtxChoice;
///
/// assert_eq!("sm_90".parse(), Ok(PtxChoice::Sm90));
/// // Every other text is a path.
/// assert_eq!("mine.ptx".parse(), Ok(PtxChoice::File("mine.ptx".into())));
/// ```
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
    /// What `GPUMAP_PTX` requests; [`Auto`](Self::Auto) if it is empty or not set. A file is
    /// read here, whatever the device turns out to be, so that a path that does not work is an
    /// error everywhere.
    ///
    /// # Errors
    /// [`Error::Ptx`].
    pub fn from_env() -> Result<Self> {
        let choice = variable("GPUMAP_PTX").map_or(Self::Auto, |value| Self::named(&value));
        choice.check()?;
        Ok(choice)
    }

    fn named(value: &OsStr) -> Self {
        match value.to_str() {
            Some("auto") => Self::Auto,
            Some("sm_70") => Self::Sm70,
            Some("sm_90") => Self::Sm90,
            _ => Self::File(value.into()),
        }
    }

    /// An error unless it is built in or a PTX file.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::File(_) => PtxText::of(self).map(drop),
            // To read such a text takes as long as a lookup of a hundred million keys, and it does not change.
            Self::Auto | Self::Sm70 | Self::Sm90 => Ok(()),
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

impl FromStr for PtxChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::named(text.as_ref()))
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
        for (text, right) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("checked", DeviceChoice::Checked),
            ("cuda", DeviceChoice::AnyCuda),
            ("cuda:0", DeviceChoice::Cuda(0)),
            ("cuda:17", DeviceChoice::Cuda(17)),
        ] {
            let choice: DeviceChoice = text.parse().unwrap();
            assert_eq!((choice, choice.to_string().as_str()), (right, text));
        }
        let bad = [
            "",
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
            match text.parse::<DeviceChoice>() {
                Err(Error::DeviceChoice { value }) => assert_eq!(value, text),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn threads_are_parsed() {
        assert_eq!(["1", "64"].map(parse_threads), [Some(1), Some(64)]);
        for text in ["", "0", "-1", "+1", "two", "18446744073709551616"] {
            assert_eq!(parse_threads(text), None, "{text}");
        }
    }

    #[test]
    fn kernels_are_parsed() {
        for (text, right) in [
            ("auto", PtxChoice::Auto),
            ("sm_70", PtxChoice::Sm70),
            ("sm_90", PtxChoice::Sm90),
            ("sm_80", PtxChoice::File("sm_80".into())),
            ("/a/b.ptx", PtxChoice::File("/a/b.ptx".into())),
        ] {
            let choice: PtxChoice = text.parse().unwrap();
            assert_eq!((&choice, choice.to_string().as_str()), (&right, text));
        }
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
