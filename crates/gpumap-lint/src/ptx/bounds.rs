//! Launch bounds. rustc has no `__launch_bounds__`, so a table beside the kernels says what a
//! kernel is launched with, and this puts it into the PTX.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::module::{Entry, Module};

/// The bounds of one kernel: what ptxas may count on when it hands out registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The most threads a block is launched with.
    pub max_threads: Option<u32>,
    /// How many blocks must fit on one multiprocessor at once.
    pub min_blocks: Option<u32>,
}

/// Bounds by kernel name.
pub type Table = BTreeMap<String, Bounds>;

/// Reads `launch_bounds.toml`.
pub fn parse(text: &str) -> Result<Table> {
    let table: Table = toml::from_str(text).context("not a table of launch bounds")?;
    for (name, bounds) in &table {
        if bounds.max_threads.is_some_and(|n| n == 0 || n > 1024) {
            bail!("{name}: max_threads must be 1 to 1024");
        }
        if bounds.min_blocks.is_some() && bounds.max_threads.is_none() {
            // ptxas ignores `.minnctapersm` without a size of the block.
            bail!("{name}: min_blocks needs max_threads");
        }
    }
    Ok(table)
}

/// The bounds that a kernel's PTX has.
pub fn of(module: &Module, entry: &Entry) -> Bounds {
    let mut bounds = Bounds {
        max_threads: None,
        min_blocks: None,
    };
    let words = module
        .between(entry)
        .split(|c: char| c.is_whitespace() || c == ',');
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    for (at, &word) in words.iter().enumerate() {
        let numbers = words[at + 1..].iter().map_while(|word| word.parse().ok());
        match word {
            ".maxntid" | ".reqntid" => bounds.max_threads = Some(numbers.product()),
            ".minnctapersm" => bounds.min_blocks = numbers.into_iter().next(),
            _ => {}
        }
    }
    bounds
}

/// Fails if the table names a kernel that is in none of the texts.
pub fn expect_all<'a>(table: &Table, texts: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut missing: BTreeSet<&str> = table.keys().map(String::as_str).collect();
    for text in texts {
        for entry in Module::parse(text)?.entries {
            missing.remove(entry.name.as_str());
        }
    }
    match missing.first() {
        Some(name) => bail!("the launch bounds name a kernel {name} that does not exist"),
        None => Ok(()),
    }
}

/// `text` with the table's bounds after the parameter list of each of its kernels.
pub fn apply(text: &str, table: &Table) -> Result<String> {
    let module = Module::parse(text)?;
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for entry in &module.entries {
        let Some(bounds) = table.get(&entry.name) else {
            continue;
        };
        out.push_str(&text[copied..entry.after_parameters]);
        copied = entry.after_parameters;
        if let Some(threads) = bounds.max_threads {
            out.push_str(&format!("\n.maxntid {threads}, 1, 1"));
        }
        if let Some(blocks) = bounds.min_blocks {
            out.push_str(&format!("\n.minnctapersm {blocks}"));
        }
    }
    out.push_str(&text[copied..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".visible .entry a(\n\t.param .b64 a_param_0\n)\n{\nret;\n}\n\
                       .visible .entry b()\n{\nret;\n}\n";

    #[test]
    fn bounds_go_after_the_parameters() {
        let table = parse("[b]\nmax_threads = 512\nmin_blocks = 2\n").unwrap();
        let out = apply(PTX, &table).unwrap();
        assert!(out.contains(".entry b()\n.maxntid 512, 1, 1\n.minnctapersm 2\n{\nret;"));
        assert!(out.contains("a_param_0\n)\n{\nret;"));
        let module = Module::parse(&out).unwrap();
        let read = |entry| of(&module, &module.entries[entry]);
        assert_eq!(read(1), table["b"]);
        assert_eq!((read(0).max_threads, read(0).min_blocks), (None, None));
    }

    #[test]
    fn an_empty_table_changes_nothing() {
        assert_eq!(apply(PTX, &parse("# nothing\n").unwrap()).unwrap(), PTX);
    }

    #[test]
    fn mistakes_are_refused() {
        let table = parse("[c]\nmax_threads = 1\n").unwrap();
        assert!(expect_all(&table, [PTX]).is_err());
        assert!(expect_all(&table, [PTX, ".visible .entry c()\n{\nret;\n}\n"]).is_ok());
        assert!(parse("[a]\nmax_thread = 1\n").is_err());
        assert!(parse("[a]\nmax_threads = 2048\n").is_err());
        assert!(parse("[a]\nmin_blocks = 2\n").is_err());
    }
}
