//! Outputs that are there whole or not at all.
//!
//! An output is an [`AtomicFile`], which takes its target's place when everything has succeeded
//! ([`commit_all`]).

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpumap::file::AtomicFile;

use crate::console;
use crate::error::{Error, Result};
use crate::format::{Format, ending};
use crate::gzip::pack;

const BUFFER: usize = 1 << 18;

/// What an output has, which decides what its name may end in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// Any pairs.
    Pairs,
    /// Counts of k-mers.
    Counts,
    /// Keys with what was found for them.
    Found,
    /// Lines of count, space, k-mers.
    Histogram,
    /// A drawing.
    Drawing,
}

impl OutputKind {
    /// What names end in.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Pairs => &[".csv", ".tsv", ".bin", ".gpumap", ".parquet"],
            Self::Counts => &[
                ".csv", ".tsv", ".txt", ".bin", ".gpk", ".gpumap", ".parquet",
            ],
            Self::Found => &[".csv", ".tsv", ".txt"],
            Self::Histogram => &[".txt", ".tsv", ".hist", ".histo"],
            Self::Drawing => &[".svg"],
        }
    }

    /// The same as a part of a sentence.
    fn list(self) -> String {
        let all = self.endings().iter().map(|ending| (*ending).to_owned());
        let packed = self.endings().iter().filter(|ending| is_text(ending));
        let all: Vec<String> = all
            .chain(packed.map(|ending| format!("{ending}.gz")))
            .collect();
        match all.split_last() {
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }
}

/// Whether files with this ending may be packed: others are not read as a stream.
fn is_text(ending: &str) -> bool {
    ![".bin", ".gpk", ".gpumap", ".parquet"].contains(&ending)
}

/// Where an output goes: a file, or standard output for `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    path: PathBuf,
    is_packed: bool,
}

impl Destination {
    /// The destination that a command line argument names. The end of the name says the format, and whether it is packed
    /// by gzip: a name that says nothing is refused, unless an option says the format, or there is something by that name which is no
    /// regular file.
    pub fn new(path: &Path, kind: OutputKind, asked: Option<Format>) -> Result<Self> {
        let (ending, is_packed) = ending(path);
        let path = path.to_owned();
        if asked == Some(Format::Gpk) && kind != OutputKind::Counts {
            return Err(Error::OnlyKmers { path });
        }
        if let Some(format) = asked {
            return match is_packed && !format.is_text() {
                true => Err(Error::PackedFormat { path, format }),
                false => Ok(Self { path, is_packed }),
            };
        }
        let is_known = kind.endings().contains(&ending.as_str());
        if path.as_os_str() == "-" || (is_known && (is_text(&ending) || !is_packed)) {
            return Ok(Self { path, is_packed });
        }
        // Pipes and devices are called anything. A folder is refused by the system.
        if fs::metadata(&path).is_ok_and(|it| !it.is_file()) {
            return Ok(Self { path, is_packed });
        }
        let endings = kind.list();
        Err(Error::UnknownEnding { path, endings })
    }

    /// A destination whatever its name is.
    #[cfg(test)]
    pub fn any(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let is_packed = ending(&path).1;
        Self { path, is_packed }
    }

    /// As given on the command line.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.path.clone();
        move |source| Error::Write {
            path: path.clone(),
            source,
        }
    }

    /// Finds out before the long work whether the output can be made, and which file it will be, if it is
    /// one. Leaves nothing behind.
    fn check(&self) -> Result<Option<PathBuf>> {
        // A pipe can be opened only once: its reader sees the end when the first who writes to it closes it.
        if !self.is_stdout() && is_pipe(&self.path) {
            return Ok(None);
        }
        Ok(match self.stage()?.out.sink.get_ref() {
            Sink::Stdout => None,
            Sink::Stream(file) | Sink::File { file, .. } => file.target().map(Path::to_owned),
        })
    }

    /// Opens the output for writing; it appears under its name at [`commit_all`].
    pub fn stage(&self) -> Result<Staged> {
        let sink = if self.is_stdout() {
            Sink::Stdout
        } else {
            let file = AtomicFile::create(&self.path).map_err(self.failed())?;
            match file.target() {
                Some(_) => Sink::File { file, len: 0 },
                None => Sink::Stream(file),
            }
        };
        Ok(Staged {
            destination: self.clone(),
            out: Out {
                spent: Spent::default(),
                sink: BufWriter::with_capacity(BUFFER, sink),
                to_pack: self.is_packed.then(Vec::new),
            },
        })
    }
}

/// Finds out before the long work what is wrong with the files of a run: an input that is not
/// there, an output that cannot be made, a file named twice. Nothing is opened to be read, as a
/// pipe can be read only once.
pub fn check_paths(inputs: &[&Path], outputs: &[&Destination]) -> Result<()> {
    check(inputs, outputs, true)
}

/// The same where an output may take the place of an input: it is there whole before it does.
pub fn check_paths_of_databases(inputs: &[&Path], outputs: &[&Destination]) -> Result<()> {
    check(inputs, outputs, false)
}

