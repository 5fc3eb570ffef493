//! The facade itself, on every back end: what each lane gets from each collective, tile, atomic,
//! piece of shared memory and width of load, against plain Rust. The kernels are those of
//! `gpumap-test-kernels`, whose PTX is registered on CUDA as a user's kernels would be.

use gpumap::{Buffer, Device, PtxChoice, Stream};
use gpumap_simt::U64x2;
use gpumap_simt::kernel::{Grid, Kernel};
use gpumap_test_kernels::{RowArgs, aggregate, atomics, collectives, memory, tiles};
use gpumap_tests::on_every_target;

const WARP: usize = 32;

/// A device that knows the kernels, and a stream on it.
pub fn stream_on(device: &Device) -> Stream {
    if device.is_cuda() {
        let ptx = match device.info().expect("device info").ptx {
            Some(PtxChoice::Sm90) => &include_bytes!("../../ptx/gpumap_test_sm_90.ptx.br")[..],
            _ => include_bytes!("../../ptx/gpumap_test_sm_70.ptx.br"),
        };
        device.register_ptx(ptx).expect("the test kernels");
    }
    Stream::new(device).expect("a stream")
}

/// Inputs that look random, some of them equal.
fn words(n: usize) -> Vec<u64> {
    let word = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ (i << 60);
    (0..n as u64).map(|i| word(i / 2 * (i % 3))).collect()
}

/// Runs a kernel that writes rows: `row` words for each thread.
fn rows(
    stream: &Stream,
    kernel: &'static Kernel<RowArgs>,
    grid: Grid,
    row: u32,
    input: &[u64],
) -> Vec<Vec<u64>> {
    let from = Buffer::from_slice(stream, input).expect("the input");
    let poison = vec![0xdead_beef; input.len() * row as usize];
    let mut out = Buffer::from_slice(stream, &poison).expect("the output");
    let args = RowArgs {
        input: from.as_ptr(),
        out: out.as_mut_ptr(),
        row,
    };
    // SAFETY: a word and a row for each thread; both live until the output has been read.
    unsafe { kernel.launch(stream, grid, args) }.expect("the launch");
    let out = out.to_vec().expect("the results");
    out.chunks(row as usize).map(<[u64]>::to_vec).collect()
}

/// The lanes of `group` (indices into `all`, lowest first) for which `test` holds, as a mask.
fn mask(group: &[u64], test: impl Fn(u64) -> bool) -> u64 {
    let bit = |(i, &v): (usize, &u64)| u64::from(test(v)) << i;
    group.iter().enumerate().map(bit).sum()
}

#[test]
fn collectives_of_a_warp() {
    on_every_target(|target| {
        let input = words(3 * WARP);
        let grid = Grid::new(1, 3 * WARP as u32);
        let row = collectives::WARP_ROW;
        let got = rows(
            &stream_on(target.device()),
            &collectives::WARP,
            grid,
            row,
            &input,
        );
        for (t, got) in got.iter().enumerate() {
            let (lane, v) = (t % WARP, input[t]);
            let warp = &input[t - lane..t - lane + WARP];
            let sum = |upto: usize| {
                warp[..upto]
                    .iter()
                    .fold(0u32, |a, &v| a.wrapping_add(v as u32))
            };
            let (low, high) = warp.split_at(16);
            let expected = [
                mask(warp, |w| w & 1 != 0),
                u64::from(warp.iter().any(|w| w % 61 == 7)),
                u64::from(warp.iter().all(|w| w % 61 != 7)),
                mask(warp, |w| w as u32 & 3 == v as u32 & 3),
                mask(warp, |w| w & 0x1_0000_0001 == v & 0x1_0000_0001),
                warp[v as usize % 32],
                u64::from(if lane % 8 >= 3 { warp[lane - 3] } else { v } as u32),
                if lane % 16 + 5 < 16 {
                    warp[lane + 5]
                } else {
                    v
                },
                u64::from(warp[lane ^ 5] as u32),
                u64::from(sum(WARP)),
                u64::from(sum(lane + 1)),
                lane as u64,
                if lane < 16 {
                    mask(low, |w| w & 2 != 0)
                } else {
                    mask(high, |w| w & 4 != 0) << 16
                },
                warp[lane / 4 * 4 + 1],
            ];
            assert_eq!(got[..], expected, "thread {t}, word {v:#x}");
        }
    });
}

