//! Outputs that are there whole or not at all.
//!
//! An output is written to a temporary file in the folder of its target and takes the target's
//! place when everything has succeeded ([`Staged::commit`]). A target that is no regular file
//! (`/dev/null`, a named pipe) is written in place, as renaming over it would replace the device.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::error::{Error, Result};

/// What outputs are written to.
pub type Out = dyn Write + Send;

const BUFFER: usize = 1 << 18;

/// Where an output goes: a file, or standard output for `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination(PathBuf);

impl Destination {
    /// The destination that a command line argument names.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The destination of a drawing. A name with another ending than `.svg` asks for another format,
    /// and there is none.
    pub fn of_drawing(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        match path.extension() {
            Some(extension) if !extension.eq_ignore_ascii_case("svg") => {
                Err(Error::NotSvg { path })
            }
            _ => Ok(Self(path)),
        }
    }

    /// As given on the command line.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn is_stdout(&self) -> bool {
        self.0.as_os_str() == "-"
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.0.clone();
        move |source| Error::Write {
            path: path.clone(),
            source,
        }
    }

    /// Finds out before the long work whether the output can be made. Leaves nothing behind.
    pub fn check(&self) -> Result<()> {
        self.stage().map(drop)
    }

    /// Opens the output for writing; it appears under its name at [`Staged::commit`].
    pub fn stage(&self) -> Result<Staged> {
        let sink = if self.is_stdout() {
            Sink::Direct(Box::new(io::stdout()))
        } else {
            open_file(&self.0).map_err(self.failed())?
        };
        Ok(Staged {
            destination: self.clone(),
            writer: BufWriter::with_capacity(BUFFER, sink),
        })
    }
}

/// Finds out before the long work what is wrong with the files of a run: an input that is not
/// there, an output that cannot be made, a file named twice. Nothing is opened to be read, as a
/// pipe can be read only once.
pub fn check_paths(inputs: &[&Path], outputs: &[&Destination]) -> Result<()> {
    let files = |path: &&Path| path.as_os_str() != "-";
    let same_file = |path: &Path| Error::SameFile {
        path: path.to_owned(),
    };
    let output_paths: Vec<&Path> = outputs.iter().map(|output| output.path()).collect();
    for side in [inputs, &output_paths] {
        if side.iter().filter(|path| !files(path)).count() > 1 {
            return Err(same_file(Path::new("-")));
        }
    }
    for &path in inputs.iter().filter(|path| files(path)) {
        fs::metadata(path).map_err(|source| Error::Open {
            path: path.to_owned(),
            source,
        })?;
    }
    // Two inputs may be one file: keys can be looked up in the file that they are from.
    let mut taken: Vec<PathBuf> = inputs.iter().map(|path| same_name(path)).collect();
    for output in outputs.iter().filter(|output| files(&output.path())) {
        let name = same_name(output.path());
        if taken.contains(&name) && !is_special(&name) {
            return Err(same_file(output.path()));
        }
        taken.push(name);
        output.check()?;
    }
    Ok(())
}

/// One name for all the names of a file; a file that is not there yet keeps its own last part.
fn same_name(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let folder = folder_of(path).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether something other than a regular file stands at `path`.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

fn open_file(path: &Path) -> io::Result<Sink> {
    // Through a symbolic link its target is replaced, not the link.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if target.file_name().is_none() || target.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if is_special(&target) {
        let file = File::options().write(true).open(&target)?;
        return Ok(Sink::Direct(Box::new(file)));
    }
    let mut builder = Builder::new();
    builder.prefix(".gpumap-").suffix(".tmp");
    let mut code = None;
    // Not as `tempfile` does, which lets nobody else read the file.
    let file = builder.make_in(folder_of(&target), |path| {
        let file = File::options().write(true).create_new(true).open(path);
        file.inspect_err(|error| code = error.raw_os_error())
    });
    // Its error names the temporary file, which nobody has asked for.
    let file = file.map_err(|error| code.map_or(error, io::Error::from_raw_os_error))?;
    if let Ok(metadata) = fs::metadata(&target) {
        fs::set_permissions(file.path(), metadata.permissions())?;
    }
    Ok(Sink::Temporary { file, target })
}

