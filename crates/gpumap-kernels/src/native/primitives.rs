//! Primitives, by blocks that take one element after the other.
//!
//! | function | what waits |
//! |---|---|
//! | [`scan`], [`filter`] in order | a tile for the one before it, whose block is at work or done: tiles are taken in order |
//! | [`reduce`] | nothing: whichever block is last combines what the others left |
//! | [`count`], [`scatter`] and its counts | nothing |

use core::mem::MaybeUninit;
use core::ops::Range;

use gpumap_simt::atomic::{self, AcqRel, Relaxed};
use gpumap_simt::native::Waits;
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{mem, thread, warp};

use super::share_of_tiles;
use crate::primitives::binning::Binning;
use crate::primitives::combine::{Combine, FromOrder};
use crate::primitives::filter::{Emit, FilterArgs, Select};
use crate::primitives::histogram::HistogramArgs;
use crate::primitives::look_back::{HEADER_BYTES, Status, take_tile};
use crate::primitives::partition::{
    OffsetsArgs, Payload, Route, Run, ScanRowsArgs, THREADS, Tile, TileCountArgs,
};
use crate::primitives::reduce::{self, ReduceArgs, TILES_PER_BLOCK};
use crate::primitives::scan::ScanArgs;
use crate::primitives::word::{Span, Word};
use crate::primitives::{CONTROL_THREADS, MAX_WORKERS, filter, scan};
use crate::slot::Bits;

/// What comes in front of each tile.
struct Fronts<C: Combine> {
    states: *mut <C::Status as Status>::Raw,
    init: C::Word,
}

impl<C: Combine> Fronts<C> {
    fn behind(header: *mut u8, init: C::Word) -> Self {
        let states = header.wrapping_add(HEADER_BYTES).cast();
        Self { states, init }
    }

    /// What the tiles before this one come to. Says what they and this one do.
    ///
    /// # Safety
    /// A header and a status word for each tile, all zero before the launch; each tile once, taken in order.
    unsafe fn pass(&self, tile: u32, of_tile: C::Word) -> C::Word {
        let state = |tile: u32| self.states.wrapping_add(tile as usize);
        let mut front = self.init;
        // SAFETY: a word for each tile, accessed so only.
        unsafe {
            if let Some(before) = tile.checked_sub(1) {
                let mut waits = Waits::default();
                loop {
                    let raw = atomic::load(state(before), Relaxed);
                    if C::Status::is_published(raw) {
                        front = C::Status::value(raw);
                        break;
                    }
                    waits.wait();
                }
            }
            let up_to = C::combine(front, of_tile);
            atomic::store(state(tile), C::Status::pack(up_to), Relaxed);
        }
        front
    }
}

/// The elements of a tile.
fn of_tile(tile: u32, tile_len: u32, n: u64) -> Range<usize> {
    let first = u64::from(tile) * u64::from(tile_len);
    first as usize..(first + u64::from(tile_len)).min(n) as usize
}

/// Elements of a tile that are combined one after the other. Each step of a float sum may round all before it: so the bound that
/// scans promise allows for 64 steps in a tile, and not for one for each element.
const CHUNK: usize = 16;

/// The most chunks of a tile.
const CHUNKS: usize = (scan::tile_len::<u32>(MAX_WORKERS) as usize).div_ceil(CHUNK);

/// Elements chunk by chunk.
fn in_chunks(elements: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = elements.end;
    let firsts = elements.clone().step_by(CHUNK);
    firsts.map(move |first| first..(first + CHUNK).min(end))
}

/// Puts in the place of each operand all up to it, in as many steps as it takes to double one to so many.
fn scan_chunks<C: Combine>(operands: &mut [C::Word]) {
    let mut step = 1;
    while step < operands.len() {
        for pair in operands.chunks_mut(2 * step).filter(|it| it.len() > step) {
            let (first, second) = pair.split_at_mut(step);
            for operand in second {
                *operand = C::combine(first[step - 1], *operand);
            }
        }
        step *= 2;
    }
}

/// # Safety
/// See [`ScanArgs`].
pub(crate) unsafe fn scan<C: FromOrder>(args: &ScanArgs<C::Word>) {
    let op = C::from_order(args.order);
    let fronts = Fronts::<C>::behind(args.tiles, op.encode(args.init));
    let tile_len = scan::tile_len::<C::Word>(thread::block_dim_x() - CONTROL_THREADS);
    let mut chunks = [C::IDENTITY; CHUNKS];
    // SAFETY: elements of tiles that are taken once; one is read before it is written.
    unsafe {
        for _ in 0..share_of_tiles(args.tile_count) {
            let tile = take_tile(args.tiles);
            if u64::from(tile) >= args.tile_count {
                return;
            }
            let elements = of_tile(tile, tile_len, args.n);
            let element = |i| op.encode(*args.input.add(i));
            let chunks = &mut chunks[..elements.len().div_ceil(CHUNK)];
            for (all, chunk) in chunks.iter_mut().zip(in_chunks(&elements)) {
                *all = chunk.map(element).fold(C::IDENTITY, C::combine);
            }
            scan_chunks::<C>(chunks);
            let all = chunks.last().copied().unwrap_or(C::IDENTITY);
            let front = fronts.pass(tile, all);
            let mut up_to = front;
            for (chunk, &up_to_end) in in_chunks(&elements).zip(&*chunks) {
                for i in chunk {
                    let before = up_to;
                    up_to = C::combine(up_to, element(i));
                    let scanned = if args.exclusive != 0 { before } else { up_to };
                    *args.output.add(i) = op.decode(scanned);
                }
                up_to = C::combine(front, up_to_end);
            }
        }
    }
}

