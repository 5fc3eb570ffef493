//! Every collective against a plain reference, with full and partial masks and partial warps.

use gpumap_simt::mask::LaneMask;
use gpumap_simt::{thread, warp};

use crate::{Slots, executors, launch};

/// Something that looks random, the same for the kernel and the reference.
fn noise(a: u64, b: u64) -> u64 {
    let z = (a << 32 ^ b)
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ z >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) >> 7
}

/// Ways to part a warp: each lane's mask.
type Parting = fn(u32) -> u32;
const PARTINGS: [Parting; 5] = [
    |_| u32::MAX,
    |lane| 0xf << (lane & 28),
    |lane| {
        if lane & 1 == 0 {
            0x5555_5555
        } else {
            0xaaaa_aaaa
        }
    },
    |lane| 1 << lane,
    |lane| if lane < 5 { 0x1f } else { !0x1f },
];

/// Runs `kernel(mask, lane)` on the lanes of warps with every parting and compares the result of
/// each lane with `reference(mask, lane)`.
fn check(kernel: impl Fn(LaneMask, u64) -> u64 + Sync, reference: impl Fn(u32, u32, u64) -> u64) {
    for executor in executors() {
        for parting in PARTINGS {
            for threads in [32u32, 1, 7, 64, 75] {
                let slots = Slots::new(2 * threads as usize);
                launch(&executor, 2, threads, || {
                    let exist = warp::activemask().bits();
                    let mask = parting(warp::lane_id()) & exist;
                    // All lanes of the block start together, so that none has exited by now.
                    // SAFETY: every thread comes here.
                    unsafe { thread::sync_threads() };
                    let first = thread::index() - u64::from(warp::lane_id());
                    slots.set(kernel(LaneMask::new(mask), first));
                    // SAFETY: every thread comes here.
                    unsafe { thread::sync_threads() };
                })
                .unwrap();
                for t in 0..2 * threads {
                    let in_block = t % threads;
                    let lane = in_block % 32;
                    let born = (threads - (in_block - lane)).min(32);
                    let exist = if born == 32 {
                        u32::MAX
                    } else {
                        (1 << born) - 1
                    };
                    let mask = parting(lane) & exist;
                    let expected = reference(mask, lane, u64::from(t - lane));
                    assert_eq!(
                        slots.get(t as usize),
                        expected,
                        "thread {t} of {threads}, {mask:#x}"
                    );
                }
            }
        }
    }
}

fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |lane| mask >> lane & 1 != 0)
}

fn where_true(mask: u32, f: impl Fn(u32) -> bool) -> u32 {
    lanes(mask)
        .filter(|&lane| f(lane))
        .fold(0, |bits, lane| bits | 1 << lane)
}

#[test]
fn ballot() {
    check(
        // SAFETY: every lane of the mask comes here.
        |mask, first| unsafe {
            let predicate = noise(first, warp::lane_id().into()) & 1 != 0;
            warp::warp_vote_ballot(mask, predicate).bits().into()
        },
        |mask, _, first| where_true(mask, |l| noise(first, l.into()) & 1 != 0).into(),
    );
}

#[test]
fn any_and_all() {
    for modulus in [1, 2, 40] {
        let yes = move |first: u64, lane: u32| noise(first, lane.into()).is_multiple_of(modulus);
        check(
            // SAFETY: every lane of the mask comes here, twice.
            |mask, first| unsafe {
                let any = warp::warp_vote_any(mask, yes(first, warp::lane_id()));
                let all = warp::warp_vote_all(mask, yes(first, warp::lane_id()));
                u64::from(any) << 1 | u64::from(all)
            },
            |mask, _, first| {
                let bits = where_true(mask, |l| yes(first, l));
                u64::from(bits != 0) << 1 | u64::from(bits == mask)
            },
        );
    }
}

#[test]
fn match_any() {
    for values in [1, 3, 1 << 40] {
        let value = move |first: u64, lane: u32| noise(first, lane.into()) % values;
        check(
            // SAFETY: every lane of the mask comes here.
            |mask, first| unsafe {
                warp::warp_match_any_64(mask, value(first, warp::lane_id()))
                    .bits()
                    .into()
            },
            |mask, lane, first| where_true(mask, |l| value(first, l) == value(first, lane)).into(),
        );
        let value = move |first: u64, lane: u32| value(first, lane) as u32;
        check(
            // SAFETY: every lane of the mask comes here.
            |mask, first| unsafe {
                warp::warp_match_any_32(mask, value(first, warp::lane_id()))
                    .bits()
                    .into()
            },
            |mask, lane, first| where_true(mask, |l| value(first, l) == value(first, lane)).into(),
        );
    }
}

/// The lane of the mask that is `by` after the caller's, cyclically: one that may be read.
fn partner(mask: u32, lane: u32, by: u32) -> u32 {
    let lanes: Vec<_> = lanes(mask).collect();
    let at = lanes.iter().position(|&l| l == lane).unwrap();
    lanes[(at + by as usize) % lanes.len()]
}

