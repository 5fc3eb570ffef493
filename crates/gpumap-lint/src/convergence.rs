//! `convergence.toml`: how many barriers, votes, shuffles and matches each kernel's source has, and how many
//! fences, releases, acquires, exchanges and accesses of 16 bytes. The PTX must have exactly as many: a pass that
//! copies one of the first into two branches makes lanes wait for each other at different places, and without one of
//! the last threads of other blocks see what they must not.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::ptx::count::{Counts, Kind};

/// The counts by kernel and architecture.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Table(BTreeMap<String, BTreeMap<Arch, Counts>>);

const HEADING: &str = "\
# How many instructions of each kind every kernel has that lanes execute together, and how many that order accesses
# or access 16 bytes at once, by the architecture of the PTX. `gpumap-lint` compares, its `--bless`
# rewrites. In the workspace of gpumap it is `cargo xtask lint`.
#
# Before blessing a change, find each instruction in the kernel's source: a barrier, vote, shuffle or match more than
# the source has means that the compiler duplicated it into two branches, where lanes wait for each other at different
# places, and then the table must not be changed but the kernel. A fence, a release, an acquire or an exchange less, or
# a weaker one, means that threads see what others have not finished: only a change of the protocol excuses it.
";

impl Table {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self> {
        type Raw = BTreeMap<String, BTreeMap<String, BTreeMap<String, u32>>>;
        let raw: Raw = toml::from_str(text).context("not a table of counts")?;
        let mut table = Table::default();
        for (kernel, arches) in raw {
            for (arch, fields) in arches {
                let Some(arch) = Arch::from_name(&arch) else {
                    bail!("{kernel}: {arch} is not an architecture that is shipped");
                };
                let mut counts = Counts::default();
                for (name, count) in fields {
                    let kind = Kind::ALL.into_iter().find(|k| k.name() == name);
                    let Some(kind) = kind else {
                        bail!("{kernel}: {name} is not counted");
                    };
                    counts.set(kind, count);
                }
                table.set(&kernel, arch, counts);
            }
        }
        Ok(table)
    }

    /// Records the counts of one kernel.
    pub fn set(&mut self, kernel: &str, arch: Arch, counts: Counts) {
        self.0
            .entry(kernel.to_owned())
            .or_default()
            .insert(arch, counts);
    }

    /// The file's text.
    pub fn render(&self) -> String {
        let mut text = HEADING.to_owned();
        for (kernel, arches) in &self.0 {
            text += &format!("\n[{kernel}]\n");
            for (arch, counts) in arches {
                text += &format!("{arch} = {counts}\n");
            }
        }
        text
    }

    /// Every difference between this table and what was found, for the architectures given.
    pub fn differences(&self, found: &Table, arches: &[Arch]) -> Vec<String> {
        let mut kernels: Vec<_> = self.0.keys().chain(found.0.keys()).collect();
        kernels.sort_unstable();
        kernels.dedup();
        let mut lines = Vec::new();
        for kernel in kernels {
            for &arch in arches {
                match (self.get(kernel, arch), found.get(kernel, arch)) {
                    (Some(expected), Some(found)) => {
                        for kind in Kind::ALL {
                            let (expected, found) = (expected.get(kind), found.get(kind));
                            if expected != found {
                                lines.push(format!(
                                    "{kernel} ({arch}): {}: expected {expected}, found {found}",
                                    kind.name()
                                ));
                            }
                        }
                    }
                    (Some(_), None) => {
                        lines.push(format!("{kernel} ({arch}): in the table, not in the PTX"));
                    }
                    (None, Some(found)) => lines.push(format!(
                        "{kernel} ({arch}): in the PTX with {found}, not in the table"
                    )),
                    (None, None) => {}
                }
            }
        }
        lines
    }

    /// The counts of one kernel.
    pub fn get(&self, kernel: &str, arch: Arch) -> Option<&Counts> {
        self.0.get(kernel)?.get(&arch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(barriers: u32, votes: u32) -> Counts {
        let mut counts = Counts::default();
        counts.set(Kind::BlockBarrier, barriers);
        counts.set(Kind::Vote, votes);
        counts
    }

    fn table(barriers: u32) -> Table {
        let mut table = Table::default();
        table.set("insert", Arch::Sm70, counts(barriers, 1));
        table.set("insert", Arch::Sm90, counts(barriers, 0));
        table.set("clear", Arch::Sm90, counts(0, 0));
        table
    }

    #[test]
    fn what_is_rendered_is_parsed() {
        let table = table(2);
        let text = table.render();
        assert!(text.contains("[insert]\nsm_70 = { \"bar.sync\" = 2, \"vote\" = 1 }\n"));
        assert!(text.contains("[clear]\nsm_90 = {}\n"));
        assert_eq!(Table::parse(&text).unwrap(), table);
    }

    #[test]
    fn differences_name_kernel_kind_and_numbers() {
        let both = &Arch::ALL;
        assert!(table(2).differences(&table(2), both).is_empty());
        assert_eq!(
            table(1).differences(&table(2), both),
            [
                "insert (sm_70): bar.sync: expected 1, found 2",
                "insert (sm_90): bar.sync: expected 1, found 2"
            ]
        );
        assert_eq!(table(1).differences(&table(2), &[Arch::Sm90]).len(), 1);
        assert_eq!(Table::default().differences(&table(0), both).len(), 3);
        assert_eq!(
            table(0).differences(&Table::default(), &[Arch::Sm70]),
            ["insert (sm_70): in the table, not in the PTX"]
        );
    }

    #[test]
    fn mistakes_are_refused() {
        assert!(Table::parse("[k]\nsm_80 = {}\n").is_err());
        assert!(Table::parse("[k]\nsm_90 = { barrier = 1 }\n").is_err());
        assert!(Table::parse("[k]\nsm_90 = { vote = -1 }\n").is_err());
    }
}
