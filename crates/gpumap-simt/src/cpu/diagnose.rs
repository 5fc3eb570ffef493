//! Why no lane of a block can go on.

use super::block::Block;
use super::fault::{FaultKind, Operation, Waiting, WarpLanes};
use super::warp::{Warp, lanes};

/// The fault of a block all of whose remaining lanes wait.
#[cold]
pub(super) fn stuck(block: &Block) -> FaultKind {
    let all: Vec<_> = (0..)
        .zip(block.warps())
        .flat_map(|(i, warp)| waiting(i, warp))
        .collect();
    // Two lanes that want each other in different calls come first: whatever else waits, waits
    // because of them.
    for first in &all {
        for second in &all {
            if first.lanes.warp == second.lanes.warp
                && first.operation != Operation::SyncThreads
                && second.operation != Operation::SyncThreads
                && (first.operation, first.mask) != (second.operation, second.mask)
                && first.mask & second.lanes.lanes != 0
                && second.mask & first.lanes.lanes != 0
            {
                return FaultKind::Mismatch {
                    first: *first,
                    second: *second,
                };
            }
        }
    }
    let (waiting, elsewhere): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|w| w.operation == Operation::SyncThreads);
    if waiting.is_empty() {
        return FaultKind::Deadlock { waiting: elsewhere };
    }
    let threads = block.grid().threads;
    let exited = (0..)
        .zip(block.warps())
        .filter_map(|(warp, state): (u32, _)| {
            let born = threads - warp * 32;
            let born = if born >= 32 {
                u32::MAX
            } else {
                (1 << born) - 1
            };
            let lanes = born & !state.live.get();
            (lanes != 0).then_some(WarpLanes { warp, lanes })
        });
    FaultKind::BarrierDivergence {
        waiting,
        elsewhere,
        exited: exited.collect(),
    }
}

/// The lanes of a warp that wait, grouped by call and line.
fn waiting(index: u32, warp: &Warp) -> Vec<Waiting> {
    let mut groups: Vec<Waiting> = Vec::new();
    for lane in lanes(warp.parked.get() | warp.at_barrier.get()) {
        let (operation, mask) = if warp.at_barrier.get() >> lane & 1 != 0 {
            (Operation::SyncThreads, u32::MAX)
        } else {
            let call = warp.call[lane].get();
            (call.operation, call.mask)
        };
        let Some(site) = warp.site[lane].get() else {
            continue;
        };
        let same = groups
            .iter_mut()
            .find(|w| w.operation == operation && w.mask == mask && w.site == site);
        match same {
            Some(group) => group.lanes.lanes |= 1 << lane,
            None => groups.push(Waiting {
                lanes: WarpLanes {
                    warp: index,
                    lanes: 1 << lane,
                },
                operation,
                mask,
                site,
            }),
        }
    }
    groups
}
