//! [`Unfinished`]: the file of an [`AtomicFile`](super::AtomicFile) before it has its name.
//!
//! On Linux it has no name at all (`O_TMPFILE`): the system frees it when the process ends. Where the file system has no such
//! files, and on other systems, it has a name that begins with a dot; so has a complete file without a name that is about to replace
//! another, as no call of the system does that at once. Those names are noted, for [`remove_unfinished`].

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

use super::atomic::folder_of;

/// A new file, removed on drop.
#[derive(Debug)]
pub(super) enum Unfinished {
    #[cfg(target_os = "linux")]
    Unnamed(File),
    Named(NamedTempFile, Noted),
}

impl Unfinished {
    /// A file in a folder that only its owner can open.
    ///
    /// # Errors
    /// The system's.
    pub fn private(folder: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed::create(folder, 0o600) {
            return Ok(Self::Unnamed(file));
        }
        Self::named(folder, 0o600)
    }

    /// An empty file in a folder as the system makes them without being told anything.
    ///
    /// # Errors
    /// The system's.
    pub fn usual(folder: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed::create(folder, 0o666) {
            return Ok(Self::Unnamed(file));
        }
        Self::named(folder, 0o666)
    }

    fn named(folder: &Path, mode: u32) -> io::Result<Self> {
        let mut code = None;
        let file = builder().make_in(folder, |path| {
            let mut options = File::options();
            // It may be mapped, for which it must be readable.
            options.read(true).write(true).create_new(true);
            set_mode(&mut options, mode);
            let file = options.open(path);
            file.inspect_err(|error| code = error.raw_os_error())
        });
        // The error of `make_in` names the temporary file, which the caller does not know.
        let file = file.map_err(|error| code.map_or(error, io::Error::from_raw_os_error))?;
        let noted = Noted::new(file.path());
        Ok(Self::Named(file, noted))
    }

    /// The file itself, whose errors do not name it.
    pub fn file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => file,
            Self::Named(file, _) => file.as_file(),
        }
    }

    /// Gives the file its name, in the folder that it was made in, replacing an earlier file.
    ///
    /// # Errors
    /// The system's. An earlier file is as it was.
    pub fn appear(self, target: &Path) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => unnamed::appear(&file, target),
            Self::Named(file, noted) => replace(file, noted, target),
        }
    }
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gpumap-").suffix(".tmp");
    builder
}

/// Puts a file with a temporary name in the place of another one.
fn replace<F>(file: NamedTempFile<F>, noted: Noted, target: &Path) -> io::Result<()> {
    let persisted = file.persist(target);
    // After it, so that the name does not stay if the process ends here.
    drop(noted);
    persisted.map(drop).map_err(|error| error.error)
}

#[cfg(unix)]
fn set_mode(options: &mut OpenOptions, mode: u32) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(mode);
}

#[cfg(not(unix))]
fn set_mode(_options: &mut OpenOptions, _mode: u32) {}

/// Files without a name.
#[cfg(target_os = "linux")]
mod unnamed {
    use std::fs::{self, File};
    use std::io::{self, Seek};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use rustix::io::Errno;

    use super::{Noted, Unfinished, builder, folder_of, replace};

    /// A new file in a folder, or none where it could not be given a name later.
    pub fn create(folder: &Path, mode: u32) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(open(folder, flags, Mode::from_raw_mode(mode)).ok()?);
        // The name is made from this link.
        let (own, seen) = (file.metadata().ok()?, fs::metadata(link_to(&file)).ok()?);
        ((own.dev(), own.ino()) == (seen.dev(), seen.ino())).then_some(file)
    }

    fn link_to(file: &File) -> PathBuf {
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }

    /// Gives a file its name.
    pub fn appear(file: &File, target: &Path) -> io::Result<()> {
        let from = link_to(file);
        let link = |path: &Path| linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW);
        match link(target) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            // Some file systems make such files and do not link them.
            Err(_) => return copy(file, target),
        }
        // A link replaces nothing, and a file that is renamed does. Nothing slow is between the two: a process that is killed there
        // leaves the hidden name.
        let folder = folder_of(target);
        let linked = builder().make_in(folder, |path| {
            let noted = Noted::new(path);
            link(path)?;
            Ok(noted)
        });
        let linked = linked.map_err(|error| {
            let code = error.raw_os_error();
            code.map_or(error, io::Error::from_raw_os_error)
        })?;
        linked
            .persist(target)
            .map(drop)
            .map_err(|error| error.error)
    }

    /// Makes a file of the same bytes and mode that has a name.
    pub(super) fn copy(mut file: &File, target: &Path) -> io::Result<()> {
        let copy = Unfinished::named(folder_of(target), 0o600)?;
        file.rewind()?;
        io::copy(&mut file, &mut copy.file())?;
        let own = file.metadata()?;
        let _ = std::os::unix::fs::fchown(copy.file(), Some(own.uid()), Some(own.gid()));
        let mode = fs::Permissions::from_mode(own.mode() & 0o777);
        copy.file().set_permissions(mode)?;
        copy.file().sync_all()?;
        let Unfinished::Named(copy, noted) = copy else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        replace(copy, noted, target)
    }
}

