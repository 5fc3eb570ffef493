//! Saving maps to files and loading them: the same for every kind of map.
//!
//! A kind of map implements [`Stored`]. Its methods `save`, `save_to`, `load` and `load_from` call the functions here.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::iter::FusedIterator;
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use gpumap_simt::executor::PerProcess;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::file::{
    AtomicFile, Block, FileError, Frame, Header, Kinds, MAX_BLOCK_PAIRS, Reader, Writer,
};
use crate::map::{Chunk, Growth};
use crate::op::{self, Execute};

/// Bytes of the pairs that a table is made for on the word of a header alone.
const TRUSTED_BYTES: usize = 1 << 20;

/// What a pair counts for at least: no table has larger slots.
const PAIR_BYTES: usize = 16;

/// Pairs of a block that one thread makes: enough blocks of a chunk for all threads.
const BLOCK_PAIRS: usize = 1 << 15;

/// Bytes of the pairs that are on the host at a time, about.
const CHUNK_BYTES: usize = 16 << 20;

/// Slots that are made at most for each pair of a file, or for each of [`trusted_pairs`] if the file has
/// fewer, whatever settings the header has.
pub(crate) const SLOTS_PER_PAIR: f64 = 16.0;

/// A map that can be saved and loaded.
pub(crate) trait Stored<K: Pod + Send + Sync, V: Pod + Sync>: Execute<K, V> {
    /// Whether a key may have several pairs.
    const IS_MULTIMAP: bool = false;

    /// Whether a lock of the map is held while chunks are given out. Then no job of a pool of rayon's may be waited for: a thread
    /// of the caller's pool that waits may take up a call itself that waits for this lock.
    const HOLDS_LOCK: bool = false;

    /// Whether a map that is loaded grows as the one that was saved, or has its fixed capacity; else it grows by the usual
    /// factor.
    const KEEPS_GROWTH: bool = true;

    /// What is saved about the map.
    fn header(&self) -> Header;

    /// Gives all pairs out, about so many at a time, until that fails.
    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()>;

    /// Stores pairs of a file: of several with one key all if it is of a multimap, else one.
    fn store_block(&self, keys: &[K], values: &[V], _is_multimap: bool) -> Result<()> {
        self.execute(op::upsert(keys, values)).map(drop)
    }

    /// How many pairs it holds.
    fn pairs(&self) -> usize;
}

/// What `next` gives, until that is nothing or an error.
pub(crate) fn until_error<T>(
    mut next: impl FnMut() -> Result<Option<T>>,
) -> impl FusedIterator<Item = Result<T>> {
    let mut is_over = false;
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let item = next().transpose();
        is_over = !matches!(item, Some(Ok(_)));
        item
    })
    .fuse()
}

/// Pairs of a chunk.
pub(crate) fn chunk_pairs<K, V>() -> usize {
    (CHUNK_BYTES / (size_of::<K>() + size_of::<V>())).min(MAX_BLOCK_PAIRS)
}

/// Saves all pairs to a file, which is there whole or not at all ([`AtomicFile`]). Returns how many.
pub(crate) fn save<K: Pod + Send + Sync, V: Pod + Sync, M: Stored<K, V>>(
    map: &M,
    path: &Path,
) -> Result<u64> {
    save_with(path, |file| match (file.target(), threads()) {
        (Some(_), Some(threads)) if !M::HOLDS_LOCK => save_by_parts(map, file, threads),
        _ => save_to(map, file),
    })
}

/// The threads of this process that make files; none if the system gives none. Rayon's own are not there in a forked process.
fn threads() -> Option<&'static ThreadPool> {
    static THREADS: PerProcess<Option<ThreadPool>> = PerProcess::new();
    let named = |at| format!("gpumap-files-{at}");
    let build = || {
        rayon::ThreadPoolBuilder::new()
            .thread_name(named)
            .build()
            .ok()
    };
    THREADS.get(|_| build()).as_ref()
}

/// Makes a file of what `write` writes, which is there whole or not at all. Returns what `write` does.
pub(crate) fn save_with<T>(
    path: &Path,
    write: impl FnOnce(&mut AtomicFile) -> Result<T>,
) -> Result<T> {
    let in_file = |error| with_path(error, path);
    let failed = |error| in_file(FileError::from(error).into());
    let mut file = AtomicFile::create(path).map_err(failed)?;
    let written = write(&mut file).map_err(in_file)?;
    file.commit().map_err(failed)?;
    Ok(written)
}

