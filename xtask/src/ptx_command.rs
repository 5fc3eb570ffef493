//! `cargo xtask ptx`: builds the PTX that is checked in, or checks that it is current.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::arch::Arch;
use crate::compile::{self, Compiled};
use crate::lint;
use crate::ptx::{bounds, header};
use crate::toolchain::Toolchain;
use crate::workspace::{KernelCrate, Workspace, kernel_crates};

/// How many differing lines `--check` shows.
const SHOWN: usize = 5;

/// What to build.
#[derive(clap::Args)]
pub struct Options {
    /// Write nothing: fail when the files that are there are not what the source gives.
    #[arg(long)]
    check: bool,
    /// Of these packages only.
    packages: Vec<String>,
}

/// The finished files' text, and what the compiler had to say.
struct Built {
    files: Vec<(Arch, String)>,
    warnings: BTreeSet<String>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let toolchain = Toolchain::find()?;
    println!("compiler: {}", toolchain.identity);
    println!("          {}", toolchain.rustc.display());
    for kernels in kernel_crates(&options.packages)? {
        let built = build(workspace, &toolchain, kernels)?;
        for warning in &built.warnings {
            eprintln!("{warning}\n");
        }
        if options.check {
            check(workspace, &toolchain, kernels, &built)?;
            continue;
        }
        for (arch, text) in &built.files {
            let path = workspace.ptx_file(kernels, *arch);
            let write = |path: &Path| {
                fs::create_dir_all(path.parent().unwrap_or(path))?;
                fs::write(path, text)
            };
            write(&path).with_context(|| format!("could not write {}", path.display()))?;
            let path = workspace.relative(&path).display();
            println!("{path}: {} bytes", text.len());
        }
    }
    Ok(())
}

/// `cargo xtask ptx --check`.
pub fn check_shipped(workspace: &Workspace) -> Result<()> {
    let options = Options {
        check: true,
        packages: Vec::new(),
    };
    run(workspace, &options)
}

fn build(workspace: &Workspace, toolchain: &Toolchain, kernels: KernelCrate) -> Result<Built> {
    // Each build is one long compile of `core` and one of everything else: side by side they
    // take half as long.
    let compiled: Vec<(Arch, Compiled)> = thread::scope(|scope| {
        Arch::ALL
            .map(|arch| {
                let build = move || compile::compile(workspace, toolchain, kernels.package, arch);
                (arch, scope.spawn(build))
            })
            .into_iter()
            .map(|(arch, build)| {
                let compiled = build.join().map_err(|_| anyhow!("a build panicked"))??;
                Ok((arch, compiled))
            })
            .collect::<Result<_>>()
    })?;
    let mut built = Built {
        files: Vec::new(),
        warnings: BTreeSet::new(),
    };
    let table = launch_bounds(workspace, kernels)?;
    bounds::expect_all(&table, compiled.iter().map(|(_, compiled)| &*compiled.text))?;
    for (arch, compiled) in compiled {
        let text = dress(toolchain, kernels, &table, arch, &compiled.text)?;
        built.files.push((arch, text));
        built.warnings.extend(compiled.warnings);
    }
    Ok(built)
}

/// The launch bounds of a crate's kernels; none if it has no table of them.
fn launch_bounds(workspace: &Workspace, kernels: KernelCrate) -> Result<bounds::Table> {
    let table = workspace.table(kernels, "launch_bounds.toml");
    match fs::read_to_string(&table) {
        Ok(text) => bounds::parse(&text)
            .with_context(|| format!("in {}", workspace.relative(&table).display())),
        Err(_) => Ok(bounds::Table::new()),
    }
}

/// The back end's text with the header in front and the launch bounds put in.
fn dress(
    toolchain: &Toolchain,
    kernels: KernelCrate,
    table: &bounds::Table,
    arch: Arch,
    text: &str,
) -> Result<String> {
    let text = bounds::apply(text, table)?;
    let header = header::write(
        kernels.package,
        arch,
        &toolchain.identity,
        &compile::flags(arch),
    );
    Ok(header + text.trim_end() + "\n")
}

