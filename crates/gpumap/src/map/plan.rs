//! [`plan`]: the one place that chooses how a command gets to the table.
//!
//! | way | for | chosen by |
//! |---|---|---|
//! | chunk by chunk | large batches of the host, beside other calls, with room for sure | the size of the arrays ([`Chunking`](crate::scratch::Chunking)) |
//! | page by page | large batches that store into a map that nothing else uses | [`Plan::pages`] |
//! | in bins | large batches without answers, or lookups in a table beyond the reach of the TLB | [`Plan::is_sorted`] |
//! | as it comes | all others | |

use gpumap_simt::atomic::part::Update;

use super::bulk::{Before, PageJob, PageMerge};
use super::command::{Command, Kind};
use super::tuning::Tuning;

/// What is known of a table before a command is run on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableInfo {
    /// Pairs in it.
    pub len: usize,
    /// Pairs that fit before it grows.
    pub capacity: usize,
    /// Pairs that there is room for beside those of calls in flight.
    pub left: usize,
    pub slots: usize,
    pub bytes: u64,
    /// Whether there are kernels that merge values in pages.
    pub merges_in_pages: bool,
}

/// What is known of the batch of a command beside that.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchInfo {
    /// Whether it lies somewhere else than in bins.
    pub has_copy: bool,
    /// Whether there is room for all of its absent keys.
    pub fits: bool,
}

impl BatchInfo {
    /// As the command has it, of which nothing has been counted.
    pub fn of(command: &Command) -> Self {
        Self {
            has_copy: command.bins.is_none(),
            fits: false,
        }
    }
}

/// How a command is run, if memory for it can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Page by page, if nothing else uses the map.
    pub pages: Option<PageJob>,
    /// Else in bins.
    pub is_sorted: bool,
}

impl Plan {
    /// As it comes.
    pub const AS_IT_COMES: Self = Self {
        pages: None,
        is_sorted: false,
    };
}

/// How a command is run.
pub(super) fn plan(
    command: &Command,
    batch: BatchInfo,
    table: &TableInfo,
    tuning: &Tuning,
) -> Plan {
    let len = command.len;
    let is_sorted = match command.kind {
        Kind::Get => tuning.sorts_lookups(len, table.bytes),
        _ => !command.answers() && tuning.sorts(len, table.bytes),
    };
    Plan {
        pages: pages(command, batch, table, tuning),
        is_sorted,
    }
}

