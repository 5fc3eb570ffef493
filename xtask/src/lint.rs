//! `cargo xtask lint`: what the shipped PTX must not have (calls, traps, local memory, spills)
//! and what it must have exactly (the collectives of the source).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::arch::Arch;
use crate::convergence::Table;
use crate::grid::Grid;
use crate::ptx::count::{Collective, Counts};
use crate::ptx::forbidden;
use crate::ptx::module::Module;
use crate::ptxas::{self, Ptxas, Usage};
use crate::spills::Spills;
use crate::workspace::{KernelCrate, Workspace, kernel_crates};

/// The table of the collectives that each kernel has.
const COLLECTIVES: &str = "convergence.toml";
/// The table of kernels that do not keep everything in registers.
const SPILLS: &str = "spills.toml";

/// What to do about differences.
#[derive(clap::Args)]
pub struct Options {
    /// Rewrite the tables of collectives and of spills to what the PTX has.
    #[arg(long)]
    bless: bool,
    /// Of these packages only.
    packages: Vec<String>,
}

/// Runs the command on the files that are checked in.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    for kernels in kernel_crates(&options.packages)? {
        println!("{}", kernels.package);
        run_one(workspace, kernels, options)?;
    }
    Ok(())
}

fn run_one(workspace: &Workspace, kernels: KernelCrate, options: &Options) -> Result<()> {
    let mut texts = Vec::new();
    for arch in Arch::ALL {
        texts.push((arch, workspace.read_ptx(kernels, arch)?));
    }
    let texts: Vec<_> = texts
        .iter()
        .map(|(arch, text)| (*arch, text.as_str()))
        .collect();
    lint(workspace, kernels, &texts, options.bless)
}

/// `cargo xtask lint` without options.
pub fn check_shipped(workspace: &Workspace) -> Result<()> {
    let options = Options {
        bless: false,
        packages: Vec::new(),
    };
    run(workspace, &options)
}

/// Checks PTX texts, prints a line for each kernel, and fails with a list of all findings.
pub fn check(workspace: &Workspace, kernels: KernelCrate, texts: &[(Arch, &str)]) -> Result<()> {
    lint(workspace, kernels, texts, false)
}

fn lint(
    workspace: &Workspace,
    kernels: KernelCrate,
    texts: &[(Arch, &str)],
    bless: bool,
) -> Result<()> {
    let mut grid = Grid::new(
        [
            "kernel",
            "PTX",
            "SASS",
            "registers",
            "shared",
            "stack",
            "spills",
        ]
        .into_iter()
        .chain(Collective::ALL.map(Collective::name)),
    );
    let mut problems = Vec::new();
    let mut collectives = Table::default();
    let mut spills = Spills::default();
    for assembled in assemble_all(workspace, texts)? {
        let Assembled {
            arch, text, gpu, ..
        } = assembled;
        let module = Module::parse(text).with_context(|| format!("in the PTX for {arch}"))?;
        let of_gpu = |warning| format!("{arch} on {gpu}: {warning}");
        problems.extend(assembled.warnings.into_iter().map(of_gpu));
        record(&mut collectives, arch, &module);
        for entry in &module.entries {
            let Some(usage) = assembled.usages.get(&entry.name) else {
                bail!(
                    "ptxas says nothing about the kernel {} ({arch} on {gpu})",
                    entry.name
                );
            };
            let counts = Counts::of(&module, entry);
            let numbers = [usage.registers, usage.shared, usage.stack, usage.spills];
            grid.row(
                [entry.name.clone(), arch.to_string(), gpu.to_owned()]
                    .into_iter()
                    .chain(numbers.map(|number| number.to_string()))
                    .chain(Collective::ALL.map(|kind| counts.get(kind).to_string())),
            );
            spills.set(&entry.name, gpu, usage.outside());
        }
    }
    println!("\n{grid}");
    for &(arch, text) in texts {
        let module = Module::parse(text)?;
        let entries = module.entries.iter();
        let of_entries = entries.flat_map(|entry| forbidden::in_entry(&module, entry));
        let forbidden = forbidden::in_module(&module).into_iter().chain(of_entries);
        problems.extend(forbidden.map(|finding| {
            let (place, what, reason) = (finding.place, finding.what, finding.reason);
            format!("{place} ({arch}): {what}: {reason}")
        }));
    }
    let arches: Vec<_> = texts.iter().map(|&(arch, _)| arch).collect();
    let path = workspace.table(kernels, COLLECTIVES);
    let spills_path = workspace.table(kernels, SPILLS);
    if bless {
        let write = |path: &Path, text: String| -> Result<()> {
            println!("wrote {}", workspace.relative(path).display());
            Ok(fs::write(path, text)?)
        };
        write(&path, collectives.render())?;
        if spills_path.exists() || spills != Spills::default() {
            write(&spills_path, spills.render())?;
        }
    }
    let differences = read(workspace, &path, Table::parse)?.differences(&collectives, &arches);
    if !differences.is_empty() {
        println!(
            "where the collectives differ from {}: if the source was changed to have that many, \
             run `cargo xtask lint --bless`; if not, the compiler duplicated one\n",
            workspace.relative(&path).display()
        );
    }
    problems.extend(differences);
    problems.extend(read(workspace, &spills_path, Spills::parse)?.excess(&spills));
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{} findings:\n  {}", problems.len(), problems.join("\n  "))
}