enum Sink {
    Direct(Box<Out>),
    Temporary {
        file: NamedTempFile,
        target: PathBuf,
    },
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(writer) => writer.write(bytes),
            // The file itself, whose errors do not name it.
            Self::Temporary { file, .. } => file.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Direct(writer) => writer.flush(),
            Self::Temporary { file, .. } => file.as_file_mut().flush(),
        }
    }
}

/// An output that is being written. Dropped without [`Staged::commit`], it leaves no file.
pub struct Staged {
    destination: Destination,
    writer: BufWriter<Sink>,
}

impl Staged {
    /// Lets `write` write, naming the output in its errors.
    pub fn write_with(&mut self, write: impl FnOnce(&mut Out) -> io::Result<()>) -> Result<()> {
        self.try_write_with(|writer| Ok(write(writer)))
    }

    /// The same for a `write` that may fail for another reason than writing: the outer error.
    pub fn try_write_with(
        &mut self,
        write: impl FnOnce(&mut Out) -> Result<io::Result<()>>,
    ) -> Result<()> {
        write(&mut self.writer)?
            .and_then(|()| self.writer.flush())
            .map_err(self.destination.failed())
    }

    /// Gives the file its name, in place of any earlier one.
    pub fn commit(self) -> Result<()> {
        let sink = self
            .writer
            .into_inner()
            .map_err(|error| self.destination.failed()(error.into_error()))?;
        if let Sink::Temporary { file, target } = sink {
            file.persist(target)
                .map_err(|error| self.destination.failed()(error.error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_at_commit_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.tsv");
        let destination = Destination::new(&path);

        let mut staged = destination.stage().unwrap();
        staged
            .write_with(|writer| writer.write_all(b"lost"))
            .unwrap();
        drop(staged);
        assert!(names(folder.path()).is_empty());

        let mut staged = destination.stage().unwrap();
        staged
            .write_with(|writer| writer.write_all(b"kept"))
            .unwrap();
        assert!(!path.exists());
        staged.commit().unwrap();
        assert_eq!(names(folder.path()), ["out.tsv"]);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn a_folder_that_is_not_there_is_seen_early() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("no/out.tsv"), folder.path().to_owned()] {
            let outcome = Destination::new(path).check();
            assert!(matches!(outcome, Err(Error::Write { .. })));
        }
        assert!(names(folder.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_permissions_and_devices_stay_what_they_are() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let mut staged = Destination::new(&link).stage().unwrap();
        staged
            .write_with(|writer| writer.write_all(b"new"))
            .unwrap();
        staged.commit().unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);

        let null = Destination::new("/dev/null");
        let mut staged = null.stage().unwrap();
        staged
            .write_with(|writer| writer.write_all(b"gone"))
            .unwrap();
        staged.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn no_file_is_named_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("same");
        let one = Destination::new(&path);
        let two = Destination::new(folder.path().join(".").join("same"));
        let twice = |outcome| matches!(outcome, Err(Error::SameFile { .. }));
        let (stream, stdout) = (Path::new("-"), Destination::new("-"));
        assert!(twice(check_paths(&[], &[&one, &two])));
        assert!(twice(check_paths(&[], &[&stdout, &stdout])));
        assert!(twice(check_paths(&[stream, stream], &[])));
        assert!(check_paths(&[stream], &[&one, &stdout]).is_ok());

        let missing = check_paths(&[&path], &[&stdout]);
        assert!(matches!(missing, Err(Error::Open { .. })));
        fs::write(&path, "input").unwrap();
        assert!(twice(check_paths(&[&path], &[&two])));
        assert!(check_paths(&[&path, &path], &[&stdout]).is_ok());
    }
}