#[test]
fn shuffle_idx() {
    check(
        // SAFETY: every lane of the mask comes here and reads one of them.
        |mask, first| unsafe {
            let lane = warp::lane_id();
            let source = partner(mask.bits(), lane, 3);
            let wide = warp::warp_shuffle_idx(mask, noise(first, lane.into()), source, 32);
            let narrow = warp::warp_shuffle_idx(mask, noise(first, lane.into()) as u32, source, 32);
            assert_eq!(wide as u32, narrow);
            wide
        },
        |mask, lane, first| noise(first, partner(mask, lane, 3).into()),
    );
}

#[test]
fn shuffles_of_the_full_warp() {
    let value = |lane: u32| noise(9, lane.into());
    for executor in executors() {
        for width in [1u32, 2, 4, 8, 16, 32] {
            for by in [0u32, 1, 2, 3, 5, 8, 16, 31] {
                let slots = [(); 4].map(|()| Slots::new(32));
                launch(&executor, 1, 32, || {
                    let mine = value(warp::lane_id());
                    let full = LaneMask::FULL;
                    // SAFETY: all 32 lanes come here.
                    unsafe {
                        slots[0].set(warp::warp_shuffle_idx(full, mine, by, width));
                        slots[1].set(warp::warp_shuffle_up(full, mine, by, width));
                        slots[2].set(warp::warp_shuffle_down(full, mine, by, width));
                        slots[3].set(warp::warp_shuffle_xor(full, mine, by, width));
                        let narrow = mine as u32;
                        assert_eq!(
                            u64::from(warp::warp_shuffle_down(full, narrow, by, width)),
                            warp::warp_shuffle_down(full, mine, by, width) & 0xffff_ffff
                        );
                    }
                })
                .unwrap();
                for lane in 0..32u32 {
                    let (rank, first) = (lane % width, lane / width * width);
                    let xor = if (lane ^ by) < first + width {
                        lane ^ by
                    } else {
                        lane
                    };
                    let sources = [
                        first + by % width,
                        if rank >= by { lane - by } else { lane },
                        if rank + by < width { lane + by } else { lane },
                        xor,
                    ];
                    for (slots, source) in slots.iter().zip(sources) {
                        assert_eq!(
                            slots.get(lane as usize),
                            value(source),
                            "{lane} {by} {width}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn lanes_meet_from_different_lines() {
    for executor in executors() {
        let slots = Slots::new(32);
        launch(&executor, 1, 32, || {
            // SAFETY: all 32 lanes reach one of the two, as PTX allows.
            let bits = unsafe {
                if warp::lane_id() < 16 {
                    warp::warp_vote_ballot(LaneMask::FULL, true)
                } else {
                    warp::warp_vote_ballot(LaneMask::FULL, false)
                }
            };
            slots.set(bits.bits());
        })
        .unwrap();
        assert!((0..32).all(|t| slots.get(t) == 0xffff));
    }
}

#[test]
fn masks_may_overlap_in_time() {
    for executor in executors() {
        launch(&executor, 1, 3, || {
            // Lane 1 waits for lane 0 at {0, 1} while lane 0 still meets lane 2 at {0, 2}.
            // SAFETY: each mask's lanes come, in an order that ends.
            unsafe {
                match warp::lane_id() {
                    0 => {
                        assert_eq!(
                            warp::warp_vote_ballot(LaneMask::new(0b101), true).bits(),
                            0b101
                        );
                        assert_eq!(
                            warp::warp_vote_ballot(LaneMask::new(0b011), false).bits(),
                            0b010
                        );
                    }
                    1 => assert_eq!(
                        warp::warp_vote_ballot(LaneMask::new(0b011), true).bits(),
                        0b010
                    ),
                    _ => assert_eq!(
                        warp::warp_vote_ballot(LaneMask::new(0b101), true).bits(),
                        0b101
                    ),
                }
            }
        })
        .unwrap();
    }
}

#[test]
fn the_active_lanes_are_those_that_have_not_exited() {
    for executor in executors() {
        let slots = Slots::new(40);
        launch(&executor, 1, 40, || {
            if warp::lane_id() % 2 == 1 {
                return;
            }
            while warp::activemask().bits() & 0xaaaa_aaaa != 0 {
                thread::nanosleep(20);
            }
            slots.set(warp::activemask().bits());
            // SAFETY: the even lanes of the warp come here.
            unsafe { warp::sync_warp(LaneMask::new(warp::activemask().bits())) };
        })
        .unwrap();
        assert_eq!(slots.get(0), 0x5555_5555);
        assert_eq!(slots.get(32), 0x55);
    }
}

#[test]
fn nothing_is_moved_without_waiting_or_memory() {
    for executor in executors() {
        let done = Slots::new(32);
        launch(&executor, 1, 32, || {
            let lane = warp::lane_id();
            if lane.is_multiple_of(2) {
                // SAFETY: a shuffle of nothing involves no other lane, and any address will do for
                // no bytes.
                unsafe {
                    warp::warp_shuffle_idx(LaneMask::FULL, (), 1, 32);
                    gpumap_simt::mem::store(std::ptr::null_mut(), ());
                    gpumap_simt::mem::load_streaming::<()>(std::ptr::null());
                }
                done.set(1u64);
            }
        })
        .unwrap();
        assert!((0..32).step_by(2).all(|lane| done.get(lane) == 1));
    }
}
