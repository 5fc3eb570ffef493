//! [`AtomicFile`]: an output that is there whole or not at all.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::mapping::Mapping;
use super::unfinished::Unfinished;

/// Links that are followed from one to the next, as Linux does.
const MOST_LINKS: usize = 40;

/// Threads from which on it pays to fill a mapping, which costs each of them two to three times as much as a write.
const MAPPED_FROM: usize = 6;

/// A file that takes the place of an earlier one when it is complete and on the disk
/// ([`commit`](Self::commit)). [`Map::save`](crate::Map::save) writes through it.
///
/// Until then it has no name where the system has files without one (Linux, on most file systems), so nothing of it stays
/// when the process ends. Elsewhere it has another name in the same folder (`.gpumap-*.tmp`), which
/// [`remove_unfinished`](super::remove_unfinished) removes. On Unix only its owner can open it.
/// A file without a name cannot take the place of an earlier one, so `commit` gives it such a hidden name first. A process that is killed
/// between these two steps leaves the earlier file and one hidden file of the new bytes, complete and safe to remove.
/// Dropped without `commit`, it leaves nothing behind. A symbolic link stays a link: its target is
/// replaced, or made if there is none. What is no regular file (`/dev/null`, a named pipe) is written in
/// place.
///
/// ```
/// use std::io::Write;
///
/// use gpumap::file::AtomicFile;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("out.txt");
/// let mut file = AtomicFile::create(&path)?;
/// file.write_all(b"all of it")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile(Kind);

#[derive(Debug)]
enum Kind {
    InPlace(File),
    Temporary(Box<Temporary>),
}

#[derive(Debug)]
struct Temporary {
    file: Unfinished,
    target: PathBuf,
    /// Whose owner, group and mode the file gets if there is none to replace.
    model: Metadata,
}

