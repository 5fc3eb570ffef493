//! Histograms over several devices, in two forms.

use std::ops::Range;
use std::sync::Arc;

use gpumap_kernels::primitives::histogram::HistogramArgs;
use gpumap_kernels::primitives::spread::Split;
use gpumap_kernels::primitives::sweep::Words;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::input::{Input, Source};
use crate::primitives::histogram::even;
use crate::primitives::{Histogram, Outside, Primitives, Sample};
use crate::scratch::ScratchRole;
use crate::sharded::{GroupError, Parcel, Plan, Rank, Step, Window};
use crate::stream::Stream;

/// Where the counters of a histogram over several devices are while it is counted.
///
/// | | memory of a device | what goes over the link |
/// |---|---|---|
/// | [`Replicated`](Self::Replicated) | all bins | all bins, twice, whatever there is to count |
/// | [`Distributed`](Self::Distributed) | its bins, and all for the result | an addition for each word, less where bins repeat in a block; then each bin once |
///
/// So few bins and many words are for the first, and more bins than words for the second. Both give the
/// same counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// Each device counts its words in all bins; then bins are summed over the devices.
    Replicated,
    /// Each device has the counters of a part of the bins, and all add to them where they are.
    Distributed,
}

/// Counts the values of all ranks in `bins` bins of one width over `range`, as
/// [`Primitives::histogram_even`] does those of one device. A collective; the type, `range`, `bins` and `form`
/// are the same on all ranks, to the bit.
///
/// ```
/// use gpumap::primitives::Primitives;
/// use gpumap::primitives::distributed::{Form, histogram_even};
/// use gpumap::sharded::{Ranks, devices};
///
/// let ranks = Ranks::new(&devices("cpu,cpu,cpu")?)?;
/// let of_each = ranks.run(|rank| {
///     let primitives = Primitives::new(rank.device());
///     let mine = [rank.index() as u32, 7, 99];
///     histogram_even(&primitives, rank, &mine, 0..10, 5, Form::Distributed)
/// })?;
/// for histogram in of_each {
///     assert_eq!(histogram.counts, [2, 1, 0, 3, 0]);
///     assert_eq!((histogram.below, histogram.above), (0, 3));
/// }
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Errors
/// As for [`Primitives::histogram_even`], of any rank; [`Error::Group`](crate::Error::Group), of which
/// [`OutOfStep`](GroupError::OutOfStep) is for settings that are not the same on all ranks, and
/// [`NoPeerAccess`](crate::sharded::GroupError::NoPeerAccess) and
/// [`OtherProcess`](crate::sharded::GroupError::OtherProcess) are for [`Form::Distributed`] alone.
pub fn histogram_even<T: Sample>(
    primitives: &Primitives,
    rank: &mut Rank,
    input: &(impl Input<T> + ?Sized),
    range: Range<T>,
    bins: usize,
    form: Form,
) -> Result<Histogram> {
    let counts = Stream::of_calls(rank.device()).and_then(|stream| Buffer::zeroed(&stream, bins));
    let mut counts = rank.together(counts)?;
    let Outside { below, above } =
        histogram_even_into(primitives, rank, input, range, &mut counts, form)?;
    Ok(Histogram {
        counts: counts.to_vec()?,
        below,
        above,
    })
}

/// As [`histogram_even`], with as many bins as `counts`, of the rank's device, has elements, which are
/// overwritten.
///
/// # Errors
/// As for [`histogram_even`].
pub fn histogram_even_into<T: Sample>(
    primitives: &Primitives,
    rank: &mut Rank,
    input: &(impl Input<T> + ?Sized),
    range: Range<T>,
    counts: &mut Buffer<u64>,
    form: Form,
) -> Result<Outside> {
    if rank.ranks() == 1 {
        return primitives.histogram_even_into(input, range, counts);
    }
    match form {
        Form::Replicated => replicated(primitives, rank, input, range, counts),
        Form::Distributed => distributed(primitives, rank, input.source(), range, counts),
    }
}

fn replicated<T: Sample>(
    primitives: &Primitives,
    rank: &mut Rank,
    input: &(impl Input<T> + ?Sized),
    range: Range<T>,
    counts: &mut Buffer<u64>,
) -> Result<Outside> {
    let settings = settings(&range, counts.len());
    let mine = primitives.histogram_even_into(input, range, counts.as_view_mut());
    let mine = mine.and_then(|Outside { below, above }| {
        rank.link().0.wait_stream(counts.stream())?;
        let [kind, bins, start, end] = settings;
        Ok([kind, bins, start, end, below, above])
    });
    let all = rank.agree_at(Step::Histogram { distributed: false }, mine)?;
    expect_alike(&all.iter().map(|words| &words[..4]).collect::<Vec<_>>())?;
    let outside = total(all.iter().map(|words| [words[4], words[5]]));
    let (words, len) = (counts.as_mut_ptr(), counts.len());
    let (link, transport) = rank.link();
    // SAFETY: `counts` has these words, and is borrowed until the wait is over.
    let summed = unsafe { transport.sum(link, words, len) };
    let summed = summed.and_then(|()| rank.wait());
    rank.together(summed)?;
    Ok(outside)
}