fn check(
    workspace: &Workspace,
    toolchain: &Toolchain,
    kernels: KernelCrate,
    built: &Built,
) -> Result<()> {
    let mut stale = Vec::new();
    let mut incomparable = Vec::new();
    for (arch, expected) in &built.files {
        let path = workspace.ptx_file(kernels, *arch);
        let name = workspace.relative(&path).display().to_string();
        let found = fs::read_to_string(&path)
            .with_context(|| format!("{name} is missing: run `cargo xtask ptx`"))?;
        match verdict(&found, expected, &toolchain.identity) {
            Verdict::Current => println!("{name}: current, byte for byte"),
            Verdict::OtherCompiler(compiler) => {
                println!("{name}: made by {compiler}");
                incomparable.push((*arch, expected.as_str()));
            }
            Verdict::Stale(lines) => {
                println!("{name}: not what the source gives");
                for line in lines {
                    println!("  {line}");
                }
                stale.push(name);
            }
        }
    }
    if !incomparable.is_empty() {
        println!(
            "BYTES NOT COMPARED: {} of {} files were made by another compiler than {}. The \
             kernels do compile with this one; what it makes of them is linted now, for \
             information.",
            incomparable.len(),
            built.files.len(),
            toolchain.identity
        );
        // An update of the compiler must not stop unrelated work, so nothing here fails;
        // `cargo xtask lint` stays strict about the files that are shipped.
        match lint::check(workspace, kernels, &incomparable) {
            Ok(()) => println!("the rebuilt PTX passes the lint"),
            Err(error) => println!(
                "WARNING: the PTX as this compiler makes it does not pass the lint; do not \
                 regenerate with it before that is understood: {error:#}"
            ),
        }
    }
    if incomparable.is_empty() && !built.warnings.is_empty() {
        // The host's clippy never sees the code that only exists on the GPU.
        bail!("the kernels compile with warnings (above)");
    }
    if !stale.is_empty() {
        bail!(
            "{} must be regenerated: run `cargo xtask ptx` and commit what it writes",
            stale.join(", ")
        );
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Current,
    OtherCompiler(String),
    Stale(Vec<String>),
}

fn verdict(found: &str, expected: &str, compiler: &str) -> Verdict {
    match header::compiler(found) {
        Some(other) if other != compiler => Verdict::OtherCompiler(other.to_owned()),
        _ if found == expected => Verdict::Current,
        _ => Verdict::Stale(differences(found, expected)),
    }
}

/// The first lines that differ, and how the lengths compare.
fn differences(found: &str, expected: &str) -> Vec<String> {
    let (mut a, mut b) = (found.lines(), expected.lines());
    let mut lines = Vec::new();
    let mut number = 0;
    loop {
        number += 1;
        match (a.next(), b.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => {
                if lines.len() == 2 * SHOWN {
                    lines.push("...".to_owned());
                    break;
                }
                let show = |line: Option<&str>| line.unwrap_or("(end of the file)").to_owned();
                lines.push(format!("{number:>6} - {}", show(a)));
                lines.push(format!("{number:>6} + {}", show(b)));
            }
        }
    }
    if lines.is_empty() {
        lines.push("only the line endings differ".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(compiler: &str, body: &str) -> String {
        header::write("toy", Arch::Sm70, compiler, &[]) + body
    }

    #[test]
    fn verdicts() {
        let current = file("rustc A", "ret;\n");
        assert_eq!(verdict(&current, &current, "rustc A"), Verdict::Current);
        assert_eq!(
            verdict(&file("rustc B", "x\n"), &current, "rustc A"),
            Verdict::OtherCompiler("rustc B".to_owned())
        );
        let Verdict::Stale(lines) = verdict(&file("rustc A", "nop;\n"), &current, "rustc A") else {
            panic!("expected a difference");
        };
        assert_eq!(lines, ["     5 - nop;", "     5 + ret;"]);
        // No header at all: nothing excuses the difference.
        assert!(matches!(
            verdict("ret;\n", &current, "rustc A"),
            Verdict::Stale(_)
        ));
    }

    #[test]
    fn long_differences_are_cut() {
        let a = "a\n".repeat(50);
        let b = "b\n".repeat(49);
        let lines = differences(&a, &b);
        assert_eq!(lines.len(), 2 * SHOWN + 1);
        assert_eq!(
            differences("a\n", "a\nb\n"),
            ["     2 - (end of the file)", "     2 + b"]
        );
        assert_eq!(
            differences("a\r\n", "a\n"),
            ["only the line endings differ"]
        );
    }
}