/// As [`save_to`], by several threads.
fn save_by_parts<K: Pod + Send + Sync, V: Pod + Sync>(
    map: &impl Stored<K, V>,
    file: &AtomicFile,
    threads: &ThreadPool,
) -> Result<u64> {
    let (mut frame, header) = Frame::begin(&map.header());
    file.write_all_at(&header, 0).map_err(FileError::from)?;
    let mut at = header.len() as u64;
    let mut pairs = 0;
    map.give_chunks(chunk_pairs::<K, V>(), &mut |chunk| {
        let (keys, values) = (chunk.keys(), chunk.values());
        let columns = keys
            .par_chunks(BLOCK_PAIRS)
            .zip(values.par_chunks(BLOCK_PAIRS));
        let blocks = columns.map(|(keys, values)| Block::of(keys, values));
        let blocks: Vec<Block> = threads.install(|| blocks.collect::<Result<_>>())?;
        let starts: Vec<_> = blocks.iter().map(Block::start).collect();
        let mut parts: Vec<&[u8]> = Vec::with_capacity(3 * blocks.len());
        let columns = keys.chunks(BLOCK_PAIRS).zip(values.chunks(BLOCK_PAIRS));
        for (start, (keys, values)) in starts.iter().zip(columns) {
            parts.extend([
                &start[..],
                bytemuck::cast_slice(keys),
                bytemuck::cast_slice(values),
            ]);
        }
        let written = threads.install(|| file.append_parts(&parts, at));
        written.map_err(FileError::from)?;
        at += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        pairs += chunk.len() as u64;
        blocks.iter().for_each(|block| frame.add(block));
        Ok(())
    })?;
    file.write_all_at(&frame.end(), at)
        .map_err(FileError::from)?;
    Ok(pairs)
}

/// Saves all pairs to anything that takes bytes. Returns how many.
pub(crate) fn save_to<K: Pod + Send + Sync, V: Pod + Sync>(
    map: &impl Stored<K, V>,
    writer: impl Write,
) -> Result<u64> {
    // The kinds are those of the map, whatever its types in Rust are.
    let mut writer = Writer::<K, V, _>::of_kinds(writer, &map.header(), Kinds::ANY)?;
    map.give_chunks(chunk_pairs::<K, V>(), &mut |chunk| {
        writer.write(chunk.keys(), chunk.values())
    })?;
    let pairs = writer.pairs();
    writer.finish()?;
    Ok(pairs)
}

/// Makes a map of these kinds of a file and the settings in its header: `make` is told these, and how many pairs there may be,
/// and `restore` gives it what is to be believed only when the whole file has been read.
pub(crate) fn load<K: Pod + Send + Sync, V: Pod + Sync, M: Stored<K, V>>(
    path: &Path,
    kinds: Kinds,
    make: impl FnOnce(&Header, usize) -> Result<M>,
    restore: impl FnOnce(&Header, &mut M) -> Result<()>,
) -> Result<M> {
    let loaded = open::<K, V>(path).and_then(|(reader, most)| {
        let mut reader = begin(reader, kinds)?;
        let mut header = reader.header().clone();
        if !M::KEEPS_GROWTH {
            header.growth = Growth::default();
        }
        // Of a stream only the load factor is checked here; the capacity when the pairs are counted.
        let enough = header.pairs.max(fixed_capacity(&header));
        expect_slots::<K, V>(&header, most.unwrap_or(enough))?;
        let mut map = fill(&mut reader, most, |pairs| make(&header, pairs))?;
        expect_slots::<K, V>(&header, map.pairs() as u64)?;
        restore(&header, &mut map)?;
        Ok(map)
    });
    loaded.map_err(|error| with_path(error, path))
}

/// Makes a map of these kinds of a file: `make` is told how many pairs there may be.
pub(crate) fn load_pairs<K: Pod + Send + Sync, V: Pod + Sync, M: Stored<K, V>>(
    path: &Path,
    kinds: Kinds,
    make: impl FnOnce(usize) -> Result<M>,
) -> Result<M> {
    let loaded =
        open::<K, V>(path).and_then(|(reader, most)| fill(&mut begin(reader, kinds)?, most, make));
    loaded.map_err(|error| with_path(error, path))
}

/// As [`load_pairs`], from anything that gives bytes.
pub(crate) fn load_from<K: Pod + Send + Sync, V: Pod + Sync, M: Stored<K, V>>(
    reader: impl Read,
    kinds: Kinds,
    make: impl FnOnce(usize) -> Result<M>,
) -> Result<M> {
    fill(&mut begin(reader, kinds)?, None, make)
}

/// Reads the header of a file for a map of these kinds.
fn begin<K: Pod, V: Pod, R: Read>(mut reader: R, kinds: Kinds) -> Result<Reader<K, V, R>> {
    let header = Header::read(&mut reader)?;
    Reader::of_kinds(reader, header, kinds)
}