fn check(inputs: &[&Path], outputs: &[&Destination], inputs_stay: bool) -> Result<()> {
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
    let real = |path: &&Path| path.canonicalize().ok();
    let inputs = inputs.iter().filter(|path| inputs_stay && files(path));
    let mut taken: Vec<PathBuf> = inputs.filter_map(real).collect();
    for output in outputs {
        let Some(target) = output.check()? else {
            continue;
        };
        if taken.contains(&target) {
            return Err(same_file(output.path()));
        }
        taken.push(target);
    }
    Ok(())
}

/// Whether there is a named pipe.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

enum Sink {
    Stdout,
    /// What is no regular file and has no places.
    Stream(AtomicFile),
    /// A file of so many bytes.
    File {
        file: AtomicFile,
        len: u64,
    },
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => console::Output.write(bytes),
            Self::Stream(file) => file.write(bytes),
            Self::File { file, len } => {
                file.write_all_at(bytes, *len)?;
                *len += bytes.len() as u64;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => console::Output.flush(),
            Self::Stream(file) => file.flush(),
            Self::File { .. } => Ok(()),
        }
    }
}

/// Bytes that are packed at once.
const PACKED: usize = 256 * pack::BLOCK;

/// For how long an output has been made into bytes, packed by gzip too, and these have been written: one goes on beside the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Made into bytes.
    pub pack: Duration,
    /// Written.
    pub write: Duration,
}

/// What outputs are written to.
pub struct Out {
    /// For how long so far.
    pub spent: Spent,
    sink: BufWriter<Sink>,
    /// What waits to be packed, in an output that is to be.
    to_pack: Option<Vec<u8>>,
}

impl Out {
    /// Appends blocks to a file one after the other, by this thread alone, until `is_made` says that the other threads have made the
    /// next ones. Returns the blocks that are left: all of them where the output is no file, or is packed. A file takes one write at a
    /// time, and a thread that waits for its turn makes nothing.
    pub fn append_while_made<'b>(
        &mut self,
        blocks: &'b [Vec<u8>],
        is_made: &AtomicBool,
    ) -> io::Result<&'b [Vec<u8>]> {
        let mut rest = blocks;
        if self.to_pack.is_some() {
            return Ok(rest);
        }
        let start = Instant::now();
        self.sink.flush()?;
        if let Sink::File { file, len } = self.sink.get_mut() {
            while let Some((block, behind)) = rest.split_first()
                && !is_made.load(Ordering::Relaxed)
            {
                file.write_all_at(block, *len)?;
                *len += block.len() as u64;
                rest = behind;
            }
        }
        self.spent.write += start.elapsed();
        Ok(rest)
    }

    /// Appends blocks, one after the other: to a file by all cores, each block at its place.
    pub fn append(&mut self, blocks: &[Vec<u8>]) -> io::Result<()> {
        match &mut self.to_pack {
            None => self.put(blocks),
            Some(waiting) => {
                blocks
                    .iter()
                    .for_each(|block| waiting.extend_from_slice(block));
                self.pack()
            }
        }
    }

    fn put(&mut self, blocks: &[Vec<u8>]) -> io::Result<()> {
        let start = Instant::now();
        self.sink.flush()?;
        match self.sink.get_mut() {
            Sink::File { file, len } => {
                file.append_parts(blocks, *len)?;
                *len += blocks.iter().map(|block| block.len() as u64).sum::<u64>();
            }
            _ => blocks
                .iter()
                .try_for_each(|block| self.sink.write_all(block))?,
        }
        self.spent.write += start.elapsed();
        Ok(())
    }

    /// Packs what waits, as far as it fills blocks.
    fn pack(&mut self) -> io::Result<()> {
        let Some(waiting) = &mut self.to_pack else {
            return Ok(());
        };
        let start = Instant::now();
        let whole = waiting.len() / pack::BLOCK * pack::BLOCK;
        let packed = pack::pack(&waiting[..whole])?;
        waiting.drain(..whole);
        self.spent.pack += start.elapsed();
        self.put(&packed)
    }

    /// Writes what is left, and the end of what is packed. Nothing may be written after it.
    fn finish(&mut self) -> io::Result<()> {
        if let Some(waiting) = self.to_pack.take() {
            let packed = pack::pack(&waiting)?;
            self.put(&packed)?;
            self.sink.write_all(&pack::END)?;
        }
        self.sink.flush()
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(waiting) = &mut self.to_pack else {
            let start = Instant::now();
            let written = self.sink.write(bytes);
            self.spent.write += start.elapsed();
            return written;
        };
        waiting.extend_from_slice(bytes);
        if waiting.len() >= PACKED {
            self.pack()?;
        }
        Ok(bytes.len())
    }

    /// What is to be packed may stay: less than a block is a block only at the end.
    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// An output that is being written. Dropped without [`commit_all`], it leaves no file.
pub struct Staged {
    destination: Destination,
    out: Out,
}

