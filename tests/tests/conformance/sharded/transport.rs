//! The links themselves: exchanges of every shape, sums, and gathered words.

use gpumap::sharded::{GroupError, Parcel, Plan, Rank};
use gpumap::{Buffer, Error, Result, Stream};
use gpumap_tests::group::{Group, on_every_group};

/// How many elements `from` has for `to`.
type LenOf<'a> = &'a (dyn Fn(usize, usize) -> usize + Sync);

/// Elements that encode where they come from, where they go, and which they are.
fn tagged(from: usize, to: usize, len: usize) -> impl Iterator<Item = u64> {
    (0..len as u64).map(move |i| (from as u64) << 48 | (to as u64) << 40 | i)
}

/// Exchanges two arrays of different widths, there and back.
fn exchange(on: &Group, len: LenOf<'_>) {
    let ranks = on.len();
    let work = |rank: &mut Rank| -> Result<()> {
        let me = rank.index();
        let stream = Stream::new(rank.device())?;
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        let (mut out, mut come) = (0, 0);
        for peer in 0..ranks {
            sends.push(out..out + len(me, peer));
            receives.push(come..come + len(peer, me));
            (out, come) = (out + len(me, peer), come + len(peer, me));
        }
        let plan = Plan { sends, receives };
        let words: Vec<u64> = (0..ranks)
            .flat_map(|to| tagged(me, to, len(me, to)))
            .collect();
        let bytes: Vec<u8> = words
            .iter()
            .map(|&word| (word ^ word >> 40) as u8)
            .collect();
        let mut send = (
            Buffer::from_slice(&stream, &words)?,
            Buffer::from_slice(&stream, &bytes)?,
        );
        // One element more, which must stay.
        let mut got = (
            Buffer::from_slice(&stream, &vec![!0u64; come + 1])?,
            Buffer::from_slice(&stream, &vec![!0u8; come + 1])?,
        );
        let there = [
            Parcel {
                send: send.0.as_ptr().cast(),
                receive: got.0.as_mut_ptr().cast(),
                bytes: 8,
            },
            Parcel {
                send: send.1.as_ptr().cast(),
                receive: got.1.as_mut_ptr(),
                bytes: 1,
            },
        ];
        // SAFETY: the buffers are as long as planned and are used after the wait alone.
        unsafe { rank.transport().exchange(&stream, &plan, &there) }?;
        rank.transport().wait(&stream)?;
        let right: Vec<u64> = (0..ranks)
            .flat_map(|from| tagged(from, me, len(from, me)))
            .collect();
        let found = got.0.to_vec()?;
        assert!(found[..come] == right && found[come] == !0, "rank {me}");
        let of_right = right.iter().map(|&word| (word ^ word >> 40) as u8);
        let found = got.1.to_vec()?;
        assert!(found[..come].iter().copied().eq(of_right) && found[come] == !0);

        send.0.fill_bytes(0xee)?;
        stream.synchronize()?;
        let back = [Parcel {
            send: got.0.as_ptr().cast(),
            receive: send.0.as_mut_ptr().cast(),
            bytes: 8,
        }];
        // SAFETY: as above.
        unsafe { rank.transport().exchange(&stream, &plan.reversed(), &back) }?;
        rank.transport().wait(&stream)?;
        assert!(send.0.to_vec()? == words, "rank {me}, back");
        rank.barrier()
    };
    on.ranks().run(work).unwrap();
}

#[test]
fn exchanges_of_every_shape() {
    on_every_group(|on| {
        let n = on.n(700, 1 << 20);
        let ranks = on.len();
        exchange(on, &|_, _| n);
        exchange(on, &|_, _| 0);
        // Uneven, odd lengths, nothing to oneself.
        exchange(on, &|from, to| {
            if from == to {
                0
            } else {
                n / 3 + 13 * from + to
            }
        });
        // One sends, one receives, each to the next.
        exchange(on, &|from, _| if from == 0 { n } else { 0 });
        exchange(on, &|_, to| if to + 1 == ranks { n } else { 0 });
        exchange(on, &|from, to| if (from + 1) % ranks == to { n } else { 0 });
        exchange(on, &|from, to| usize::from(from == 0 && to + 1 == ranks));
    });
}

#[test]
fn sums_wrap_around_and_are_the_same_everywhere() {
    on_every_group(|on| {
        for len in [0, 1, 1000, on.n(1000, 1 << 20)] {
            let work = |rank: &mut Rank| {
                let stream = Stream::new(rank.device())?;
                let mine: Vec<u64> = (0..len as u64)
                    .map(|i| i << 61 | (i + rank.index() as u64))
                    .collect();
                let mut words = Buffer::from_slice(&stream, &mine)?;
                let at = words.as_mut_ptr();
                // SAFETY: `len` words, used after the wait alone.
                unsafe { rank.transport().sum(&stream, at, len) }?;
                rank.transport().wait(&stream)?;
                words.to_vec()
            };
            let right = |i: u64| {
                let of = |rank: u64| i << 61 | (i + rank);
                (0..on.len() as u64).map(of).fold(0, u64::wrapping_add)
            };
            for sums in on.ranks().run(work).unwrap() {
                assert!(sums.into_iter().eq((0..len as u64).map(right)));
            }
        }
    });
}

#[test]
fn words_are_gathered_by_rank() {
    on_every_group(|on| {
        for round in 0..20 {
            let of_each = on
                .ranks()
                .run(|rank| rank.gather(&[rank.index() as u64, round]))
                .unwrap();
            let right: Vec<u64> = (0..on.len() as u64)
                .flat_map(|rank| [rank, round])
                .collect();
            assert!(of_each.into_iter().all(|all| all == right));
        }
        let sums = on
            .ranks()
            .run(|rank| rank.agree(Ok([rank.index() as u64, 3])));
        let right: Vec<[u64; 2]> = (0..on.len() as u64).map(|rank| [rank, 3]).collect();
        assert!(sums.unwrap().into_iter().all(|all| all == right));
        let refused = on.ranks().run_each(|rank| {
            rank.together(match rank.index() {
                0 => Err(Error::EventNotRecorded),
                _ => Ok(()),
            })
        });
        for (rank, result) in refused.into_iter().enumerate() {
            match result.unwrap_err() {
                Error::EventNotRecorded => assert_eq!(rank, 0),
                Error::Group(GroupError::Failed { rank: 0 }) => assert_ne!(rank, 0),
                other => panic!("{other}"),
            }
        }
    });
}
