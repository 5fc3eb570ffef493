//! `exceptions.toml`: what the lint finds in a kernel and lets pass, each with its reason.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// What can be excepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// An assembler makes two loads of one of 16 bytes.
    TornLoad,
    /// An assembler makes several fences, releases or acquires of one.
    CopiedOrder,
    /// An atomic acquires and nothing reads its result.
    UnreadAcquire,
}

/// Exceptions of a crate, and which were met.
#[derive(Debug, Default)]
pub struct Exceptions {
    all: BTreeSet<(String, Finding)>,
    met: RefCell<BTreeSet<(String, Finding)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    except: Vec<Except>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Except {
    finding: Finding,
    kernels: Vec<String>,
    why: String,
}

impl Exceptions {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text).context("not a list of exceptions")?;
        let mut exceptions = Self::default();
        for except in file.except {
            if except.why.trim().is_empty() {
                bail!("{:?} of {:?} has no reason", except.finding, except.kernels);
            }
            for kernel in except.kernels {
                if !exceptions.all.insert((kernel.clone(), except.finding)) {
                    bail!("{:?} of {kernel} is excepted twice", except.finding);
                }
            }
        }
        Ok(exceptions)
    }

    /// Whether a finding in a kernel passes.
    pub fn has(&self, kernel: &str, finding: Finding) -> bool {
        let one = (kernel.to_owned(), finding);
        let has = self.all.contains(&one);
        if has {
            self.met.borrow_mut().insert(one);
        }
        has
    }

    /// Those that nothing was excepted by.
    pub fn unused(&self) -> Vec<String> {
        let met = self.met.borrow();
        let unused = self.all.difference(&met);
        unused
            .map(|(kernel, finding)| format!("{kernel}: {finding:?} is excepted, and not found"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "[[except]]\nfinding = \"torn-load\"\nkernels = [\"a\", \"b\"]\nwhy = \"keys\"\n";

    #[test]
    fn only_what_is_named_passes() {
        let exceptions = Exceptions::parse(TEXT).unwrap();
        assert!(exceptions.has("a", Finding::TornLoad));
        assert!(!exceptions.has("a", Finding::UnreadAcquire));
        assert!(!exceptions.has("c", Finding::TornLoad));
        assert_eq!(
            exceptions.unused(),
            ["b: TornLoad is excepted, and not found"]
        );
        assert!(!Exceptions::parse("").unwrap().has("a", Finding::TornLoad));
    }

    #[test]
    fn mistakes_are_refused() {
        assert!(Exceptions::parse(&TEXT.repeat(2)).is_err());
        assert!(Exceptions::parse(&TEXT.replace("keys", " ")).is_err());
        assert!(Exceptions::parse(&TEXT.replace("torn-load", "torn")).is_err());
    }
}
