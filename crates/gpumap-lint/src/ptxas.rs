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

/// Names a `ptxas` to use instead of the newest release.
const PTXAS_VARIABLE: &str = "GPUMAP_PTXAS";

/// A GPU that PTX is assembled for.
#[derive(Debug, PartialEq, Eq)]
pub struct Gpu {
    /// As the assembler knows it.
    pub name: &'static str,
    /// Its compute capability, times ten.
    capability: u32,
    /// Threads that a multiprocessor has room for.
    pub threads: u32,
}

const fn gpu(name: &'static str, capability: u32, threads: u32) -> Gpu {
    Gpu {
        name,
        capability,
        threads,
    }
}

/// Registers of a multiprocessor of each of them.
pub const REGISTERS: u32 = 65_536;

/// Volta, Turing, Ampere (A100, GeForce), Ada, Hopper, Blackwell (B200, B300, GeForce).
pub const GPUS: [Gpu; 9] = [
    gpu("sm_70", 70, 2048),
    gpu("sm_75", 75, 1024),
    gpu("sm_80", 80, 2048),
    gpu("sm_86", 86, 1536),
    gpu("sm_89", 89, 1536),
    gpu("sm_90", 90, 2048),
    gpu("sm_100", 100, 2048),
    gpu("sm_103", 103, 2048),
    gpu("sm_120", 120, 1536),
];

/// A release of the assembler. Drivers have the one of the CUDA that they are of.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// That of CUDA.
    pub name: &'static str,
    wheel: Wheel,
    /// The compute capabilities that it knows.
    knows: (u32, u32),
    /// The GPUs that a change is checked for; the others are those of `--all`.
    each_time: &'static [&'static str],
}

impl Release {
    fn is_newest(&self) -> bool {
        *self == RELEASES[RELEASES.len() - 1]
    }
}

// Alone: the other packages of a toolkit, which these depend on, are not run.
const ALONE: &str = "--no-deps";

/// From that of the oldest driver that is supported to the newest.
pub const RELEASES: [Release; 4] = [
    Release {
        name: "12.3",
        wheel: Wheel {
            packages: &[ALONE, "nvidia-cuda-nvcc-cu12==12.3.107"],
            folder: "ptxas-12.3",
            program: "nvidia/cuda_nvcc/bin/ptxas",
        },
        knows: (70, 90),
        each_time: &["sm_70", "sm_90"],
    },
    Release {
        name: "12.9",
        wheel: Wheel {
            packages: &[ALONE, "nvidia-cuda-nvcc-cu12==12.9.86"],
            folder: "ptxas-12.9",
            program: "nvidia/cuda_nvcc/bin/ptxas",
        },
        knows: (70, 120),
        each_time: &[],
    },
    Release {
        name: "13.0",
        wheel: Wheel {
            packages: &[ALONE, "nvidia-cuda-nvcc==13.0.88"],
            folder: "ptxas-13.0",
            program: "nvidia/cu13/bin/ptxas",
        },
        knows: (75, 120),
        each_time: &[],
    },
    Release {
        name: "13.5",
        wheel: Wheel {
            packages: &[ALONE, "nvidia-cuda-nvcc==13.5.37"],
            folder: "ptxas-13.5",
            program: "nvidia/cu13/bin/ptxas",
        },
        knows: (75, 120),
        each_time: &["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"],
    },
];

/// What PTX for `arch` is assembled for, and by which release: every GPU from that architecture on that has no text
/// of its own among `texts`; of all releases, or those that a change is checked with.
pub fn targets(
    arch: Arch,
    texts: &[Arch],
    all: bool,
) -> impl Iterator<Item = (&'static Release, &'static Gpu)> {
    let newer = texts.iter().filter(|&&other| other > arch).min();
    let end = newer.map_or(u32::MAX, |next| next.capability());
    let has = move |gpu: &Gpu| (arch.capability()..end).contains(&gpu.capability);
    // Those that take longest come first.
    RELEASES.iter().rev().flat_map(move |release| {
        GPUS.iter()
            .rev()
            .filter(move |gpu| has(gpu))
            .filter(|gpu| (release.knows.0..=release.knows.1).contains(&gpu.capability))
            .filter(move |gpu| all || release.each_time.contains(&gpu.name))
            .map(move |gpu| (release, gpu))
    })
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
    /// A release, which is installed into the folder `tools` at its first use; `GPUMAP_PTXAS` stands in for the newest.
    pub fn find(tools: &Path, release: &Release) -> Result<Self> {
        let path = match env::var_os(PTXAS_VARIABLE) {
            Some(path) if release.is_newest() => PathBuf::from(path),
            _ => release.wheel.install(tools)?,
        };
        let output = capture(Command::new(&path).arg("--version"))?;
        Ok(Ptxas {
            version: version(&String::from_utf8_lossy(&output.stdout)),
            path,
        })
    }

    /// Assembles the file at `ptx` for `gpu` into one at `cubin`, and returns what it said, which [`usages`] and [`warnings`]
    /// read.
    pub fn assemble(&self, ptx: &Path, gpu: &str, cubin: &Path) -> Result<String> {
        let mut command = Command::new(&self.path);
        command.args(["-v", "-arch", gpu, "-o"]).args([cubin, ptx]);
        let output = capture(&mut command)?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout))
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

/// The warnings in its report.
pub fn warnings(text: &str) -> Vec<String> {
    // Whether as many blocks fit as a multiprocessor has threads for is seen from the registers.
    const IGNORED: &str = ".minnctapersm will be ignored";
    text.lines()
        .filter(|line| line.contains("warning") && !line.contains(IGNORED))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Each kernel's usage, by the report of `ptxas -v`. Device functions are left out: only kernels may exist, and
/// the lint says so itself.
pub fn usages(text: &str) -> Result<BTreeMap<String, Usage>> {
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
    fn every_gpu_has_one_text() {
        let pairs = |arch, texts: &[Arch], all| {
            let pairs = targets(arch, texts, all);
            pairs
                .map(|(release, gpu)| (release.name, gpu.name))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            pairs(Arch::Sm70, &Arch::ALL, false),
            [("13.5", "sm_89"), ("13.5", "sm_80"), ("12.3", "sm_70")]
        );
        let newer = ["sm_120", "sm_100", "sm_90"].map(|gpu| ("13.5", gpu));
        assert_eq!(
            pairs(Arch::Sm90, &Arch::ALL, false),
            [&newer[..], &[("12.3", "sm_90")]].concat()
        );
        let all = Arch::ALL.map(|arch| pairs(arch, &Arch::ALL, true)).concat();
        // Without one for newer GPUs, a text runs on all.
        assert_eq!(pairs(Arch::Sm70, &[Arch::Sm70], true).len(), all.len());
        assert_eq!(all.len(), 6 + 9 + 8 + 8);
        assert!(!all.contains(&("13.0", "sm_70")) && !all.contains(&("12.3", "sm_100")));
    }

    #[test]
    fn bounds_beyond_a_multiprocessor_are_no_warning() {
        let text = "ptxas warning : Value of threads per SM for entry a is out of range. .minnctapersm will be ignored\n\
            ptxas warning : Stack size for entry b\nptxas info : c\n";
        assert_eq!(warnings(text), ["ptxas warning : Stack size for entry b"]);
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