use noted::Noted;
#[cfg(unix)]
pub use noted::remove_unfinished;

/// The names of files that are not finished.
#[cfg(unix)]
mod noted {
    use std::ffi::{CStr, CString, c_char};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicPtr, Ordering};

    /// Names that are noted at once; what is beyond stays if a signal ends the process.
    const MOST: usize = 64;

    /// Each is null, or from [`CString::into_raw`] and belongs to the thread that takes it out.
    static NAMES: [AtomicPtr<c_char>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];

    /// A note of a name, taken back on drop.
    #[derive(Debug)]
    pub struct Noted(Option<usize>);

    impl Noted {
        /// Notes a name.
        pub fn new(path: &Path) -> Self {
            let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
                return Self(None);
            };
            let name = name.into_raw();
            let place = NAMES.iter().position(|place| {
                let order = (Ordering::AcqRel, Ordering::Relaxed);
                let put = place.compare_exchange(null_mut(), name, order.0, order.1);
                put.is_ok()
            });
            if place.is_none() {
                // SAFETY: from `into_raw` above, and nowhere else.
                drop(unsafe { CString::from_raw(name) });
            }
            Self(place)
        }
    }

    impl Drop for Noted {
        fn drop(&mut self) {
            let Some(place) = self.0 else {
                return;
            };
            let name = NAMES[place].swap(null_mut(), Ordering::AcqRel);
            // A signal handler may have taken it, and another name may be in its place by now: that one is lost from the
            // notes of a process that ends.
            if !name.is_null() {
                // SAFETY: from `into_raw`, and who takes it out owns it.
                drop(unsafe { CString::from_raw(name) });
            }
        }
    }

    /// Removes the files that [`AtomicFile`](crate::file::AtomicFile)s of this process have under temporary names: for a program
    /// that is about to end without dropping them, as in the handler of a signal. They must not be written or
    /// committed afterwards.
    ///
    /// It is async-signal-safe: it makes no memory and takes no lock. The library itself installs no handler. On Linux
    /// most file systems have files without a name, and then there is nothing to remove but the name that a complete file has
    /// for a moment before it replaces another.
    pub fn remove_unfinished() {
        for place in &NAMES {
            let name = place.swap(null_mut(), Ordering::AcqRel);
            if !name.is_null() {
                // It is not freed, which a signal handler must not do.
                // SAFETY: from `CString::into_raw`, and who takes it out owns it.
                let _ = rustix::fs::unlink(unsafe { CStr::from_ptr(name) });
            }
        }
    }
}

#[cfg(not(unix))]
mod noted {
    use std::path::Path;

    /// Nothing: there are no signals.
    #[derive(Debug)]
    pub struct Noted;

    impl Noted {
        /// Nothing.
        pub fn new(_path: &Path) -> Self {
            Self
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// What removes the names of all must not run beside what uses some.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Makes a file with a name and, where the system has it, one without, each when it is asked for.
    fn both(folder: &Path) -> impl Iterator<Item = Unfinished> {
        [true, false].into_iter().map(move |is_private| {
            let file = match is_private {
                true => Unfinished::private(folder),
                false => Unfinished::named(folder, 0o600),
            };
            file.unwrap()
        })
    }

    #[test]
    fn a_file_of_either_kind_appears_new_or_in_the_place_of_another() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for earlier in [false, true] {
            for file in both(folder.path()) {
                if earlier {
                    fs::write(&path, "earlier").unwrap();
                }
                file.file().write_all(b"new").unwrap();
                file.appear(&path).unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"new");
                assert_eq!(names(folder.path()), ["file"]);
                fs::remove_file(&path).unwrap();
            }
        }
    }

    #[test]
    fn a_place_that_cannot_be_taken_leaves_nothing() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("folder");
        fs::create_dir(&taken).unwrap();
        for file in both(folder.path()) {
            file.appear(&taken).unwrap_err();
            assert_eq!(names(folder.path()), ["folder"]);
        }
    }

    /// P3: files on file systems without files that have no name.
    #[test]
    fn names_that_are_noted_are_removed() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let named = Unfinished::named(folder.path(), 0o600).unwrap();
        let kept = folder.path().join("kept");
        Unfinished::named(folder.path(), 0o600)
            .unwrap()
            .appear(&kept)
            .unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        remove_unfinished();
        assert_eq!(names(folder.path()), ["kept"]);
        drop(named);
    }

    /// The usual way on the most file systems of Linux: nothing to be seen before the end.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_a_name_is_nowhere_and_can_be_copied() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let Some(mut file) = unnamed::create(folder.path(), 0o600) else {
            return;
        };
        file.write_all(b"bytes").unwrap();
        assert!(names(folder.path()).is_empty());
        let mode = fs::Permissions::from_mode(0o640);
        file.set_permissions(mode).unwrap();
        let path = folder.path().join("copy");
        unnamed::copy(&file, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(names(folder.path()), ["copy"]);
    }
}
