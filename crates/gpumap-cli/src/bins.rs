//! K-mers counted on the CPU: in bins by their first bases, each sorted in the cache of one thread.
//!
//! A thread that makes k-mers puts what follows the first bits of each into a line of its bin, and a full line into the
//! bin, where it waits. When enough of them wait, the thread that brought the last line sorts them, counts equal ones and leaves
//! a [run](run); runs of about one length are merged. So memory is that of the lines, of what waits, which is bounded, and of
//! the different k-mers, whose runs go to a file if they may take no more memory. No access leaves the caches of a core but
//! those that write a line and read what waits. The bins one after the other are in the order of the k-mers.
//!
//! To put k-mers into bins on disk, and to count each bin by itself, is how KMC counts (Deorowicz et al., 2015).

mod run;
mod spill;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem::{replace, take};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use self::run::{Memory, Rest, Run};
use self::spill::{Segment, Spill};
use crate::buckets;
use crate::emit::Take;
use crate::error::Result;
use crate::kmer::{Code, KmerLength, Strand};
use crate::packed::Block;

/// Bytes of a line.
const LINE: usize = 256;

/// Memory that bins may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of what waits, in all bins.
    waiting: usize,
    /// Bytes of runs: more go to a file.
    runs: usize,
}

impl Limits {
    /// For so many bytes in all, if there is a limit.
    pub fn of(memory: Option<u64>) -> Self {
        const WAITING: usize = 1 << 30;
        let memory = memory.map(|memory| usize::try_from(memory).unwrap_or(usize::MAX));
        Self {
            waiting: memory.map_or(WAITING, |memory| WAITING.min(memory / 4)),
            // A run that is merged is there twice for a moment.
            runs: memory.map_or(usize::MAX, |memory| memory / 2),
        }
    }
}

/// K-mers in bins.
pub struct Bins<C>(Arc<dyn Binned<C>>);

impl<C> Clone for Bins<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Code> Bins<C> {
    /// Empty bins for k-mers of a length.
    pub fn new(length: KmerLength, limits: Limits) -> Self {
        Self::with(length, buckets::BITS, limits)
    }

    fn with(length: KmerLength, bin_bits: u32, limits: Limits) -> Self {
        let bits = 2 * length.get() as u32;
        let bin_bits = bin_bits.min(bits);
        Self(match bits - bin_bits {
            rest @ ..=32 => Arc::new(OfRest::<u32>::new(bin_bits, rest, limits)),
            rest @ ..=64 => Arc::new(OfRest::<u64>::new(bin_bits, rest, limits)),
            rest => Arc::new(OfRest::<u128>::new(bin_bits, rest, limits)),
        })
    }

    /// What a thread puts k-mers in through.
    pub fn writer(&self) -> Writer<C> {
        Writer(Arc::clone(&self.0).writer())
    }

    /// Counts what waits. All writers have been closed.
    pub fn finish(&self) -> Result<()> {
        self.0.finish()
    }

    /// K-mers that were put in, repetitions included.
    pub fn kmers(&self) -> u64 {
        self.0.kmers()
    }

    /// How many different ones there are, after [`finish`](Self::finish).
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Hands all k-mers with their counts over, in their order, some at a time, after [`finish`](Self::finish).
    pub fn stream(&self, take: &mut Take<'_, C>) -> Result<()> {
        self.0.stream(take)
    }
}

impl<C> std::fmt::Debug for Bins<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bins").finish_non_exhaustive()
    }
}

/// What a thread puts k-mers in through, to be [closed](Self::close).
pub struct Writer<C>(Box<dyn Scatter<C>>);

impl<C: Code> Writer<C> {
    /// Puts the k-mers of a sealed block in.
    pub fn add(&mut self, block: &Block, length: KmerLength, strand: Strand) -> Result<()> {
        self.0.add(block, length, strand)
    }

    /// Puts the lines in that are not full.
    pub fn close(mut self) -> Result<()> {
        self.0.close()
    }
}

