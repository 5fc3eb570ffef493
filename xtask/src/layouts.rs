//! Does the PTX that is checked in take the arguments that the host passes? Each file says how the
//! arguments of its kernels are laid out; the same number is computed by this machine's compiler from
//! the source as it is now. It needs no compiler of PTX.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::process::{capture, cargo};
use crate::ptx::module::Module;
use crate::workspace::{KernelCrate, Workspace};

/// How the symbol of a kernel's layout begins, as `gpumap_simt::layout` has it.
const PREFIX: &str = "gpumap_layout_";

/// Kernels and their signatures.
type Signatures = BTreeMap<String, u64>;

/// Compares the files of these crates with the source.
pub fn check(workspace: &Workspace, crates: &[KernelCrate]) -> Result<()> {
    let mut run = cargo(workspace);
    // Apart from the normal build, which would be built again for other flags.
    run.env("CARGO_TARGET_DIR", workspace.target.join("layouts"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "--cfg gpumap_list")
        .args(["run", "--quiet", "--locked", "--profile", "layouts"])
        .args(["--package", "gpumap-layouts"]);
    let output = capture(&mut run)?;
    let host = of_host(&String::from_utf8_lossy(&output.stdout))?;
    let mut problems = Vec::new();
    for &kernels in crates {
        let name = kernels.package;
        let host = host
            .get(name)
            .with_context(|| format!("gpumap-layouts lists no kernel of {name}"))?;
        for arch in Arch::ALL {
            let path = workspace.ptx_file(kernels, arch);
            let file = workspace.relative(&path).display().to_string();
            let text = workspace.read_ptx(kernels, arch)?;
            let device = of_text(&text).with_context(|| format!("in {file}"))?;
            let found = differences(host, &device, arch);
            problems.extend(found.into_iter().map(|found| format!("{file}: {found}")));
        }
        println!("{name}: the arguments of {} kernels compared", host.len());
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!(
        "the PTX takes other arguments than the source passes; run `cargo xtask ptx` and commit what \
         it writes:\n  {}",
        problems.join("\n  ")
    )
}

/// What `gpumap-layouts` prints, by package.
fn of_host(text: &str) -> Result<BTreeMap<String, Signatures>> {
    let mut packages: BTreeMap<String, Signatures> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(package), Some(kernel), Some(signature)) =
            (words.next(), words.next(), words.next())
        else {
            bail!("gpumap-layouts printed `{line}`");
        };
        let kernels = packages.entry(package.to_owned()).or_default();
        kernels.insert(kernel.to_owned(), signature.parse()?);
    }
    Ok(packages)
}

/// The signatures in a PTX text, which must have one for each of its kernels.
fn of_text(text: &str) -> Result<Signatures> {
    let found: Signatures = text.lines().filter_map(of_line).collect();
    for entry in Module::parse(text)?.entries {
        if !found.contains_key(&entry.name) {
            bail!("{} does not say how its arguments are laid out", entry.name);
        }
    }
    Ok(found)
}

fn of_line(line: &str) -> Option<(String, u64)> {
    let (_, symbol) = line.split_once(PREFIX)?;
    let (kernel, value) = symbol.split_once("[8] = {")?;
    // The last bytes are left out where they are zeros.
    let mut signature = [0; 8];
    for (i, byte) in value.split_once("};")?.0.split(',').enumerate() {
        *signature.get_mut(i)? = byte.trim().parse().ok()?;
    }
    Some((kernel.to_owned(), u64::from_le_bytes(signature)))
}

/// Whether the PTX of an architecture has this kernel: those with 128-bit atomics are for newer GPUs, and those that do
/// without them for older ones.
fn is_for(kernel: &str, arch: Arch) -> bool {
    match arch {
        Arch::Sm70 => !kernel.ends_with("_wide") && !kernel.ends_with("_128"),
        Arch::Sm90 => !kernel.ends_with("_split"),
    }
}

/// What the PTX of an architecture has otherwise than the host, a line for each: kernels that only one of them has, and those
/// with another layout.
fn differences(host: &Signatures, device: &Signatures, arch: Arch) -> Vec<String> {
    let differs = |(kernel, &found): (&String, &u64)| match host.get(kernel) {
        Some(_) if !is_for(kernel, arch) => Some(format!("{kernel} is not for {arch}")),
        Some(&expected) if expected == found => None,
        Some(&expected) => Some(format!(
            "{kernel} has layout {found:016x}, the source {expected:016x}"
        )),
        None => Some(format!("{kernel} is no longer in the source")),
    };
    let is_missing = |kernel: &&String| is_for(kernel, arch) && !device.contains_key(*kernel);
    let missing = host.keys().filter(is_missing);
    device
        .iter()
        .filter_map(differs)
        .chain(missing.map(|kernel| format!("{kernel} is missing")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signatures(of: &[(&str, u64)]) -> Signatures {
        of.iter().map(|&(k, s)| (k.to_owned(), s)).collect()
    }

    #[test]
    fn what_is_printed_is_read() {
        let host = of_host("a one 1\nb two 18446744073709551615\na three 3\n").unwrap();
        assert_eq!(host["a"], signatures(&[("one", 1), ("three", 3)]));
        assert_eq!(host["b"], signatures(&[("two", u64::MAX)]));
        assert!(of_host("a one\n").is_err() && of_host("a one many\n").is_err());
    }

    // Audit finding 5.
    #[test]
    fn other_arguments_are_a_difference() {
        let entry = ".visible .entry one()\n{\n\tret;\n}\n";
        let symbol = ".visible .global .align 1 .b8 gpumap_layout_one[8] = {2, 1};\n";
        let device = of_text(&format!("{symbol}{entry}")).unwrap();
        assert_eq!(device, signatures(&[("one", 258)]));
        assert!(differences(&device, &device, Arch::Sm70).is_empty());
        assert_eq!(
            differences(&signatures(&[("one", 259)]), &device, Arch::Sm70),
            ["one has layout 0000000000000102, the source 0000000000000103"]
        );
        let error = of_text(entry).unwrap_err().to_string();
        assert!(error.starts_with("one does not say"), "{error}");
    }

    #[test]
    fn each_ptx_has_the_kernels_of_the_source_for_its_gpus_and_no_others() {
        let host = signatures(&[("a", 1), ("b_split", 2), ("b_wide", 3), ("cas_128", 4)]);
        let old = signatures(&[("a", 1), ("b_split", 2)]);
        let new = signatures(&[("a", 1), ("b_wide", 3), ("cas_128", 4)]);
        assert!(differences(&host, &old, Arch::Sm70).is_empty());
        assert!(differences(&host, &new, Arch::Sm90).is_empty());
        assert_eq!(
            differences(&host, &new, Arch::Sm70),
            [
                "b_wide is not for sm_70",
                "cas_128 is not for sm_70",
                "b_split is missing"
            ]
        );
        assert_eq!(
            differences(
                &signatures(&[("two", 1)]),
                &signatures(&[("a", 1)]),
                Arch::Sm90
            ),
            ["a is no longer in the source", "two is missing"]
        );
    }
}
