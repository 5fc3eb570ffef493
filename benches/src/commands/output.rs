//! Figures and drawings as files that are there whole or not at all, and the table of a command that writes them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use gpumap::file::AtomicFile;
use serde::Serialize;

use super::FigureArgs;

/// What a command writes.
#[derive(Debug)]
pub struct Outputs<'a> {
    figures: &'a FigureArgs,
    plot: Option<&'a Path>,
}

impl<'a> Outputs<'a> {
    /// Finds out before the long work whether all files can be made, and are different ones, also from the input.
    pub fn new(
        figures: &'a FigureArgs,
        plot: Option<&'a Path>,
        input: Option<&Path>,
    ) -> Result<Self> {
        let output = figures.output.as_deref();
        let mut taken: Vec<PathBuf> = Vec::new();
        if let Some(input) = input {
            let real = input.canonicalize();
            taken.push(real.with_context(|| format!("cannot open {}", input.display()))?);
        }
        for (path, ending) in [(output, "json"), (plot, "svg")] {
            let Some(path) = path else { continue };
            let target = match is_stdout(path) {
                true => Some(path.to_owned()),
                false => open(path, ending)?.target().map(Path::to_owned),
            };
            match target {
                Some(target) if taken.contains(&target) => {
                    bail!("{}: this file is named twice", path.display())
                }
                target => taken.extend(target),
            }
        }
        Ok(Self { figures, plot })
    }

    /// Shows a line, unless something else goes to standard output.
    pub fn show(&self, line: &str) -> Result<()> {
        let of_files = [self.figures.output.as_deref(), self.plot];
        if self.figures.json || of_files.into_iter().flatten().any(is_stdout) {
            return Ok(());
        }
        Ok(writeln!(io::stdout(), "{line}")?)
    }

    /// Writes everything: all of it is on the disk before the first file has its name.
    pub fn write(
        &self,
        report: &impl Serialize,
        plot: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        let output = self.figures.output.as_deref();
        if self.figures.json && !output.is_some_and(is_stdout) {
            writeln!(io::stdout(), "{}", serde_json::to_string(report)?)?;
        }
        let mut files = Vec::new();
        if let Some(path) = output {
            let text = serde_json::to_string_pretty(report)? + "\n";
            files.extend(written(path, "json", &text)?);
        }
        if let Some(path) = self.plot {
            files.extend(written(path, "svg", &plot()?)?);
        }
        for (path, file) in files {
            file.commit().with_context(|| cannot_write(path))?;
        }
        Ok(())
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// A file whose name ends as the format demands. Pipes and devices are called anything.
fn open(path: &Path, ending: &str) -> Result<AtomicFile> {
    let file = AtomicFile::create(path).with_context(|| cannot_write(path))?;
    let is_named_so = path.extension().is_some_and(|it| it == ending);
    if file.target().is_some() && !is_named_so {
        bail!("{}: the name must end in .{ending}", path.display());
    }
    Ok(file)
}

/// A file with this text on the disk, which has no name yet; none for standard output.
fn written<'a>(path: &'a Path, ending: &str, text: &str) -> Result<Option<(&'a Path, AtomicFile)>> {
    if is_stdout(path) {
        io::stdout().write_all(text.as_bytes())?;
        return Ok(None);
    }
    let mut file = open(path, ending)?;
    let put = file.write_all(text.as_bytes()).and_then(|()| file.sync());
    put.with_context(|| cannot_write(path))?;
    Ok(Some((path, file)))
}
