//! NVIDIA's assembler, `ptxas`: gets it into a virtual environment, runs it, and reads what it
//! says about each kernel. It needs no GPU.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::process::capture;
use crate::wheel::Wheel;
use crate::workspace::Workspace;

/// Names a `ptxas` to use instead of that of [`NEWEST`].
const PTXAS_VARIABLE: &str = "GPUMAP_PTXAS";

/// `nvvm` is what nvcc depends on.
pub const NEWEST: Wheel = Wheel {
    packages: &["nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88"],
    folder: "ptxas-venv",
    program: "nvidia/cu13/bin/ptxas",
};

/// That of the oldest driver that is supported. CUDA 13 no longer assembles for sm_70.
pub const OLDEST: Wheel = Wheel {
    packages: &["nvidia-cuda-nvcc-cu12==12.3.107"],
    folder: "ptxas-venv-12.3",
    program: "nvidia/cuda_nvcc/bin/ptxas",
};

/// What the PTX for an architecture is assembled for, and by which release: that architecture itself,
/// and what most of the GPUs are that run the PTX although they are newer.
pub fn targets(arch: Arch) -> &'static [(Wheel, &'static str)] {
    match arch {
        Arch::Sm70 => &[(OLDEST, "sm_70"), (NEWEST, "sm_80")],
        Arch::Sm90 => &[(NEWEST, "sm_90")],
    }
}

/// The assembler.
pub struct Ptxas {
    path: PathBuf,
    /// The release, as it names itself.
    pub version: String,
}

/// What the assembler says about one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of static shared memory of a block.
    pub shared: u32,
    /// Bytes of stack of a thread.
    pub stack: u32,
    /// Bytes of register spills, stores and loads together.
    pub spills: u32,
    /// Bytes of local memory besides the stack.
    pub local: u32,
}

impl Usage {
    /// Bytes of a thread that are not in registers.
    pub fn outside(&self) -> u32 {
        self.stack + self.spills + self.local
    }
}

impl Ptxas {
    /// A release, which is installed at its first use; `GPUMAP_PTXAS` stands in for the newest.
    pub fn find(workspace: &Workspace, release: &Wheel) -> Result<Self> {
        let path = match env::var_os(PTXAS_VARIABLE) {
            Some(path) if *release == NEWEST => PathBuf::from(path),
            _ => release.install(workspace)?,
        };
        let output = capture(Command::new(&path).arg("--version"))?;
        Ok(Ptxas {
            version: version(&String::from_utf8_lossy(&output.stdout)),
            path,
        })
    }

    /// Assembles the file at `ptx` for `gpu`: each kernel's usage, and any warnings.
    pub fn assemble(
        &self,
        ptx: &Path,
        gpu: &str,
    ) -> Result<(BTreeMap<String, Usage>, Vec<String>)> {
        let mut command = Command::new(&self.path);
        command
            .args(["-v", "-arch", gpu, "-o", "/dev/null"])
            .arg(ptx);
        let output = capture(&mut command)?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        Ok((usages(&text)?, warnings(&text)))
    }
}

fn version(text: &str) -> String {
    text.lines()
        .find_map(|line| line.strip_prefix("Cuda compilation tools, "))
        .map_or_else(
            || "ptxas of an unknown release".to_owned(),
            |v| format!("ptxas {v}"),
        )
}

fn warnings(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.contains("warning"))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Reads the report of `ptxas -v`. Device functions are left out: only kernels may exist, and
/// the lint says so itself.
fn usages(text: &str) -> Result<BTreeMap<String, Usage>> {
    let mut kernels: BTreeMap<String, Usage> = BTreeMap::new();
    // Which kernel the next "Used" line is about, and which function the next property line is.
    let mut compiling: Option<String> = None;
    let mut properties: Option<String> = None;
    for line in text.lines() {
        if let Some(rest) = after(line, "Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            kernels.entry(name.clone()).or_default();
            compiling = Some(name);
        } else if let Some(name) = after(line, "Function properties for ") {
            properties = Some(name.trim().to_owned());
        } else if line.contains("bytes stack frame") {
            let kernel = properties.take().and_then(|name| kernels.get_mut(&name));
            if let Some(usage) = kernel {
                usage.stack = number_before(line, " bytes stack frame")?;
                usage.spills = number_before(line, " bytes spill stores")?
                    + number_before(line, " bytes spill loads")?;
            }
        } else if line.contains(": Used ") {
            let kernel = compiling.take().and_then(|name| kernels.get_mut(&name));
            if let Some(usage) = kernel {
                usage.registers = number_before(line, " registers")?;
                usage.shared = number_before(line, " bytes smem")?;
                usage.local = number_before(line, " bytes lmem")?;
                // Of the callees too, where there are any.
                let cumulative = number_before(line, " bytes cumulative stack size")?;
                usage.stack = usage.stack.max(cumulative);
            }
        }
    }
    Ok(kernels)
}

fn after<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    line.split_once(marker).map(|(_, rest)| rest)
}

/// The number in front of `unit`, 0 when the line does not have that unit.
fn number_before(line: &str, unit: &str) -> Result<u32> {
    let Some((before, _)) = line.split_once(unit) else {
        return Ok(0);
    };
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
    digits
        .and_then(|digits| digits.parse().ok())
        .with_context(|| format!("no number before `{}` in ptxas's line: {line}", unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_clean_report() {
        let usages = usages(include_str!("../samples/collect.ptxas")).unwrap();
        let clean = Usage {
            registers: 8,
            ..Usage::default()
        };
        assert_eq!(usages.len(), 2);
        assert_eq!(usages["collect"], clean);
        assert_eq!(usages["increment"], clean);
    }

    #[test]
    fn a_captured_report_with_a_stack() {
        let usages = usages(include_str!("../samples/panics.ptxas")).unwrap();
        assert_eq!(usages.len(), 1, "device functions are not kernels");
        assert_eq!(
            usages["bad"],
            Usage {
                registers: 16,
                stack: 256,
                ..Usage::default()
            }
        );
    }

    #[test]
    fn a_captured_report_with_spills_and_shared_memory() {
        let usages = usages(include_str!("../samples/spills.ptxas")).unwrap();
        let usage = &usages["spills"];
        assert!(usage.spills > 0 && usage.stack > 0, "{usage:?}");
        assert_eq!(usage.shared, 4096);
    }

    #[test]
    fn odd_lines() {
        assert_eq!(
            number_before("Used 8 registers, used 1 barriers", " bytes smem").unwrap(),
            0
        );
        assert!(number_before("Used many registers", " registers").is_err());
        assert_eq!(
            version("Cuda compilation tools, release 13.0, V13.0.88"),
            "ptxas release 13.0, V13.0.88"
        );
    }
}