/// # Safety
/// See [`FilterArgs`].
pub(crate) unsafe fn filter<W: Word, S: Select<W>, E: Emit<W>>(args: &FilterArgs<W, E::Out>) {
    use crate::primitives::combine::Tally;

    let fronts = Fronts::<Tally<u64>>::behind(args.tiles, 0);
    let tile_len = filter::tile_len::<W>(thread::block_dim_x() - CONTROL_THREADS);
    // SAFETY: elements of tiles that are taken once, and flags beside them; places of the output that are given once,
    // below its length.
    unsafe {
        for _ in 0..share_of_tiles(args.tile_count) {
            let tile = take_tile(args.tiles);
            if u64::from(tile) >= args.tile_count {
                return;
            }
            let elements = of_tile(tile, tile_len, args.n);
            let first = elements.start;
            let wanted =
                |i| S::keeps_one(&args.test, args.flags.wrapping_add(i), *args.input.add(i));
            let kept = elements.clone().map(|i| u64::from(wanted(i))).sum();
            let mut at = if args.stable == 0 {
                atomic::fetch_add(args.counter, kept, Relaxed)
            } else {
                fronts.pass(tile, kept)
            };
            if args.stable != 0 && u64::from(tile) == args.tile_count - 1 {
                mem::store(args.counter, at + kept);
            }
            for i in elements {
                if wanted(i) {
                    if at < args.room {
                        let staged = E::stage(*args.input.add(i), (i - first) as u32);
                        *args.output.add(at as usize) = E::out(staged, first as u64);
                    }
                    at += 1;
                }
            }
        }
    }
}

/// All operands in one, in the order in which warps and then a block combine those of their threads.
fn reduce_block<C: Combine>(mine: &mut [C::Word; reduce::THREADS as usize]) -> C::Word {
    const LANES: usize = warp::SIZE as usize;
    fn reduce_warp<C: Combine>(lanes: &mut [C::Word]) -> C::Word {
        let mut step = LANES / 2;
        while step > 0 {
            for i in 0..step {
                lanes[i] = C::combine(lanes[i + step], lanes[i]);
            }
            step /= 2;
        }
        lanes[0]
    }
    let mut sums = [C::IDENTITY; LANES];
    for (sum, lanes) in sums.iter_mut().zip(mine.chunks_exact_mut(LANES)) {
        *sum = reduce_warp::<C>(lanes);
    }
    reduce_warp::<C>(&mut sums)
}

/// # Safety
/// See [`ReduceArgs`].
pub(crate) unsafe fn reduce<C: FromOrder, const ROUNDS: usize>(args: &ReduceArgs<C::Word>)
where
    C::Word: atomic::Word,
{
    const THREADS: u32 = reduce::THREADS;
    let op = C::from_order(args.order);
    let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    let mut mine = [C::IDENTITY; THREADS as usize];
    for i in 0..TILES_PER_BLOCK {
        for (t, mine) in (0..THREADS).zip(&mut mine) {
            let span = Span::of::<C::Word, ROUNDS>(block * TILES_PER_BLOCK + i, THREADS, t, args.n);
            // SAFETY: the array has `n` elements.
            let vectors =
                unsafe { span.load::<C::Word, ROUNDS>(args.input, op.decode(C::IDENTITY)) };
            for vector in &vectors {
                for k in 0..C::Word::PER_VECTOR {
                    *mine = C::combine(*mine, op.encode(C::Word::get(vector, k)));
                }
            }
        }
    }
    // SAFETY: a place for each block; whichever takes the last ticket sees what all have stored.
    unsafe {
        let of_block = reduce_block::<C>(&mut mine);
        atomic::store(args.partials.add(block as usize), of_block, Relaxed);
        if atomic::fetch_add(args.tickets, 1, AcqRel) != u64::from(blocks) - 1 {
            return;
        }
        mine = [C::IDENTITY; THREADS as usize];
        for block in 0..blocks {
            let mine = &mut mine[(block % THREADS) as usize];
            let partial = atomic::load(args.partials.add(block as usize), Relaxed);
            *mine = C::combine(*mine, partial);
        }
        let all = C::combine(op.encode(args.init), reduce_block::<C>(&mut mine));
        mem::store(args.result, op.decode(all));
    }
}

