//! Words that publish a value, counters, tickets, releases.

use super::{Instance, LANES, LitmusArgs, Shape, halves, look_until, pair, run, shapes};
use gpumap_simt::atomic::{self, AcqRel, Acquire, Relaxed, Release};
use gpumap_simt::{U64x2, kernel, thread};

/// "look-back, 16 bytes": 128-bit stores beside 128-bit loads. The control loads halves.
struct LookBack;
impl Shape for LookBack {
    const ROLES: u32 = 2;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let state = at.place::<U64x2>(0);
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role == 0 {
                atomic::store(state, U64x2::new(5, 1), Relaxed);
            } else {
                let look = || if CONTROL { halves(state) } else { pair(state) };
                at.put_pair(0, look_until(look, |s| s.y != 0));
            }
        }
    }
}

/// "the last of three blocks": an addition, and an addition that acquires and releases. In the control all are relaxed.
struct LastBlock;
impl Shape for LastBlock {
    const ROLES: u32 = 3;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let (count, done) = (at.place::<u64>(0), at.place::<u64>(1));
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role < 2 {
                atomic::fetch_add(count, u64::from(role) + 1, Relaxed);
            }
            let before = if CONTROL {
                atomic::fetch_add(done, 1, Relaxed)
            } else {
                atomic::fetch_add(done, 1, AcqRel)
            };
            at.put(role, before);
            if role == 2 && before == 2 {
                at.put(3, atomic::load(count.cast_const(), Relaxed));
            }
        }
    }
}

/// "pairs without a slot, of two blocks": releases beside relaxed additions to one word, and a fence. The control has neither.
struct Unplaced;
impl Shape for Unplaced {
    const ROLES: u32 = 3;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let (unplaced, reports) = (at.place::<u64>(0), at.place::<u64>(1));
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role < 2 {
                let before = atomic::fetch_add(unplaced, 1, Relaxed);
                at.put(role, before);
                let first = if before == 0 { 1000 } else { 0 };
                if CONTROL {
                    atomic::fetch_add(reports, first, Relaxed);
                } else {
                    atomic::fetch_add(reports, first, Release);
                }
            }
            let all = atomic::fetch_add(reports, 103 + u64::from(role), Relaxed);
            if role == 2 {
                at.put(2, all);
                if all == 1207 {
                    if !CONTROL {
                        atomic::fence();
                    }
                    at.put(3, atomic::load(unplaced.cast_const(), Relaxed));
                }
            }
        }
    }
}

/// "releases by several lanes": the lanes of a warp each write a word and release by an addition to one place, whose address the
/// compiler knows to be the same for all: it may make one instruction of one lane of that. A warp of another block acquires
/// the sum. In the control the additions are relaxed.
///
/// A reader's row has 2 if it saw the sum of all lanes, else 0, and two of the words.
///
/// # Safety
/// See [`LitmusArgs`]; blocks of a warp.
#[inline(always)]
unsafe fn release_by_lanes<const CONTROL: bool>(args: &LitmusArgs) {
    let (block, lane) = (thread::block_idx_x(), thread::thread_idx_x());
    let release = || {
        // SAFETY: the block's own instance, which has a word for each lane.
        unsafe {
            let at = args.instance(block, LANES);
            atomic::store(at.place::<u64>(1).wrapping_add(lane as usize), 1, Relaxed);
            if CONTROL {
                atomic::fetch_add(at.place::<u64>(0), 1, Relaxed);
            } else {
                atomic::fetch_add(at.place::<u64>(0), 1, Release);
            }
        }
    };
    let acquire = || {
        let number =
            block.wrapping_mul(args.scatter).wrapping_add(args.shift) & (args.instances - 1);
        // SAFETY: an instance, and the lane's row.
        unsafe {
            let mut at = args.instance(number, LANES);
            at.row = at.row.wrapping_add((lane * args.registers) as usize);
            let done = at.place::<u64>(0).cast_const();
            let word = |lane: u32| {
                let words = at.place::<u64>(1).cast_const();
                atomic::load(words.wrapping_add((lane % LANES) as usize), Relaxed)
            };
            let all = u64::from(LANES);
            let sum = look_until(|| atomic::load(done, Acquire), |sum| sum == all);
            let (own, other) = (word(lane), word(lane + 1 + (args.shift >> 8) % (LANES - 1)));
            at.put(0, if sum == all { 2 } else { 0 });
            at.put(1, own);
            at.put(2, other);
        }
    };
    // SAFETY: see above.
    unsafe { args.make_noise(block * LANES + lane) };
    if (block ^ args.shift) & 1 == 0 {
        release();
        acquire();
    } else {
        acquire();
        release();
    }
}

shapes! {
    /// The shape "look-back, 16 bytes".
    LookBack, LOOK_BACK litmus_look_back, LOOK_BACK_CONTROL litmus_look_back_control;
    /// The shape "the last of three blocks".
    LastBlock, LAST_BLOCK litmus_last_block, LAST_BLOCK_CONTROL litmus_last_block_control;
    /// The shape "pairs without a slot, of two blocks".
    Unplaced, UNPLACED litmus_unplaced, UNPLACED_CONTROL litmus_unplaced_control;
}

kernel! {
    /// The shape "releases by several lanes", in blocks of a warp.
    pub static RELEASES = fn litmus_releases(args: LitmusArgs) {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { release_by_lanes::<false>(&args) }
    }
    /// The control of "releases by several lanes".
    pub static RELEASES_CONTROL = fn litmus_releases_control(args: LitmusArgs) {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { release_by_lanes::<true>(&args) }
    }
}