#[test]
fn branches_meet_before_collectives() {
    on_every_target(|target| {
        let input = words(4 * WARP);
        let grid = Grid::new(1, 4 * WARP as u32);
        let row = collectives::BRANCHES_ROW;
        let got = rows(
            &stream_on(target.device()),
            &collectives::BRANCHES,
            grid,
            row,
            &input,
        );
        for (t, got) in got.iter().enumerate() {
            let (lane, v) = (t % WARP, input[t]);
            let low = lane < 16;
            let odd = mask(&input[t - lane..t - lane + WARP], |w| w & 1 != 0);
            let expected = [
                if low { 1 } else { 2 },
                if low { odd } else { odd ^ 0x55 },
                if t % 64 < 32 { v } else { !v },
            ];
            assert_eq!(got[..], expected, "thread {t}");
        }
    });
}

/// The row of one thread of [`tiles`], for tiles of `n` lanes.
fn tile_row(input: &[u64], t: usize, n: usize) -> Vec<u64> {
    let (rank, v) = (t % n, input[t]);
    let tile = &input[t - rank..t - rank + n];
    let mut sum = 0u64;
    for i in 0..(t % WARP / n + 1) {
        let votes = mask(tile, |w| (w >> (i & 63)) & 1 != 0);
        sum = sum * 3 + votes + tile[i % n] % 1000;
        sum += u64::from(tile.iter().any(|w| w >> 60 == 15));
    }
    vec![
        (rank | n << 8) as u64,
        mask(tile, |w| w & 1 != 0),
        u64::from(tile.iter().any(|w| w % 7 == 0)),
        u64::from(tile.iter().all(|w| w % 7 != 0)),
        tile[v as usize % n],
        u64::from(if rank > 0 { tile[rank - 1] } else { v } as u32),
        if rank + 1 < n { tile[rank + 1] } else { v },
        tile[n - 1 - rank],
        mask(tile, |w| w as u32 & 1 == v as u32 & 1),
        sum,
        mask(tile, |w| w as u32 & 3 == v as u32 & 3),
        tile[rank ^ 1],
    ]
}

#[test]
fn tiles_of_every_size() {
    on_every_target(|target| {
        let input = words(5 * WARP);
        let grid = Grid::new(1, 5 * WARP as u32);
        let stream = stream_on(target.device());
        for (n, kernel) in [
            (2, &tiles::TILE_2),
            (4, &tiles::TILE_4),
            (8, &tiles::TILE_8),
            (16, &tiles::TILE_16),
            (32, &tiles::TILE_32),
        ] {
            let got = rows(&stream, kernel, grid, tiles::ROW, &input);
            for (t, got) in got.iter().enumerate() {
                assert_eq!(*got, tile_row(&input, t, n), "tiles of {n}, thread {t}");
            }
        }
    });
}

#[test]
fn shared_memory_is_one_for_the_block() {
    on_every_target(|target| {
        let n = memory::SHARED_THREADS as usize;
        let input = words(n);
        let grid = Grid {
            blocks: 1,
            threads: memory::SHARED_THREADS,
            shared_bytes: memory::SHARED_BYTES,
        };
        let row = memory::SHARED_ROW;
        let got = rows(
            &stream_on(target.device()),
            &memory::SHARED,
            grid,
            row,
            &input,
        );
        for (t, got) in got.iter().enumerate() {
            let next = u64::from(input[(t + 1) % n] as u32);
            assert_eq!(
                got[..],
                [input[n - 1 - t], next, !input[t ^ 1]],
                "thread {t}"
            );
        }
    });
}

#[test]
fn loads_and_stores_of_every_width() {
    on_every_target(|target| {
        let stream = stream_on(target.device());
        let units = 1000;
        let pairs: Vec<[u64; 2]> = words(2 * units * memory::SECTIONS as usize)
            .chunks(2)
            .map(|pair| [pair[0], pair[1]])
            .collect();
        let from = Buffer::from_slice(&stream, &pairs).unwrap();
        let mut to = Buffer::<[u64; 2]>::zeroed(&stream, pairs.len()).unwrap();
        let args = memory::CopyArgs {
            from: from.as_ptr().cast::<U64x2>(),
            to: to.as_mut_ptr().cast::<U64x2>(),
            units: units as u64,
        };
        // SAFETY: both sides have all sections and live until the output has been read.
        unsafe { memory::COPIES.launch(&stream, Grid::new(7, 96), args) }.unwrap();
        assert!(to.to_vec().unwrap() == pairs);
    });
}

/// What the atomics' kernels work on, from the host.
struct Atomics {
    narrow: Buffer<u32>,
    wide: Buffer<u64>,
    pairs: Buffer<[u64; 2]>,
    old: Buffer<u64>,
    found: Buffer<u64>,
}

impl Atomics {
    const BLOCKS: u32 = 9;
    const THREADS: u32 = 160;
    const N: usize = (Self::BLOCKS * Self::THREADS) as usize;

