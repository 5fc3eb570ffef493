//! Warp collectives: a lane leaves its operand, waits for the other lanes of its mask, and the one
//! that comes last computes the results of all.

use super::fault::{FaultKind, Operation, Site};
use super::lane::{Lane, Next};
use super::warp::{Call, Warp, lanes};
use super::weak;

/// Takes part in a collective. `source` is the lane that a shuffle reads, else the caller's own.
#[inline(always)]
pub(super) fn meet(
    lane: &Lane,
    operation: Operation,
    mask: u32,
    operand: u64,
    source: u32,
    site: Site,
) -> u64 {
    let next = arrive(lane, operation, mask, operand, source, site);
    lane.go(next);
    lane.warp().result[lane.index() as usize].get()
}

/// Everything up to the waiting. Not inlined, unlike the waiting: see [`Lane::go`].
#[inline(never)]
fn arrive(
    lane: &Lane,
    operation: Operation,
    mask: u32,
    operand: u64,
    source: u32,
    site: Site,
) -> Next {
    let (warp, block) = (lane.warp(), lane.block());
    let (index, bit) = (lane.index() as usize, 1 << lane.index());
    lane.site.set(Some(site));
    warp.result[index].set(operand);
    if lane.unwinding() {
        return Next::GoOn;
    }
    if mask & bit == 0 || mask & !warp.live.get() != 0 || mask >> source & 1 == 0 {
        block.raise(misuse(lane, operation, mask, source, site));
        return Next::Suspend;
    }
    let call = Call { operation, mask };
    warp.call[index].set(call);
    warp.site[index].set(Some(site));
    warp.operand[index].set(operand);
    warp.source[index].set(source);
    let parked = warp.parked.get() | bit;
    warp.parked.set(parked);

    // The arrays need a look only when every lane of the mask waits in something.
    if parked & mask != mask || !lanes(mask).all(|l| warp.call[l].get() == call) {
        block.waits();
        return Next::Suspend;
    }
    complete(warp, call);
    if operation == Operation::SyncWarp {
        weak::warp_barrier(block.place().0, lane.thread & !31, mask);
    }
    warp.parked.set(parked & !mask);
    block.wake(mask.count_ones() - 1, lane.thread & !31, mask & !bit);
    block.last_to_come(lane)
}

#[cold]
fn misuse(lane: &Lane, operation: Operation, mask: u32, source: u32, site: Site) -> FaultKind {
    let (lane, live, index) = (lane.reference(), lane.warp().live.get(), lane.index());
    if mask >> index & 1 == 0 {
        FaultKind::NotInMask {
            lane,
            operation,
            mask,
            site,
        }
    } else if mask & !live != 0 {
        FaultKind::Exited {
            lane,
            operation,
            mask,
            exited: mask & !live,
            site,
        }
    } else {
        FaultKind::ShuffleSource {
            lane,
            operation,
            mask,
            source_lane: source,
            site,
        }
    }
}

/// Works out the results of all lanes of the mask from their operands.
fn complete(warp: &Warp, Call { operation, mask }: Call) {
    match operation {
        Operation::SyncThreads | Operation::SyncWarp => {}
        Operation::Ballot | Operation::Any | Operation::All => {
            let votes = lanes(mask).fold(0, |votes, l| votes | (warp.operand[l].get() as u32) << l);
            let result = match operation {
                Operation::Any => u32::from(votes != 0),
                Operation::All => u32::from(votes == mask),
                _ => votes,
            };
            for l in lanes(mask) {
                warp.result[l].set(result.into());
            }
        }
        Operation::MatchAny32 | Operation::MatchAny64 => {
            let mut rest = mask;
            while rest != 0 {
                let value = warp.operand[rest.trailing_zeros() as usize].get();
                let same = lanes(rest)
                    .filter(|&l| warp.operand[l].get() == value)
                    .fold(0u32, |same, l| same | 1 << l);
                for l in lanes(same) {
                    warp.result[l].set(same.into());
                }
                rest &= !same;
            }
        }
        _ => {
            for l in lanes(mask) {
                warp.result[l].set(warp.operand[warp.source[l].get() as usize].get());
            }
        }
    }
}
