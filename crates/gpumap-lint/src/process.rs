//! Running other programs: one place that says what was run when it fails.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Environment variables of an outer cargo or rustup that would change what an inner
/// compiler does; rustup's `LD_LIBRARY_PATH` could even give it the wrong libraries.
const LEAKING: &[&str] = &[
    "CARGO",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "LD_LIBRARY_PATH",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
];

/// Drops the variables that would change what another toolchain does.
pub fn isolate(command: &mut Command) -> &mut Command {
    for name in LEAKING {
        command.env_remove(name);
    }
    command
}

/// The command line as one would type it.
pub fn display(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Runs to the end with this process's output; an unsuccessful exit is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("could not start `{}`", display(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", display(command));
    }
    Ok(())
}

/// Runs to the end and returns what it printed; an unsuccessful exit is an error that shows it.
pub fn capture(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start `{}`", display(command)))?;
    if !output.status.success() {
        bail!(
            "`{}` failed ({})\n{}{}",
            display(command),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
    }
    Ok(output)
}

/// What a program prints to its standard output, when it runs at all and succeeds.
pub fn probe(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
