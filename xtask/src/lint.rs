//! `cargo xtask lint`: what the shipped PTX must not have (calls, traps, local memory, spills)
//! and what it must have exactly (the collectives that the source asks for).

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::convergence::Table;
use crate::grid::Grid;
use crate::ptx::count::{Collective, Counts};
use crate::ptx::forbidden;
use crate::ptx::module::Module;
use crate::ptxas::{Ptxas, Usage};
use crate::workspace::{KernelCrate, Workspace, kernel_crates};

/// The table of what each kernel has.
const COLLECTIVES: &str = "convergence.toml";

/// What to do about differences.
#[derive(clap::Args)]
pub struct Options {
    /// Rewrite the table of collectives to what the PTX has.
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
        let path = workspace.ptx_file(kernels, arch);
        let text = fs::read_to_string(&path).with_context(|| {
            format!(
                "{} is missing: run `cargo xtask ptx`",
                workspace.relative(&path).display()
            )
        })?;
        texts.push((arch, text));
    }
    let texts: Vec<_> = texts
        .iter()
        .map(|(arch, text)| (*arch, text.as_str()))
        .collect();
    if options.bless {
        let path = workspace.table(kernels, COLLECTIVES);
        let mut table = Table::default();
        for (arch, text) in &texts {
            record(&mut table, *arch, &Module::parse(text)?);
        }
        fs::write(&path, table.render())?;
        println!("wrote {}", workspace.relative(&path).display());
    }
    check(workspace, kernels, &texts)
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
    let ptxas = Ptxas::find(workspace)?;
    println!("{}", ptxas.version);
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
    let mut found = Table::default();
    for &(arch, text) in texts {
        let real_arch = ptxas.real_arch(arch)?;
        if real_arch != arch.name() {
            println!("it no longer assembles for {arch}: that PTX is assembled for {real_arch}");
        }
        let module = Module::parse(text).with_context(|| format!("in the PTX for {arch}"))?;
        let (usages, warnings) = assemble(workspace, &ptxas, arch, text, &real_arch)?;
        for warning in warnings {
            if real_arch == arch.name() {
                problems.push(format!("{arch}: {warning}"));
            } else {
                // A multiprocessor of the stand-in may hold fewer threads than the launch
                // bounds are made for.
                println!("{arch} on {real_arch}: {warning}");
            }
        }
        record(&mut found, arch, &module);
        for entry in &module.entries {
            let Some(usage) = usages.get(&entry.name) else {
                bail!(
                    "ptxas says nothing about the kernel {} ({arch})",
                    entry.name
                );
            };
            let counts = Counts::of(&module, entry);
            let numbers = [usage.registers, usage.shared, usage.stack, usage.spills];
            grid.row(
                [entry.name.clone(), arch.to_string(), real_arch.clone()]
                    .into_iter()
                    .chain(numbers.map(|number| number.to_string()))
                    .chain(Collective::ALL.map(|kind| counts.get(kind).to_string())),
            );
            problems.extend(memory_problem(&entry.name, arch, usage));
        }
        let forbidden = forbidden::in_module(&module).into_iter().chain(
            module
                .entries
                .iter()
                .flat_map(|e| forbidden::in_entry(&module, e)),
        );
        problems.extend(forbidden.map(|finding| {
            let (place, what, reason) = (finding.place, finding.what, finding.reason);
            format!("{place} ({arch}): {what}: {reason}")
        }));
    }
    println!("\n{grid}");

    let arches: Vec<_> = texts.iter().map(|&(arch, _)| arch).collect();
    let path = workspace.table(kernels, COLLECTIVES);
    let expected = match fs::read_to_string(&path) {
        Ok(text) => Table::parse(&text)
            .with_context(|| format!("in {}", workspace.relative(&path).display()))?,
        Err(_) => Table::default(),
    };
    let differences = expected.differences(&found, &arches);
    if !differences.is_empty() {
        println!(
            "where the collectives differ from {}: if the source was changed to have that many, \
             run `cargo xtask lint --bless`; if not, the compiler duplicated one\n",
            workspace.relative(&path).display()
        );
    }
    problems.extend(differences);
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{} findings:\n  {}", problems.len(), problems.join("\n  "))
}

fn record(table: &mut Table, arch: Arch, module: &Module) {
    for entry in &module.entries {
        table.set(&entry.name, arch, Counts::of(module, entry));
    }
}

/// Assembles `text` by way of a file of its own: it may not be the one that is shipped.
fn assemble(
    workspace: &Workspace,
    ptxas: &Ptxas,
    arch: Arch,
    text: &str,
    real_arch: &str,
) -> Result<(BTreeMap<String, Usage>, Vec<String>)> {
    let folder = workspace.target.join("ptx");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("lint_{arch}.ptx"));
    fs::write(&path, text)?;
    ptxas.assemble(&path, real_arch)
}

fn memory_problem(kernel: &str, arch: Arch, usage: &Usage) -> Option<String> {
    if usage.stack + usage.spills + usage.local == 0 {
        return None;
    }
    Some(format!(
        "{kernel} ({arch}): {} bytes of stack, {} of spills, {} of local memory: a thread's data \
         must stay in registers (arrays of 8 or fewer, unrolled loops; or launch bounds that \
         leave more registers)",
        usage.stack, usage.spills, usage.local
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_local_memory_is_a_problem() {
        let clean = Usage {
            registers: 255,
            shared: 1 << 16,
            ..Usage::default()
        };
        assert_eq!(memory_problem("k", Arch::Sm90, &clean), None);
        for usage in [
            Usage {
                stack: 8,
                ..clean.clone()
            },
            Usage {
                spills: 4,
                ..clean.clone()
            },
            Usage {
                local: 1,
                ..clean.clone()
            },
        ] {
            let problem = memory_problem("k", Arch::Sm90, &usage).unwrap();
            assert!(problem.starts_with("k (sm_90): "), "{problem}");
        }
    }
}