    /// Minimum and bitwise and start from all ones, the rest from zero.
    fn start(word: usize) -> u64 {
        match word {
            1 | 3 => u64::from(u32::MAX),
            _ => 0,
        }
    }

    fn run(stream: &Stream, kernel: &'static Kernel<atomics::AtomicArgs>) -> Self {
        let start: Vec<u64> = (0..atomics::WORDS).map(Self::start).collect();
        let narrow: Vec<u32> = start.iter().map(|&word| word as u32).collect();
        let mut pairs = vec![[0; 2]; atomics::PAIRS + Self::N];
        pairs[1] = [u64::MAX, 77];
        let mut all = Self {
            narrow: Buffer::from_slice(stream, &narrow).unwrap(),
            wide: Buffer::from_slice(stream, &start).unwrap(),
            pairs: Buffer::from_slice(stream, &pairs).unwrap(),
            old: Buffer::from_slice(stream, &vec![u64::MAX; Self::N]).unwrap(),
            found: Buffer::zeroed(stream, Self::N * 2 * atomics::FOUND).unwrap(),
        };
        let args = atomics::AtomicArgs {
            narrow: all.narrow.as_mut_ptr(),
            wide: all.wide.as_mut_ptr(),
            pairs: all.pairs.as_mut_ptr().cast(),
            old: all.old.as_mut_ptr(),
            found: all.found.as_mut_ptr(),
        };
        // SAFETY: every buffer has what the kernel requires, and lives in `all`, which is read
        // in the order of the stream.
        unsafe { kernel.launch(stream, Grid::new(Self::BLOCKS, Self::THREADS), args) }.unwrap();
        all
    }
}

#[test]
fn atomics_of_32_and_64_bits_lose_nothing() {
    on_every_target(|target| {
        let all = Atomics::run(&stream_on(target.device()), &atomics::WORDS_32_64);
        let n = Atomics::N as u64;
        let xor = (0..n).fold(0, |a, i| a ^ i);
        let wide = all.wide.to_vec().unwrap();
        // The last word is left by the last writer: checked below.
        let ones = (1 << 31) - 1;
        let expected = [
            n,
            0,
            n - 1,
            u64::from(u32::MAX) & !ones,
            ones,
            xor,
            3 * n,
            7,
        ];
        assert_eq!(wide[..8], expected);
        let narrow: Vec<u64> = all
            .narrow
            .to_vec()
            .unwrap()
            .into_iter()
            .map(u64::from)
            .collect();
        assert_eq!(narrow[..8], expected);
        // Exchanges form a chain: every thread's word is found by one other, or is there still.
        let mut chain = all.old.to_vec().unwrap();
        chain.push(wide[8]);
        chain.sort_unstable();
        assert!(chain.into_iter().eq(0..=n), "an exchange was lost");
        // So do the others: what one leaves is found by one other, or is there still.
        let found = all.found.to_vec().unwrap();
        let leaves: [fn(u64, u64) -> u64; atomics::FOUND] = [
            |word, _| word + 1,
            |word, i| word.min(i),
            |word, i| word.max(i),
            |word, i| word & !(1 << (i % 31)),
            |word, i| word | 1 << (i % 31),
            |word, i| word ^ i,
        ];
        for (width, end) in [narrow, wide].into_iter().enumerate() {
            for (word, leave) in leaves.iter().enumerate() {
                let one = found.iter().skip(width * atomics::FOUND + word);
                let one = one.step_by(2 * atomics::FOUND).copied();
                let left = one.clone().zip(0..).map(|(word, i)| leave(word, i));
                let mut left: Vec<_> = left.chain([Atomics::start(word)]).collect();
                let mut found: Vec<_> = one.chain([end[word]]).collect();
                left.sort_unstable();
                found.sort_unstable();
                assert!(left == found, "atomic {word}, width {width}");
            }
        }
    });
}

#[test]
fn halves_of_pairs_and_whole_pairs() {
    on_every_target(|target| {
        let all = Atomics::run(&stream_on(target.device()), &atomics::PAIRS_128);
        let pairs = all.pairs.to_vec().unwrap();
        let n = Atomics::N as u64;
        assert_eq!(pairs[0], [0, n], "the low half is not touched");
        let claimed = all.old.to_vec().unwrap();
        assert_eq!(claimed.iter().sum::<u64>(), 1, "one thread claims the pair");
        assert_eq!(
            pairs[1],
            [claimed.iter().position(|&c| c == 1).unwrap() as u64, 77]
        );
        let own = pairs[atomics::PAIRS..].iter().copied();
        assert!(own.eq((0..n).map(|i| [!i, i])));
    });
}