/// Counts words by bin; `add` takes bins, with how many words of each.
///
/// # Safety
/// As [`HistogramArgs`] says.
pub(crate) unsafe fn count<B: Binning<W>, W: Bits>(
    args: &HistogramArgs<B, W>,
    add: impl Fn(u32, u32),
) {
    // Of words side by side with one bin, all at once.
    let (mut last, mut words) = (0, 0);
    // SAFETY: passed on.
    unsafe {
        args.input.sweep_alone(|word| {
            let bin = args.binning.bin(word);
            if bin != last {
                if words != 0 {
                    add(last, words);
                }
                (last, words) = (bin, 0);
            }
            words += 1;
        });
    }
    if words != 0 {
        add(last, words);
    }
}

/// The same of the bins that a launch is for, which are few.
///
/// # Safety
/// As [`HistogramArgs`] says.
pub(crate) unsafe fn count_few<B: Binning<W>, W: Bits>(
    args: &HistogramArgs<B, W>,
    add: impl Fn(u32, u32),
) {
    let mut counts = vec![0; args.count as usize];
    // SAFETY: passed on.
    unsafe {
        args.input.sweep_alone(|word| {
            let bin = args.binning.bin(word).wrapping_sub(args.first);
            if let Some(count) = counts.get_mut(bin as usize) {
                *count += 1;
            }
        });
    }
    for (bin, &words) in (args.first..).zip(&counts) {
        if words != 0 {
            add(bin, words);
        }
    }
}

/// The most parts of a scatter kernel: two for each thread.
const MOST_PARTS: usize = 2 * 1024;

/// Writes the keys of a block's tile where they go, those of a part in their order.
///
/// # Safety
/// As for [`scatter`](crate::primitives::partition::scatter), of which this is what all threads of the block do.
pub(crate) unsafe fn scatter<K: SharedWord, V: Payload, R: Route<K, V>>(mut route: R) {
    let Tile {
        keys, values, len, ..
    } = route.tile();
    if len == 0 {
        return;
    }
    // First how many keys of each part, then the number of the next one in the order of the tile's output.
    let mut next = [0u32; MOST_PARTS];
    let mut places = [const { MaybeUninit::<R::Place>::uninit() }; MOST_PARTS];
    // SAFETY: the tile has so many keys and values; parts are below their number, and have places before those are used.
    unsafe {
        route.begin();
        let parts = route.parts();
        for i in 0..len as usize {
            next[route.part(*keys.add(i)) as usize] += 1;
        }
        let mut start = 0;
        for part in 0..parts {
            let len = next[part as usize];
            let to = route.take(part, len);
            places[part as usize].write(route.place(part, Run { to, len, start }));
            next[part as usize] = start;
            start += len;
        }
        let common_value = route.common_value();
        for i in 0..len {
            let key = *keys.add(i as usize);
            let part = route.part(key) as usize;
            let (place, at) = (*places[part].assume_init_ref(), next[part]);
            next[part] += 1;
            if R::TELLS {
                route.tell(i, place, at);
            }
            let from = values.wrapping_add(i as usize);
            if V::BYTES == 0 {
                route.put_key(place, at, key, from);
            } else {
                let value = common_value.unwrap_or_else(|| *from);
                route.put_pair(place, at, key, value, from);
            }
        }
    }
}

/// Counts the digits of a tile.
///
/// # Safety
/// The launch is as [`TileCountArgs`] says.
pub(crate) unsafe fn count_tile<K: Bits>(args: &TileCountArgs<K>) {
    let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    let mut counts = [0u64; THREADS as usize];
    // SAFETY: keys of the tile; a cell of the matrix for each part and tile.
    unsafe {
        for i in of_tile(block, args.tile, args.len) {
            counts[args.digit.digit(*args.keys.add(i)) as usize] += 1;
        }
        for (part, &count) in counts[..args.parts as usize].iter().enumerate() {
            *args.matrix.add(part * blocks as usize + block as usize) = count;
        }
    }
}

/// # Safety
/// See [`OffsetsArgs`].
pub(crate) unsafe fn offsets(args: &OffsetsArgs) {
    let mut sum = 0;
    // SAFETY: so many counts, offsets and cursors, and one offset more.
    unsafe {
        for part in 0..args.parts as usize {
            *args.offsets.add(part) = sum;
            *args.cursors.add(part) = sum;
            sum += *args.counts.add(part);
        }
        *args.offsets.add(args.parts as usize) = sum;
    }
}

/// # Safety
/// See [`ScanRowsArgs`].
pub(crate) unsafe fn scan_row(args: &ScanRowsArgs) {
    let row = thread::block_idx_x() as usize;
    let mut sum = 0;
    // SAFETY: the block's row, and its total.
    unsafe {
        for column in 0..args.columns as usize {
            let at = args.matrix.add(row * args.columns as usize + column);
            sum += core::ptr::replace(at, sum);
        }
        *args.totals.add(row) = sum;
    }
}