impl AtomicFile {
    /// Opens a file that is to be at `path`.
    ///
    /// # Errors
    /// The system's, if no file can be made in the folder of `path`, or if `path` is a folder.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let earlier = fs::metadata(path);
        if earlier.as_ref().is_ok_and(|earlier| !earlier.is_file()) {
            let file = File::options().write(true).open(path)?;
            return Ok(Self(Kind::InPlace(file)));
        }
        let target = target_of(path)?;
        let folder = folder_of(&target);
        let model = match earlier {
            Ok(earlier) => earlier,
            // The file itself must not be open to others while it is written, nor before.
            Err(_) => Unfinished::usual(folder)?.file().metadata()?,
        };
        let file = Unfinished::private(folder)?;
        Ok(Self(Kind::Temporary(Box::new(Temporary {
            file,
            target,
            model,
        }))))
    }

    /// The path that the file gets, with all links followed; none if it is written in place.
    pub fn target(&self) -> Option<&Path> {
        match &self.0 {
            Kind::InPlace(_) => None,
            Kind::Temporary(temporary) => Some(&temporary.target),
        }
    }

    /// Waits until all that was written is on the disk. Of several files that belong together, all are
    /// synchronised first, and then each is [committed](Self::commit): what can fail has been done by then.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&mut self) -> io::Result<()> {
        let Kind::Temporary(temporary) = &self.0 else {
            return Ok(());
        };
        let earlier = fs::metadata(&temporary.target);
        let file = temporary.file.file();
        take_after(file, earlier.as_ref().unwrap_or(&temporary.model))?;
        file.sync_all()
    }

    /// [Synchronises](Self::sync) the file, and gives it its name, replacing an earlier one. If the process or
    /// the machine stops meanwhile, either the earlier one is there or the new one, and it is whole.
    ///
    /// # Errors
    /// The system's. An earlier file is as it was.
    pub fn commit(mut self) -> io::Result<()> {
        self.sync()?;
        if let Kind::Temporary(temporary) = self.0 {
            let Temporary { file, target, .. } = *temporary;
            file.appear(&target)?;
            // So that the new name is on the disk as well. Not all file systems can do that; the file
            // is whole under its old or its new name either way.
            #[cfg(unix)]
            let _ = File::open(folder_of(&target)).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }

    /// Writes all of `bytes` from byte `at` on, beyond the present end too. Several threads may do so at
    /// once, each at its own place. A file takes either this or [`Write`]: whether this moves the place of
    /// the latter depends on the system.
    ///
    /// # Errors
    /// The system's, also if the file is [written in place](Self::target) and has no places, as a pipe.
    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        write_all_at(self.shared(), bytes, at)
    }

    /// Writes parts one after the other from byte `at` on, which must be the end of the file, by the threads of
    /// rayon's pool. As for [`write_all_at`](Self::write_all_at), [`Write`] is not for the same file.
    ///
    /// # Errors
    /// The system's. Then the file may be longer, and its bytes from `at` on are not determined.
    pub fn append_parts(&self, parts: &[impl AsRef<[u8]> + Sync], at: u64) -> io::Result<()> {
        let lens = parts.iter().map(|part| part.as_ref().len());
        let len = lens.clone().sum();
        if rayon::current_num_threads() >= MAPPED_FROM
            && parts.len() > 1
            && self.target().is_some()
            && let Some(mut mapping) = Mapping::of_end(self.shared(), at, len)
        {
            let regions = mapping.regions(lens.clone()).into_par_iter();
            let filled = regions
                .zip(parts)
                .try_for_each(|(region, part)| region.fill(part.as_ref()));
            if filled.is_ok() {
                return Ok(());
            }
            // The write fails with the system's reason.
        }
        let ends = lens.scan(at, |end, len| {
            let start = *end;
            *end += len as u64;
            Some(start)
        });
        let placed: Vec<_> = ends.zip(parts).collect();
        let placed = placed.into_par_iter();
        placed.try_for_each(|(at, part)| self.write_all_at(part.as_ref(), at))
    }

    fn shared(&self) -> &File {
        match &self.0 {
            Kind::InPlace(file) => file,
            Kind::Temporary(temporary) => temporary.file.file(),
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shared().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.shared().flush()
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Where the file is that a path leads to, or would be: links are followed, also one to nothing.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    if let Ok(target) = path.canonicalize() {
        return Ok(target);
    }
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = folder_of(&target).join(next),
            Err(error) => {
                // No link, and no file that could be found.
                let name = target.file_name().ok_or(error)?;
                return Ok(folder_of(&target).canonicalize()?.join(name));
            }
        }
    }
    // The system's own words for links that lead in a circle.
    fs::metadata(path).map(|_| target)
}

pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Gives a file the owner, the group and the mode of another one.
#[cfg(unix)]
fn take_after(file: &File, model: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let own = file.metadata()?;
    let mut mode = model.mode() & 0o777;
    if own.uid() != model.uid() {
        // Only the superuser may; for others the new file is theirs.
        let _ = fchown(file, Some(model.uid()), None);
    }
    if own.gid() != model.gid() && fchown(file, None, Some(model.gid())).is_err() {
        // What that group was allowed is not allowed to another one.
        mode &= !0o070;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn take_after(_file: &File, _model: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = AtomicFile::create(path)?;
        file.write_all(bytes)?;
        file.commit()
    }

    #[test]
    fn a_file_is_there_after_commit_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for earlier in [None, Some("earlier")] {
            let there = || fs::read_to_string(&path).ok();
            let mut file = AtomicFile::create(&path).unwrap();
            file.write_all(b"lost").unwrap();
            file.sync().unwrap();
            assert_eq!(there().as_deref(), earlier);
            drop(file);
            assert_eq!(names(folder.path()).len(), usize::from(earlier.is_some()));
            write(&path, b"earlier").unwrap();
            assert_eq!(there().as_deref(), Some("earlier"));
            assert_eq!(names(folder.path()), ["file"]);
        }
    }

    #[test]
    fn threads_write_at_their_own_places() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = AtomicFile::create(&path).unwrap();
        std::thread::scope(|scope| {
            for part in (0..8_u8).rev() {
                let file = &file;
                scope.spawn(move || {
                    let at = u64::from(part) * 1_000;
                    file.write_all_at(&[part; 1_000], at).unwrap();
                });
            }
        });
        assert!(!path.exists());
        file.commit().unwrap();
        let expected: Vec<u8> = (0..8).flat_map(|part| [part; 1_000]).collect();
        assert!(fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn parts_stand_one_behind_the_other_whatever_the_threads_and_the_disk() {
        let parts: Vec<Vec<u8>> = (0..100_usize)
            .map(|part| vec![part as u8; part * 1_237 % 5_000])
            .collect();
        let in_memory = tempfile::tempdir_in("/dev/shm").ok();
        for folder in in_memory.into_iter().chain(tempfile::tempdir()) {
            let path = folder.path().join("file");
            for threads in [1, 2, MAPPED_FROM, 2 * MAPPED_FROM] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let file = AtomicFile::create(&path).unwrap();
                let append = || {
                    file.write_all_at(b"head", 0)?;
                    file.append_parts(&parts, 4)?;
                    let at = 4 + parts.concat().len() as u64;
                    file.append_parts(&parts[..3], at)?;
                    file.append_parts(&[b"foot"], at + parts[..3].concat().len() as u64)
                };
                pool.build().unwrap().install(append).unwrap();
                file.commit().unwrap();
                let (all, again) = (parts.concat(), parts[..3].concat());
                let expected = [b"head", &all[..], &again, b"foot"].concat();
                assert!(fs::read(&path).unwrap() == expected, "{threads}");
            }
        }
    }

    #[test]
    fn paths_where_no_file_can_be_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("no/file");
        for path in [folder.path(), &nowhere, Path::new(""), Path::new("/")] {
            let error = AtomicFile::create(path).unwrap_err();
            assert!(error.raw_os_error().is_some(), "{path:?}: {error}");
        }
        assert!(names(folder.path()).is_empty());
    }

    /// Audit finding 11.
    #[cfg(unix)]
    #[test]
    fn a_file_that_is_being_written_is_open_to_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let path = folder.path().join("file");
        fs::write(folder.path().join("usual"), "").unwrap();
        let usual = mode(&folder.path().join("usual"));
        for earlier in [None, Some(0o644), Some(0o600), Some(0o640), Some(0o444)] {
            if let Some(mode) = earlier {
                fs::write(&path, "earlier").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            let mut file = AtomicFile::create(&path).unwrap();
            file.write_all(b"secret").unwrap();
            let own = file.shared().metadata().unwrap().permissions().mode();
            assert_eq!(own & 0o7777, 0o600);
            file.commit().unwrap();
            assert_eq!(mode(&path), earlier.unwrap_or(usual), "{earlier:?}");
            assert_eq!(fs::read(&path).unwrap(), b"secret");
            fs::remove_file(&path).unwrap();
        }
        // The mode at the end counts, not that at the beginning.
        fs::write(&path, "earlier").unwrap();
        let file = AtomicFile::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        file.commit().unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    /// Audit finding 11.
    #[cfg(unix)]
    #[test]
    fn links_stay_links_also_to_nothing() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let in_folder = |name: &str| folder.path().join(name);
        fs::create_dir(in_folder("deep")).unwrap();
        symlink("deep/second", in_folder("first")).unwrap();
        symlink("target", in_folder("deep/second")).unwrap();
        // The first time there is no target, the second time there is one.
        for text in [&b"one"[..], b"two"] {
            write(&in_folder("first"), text).unwrap();
            for link in ["first", "deep/second"] {
                assert!(fs::symlink_metadata(in_folder(link)).unwrap().is_symlink());
            }
            assert_eq!(fs::read(in_folder("deep/target")).unwrap(), text);
            assert_eq!(names(folder.path()), ["deep", "first"]);
            assert_eq!(names(&in_folder("deep")), ["second", "target"]);
        }
        symlink("circle", in_folder("circle")).unwrap();
        let circle = fs::metadata(in_folder("circle")).unwrap_err();
        let error = AtomicFile::create(in_folder("circle")).unwrap_err();
        assert_eq!(error.raw_os_error(), circle.raw_os_error());
        symlink("no/target", in_folder("nowhere")).unwrap();
        AtomicFile::create(in_folder("nowhere")).unwrap_err();
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_written_in_place() {
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