/// A table beside the kernels; without the file, one that is empty.
fn read<T: Default>(
    workspace: &Workspace,
    path: &Path,
    parse: impl Fn(&str) -> Result<T>,
) -> Result<T> {
    match fs::read_to_string(path) {
        Ok(text) => {
            parse(&text).with_context(|| format!("in {}", workspace.relative(path).display()))
        }
        Err(_) => Ok(T::default()),
    }
}

fn record(table: &mut Table, arch: Arch, module: &Module) {
    for entry in &module.entries {
        table.set(&entry.name, arch, Counts::of(module, entry));
    }
}

/// A PTX text as it was assembled for one GPU.
struct Assembled<'a> {
    arch: Arch,
    text: &'a str,
    gpu: &'static str,
    usages: BTreeMap<String, Usage>,
    warnings: Vec<String>,
}

/// Assembles each text for each of its [targets](ptxas::targets), side by side.
fn assemble_all<'a>(
    workspace: &Workspace,
    texts: &[(Arch, &'a str)],
) -> Result<Vec<Assembled<'a>>> {
    let mut jobs = Vec::new();
    for &(arch, text) in texts {
        for (release, gpu) in ptxas::targets(arch) {
            let ptxas = Ptxas::find(workspace, release)?;
            println!("PTX for {arch}, assembled for {gpu}: {}", ptxas.version);
            jobs.push((arch, text, *gpu, ptxas));
        }
    }
    thread::scope(|scope| {
        let start = |(arch, text, gpu, ptxas)| {
            scope.spawn(move || {
                let (usages, warnings) = assemble(workspace, &ptxas, arch, text, gpu)?;
                Ok(Assembled {
                    arch,
                    text,
                    gpu,
                    usages,
                    warnings,
                })
            })
        };
        let running: Vec<_> = jobs.into_iter().map(start).collect();
        let ended = running.into_iter().map(|job| job.join());
        ended
            .map(|job| job.map_err(|_| anyhow!("an assembly panicked"))?)
            .collect()
    })
}

/// Assembles `text` by way of a file of its own: it may not be the one that is shipped.
fn assemble(
    workspace: &Workspace,
    ptxas: &Ptxas,
    arch: Arch,
    text: &str,
    gpu: &str,
) -> Result<(BTreeMap<String, Usage>, Vec<String>)> {
    let folder = workspace.target.join("ptx");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("lint_{arch}_on_{gpu}.ptx"));
    fs::write(&path, text)?;
    ptxas.assemble(&path, gpu)
}