fn distributed<T: Sample>(
    primitives: &Primitives,
    rank: &mut Rank,
    input: Source<'_, T>,
    range: Range<T>,
    counts: &mut Buffer<u64>,
) -> Result<Outside> {
    let bins = counts.len();
    let split = Split::new(bins as u32, rank.ranks() as u32);
    let starts = |piece: usize| split.start(piece as u32) as usize;
    let index = rank.index();
    let mine = starts(index + 1) - starts(index);

    let mut ready = None;
    let made = even(&range, bins).and_then(|binning| {
        let stream = Stream::of_calls(rank.device())?;
        let piece = Buffer::<u64>::zeroed(&stream, mine)?;
        // Others add to it from now on.
        stream.synchronize()?;
        ready = Some((binning, Arc::new(piece)));
        Ok(settings(&range, bins))
    });
    let all = rank.agree_at(Step::Histogram { distributed: true }, made)?;
    expect_alike(&all)?;
    // Without a piece, that was an error.
    let (binning, piece) = ready.ok_or(GroupError::OutOfStep)?;
    // Held to the end: while any rank may add to a piece, some rank has it.
    let window = rank.transport().window(Arc::clone(&piece))?;
    let lens = (0..rank.ranks()).map(|piece| starts(piece + 1) - starts(piece));
    if !window.lens().eq(lens) {
        // Another rank called with another window.
        return Err(GroupError::OutOfStep.into());
    }
    let counted = count::<T>(primitives, input, binning, bins, split, &window);
    let counted = counted.and_then(|outside| {
        rank.link().0.wait_stream(counts.stream())?;
        Ok(outside)
    });
    // When all have come here, all have been added.
    let outside = sum(rank, counted)?;

    let ranks = 0..rank.ranks();
    let plan = Plan {
        sends: ranks.clone().map(|_| 0..mine).collect(),
        receives: ranks.map(|from| starts(from)..starts(from + 1)).collect(),
    };
    let parcel = Parcel {
        send: piece.as_ptr().cast(),
        receive: counts.as_mut_ptr().cast(),
        bytes: size_of::<u64>(),
    };
    let (link, transport) = rank.link();
    // SAFETY: pieces and counters are as long as planned; nothing is added to the piece any more,
    // and `counts` is borrowed, until the wait is over.
    let collected = unsafe { transport.exchange(link, &plan, &[parcel]) };
    let collected = collected.and_then(|()| rank.wait());
    rank.together(collected)?;
    Ok(outside)
}

/// Counts the values of this rank, each on the device that has its bin, and waits.
fn count<T: Sample>(
    primitives: &Primitives,
    input: Source<'_, T>,
    binning: T::Even,
    bins: usize,
    split: Split,
    window: &Window,
) -> Result<Outside> {
    let len = input.len() as u64;
    let mut scratch = primitives.scratch.take()?;
    let pieces = Buffer::from_slice(scratch.stream(), &window.addresses())?;
    // SAFETY: the workspace waits for its stream before this call returns.
    let at = unsafe { scratch.stage(ScratchRole::Keys, input) }?;
    scratch.reset_counters()?;
    let args = HistogramArgs {
        input: Words {
            at: at.cast::<T::Word>(),
            len,
        },
        binning,
        bins: bins as u32,
        first: 0,
        count: 0,
        copies_log2: 0,
        counts: std::ptr::null_mut(),
        outside: scratch.counters(),
        split,
        pieces: pieces.as_ptr(),
    };
    primitives.passes(args, |place, grid, args| {
        let kernel = T::EVEN.of(place);
        // SAFETY: `len` words, two counters, and the pieces of all bins, which the window maps; the
        // counters are read below, after everything has ended.
        unsafe { kernel.launch(scratch.stream(), grid, args) }
    })?;
    let [below, above, ..] = scratch.read_counters()?;
    Ok(Outside { below, above })
}

/// What has to be the same on all ranks beside the form: the type of the values, the number of bins, and the
/// range.
fn settings<T: Sample>(range: &Range<T>, bins: usize) -> [u64; 4] {
    let word = |bytes: &[u8]| {
        let mut word = [0; size_of::<u64>()];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let bits = |value: &T| word(bytemuck::bytes_of(value));
    // Samples are numbers, with names as short as `u32`.
    let name = std::any::type_name::<T>().as_bytes();
    let name = &name[..name.len().min(size_of::<u64>())];
    [
        word(name),
        bins as u64,
        bits(&range.start),
        bits(&range.end),
    ]
}

/// An error on every rank if ranks have said different things.
fn expect_alike<S: PartialEq>(all: &[S]) -> Result<()> {
    match all.iter().all(|said| *said == all[0]) {
        true => Ok(()),
        false => Err(GroupError::OutOfStep.into()),
    }
}

/// The sums over all ranks.
fn sum(rank: &mut Rank, mine: Result<Outside>) -> Result<Outside> {
    let all = rank.agree(mine.map(|outside| [outside.below, outside.above]))?;
    Ok(total(all.into_iter()))
}

/// Those of what each rank has below and above.
fn total(all: impl Iterator<Item = [u64; 2]>) -> Outside {
    all.fold(Outside { below: 0, above: 0 }, |sum, [below, above]| {
        Outside {
            below: sum.below + below,
            above: sum.above + above,
        }
    })
}
