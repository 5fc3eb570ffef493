//! Programs that come as Python packages: each is installed into a virtual environment of its own in the
//! build folder, at its first use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::run;

/// A program, and the packages that have it.
#[derive(Debug, PartialEq, Eq)]
pub struct Wheel {
    /// With versions, so that two runs compare. Among them may be options of pip.
    pub packages: &'static [&'static str],
    /// The virtual environment, in the folder of them.
    pub folder: &'static str,
    /// The program, from the environment on, or from its `site-packages` on.
    pub program: &'static str,
}

impl Wheel {
    /// The path of the program in such a folder, which is installed when it is not there or is another version.
    pub fn install(&self, folder: &Path) -> Result<PathBuf> {
        let folder = folder.join(self.folder);
        let stamp = folder.join("gpumap-packages");
        let wanted = self.packages.join("\n");
        if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted)
            && let Some(program) = self.find(&folder)
        {
            return Ok(program);
        }
        let packages = self.packages.join(" ");
        println!("installing {packages} into {}", folder.display());
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&folder))
        .with_context(|| {
            format!("{packages} needs a virtual environment (Debian: apt-get install python3-venv)")
        })?;
        run(Command::new(folder.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--no-input"])
            .args(self.packages))?;
        let program = self.find(&folder);
        let program = program.with_context(|| format!("{packages}: no {}", self.program))?;
        fs::write(&stamp, wanted)?;
        Ok(program)
    }

    fn find(&self, folder: &Path) -> Option<PathBuf> {
        // lib/python3.N/site-packages/...
        let pythons = fs::read_dir(folder.join("lib")).ok()?;
        let in_packages = pythons
            .filter_map(Result::ok)
            .map(|python| python.path().join("site-packages"));
        [folder.to_path_buf()]
            .into_iter()
            .chain(in_packages)
            .map(|folder| folder.join(self.program))
            .find(|path| path.is_file())
    }
}
