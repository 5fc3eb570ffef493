//! Running other programs.

use std::env;
use std::process::Command;

pub use gpumap_lint::process::{capture, display, probe, run};

use crate::workspace::Workspace;

/// The cargo that runs this program, in the workspace's root and build folder.
pub fn cargo(workspace: &Workspace) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", &workspace.target);
    command
}