trait Binned<C>: Send + Sync {
    fn writer(self: Arc<Self>) -> Box<dyn Scatter<C>>;
    fn finish(&self) -> Result<()>;
    fn kmers(&self) -> u64;
    fn len(&self) -> usize;
    fn stream(&self, take: &mut Take<'_, C>) -> Result<()>;
}

trait Scatter<C>: Send {
    fn add(&mut self, block: &Block, length: KmerLength, strand: Strand) -> Result<()>;
    fn close(&mut self) -> Result<()>;
}

struct Bin<R> {
    /// Not sorted yet.
    waiting: Vec<R>,
    /// Each at least twice as long as the next.
    runs: Vec<Run>,
    /// Those in the file.
    spilled: Vec<Segment>,
}

/// Bins of rests of one type.
struct OfRest<R> {
    /// Bits of a rest.
    bits: u32,
    /// Rests that wait in a bin, at most and a line more.
    most: usize,
    bins: Vec<Mutex<Bin<R>>>,
    kmers: AtomicU64,
    /// Bytes of all runs in memory, and how many there may be.
    run_bytes: AtomicUsize,
    most_run_bytes: usize,
    spill: Spill,
}

impl<R: Rest> OfRest<R> {
    /// Rests of a line.
    const LINE: usize = LINE / size_of::<R>();

    fn new(bin_bits: u32, bits: u32, limits: Limits) -> Self {
        let bin = |_| {
            Mutex::new(Bin {
                waiting: Vec::new(),
                runs: Vec::new(),
                spilled: Vec::new(),
            })
        };
        Self {
            bits,
            most: (limits.waiting >> bin_bits) / size_of::<R>(),
            bins: (0..1_usize << bin_bits).map(bin).collect(),
            kmers: AtomicU64::new(0),
            run_bytes: AtomicUsize::new(0),
            most_run_bytes: limits.runs,
            spill: Spill::default(),
        }
    }

    fn lock(&self, bin: usize) -> MutexGuard<'_, Bin<R>> {
        // Nothing panics while it holds one; if it did, its thread's end is seen.
        self.bins[bin]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rests to a bin, and counts those that wait there if they are many.
    fn put(&self, bin: usize, line: &[R], memory: &mut Memory<R>) -> Result<()> {
        let mut at = self.lock(bin);
        at.waiting.extend_from_slice(line);
        if at.waiting.len() < self.most {
            return Ok(());
        }
        let mut full = replace(&mut at.waiting, take(&mut memory.spare));
        drop(at);
        memory.count(&mut full, self.bits);
        memory.spare = full;
        // Merged without the lock: others put lines in meanwhile.
        while let Some(last) = self.last_of(bin, 2 * memory.len()) {
            self.run_bytes
                .fetch_sub(last.packed().len(), Ordering::Relaxed);
            memory.add(&last);
        }
        let run = memory.pack();
        let bytes = run.packed().len();
        let mut at = self.lock(bin);
        at.runs.push(run);
        let others = self.run_bytes.fetch_add(bytes, Ordering::Relaxed);
        if others + bytes <= self.most_run_bytes {
            return Ok(());
        }
        let runs = take(&mut at.runs);
        drop(at);
        self.add(runs, memory);
        let segment = self.spill.write(&memory.pack())?;
        self.lock(bin).spilled.push(segment);
        Ok(())
    }

    /// Takes the last run out of a bin, if it has less than so many rests.
    fn last_of(&self, bin: usize, most: usize) -> Option<Run> {
        self.lock(bin).runs.pop_if(|last| last.len() < most)
    }

    /// Adds runs, which no bin has any more, to the pairs in `memory`.
    fn add(&self, runs: Vec<Run>, memory: &mut Memory<R>) {
        for run in runs.iter().rev() {
            self.run_bytes
                .fetch_sub(run.packed().len(), Ordering::Relaxed);
            memory.add(run);
        }
    }

    /// Leaves all of a bin in one run or one segment.
    fn finish_bin(&self, bin: usize, memory: &mut Memory<R>) -> Result<()> {
        let mut at = self.lock(bin);
        let (mut waiting, runs) = (take(&mut at.waiting), take(&mut at.runs));
        let spilled = take(&mut at.spilled);
        drop(at);
        memory.count(&mut waiting, self.bits);
        drop(waiting);
        self.add(runs, memory);
        let run = memory.pack();
        if spilled.is_empty() {
            self.lock(bin).runs.push(run);
            return Ok(());
        }
        // Two of about one length each time.
        let mut others = VecDeque::from(vec![run]);
        for &segment in &spilled {
            others.push_back(self.spill.read(segment)?);
        }
        while let [one, other, ..] = others.make_contiguous() {
            memory.set(one);
            memory.add(other);
            others.drain(..2);
            others.push_back(memory.pack());
        }
        for run in &others {
            let segment = self.spill.write(run)?;
            self.lock(bin).spilled.push(segment);
        }
        Ok(())
    }

