//! `cargo xtask ptx`: builds the PTX that is checked in, or checks that it is current.

use anyhow::{Context, Result, bail};
use gpumap_lint::build::{self, Built};
use gpumap_lint::lint;
use gpumap_lint::ptx::header;

use crate::arch::Arch;
use crate::compilers::Allowed;
use crate::layouts;
use crate::lint::subject;
use crate::toolchain::Toolchain;
use crate::workspace::{KernelCrate, Workspace, kernel_crates};

/// How many differing lines `--check` shows.
const SHOWN: usize = 5;

/// What the header names.
const COMMAND: &str = "cargo xtask ptx";

/// What to build.
#[derive(clap::Args)]
pub struct Options {
    /// Write nothing: fail when the files that are there are not what the source gives.
    #[arg(long)]
    check: bool,
    /// Of these packages only.
    packages: Vec<String>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let crates = kernel_crates(&options.packages)?;
    if options.check {
        // First, because it needs no compiler of PTX.
        layouts::check(workspace, &crates)?;
    }
    let allowed = Allowed::read(workspace)?;
    let toolchain = Toolchain::find()?;
    println!("compiler: {}", toolchain.identity);
    println!("          {}", toolchain.rustc.display());
    for kernels in crates {
        let source = workspace.source(kernels);
        let folder = workspace.root.join(kernels.folder);
        let built = build::build(source, &toolchain, &folder, COMMAND, &Arch::ALL)?;
        for warning in &built.warnings {
            eprintln!("{warning}\n");
        }
        if options.check {
            check(workspace, &toolchain, kernels, &built, &allowed)?;
            continue;
        }
        for (arch, text) in &built.files {
            let path = workspace.ptx_file(kernels, *arch);
            let path = workspace.relative(&path).display();
            // A file that is touched is compiled in again.
            if workspace
                .read_ptx(kernels, *arch)
                .is_ok_and(|it| it == *text)
            {
                println!("{path}: as it was");
                continue;
            }
            workspace.write_ptx(kernels, *arch, text)?;
            println!("{path}: {} bytes of text", text.len());
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

fn check(
    workspace: &Workspace,
    toolchain: &Toolchain,
    kernels: KernelCrate,
    built: &Built,
    allowed: &Allowed,
) -> Result<()> {
    let mut problems = Vec::new();
    let mut incomparable = Vec::new();
    for (arch, expected) in &built.files {
        let path = workspace.ptx_file(kernels, *arch);
        let name = workspace.relative(&path).display().to_string();
        let found = workspace.read_ptx(kernels, *arch)?;
        match verdict(&found, expected, &toolchain.identity, allowed) {
            Verdict::Current => println!("{name}: current, byte for byte"),
            Verdict::Incomparable(why) => {
                println!("{name}: BYTES NOT COMPARED, as the list of compilers allows: {why}");
                incomparable.push((*arch, expected.clone()));
            }
            Verdict::Refused(problem) => problems.push(format!("{name}: {problem}")),
            Verdict::Stale(lines) => problems.push(format!(
                "{name} is not what the source gives: run `cargo xtask ptx` and commit what it \
                 writes\n    {}",
                lines.join("\n    ")
            )),
        }
    }
    if !incomparable.is_empty() {
        let subject = subject(workspace, kernels, incomparable);
        lint::lint(&workspace.target, &[subject], &lint::Options::default())
            .context("the PTX as this compiler makes it does not pass the lint")?;
    }
    if !built.warnings.is_empty() {
        // The host's clippy never sees the code that only exists on the GPU.
        problems.push("the kernels compile with warnings (above)".to_owned());
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n  "));
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Byte for byte.
    Current,
    /// Made by a compiler that may be another one, and why.
    Incomparable(String),
    /// Made by a compiler that may not.
    Refused(String),
    /// The lines that differ.
    Stale(Vec<String>),
}

fn verdict(found: &str, expected: &str, compiler: &str, allowed: &Allowed) -> Verdict {
    match header::compiler(found) {
        Some(other) if other != compiler => match allowed.why(other, compiler) {
            Some(why) => Verdict::Incomparable(why.to_owned()),
            None => Verdict::Refused(format!(
                "made by {other}, but the compiler here is {compiler}: regenerate it with \
                 `cargo xtask ptx`, install that compiler, or add the pair to xtask/ptx-compilers.toml"
            )),
        },
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
    use std::fs;

    use gpumap_lint::CudaBuilder;
    use gpumap_lint::ptx::module::Module;

    use super::*;

    /// Into the folder where CI has just compiled the same.
    #[test]
    fn the_call_of_a_build_script_compiles_a_crate() {
        if let Err(error) = Toolchain::find() {
            eprintln!("left out: {error}");
            return;
        }
        let workspace = Workspace::find().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("ptx/kernels.ptx");
        let builder = CudaBuilder::new(workspace.root.join("tests/cuda-kernels"));
        let built = builder.target(&workspace.target).copy_to(&copy).build();
        let text = fs::read_to_string(built.unwrap()).unwrap();
        let module = Module::parse(&text).unwrap();
        assert!(module.entries.iter().any(|it| it.name == "vector_add"));
        assert_eq!(fs::read_to_string(copy).unwrap(), text);
        let nothing = CudaBuilder::new(folder.path()).target(folder.path());
        assert!(nothing.build().is_err());
    }

    fn file(compiler: &str, body: &str) -> String {
        header::write("make", "toy", Arch::Sm70, compiler, &[]) + body
    }

    // Audit finding 5: a file whose compiler line was edited passed.
    #[test]
    fn verdicts() {
        let current = file("rustc A", "ret;\n");
        let strict = Allowed::default();
        let verdict_of = |found: &str, allowed| verdict(found, &current, "rustc A", allowed);
        assert_eq!(verdict_of(&current, &strict), Verdict::Current);
        let other = file("rustc B", "x\n");
        let Verdict::Refused(problem) = verdict_of(&other, &strict) else {
            panic!("another compiler was let through");
        };
        assert!(problem.contains("rustc A") && problem.contains("rustc B"));
        let pair = "[[allow]]\nshipped = \"rustc B\"\nfound = \"rustc A\"\nwhy = \"later\"\n";
        let allowed = toml::from_str(pair).unwrap();
        assert_eq!(
            verdict_of(&other, &allowed),
            Verdict::Incomparable("later".to_owned())
        );
        let Verdict::Stale(lines) = verdict_of(&file("rustc A", "nop;\n"), &strict) else {
            panic!("expected a difference");
        };
        assert_eq!(lines, ["     5 - nop;", "     5 + ret;"]);
        // No header at all: nothing excuses the difference.
        assert!(matches!(verdict_of("ret;\n", &strict), Verdict::Stale(_)));
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
