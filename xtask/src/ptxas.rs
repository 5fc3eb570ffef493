//! NVIDIA's assembler, `ptxas`: gets it into a virtual environment, runs it, and reads what it
//! says about each kernel. It needs no GPU.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::process::{capture, run};
use crate::workspace::Workspace;

/// Names a `ptxas` to use instead of the one from the package.
const PTXAS_VARIABLE: &str = "GPUMAP_PTXAS";
/// Pinned, so that the register counts of two runs compare. `nvvm` is what nvcc depends on.
const PACKAGES: [&str; 2] = ["nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88"];

/// The assembler and what it assembles for.
pub struct Ptxas {
    path: PathBuf,
    /// The release, as it names itself.
    pub version: String,
    /// The compute capabilities it knows, as numbers.
    capabilities: Vec<u32>,
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

impl Ptxas {
    /// `GPUMAP_PTXAS`, else the pinned package's, which is installed at the first use.
    pub fn find(workspace: &Workspace) -> Result<Self> {
        let path = match env::var_os(PTXAS_VARIABLE) {
            Some(path) => PathBuf::from(path),
            None => install(&workspace.target.join("ptxas-venv"))?,
        };
        let ask = |argument| -> Result<String> {
            let output = capture(Command::new(&path).arg(argument))?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        Ok(Ptxas {
            version: version(&ask("--version")?),
            capabilities: capabilities(&ask("--help")?),
            path,
        })
    }

    /// The lowest architecture it assembles PTX for `arch` to: CUDA 13 has dropped Volta, and
    /// there the next one stands in.
    pub fn real_arch(&self, arch: Arch) -> Result<String> {
        match lowest(&self.capabilities, arch.capability()) {
            Some(capability) => Ok(format!("sm_{capability}")),
            None => bail!("{} assembles nothing that runs {arch} code", self.version),
        }
    }

    /// Assembles the file at `ptx` for `real_arch`: each kernel's usage, and any warnings.
    pub fn assemble(
        &self,
        ptx: &Path,
        real_arch: &str,
    ) -> Result<(BTreeMap<String, Usage>, Vec<String>)> {
        let mut command = Command::new(&self.path);
        command
            .args(["-v", "-arch", real_arch, "-o", "/dev/null"])
            .arg(ptx);
        let output = capture(&mut command)?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        Ok((usages(&text)?, warnings(&text)))
    }
}

/// The path of `ptxas` in the virtual environment `folder`, made when it is not there or was
/// made for other versions.
fn install(folder: &Path) -> Result<PathBuf> {
    let stamp = folder.join("gpumap-packages");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted)
        && let Some(ptxas) = find_ptxas(folder)
    {
        return Ok(ptxas);
    }
    println!(
        "installing {} into {}",
        PACKAGES.join(" "),
        folder.display()
    );
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(folder))
    .context(
        "a virtual environment is needed for ptxas (Debian: apt-get install python3-venv), \
         or name one with GPUMAP_PTXAS",
    )?;
    run(Command::new(folder.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--no-input"])
        .args(PACKAGES))?;
    let ptxas = find_ptxas(folder).context("the package nvidia-cuda-nvcc has no ptxas")?;
    fs::write(&stamp, wanted)?;
    Ok(ptxas)
}

fn find_ptxas(folder: &Path) -> Option<PathBuf> {
    // lib/python3.N/site-packages/nvidia/cu13/bin/ptxas
    let pythons = fs::read_dir(folder.join("lib")).ok()?;
    pythons
        .filter_map(Result::ok)
        .map(|python| python.path().join("site-packages/nvidia/cu13/bin/ptxas"))
        .find(|path| path.is_file())
}

fn version(text: &str) -> String {
    text.lines()
        .find_map(|line| line.strip_prefix("Cuda compilation tools, "))
        .map_or_else(
            || "ptxas of an unknown release".to_owned(),
            |v| format!("ptxas {v}"),
        )
}

/// The plain `sm_NN` that the help text lists, lowest first.
fn capabilities(help: &str) -> Vec<u32> {
    let mut found: Vec<u32> = help
        .split('\'')
        .filter_map(|word| word.strip_prefix("sm_")?.parse().ok())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn lowest(capabilities: &[u32], at_least: u32) -> Option<u32> {
    capabilities.iter().copied().find(|&c| c >= at_least)
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
    fn what_it_assembles_for() {
        let help = "'compute_75','lto_80','sm_100','sm_100a',\n 'sm_75','sm_80','sm_90','sm_90a'";
        assert_eq!(capabilities(help), [75, 80, 90, 100]);
        assert_eq!(lowest(&[75, 80, 90], 70), Some(75));
        assert_eq!(lowest(&[75, 80, 90], 90), Some(90));
        assert_eq!(lowest(&[75], 90), None);
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