    fn len_of(&self, bin: usize) -> usize {
        let at = self.lock(bin);
        let spilled = at.spilled.iter().map(|segment| segment.len);
        at.runs.iter().map(Run::len).chain(spilled).sum()
    }

    /// Writes the k-mers of a bin and their counts.
    fn write_to<C: Code>(&self, bin: usize, keys: &mut [C], counts: &mut [u64]) -> Result<()> {
        let first = (bin as u128) << self.bits;
        let at = self.lock(bin);
        let spilled = match at.spilled.first() {
            Some(&segment) => Some(self.spill.read(segment)?),
            None => None,
        };
        let Some(run) = spilled.as_ref().or(at.runs.first()) else {
            return Ok(());
        };
        run.copy_to(keys, counts, |rest: R| C::of_number(first | rest.number()));
        Ok(())
    }
}

impl<C: Code, R: Rest> Binned<C> for OfRest<R> {
    fn writer(self: Arc<Self>) -> Box<dyn Scatter<C>> {
        Box::new(Lines {
            lines: vec![R::zeroed(); self.bins.len() * Self::LINE],
            filled: vec![0; self.bins.len()],
            kmers: 0,
            memory: Memory::NONE,
            bins: self,
        })
    }

    fn finish(&self) -> Result<()> {
        let bins = (0..self.bins.len()).into_par_iter();
        bins.try_for_each_init(|| Memory::NONE, |memory, bin| self.finish_bin(bin, memory))
    }

    fn kmers(&self) -> u64 {
        self.kmers.load(Ordering::Relaxed)
    }

    fn len(&self) -> usize {
        (0..self.bins.len()).map(|bin| self.len_of(bin)).sum()
    }

    fn stream(&self, take: &mut Take<'_, C>) -> Result<()> {
        let (mut keys, mut counts) = (Vec::<C>::new(), Vec::<u64>::new());
        let mut next = 0;
        while next < self.bins.len() {
            let (mut pairs, mut sizes) = (0, Vec::new());
            for bin in next..self.bins.len() {
                let size = self.len_of(bin);
                if pairs > 0 && pairs + size > buckets::SPAN {
                    break;
                }
                pairs += size;
                sizes.push(size);
            }
            keys.resize(pairs, C::zeroed());
            counts.resize(pairs, 0);
            let columns = buckets::columns(&sizes, &mut keys, &mut counts);
            let columns = columns.into_par_iter().zip(next..next + sizes.len());
            columns.try_for_each(|((keys, counts), bin)| self.write_to(bin, keys, counts))?;
            next += sizes.len();
            take(&keys, &counts)?;
        }
        Ok(())
    }
}

/// The lines of a thread.
struct Lines<R> {
    bins: Arc<OfRest<R>>,
    /// A line for each bin.
    lines: Vec<R>,
    /// How many rests each has.
    filled: Vec<u8>,
    kmers: u64,
    memory: Memory<R>,
}

impl<R: Rest> Lines<R> {
    #[inline(always)]
    fn push<C: Code>(&mut self, kmer: C) -> Result<()> {
        let bits = self.bins.bits;
        let bin = (kmer >> bits).number() as usize;
        let rest = kmer & !(!C::zeroed() << bits);
        let line = OfRest::<R>::LINE;
        let filled = usize::from(self.filled[bin]);
        self.lines[bin * line + filled] = R::of_number(rest.number());
        self.filled[bin] = filled as u8 + 1;
        self.kmers += 1;
        match filled + 1 == line {
            true => self.empty(bin),
            false => Ok(()),
        }
    }

    fn empty(&mut self, bin: usize) -> Result<()> {
        let first = bin * OfRest::<R>::LINE;
        let filled = usize::from(take(&mut self.filled[bin]));
        let line = &self.lines[first..first + filled];
        self.bins.put(bin, line, &mut self.memory)
    }
}

impl<C: Code, R: Rest> Scatter<C> for Lines<R> {
    fn add(&mut self, block: &Block, length: KmerLength, strand: Strand) -> Result<()> {
        block.try_for_each_kmer(length, strand, |kmer: C| self.push(kmer))
    }

    fn close(&mut self) -> Result<()> {
        for bin in 0..self.filled.len() {
            if self.filled[bin] > 0 {
                self.empty(bin)?;
            }
        }
        let kmers = take(&mut self.kmers);
        self.bins.kmers.fetch_add(kmers, Ordering::Relaxed);
        Ok(())
    }
}
