//! `cargo xtask operations`: the guide's table of operations and of what runs them, as the library has it.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{capture, cargo, run};
use crate::workspace::Workspace;

/// The page that it stands in, between [`BEGIN`] and [`END`].
const PAGE: &str = "docs/guide/src/map.md";

const BEGIN: &str = "<!-- operations: written by `cargo xtask operations` -->\n";
const END: &str = "<!-- end of operations -->\n";

/// Writes the table.
pub fn write(workspace: &Workspace) -> Result<()> {
    let (_, text) = pages(workspace)?;
    fs::write(workspace.root.join(PAGE), text).context(PAGE)?;
    println!("{PAGE}");
    Ok(())
}

/// Fails if it is not that of the library.
pub fn check(workspace: &Workspace) -> Result<()> {
    let (old, new) = pages(workspace)?;
    ensure!(
        old == new,
        "{PAGE} has not the table of gpumap::op: run `cargo xtask operations`, and commit what it writes"
    );
    println!("the table of operations is that of gpumap::op");
    Ok(())
}

/// The page as it is and as it should be.
fn pages(workspace: &Workspace) -> Result<(String, String)> {
    // Of the whole workspace, whose features the tests have too: nothing is built again for them.
    let mut build = cargo(workspace);
    build.args([
        "build",
        "--quiet",
        "--locked",
        "--workspace",
        "--example",
        "operations",
    ]);
    run(&mut build)?;
    let program = workspace.target.join("debug/examples/operations");
    let table = String::from_utf8(capture(&mut Command::new(program))?.stdout)?;
    let old = fs::read_to_string(workspace.root.join(PAGE)).context(PAGE)?;
    let new = with_table(&old, &table)?;
    Ok((old, new))
}

/// A page with another table.
fn with_table(page: &str, table: &str) -> Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.with_context(|| format!("{PAGE} has no place for the table"))?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_exchanged_and_all_else_stays() {
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        let new = with_table(&page, "| new |\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\n| new |\n\n{END}after\n"));
        assert_eq!(with_table(&new, "| new |\n").unwrap(), new);
        assert!(with_table("before\nafter\n", "").is_err());
    }
}
