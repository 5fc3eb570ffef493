//! Where the counts of k-mers go: what the commands with such an output have in common.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::cli::OutputArgs;
use crate::emit::{Content, Take, stream};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::kind::KmerKind;
use crate::kmer::Code;
use crate::output::{Destination, OutputKind, Spent, Staged};
use crate::progress::Progress;
use crate::sorter::Sorter;
use crate::spectrum::Spectrum;

/// In which order k-mers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In that of their keys.
    ByKey,
    /// In another one.
    Any,
}

/// The bits of the keys of these k-mers, or of any.
pub fn key_bits<C>(kind: Option<KmerKind>) -> u32 {
    kind.map_or(8 * size_of::<C>() as u32, |kind| {
        2 * kind.length.get() as u32
    })
}

/// The outputs of counts that were requested.
pub struct CountsOutput {
    destination: Destination,
    format: Format,
    bounds: RangeInclusive<u64>,
    is_sorted: bool,
    histogram: Option<Destination>,
    drawing: Option<Destination>,
}

impl CountsOutput {
    /// The outputs that a command line requests.
    pub fn of(args: &OutputArgs) -> Result<Self> {
        let (least, most) = (args.min_count.unwrap_or(0), args.max_count);
        let most = most.unwrap_or(u64::MAX);
        if least > most {
            return Err(Error::Bounds { least, most });
        }
        let asked = args.format;
        let destination = Destination::new(&args.output, OutputKind::Counts, asked)?;
        // What says nothing else is the TSV that jellyfish writes.
        let format = asked.or_else(|| Format::by_extension(destination.path()));
        let of_kind = |kind| move |path: &PathBuf| Destination::new(path, kind, None);
        let histogram = args.histogram.as_ref().map(of_kind(OutputKind::Histogram));
        let drawing = args.spectrum.as_ref().map(of_kind(OutputKind::Drawing));
        Ok(Self {
            destination,
            format: format.unwrap_or(Format::Tsv),
            bounds: least..=most,
            is_sorted: args.sorted,
            histogram: histogram.transpose()?,
            drawing: drawing.transpose()?,
        })
    }

    /// Refuses a format that has no such k-mers.
    pub fn expect_room_for<C: Code>(&self) -> Result<()> {
        let format = self.format;
        if format.takes(size_of::<C>()) {
            return Ok(());
        }
        let path = self.destination.path().to_owned();
        Err(Error::NarrowFormat { path, format })
    }

    /// Whether k-mers are written in the order of their keys.
    pub fn wants_order(&self) -> bool {
        self.is_sorted || self.format == Format::Gpk
    }

    /// Where they go.
    pub fn destinations(&self) -> Vec<&Destination> {
        let all = [&self.destination].into_iter();
        all.chain(&self.drawing).chain(&self.histogram).collect()
    }

    /// Writes about `pairs` k-mers of a kind with their counts, of which none is above `largest`, as `feed` gives them, each k-mer
    /// once. Histogram and drawing show all of them, whatever the bounds are.
    pub fn write<C: Code>(
        &self,
        kind: Option<KmerKind>,
        (pairs, order): (usize, Order),
        largest: u64,
        progress: &Progress,
        feed: impl FnOnce(&mut Take<'_, C>) -> Result<()>,
    ) -> Result<Written> {
        let drawing = match (&self.drawing, kind) {
            (None, _) => None,
            (Some(drawing), Some(kind)) => Some((drawing, kind)),
            (Some(_), None) => return Err(Error::UnknownKmers),
        };
        if self.format == Format::Gpk && kind.is_none() {
            return Err(Error::UnknownKmers);
        }
        let mut spectrum = Spectrum::default();
        let is_shown = self.histogram.is_some() || drawing.is_some();
        let mut copy = Duration::ZERO;
        let feed = |take: &mut Take<'_, C>| {
            let (mut feeding, mut taking) = (Duration::ZERO, Duration::ZERO);
            let fed = timed(&mut feeding, || {
                feed(&mut |keys, counts| {
                    timed(&mut taking, || {
                        if is_shown {
                            spectrum.add(counts.par_iter().copied());
                        }
                        take(keys, counts)
                    })
                })
            });
            copy = feeding.saturating_sub(taking);
            fed
        };
        let mut sort = Duration::ZERO;
        let mut file = self.destination.stage()?;
        let mut content = Content::all(self.format, kind);
        content.bounds = self.bounds.clone();
        content.largest = largest.min(*self.bounds.end());
        let is_to_sort = order == Order::Any && self.wants_order();
        let pairs = if is_to_sort {
            let mut sorter = Sorter::new(key_bits::<C>(kind), self.bounds.clone());
            feed(&mut |keys, counts| {
                timed(&mut sort, || sorter.extend(keys, counts));
                Ok(())
            })?;
            let mut sorted = sorter.sorted();
            stream(&mut file, content, pairs, progress, |take| {
                while timed(&mut sort, || sorted.advance()) {
                    let (keys, counts) = sorted.pairs();
                    take(keys, counts)?;
                }
                Ok(())
            })?
        } else {
            stream(&mut file, content, pairs, progress, feed)?
        };
        let Spent { pack, write } = file.out().spent;
        let mut staged = vec![file];
        if let Some((drawing, kind)) = drawing {
            let mut file = drawing.stage()?;
            file.write_all(&spectrum.to_svg(kind.length, kind.strand))?;
            staged.push(file);
        }
        if let Some(histogram) = &self.histogram {
            let mut file = histogram.stage()?;
            file.write_all(&spectrum.to_text())?;
            staged.push(file);
        }
        let is_bounded = self.bounds != (0..=u64::MAX);
        Ok(Written {
            staged,
            fact: is_bounded.then_some(("written", pairs)),
            spent: [sort, copy, pack, write],
        })
    }
}

/// Works, and adds to `spent` for how long.
fn timed<T>(spent: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let outcome = work();
    *spent += start.elapsed();
    outcome
}

/// Outputs that were written, and not committed yet.
pub struct Written {
    /// The files.
    pub staged: Vec<Staged>,
    /// Pairs in the output of counts, for the summary, where pairs may have been left out.
    pub fact: Option<(&'static str, u64)>,
    /// For how long pairs were sorted here, copied from where they were counted, and made into bytes, and these written.
    pub spent: [Duration; 4],
}