/// Whether pages are made, and how.
fn pages(
    command: &Command,
    batch: BatchInfo,
    table: &TableInfo,
    tuning: &Tuning,
) -> Option<PageJob> {
    if command.answers() {
        return None;
    }
    let (len, is_empty) = (command.len, table.len == 0);
    let merge = match command.kind {
        Kind::Insert => None,
        // Of several pairs with one key any may be kept.
        Kind::Merge(Update::Replace) if is_empty => None,
        Kind::Merge(_) if !table.merges_in_pages => None,
        Kind::Merge(update) => Some(update),
        _ => return None,
    };
    let can_fill_in_values = command.pair.side_by_side() || !command.values.is_null();
    if merge.is_some() && !(batch.has_copy && can_fill_in_values) {
        return None;
    }
    let page_job = |before, leaves_absent| PageJob {
        before,
        merge: merge.map(|update| PageMerge {
            update,
            leaves_absent,
        }),
    };
    let has_room = batch.fits || len <= table.left;
    let can_take_back = merge.and_then(Update::inverse).is_some();
    match is_empty {
        true if len <= table.capacity && tuning.builds(len, table.slots) => {
            Some(page_job(Before::Nothing, false))
        }
        true => None,
        false if !tuning.fills(len, table.slots) => None,
        false if has_room => Some(page_job(Before::Pairs, false)),
        false if can_take_back => Some(page_job(Before::Pairs, true)),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::super::Pair;
    use super::*;

    const PAIR: Pair = Pair { key: 8, value: 8 };

    /// A table that is half full, and sizes from which batches take each way.
    fn table() -> (TableInfo, Tuning) {
        let table = TableInfo {
            len: 500,
            capacity: 1_000,
            left: 500,
            slots: 1_000,
            bytes: 16_000,
            merges_in_pages: true,
        };
        (table, Tuning::from([100, 200, 50]))
    }

    /// What is planned for so many keys: `p` pages, `b` bins, `.` neither.
    fn ways(kind: Kind, len: usize, change: impl Fn(&mut Command, &mut TableInfo)) -> &'static str {
        let (mut table, tuning) = table();
        let mut command = Command {
            values: ptr::dangling(),
            ..Command::of(kind, PAIR, len)
        };
        change(&mut command, &mut table);
        let plan = plan(&command, BatchInfo::of(&command), &table, &tuning);
        match (plan.pages, plan.is_sorted) {
            (Some(_), true) => "pb",
            (Some(_), false) => "p",
            (None, true) => "b",
            (None, false) => ".",
        }
    }

    #[test]
    fn each_kind_takes_the_way_of_its_size() {
        let as_is = |_: &mut Command, _: &mut TableInfo| {};
        let add = Kind::Merge(Update::Add);
        let max = Kind::Merge(Update::MaxUnsigned);
        let update = Kind::Update(Update::Replace);
        for (kind, [small, middle, large, too_many]) in [
            (Kind::Insert, [".", "b", "pb", "b"]),
            (add, [".", "b", "pb", "pb"]),
            (max, [".", "b", "pb", "b"]),
            (update, [".", "b", "b", "b"]),
            (Kind::Remove, [".", "b", "b", "b"]),
            (Kind::Get, [".", "b", "b", "b"]),
        ] {
            let planned = [49, 199, 500, 501].map(|len| ways(kind, len, as_is));
            assert_eq!(planned, [small, middle, large, too_many], "{kind:?}");
        }
    }

    /// So nothing has to be known of the table.
    #[test]
    fn small_batches_come_as_they_are_whatever_the_table() {
        for sizes in [[100, 200, 50], [30, 200, 50], [100, 20, 50]] {
            let tuning = Tuning::from(sizes);
            let most = sizes.into_iter().min().unwrap();
            assert_eq!(
                [most - 1, most].map(|len| tuning.is_small(len)),
                [true, false]
            );
            for kind in [
                Kind::Insert,
                Kind::Merge(Update::Add),
                Kind::Get,
                Kind::Remove,
            ] {
                for (len, pairs) in (0..most).flat_map(|len| [(len, 0), (len, 500)]) {
                    let command = Command {
                        values: ptr::dangling(),
                        ..Command::of(kind, PAIR, len)
                    };
                    let table = TableInfo {
                        len: pairs,
                        bytes: u64::MAX,
                        ..table().0
                    };
                    let plan = plan(&command, BatchInfo::of(&command), &table, &tuning);
                    assert_eq!(plan, Plan::AS_IT_COMES, "{kind:?} of {len}");
                }
            }
        }
    }

    #[test]
    fn an_empty_table_is_built_and_answers_are_given_in_order() {
        let empty = |_: &mut Command, table: &mut TableInfo| (table.len, table.left) = (0, 1_000);
        for (kind, planned) in [
            (Kind::Insert, "pb"),
            (Kind::Merge(Update::Replace), "pb"),
            (Kind::Merge(Update::Add), "pb"),
            (Kind::Remove, "b"),
        ] {
            assert_eq!(ways(kind, 100, empty), planned, "{kind:?}");
        }
        assert_eq!(ways(Kind::Insert, 1_001, empty), "b", "more than fit");
        let answers =
            |command: &mut Command, _: &mut TableInfo| command.out_flags = ptr::dangling_mut();
        for kind in [Kind::Insert, Kind::Merge(Update::Add), Kind::Remove] {
            assert_eq!(ways(kind, 500, answers), ".", "{kind:?}");
        }
    }

    #[test]
    fn a_merge_needs_its_values() {
        let add = Kind::Merge(Update::Add);
        let same = |command: &mut Command, _: &mut TableInfo| command.values = ptr::null();
        assert_eq!(ways(add, 300, same), "pb", "filled in beside the keys");
        let apart = |command: &mut Command, _: &mut TableInfo| {
            command.values = ptr::null();
            command.pair = Pair { key: 8, value: 4 };
        };
        assert_eq!(ways(add, 300, apart), "b");
    }
}