/// Whether the target's kernels have the 128-bit compare-and-exchange.
fn has_cas_128(device: &Device) -> bool {
    !device.is_cuda() || device.info().expect("device info").ptx == Some(PtxChoice::Sm90)
}

#[test]
fn compare_and_exchange_of_128_bits() {
    on_every_target(|target| {
        if !has_cas_128(target.device()) {
            println!("{target}: this PTX has no 128-bit compare-and-exchange");
            return;
        }
        let all = Atomics::run(&stream_on(target.device()), &atomics::CAS_128);
        let pairs = all.pairs.to_vec().unwrap();
        let n = Atomics::N as u64;
        assert_eq!(pairs[2], [n, 2 * n]);
        assert!(pairs[atomics::PAIRS..].iter().all(|pair| *pair == [5, 6]));
        assert!(all.old.to_vec().unwrap().iter().all(|&old| old == 0));
    });
}

#[test]
fn counters_of_a_block_are_its_own() {
    on_every_target(|target| {
        let all = Atomics::run(&stream_on(target.device()), &atomics::BLOCK);
        for of_block in all
            .old
            .to_vec()
            .unwrap()
            .chunks_mut(Atomics::THREADS as usize)
        {
            of_block.sort_unstable();
            assert!(of_block.iter().copied().eq(0..u64::from(Atomics::THREADS)));
        }
    });
}

/// The threads of each ticket counter, as tickets: all those below the count, once each.
fn assert_all_tickets(mut tickets: Vec<u64>, count: u64) {
    tickets.sort_unstable();
    assert!(
        tickets.into_iter().eq(0..count),
        "a ticket was lost or given twice"
    );
}

#[test]
fn tickets_of_aggregated_counters() {
    on_every_target(|target| {
        let threads = 4 * WARP;
        let blocks = target.n(3, 2_000);
        let n = blocks * threads;
        let input = words(n);
        let stream = stream_on(target.device());
        let from = Buffer::from_slice(&stream, &input).unwrap();
        let mut wide = Buffer::<u64>::zeroed(&stream, aggregate::COUNTERS).unwrap();
        let mut narrow = Buffer::<u32>::zeroed(&stream, aggregate::COUNTERS).unwrap();
        let mut tickets = Buffer::<u64>::zeroed(&stream, 3 * n).unwrap();
        let args = aggregate::AggregateArgs {
            input: from.as_ptr(),
            wide: wide.as_mut_ptr(),
            narrow: narrow.as_mut_ptr(),
            tickets: tickets.as_mut_ptr(),
        };
        let grid = Grid::new(blocks as u32, threads as u32);
        // SAFETY: an input and a row of tickets for each thread; all live until they are read.
        unsafe { aggregate::AGGREGATE.launch(&stream, grid, args) }.unwrap();
        let rows: Vec<[u64; 3]> = tickets
            .to_vec()
            .unwrap()
            .chunks(3)
            .map(|row| [row[0], row[1], row[2]])
            .collect();
        let (wide, narrow) = (wide.to_vec().unwrap(), narrow.to_vec().unwrap());
        let of = |column: usize, counter: usize, which: &dyn Fn(u64) -> usize| -> Vec<u64> {
            let chosen = (0..n).filter(|&i| which(input[i]) == counter);
            chosen.map(|i| rows[i][column]).collect()
        };
        for (counter, &count) in wide[..3].iter().enumerate() {
            assert_all_tickets(of(0, counter, &|word| (word % 3) as usize), count);
        }
        let branch = |word: u64| match word & 16 {
            0 => 1 + (word >> 5 & 1) as usize,
            _ => 0,
        };
        for (counter, &count) in narrow[..3].iter().enumerate() {
            assert_all_tickets(of(1, counter, &branch), u64::from(count));
        }
        // Amounts: each thread's begins where another's ends.
        let amount = |word: u64| u64::from((word >> 8) as u32 % 7);
        let mut parts: Vec<(u64, u64)> = (0..n)
            .map(|i| (rows[i][2], amount(input[i])))
            .filter(|part| part.1 > 0)
            .collect();
        parts.sort_unstable();
        let mut end = 0;
        for (begin, amount) in parts {
            assert_eq!(begin, end, "parts overlap or leave a gap");
            end += amount;
        }
        assert_eq!(wide[4], end);
        // Within a warp and a counter tickets rise with the lanes.
        for (warp, rows) in rows.chunks(WARP).enumerate() {
            for counter in 0..3 {
                let lanes = (0..WARP).filter(|lane| input[warp * WARP + lane] % 3 == counter);
                let mine: Vec<u64> = lanes.map(|lane| rows[lane][0]).collect();
                assert!(mine.windows(2).all(|two| two[1] == two[0] + 1));
            }
        }
    });
}
