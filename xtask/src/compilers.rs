//! Which compilers may check PTX that another one made: `ptx-compilers.toml`. Bytes cannot be compared
//! then, so that PTX of an older source would pass; each pair is let through by name, and has a reason.

use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace::Workspace;

const FILE: &str = "xtask/ptx-compilers.toml";

/// The pairs that are let through.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    #[serde(default)]
    allow: Vec<Pair>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    /// What the header of the PTX names.
    shipped: String,
    /// What is here.
    found: String,
    /// Why it is not regenerated.
    why: String,
}

impl Allowed {
    /// Reads the list.
    pub fn read(workspace: &Workspace) -> Result<Self> {
        let text = fs::read_to_string(workspace.root.join(FILE)).context(FILE)?;
        Self::parse(&text).context(FILE)
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// Why PTX that `shipped` made may be checked by `found`; none if it may not.
    pub fn why(&self, shipped: &str, found: &str) -> Option<&str> {
        let pair = |pair: &&Pair| pair.shipped == shipped && pair.found == found;
        self.allow.iter().find(pair).map(|pair| pair.why.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Audit finding 5.
    #[test]
    fn only_the_named_pair_is_let_through() {
        let text = "[[allow]]\nshipped = \"rustc 1\"\nfound = \"rustc 2\"\nwhy = \"later\"\n";
        let allowed = Allowed::parse(text).unwrap();
        assert_eq!(allowed.why("rustc 1", "rustc 2"), Some("later"));
        assert_eq!(allowed.why("rustc 2", "rustc 1"), None);
        assert_eq!(allowed.why("rustc 1", "rustc 2.1"), None);
        assert_eq!(Allowed::parse("").unwrap().why("rustc 1", "rustc 2"), None);
        assert!(Allowed::parse("[[allow]]\nshipped = \"a\"\nfound = \"b\"\n").is_err());
    }

    #[test]
    fn the_list_is_one() {
        Allowed::parse(include_str!("../ptx-compilers.toml")).unwrap();
    }
}