impl Staged {
    /// Where it is written. Errors are to be given a name by [`failed`](Self::failed).
    pub fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    /// Names the output in an error.
    pub fn failed(&self) -> impl Fn(io::Error) -> Error + use<> {
        self.destination.failed()
    }

    /// Lets `write` write, naming the output in its errors.
    pub fn write_with(&mut self, write: impl FnOnce(&mut Out) -> io::Result<()>) -> Result<()> {
        write(&mut self.out)
            .and_then(|()| self.out.flush())
            .map_err(self.destination.failed())
    }

    /// Writes a text that is there already.
    pub fn write_all(&mut self, text: &str) -> Result<()> {
        self.write_with(|out| out.write_all(text.as_bytes()))
    }

    /// Sees that all of it is on the disk.
    fn sync(&mut self) -> Result<()> {
        let synced = self
            .out
            .finish()
            .and_then(|()| match self.out.sink.get_mut() {
                Sink::Stdout => Ok(()),
                Sink::Stream(file) | Sink::File { file, .. } => file.sync(),
            });
        synced.map_err(self.destination.failed())
    }

    /// Gives the file its name, replacing any earlier one.
    fn commit(self) -> Result<()> {
        let failed = self.destination.failed();
        match self.out.sink.into_inner() {
            Ok(Sink::Stream(file) | Sink::File { file, .. }) => file.commit().map_err(failed),
            Ok(Sink::Stdout) => Ok(()),
            Err(error) => Err(failed(error.into_error())),
        }
    }
}

/// Ends a run: all outputs are on the disk before the first of them gets its name, so that
/// a full disk leaves none.
pub fn commit_all(mut outputs: Vec<Staged>) -> Result<()> {
    outputs.iter_mut().try_for_each(Staged::sync)?;
    outputs.into_iter().try_for_each(Staged::commit)
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
        let destination = Destination::any(&path);

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
        commit_all(vec![staged]).unwrap();
        assert_eq!(names(folder.path()), ["out.tsv"]);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn blocks_stand_in_their_order_among_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let blocks: Vec<Vec<u8>> = (0..100_u8)
            .map(|block| vec![block; usize::from(block) * 7])
            .collect();
        let all = blocks.concat();
        let expected = [b"head", &all[..], b"foot", &blocks[1]].concat();
        // One by one, and by all cores.
        for is_made in [false, true].map(AtomicBool::new) {
            let mut staged = Destination::any(&path).stage().unwrap();
            staged
                .write_with(|out| {
                    out.write_all(b"head")?;
                    let rest = out.append_while_made(&blocks, &is_made)?;
                    assert_eq!(rest.is_empty(), !is_made.load(Ordering::Relaxed));
                    out.append(rest)?;
                    out.write_all(b"foot")?;
                    out.append(&[])?;
                    out.append(&blocks[..2])
                })
                .unwrap();
            commit_all(vec![staged]).unwrap();
            assert!(fs::read(&path).unwrap() == expected);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_seen_early() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("no/out.tsv"), folder.path().to_owned()] {
            let outcome = Destination::any(path).check();
            assert!(matches!(outcome, Err(Error::Write { .. })));
        }
        assert!(names(folder.path()).is_empty());
    }

    /// Audit findings 11 and 16: all of them are whole before the first one has its name.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_output_that_cannot_be_finished_leaves_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.tsv");
        let staged = |destination: &Destination| {
            let mut staged = destination.stage().unwrap();
            // So little that it is still in the buffer.
            staged.out.write_all(b"new").unwrap();
            staged
        };
        let (good, full) = (Destination::any(&path), Destination::any("/dev/full"));
        for outputs in [[&good, &full], [&full, &good]] {
            let outcome = commit_all(outputs.map(staged).into());
            assert!(matches!(outcome, Err(Error::Write { path, .. }) if path == full.path()));
            assert!(names(folder.path()).is_empty());
        }
        commit_all(vec![staged(&good)]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn no_file_is_named_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("same");
        let one = Destination::any(&path);
        let two = Destination::any(folder.path().join(".").join("same"));
        let twice = |outcome| matches!(outcome, Err(Error::SameFile { .. }));
        let (stream, stdout) = (Path::new("-"), Destination::any("-"));
        assert!(twice(check_paths(&[], &[&one, &two])));
        assert!(twice(check_paths(&[], &[&stdout, &stdout])));
        assert!(twice(check_paths(&[stream, stream], &[])));
        assert!(check_paths(&[stream], &[&one, &stdout]).is_ok());

        #[cfg(unix)]
        {
            let link = Destination::any(folder.path().join("link"));
            std::os::unix::fs::symlink("same", link.path()).unwrap();
            assert!(twice(check_paths(&[], &[&one, &link])));
            let null = Destination::any("/dev/null");
            assert!(check_paths(&[], &[&null, &null]).is_ok());
        }
        let missing = check_paths(&[&path], &[&stdout]);
        assert!(matches!(missing, Err(Error::Open { .. })));
        fs::write(&path, "input").unwrap();
        assert!(twice(check_paths(&[&path], &[&two])));
        assert!(check_paths(&[&path, &path], &[&stdout]).is_ok());
    }
}