/// Makes a map for as many pairs as the header says, but no more than `most`, and stores them.
fn fill<K: Pod + Send + Sync, V: Pod + Sync, M: Stored<K, V>>(
    reader: &mut Reader<K, V, impl Read>,
    most: Option<u64>,
    make: impl FnOnce(usize) -> Result<M>,
) -> Result<M> {
    let header = reader.header();
    if header.is_rows {
        return Err(FileError::Rows.into());
    }
    if header.is_multimap && !M::IS_MULTIMAP {
        return Err(FileError::Multimap.into());
    }
    let is_multimap = header.is_multimap;
    let pairs = header.pairs.min(most.unwrap_or(trusted_pairs::<K, V>()));
    let map = make(usize::try_from(pairs).unwrap_or(usize::MAX))?;
    while let Some((keys, values)) = reader.next_block()? {
        map.store_block(keys, values, is_multimap)?;
    }
    Ok(map)
}

/// The capacity that a loaded map must have whatever its pairs take.
pub(crate) fn fixed_capacity(header: &Header) -> u64 {
    match header.growth {
        Growth::Fixed => header.capacity,
        Growth::By(_) => 0,
    }
}

/// Pairs that a table is made for on the word of a header alone.
pub(crate) const fn trusted_pairs<K, V>() -> u64 {
    let pair = size_of::<K>() + size_of::<V>();
    let pair = if pair < PAIR_BYTES { PAIR_BYTES } else { pair };
    (TRUSTED_BYTES / pair) as u64
}

/// An error if the settings of a header ask for more slots than so many pairs justify.
fn expect_slots<K, V>(header: &Header, pairs: u64) -> Result<(), FileError> {
    let counted = pairs.max(trusted_pairs::<K, V>());
    let capacity = fixed_capacity(header).max(counted);
    let slots = capacity as f64 / header.max_load_factor;
    let most = SLOTS_PER_PAIR * counted as f64;
    // One that is NaN or negative is refused as a setting.
    if slots > most {
        let (slots, most) = (slots as u64, most as u64);
        return Err(FileError::Slots { slots, pairs, most });
    }
    Ok(())
}

/// Opens a file, and says how many pairs its length has room for, if it has a length.
pub(crate) fn open<K, V>(path: &Path) -> Result<(BufReader<File>, Option<u64>)> {
    open_of(path, size_of::<K>() + size_of::<V>())
}

/// The same, of pairs of so many bytes.
pub(crate) fn open_of(path: &Path, pair: usize) -> Result<(BufReader<File>, Option<u64>)> {
    let file = File::open(path).map_err(FileError::from)?;
    let metadata = file.metadata().map_err(FileError::from)?;
    let most = metadata.is_file().then(|| metadata.len() / pair as u64);
    Ok((BufReader::with_capacity(1 << 16, file), most))
}

/// Says which file an error is about.
pub(crate) fn with_path(error: Error, path: &Path) -> Error {
    match error {
        Error::File { path: None, cause } => Error::File {
            path: Some(PathBuf::from(path)),
            cause,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;
    use crate::op::Op;

    /// A map of one pair that holds its lock while it gives that out.
    struct Locked(Mutex<()>);

    impl Execute<u32, u32> for Locked {
        fn execute<A>(&self, _: Op<'_, u32, u32, A>) -> Result<A> {
            Err(Error::Poisoned)
        }
    }

    impl Stored<u32, u32> for Locked {
        const HOLDS_LOCK: bool = true;

        fn header(&self) -> Header {
            Header::new::<u32, u32>(1)
        }

        /// While all threads of rayon's pool wait for the lock, as calls on the map may.
        fn give_chunks(
            &self,
            _: usize,
            give: &mut dyn FnMut(&Chunk<u32, u32>) -> Result<()>,
        ) -> Result<()> {
            let waiting = AtomicUsize::new(0);
            let lock = self.0.lock();
            thread::scope(|scope| {
                let calls = scope.spawn(|| {
                    rayon::broadcast(|_| {
                        waiting.fetch_add(1, Ordering::AcqRel);
                        self.0.try_lock_for(Duration::from_secs(20)).is_some()
                    })
                });
                while waiting.load(Ordering::Acquire) != rayon::current_num_threads() {
                    thread::sleep(Duration::from_millis(1));
                }
                let given = give(&Chunk::of((vec![1], vec![2])));
                drop(lock);
                let have_run = calls.join().unwrap();
                assert!(
                    have_run.into_iter().all(|has| has),
                    "saving waited for the pool"
                );
                given
            })
        }

        fn pairs(&self) -> usize {
            1
        }
    }

    #[test]
    fn a_map_that_holds_a_lock_is_saved_while_the_threads_of_the_pool_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        assert_eq!(save(&Locked(Mutex::new(())), &path).unwrap(), 1);
        let mut reader = Reader::<u32, u32, _>::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.next_block().unwrap(), Some((&[1][..], &[2][..])));
        assert_eq!(reader.next_block().unwrap(), None);
    }
}
