//! `spills.toml`: the kernels that may keep some of a thread's data in local memory on a GPU, and how many
//! bytes at most. Those that are not named must keep all of it in registers, on every GPU that the lint
//! assembles for.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// Bytes of a thread, by kernel and GPU.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spills(BTreeMap<String, BTreeMap<String, u32>>);

const HEADING: &str = "\
# Bytes of stack, spill stores and spill loads that a thread may have, for each kernel that has any, by the
# GPU that it is assembled for: the most of all releases of the assembler. `gpumap-lint` compares, its
# `--bless` adds what is more, `--all --bless` rewrites. In the workspace of gpumap it is `cargo xtask lint`.
#
# Before blessing a change: fewer live values, or launch bounds that leave more registers, are better.
";

impl Spills {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self> {
        let table = toml::from_str(text).context("not a table of spills")?;
        Ok(Self(table))
    }

    /// Records those of one kernel, if there are any: the most of all assemblers.
    pub fn record(&mut self, kernel: &str, gpu: &str, bytes: u32) {
        if bytes > 0 {
            let kernel = self.0.entry(kernel.to_owned()).or_default();
            let most = kernel.entry(gpu.to_owned()).or_default();
            *most = bytes.max(*most);
        }
    }

    /// Records all of another table, of kernels that exist.
    pub fn record_all(&mut self, others: &Spills, exists: impl Fn(&str) -> bool) {
        for (kernel, gpus) in others.0.iter().filter(|(kernel, _)| exists(kernel)) {
            for (gpu, &bytes) in gpus {
                self.record(kernel, gpu, bytes);
            }
        }
    }

    /// The file's text.
    pub fn render(&self) -> String {
        let mut text = HEADING.to_owned();
        for (kernel, gpus) in &self.0 {
            text += &format!("\n[{kernel}]\n");
            for (gpu, bytes) in gpus {
                text += &format!("{gpu} = {bytes}\n");
            }
        }
        text
    }

    /// What is more in `found` than in this table.
    pub fn excess(&self, found: &Spills) -> Vec<String> {
        let mut lines = Vec::new();
        for (kernel, gpus) in &found.0 {
            for (gpu, &bytes) in gpus {
                let allowed = self.0.get(kernel).and_then(|gpus| gpus.get(gpu));
                let allowed = allowed.copied().unwrap_or(0);
                if bytes > allowed {
                    lines.push(format!(
                        "{kernel} ({gpu}): {bytes} bytes of stack, spills and local memory, allowed \
                         {allowed}: a thread's data must stay in registers (arrays of 8 or fewer, \
                         unrolled loops; or launch bounds that leave more registers)"
                    ));
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spills(bytes: u32) -> Spills {
        let mut spills = Spills::default();
        spills.record("build", "sm_70", bytes);
        spills.record("build", "sm_80", 0);
        spills.record("get", "sm_70", 8);
        spills
    }

    #[test]
    fn what_is_rendered_is_parsed() {
        let text = spills(4).render();
        assert!(text.ends_with("\n[build]\nsm_70 = 4\n\n[get]\nsm_70 = 8\n"));
        assert_eq!(Spills::parse(&text).unwrap(), spills(4));
        assert_eq!(Spills::parse("").unwrap(), Spills::default());
        assert!(Spills::parse("[get]\nsm_70 = \"many\"\n").is_err());
    }

    #[test]
    fn more_than_is_allowed_is_a_finding() {
        for (allowed, found) in [(4, 4), (4, 3), (4, 0)] {
            assert!(spills(allowed).excess(&spills(found)).is_empty());
        }
        for (allowed, found) in [(4, 8), (0, 1)] {
            let excess = spills(allowed).excess(&spills(found));
            let begin = format!("build (sm_70): {found} bytes of stack, spills and local memory");
            assert_eq!(excess.len(), 1);
            assert!(excess[0].starts_with(&begin), "{}", excess[0]);
        }
        let mut other = Spills::default();
        other.record("get", "sm_80", 8);
        assert_eq!(spills(4).excess(&other).len(), 1);
        // Of two assemblers the one with more counts.
        other.record_all(&spills(4), |kernel| kernel == "build");
        other.record("build", "sm_70", 2);
        other.record("get", "sm_80", 12);
        let text = other.render();
        assert!(
            text.ends_with("\n[build]\nsm_70 = 4\n\n[get]\nsm_80 = 12\n"),
            "{text}"
        );
    }
}
