//! Slots under the real verbs, in every order of events.

use gpumap_kernels::count::Counters;
use gpumap_kernels::slot::{Format, Keys, Packed, Split, Wide};
use gpumap_kernels::table::MapView;
use gpumap_loom::{
    Bug, Fault, Planted, Table, add, explore_on, get, get_or_insert, insert, remove,
};
use loom::thread;

type OneStep = Wide<u64, u64>;
type TwoSteps = Split<u64, u64>;
type Map = (MapView, Counters);

/// Preemptions at most.
const PREEMPTIONS: usize = 3;

/// Runs a model on a table with so much room.
fn on_table<F: Format + Send + Sync>(room: u32, fault: Fault, model: fn(&Table<F>, Map)) {
    let setup = move || {
        let table = Table::<F>::with_room(room);
        let units = table.units();
        (table, units)
    };
    explore_on(PREEMPTIONS, fault, setup, move |table| {
        model(table, (table.view(), table.counters()));
    });
}

/// Two insert one key and a third reads: one of them stores it, and none sees another value.
fn one_key<F: Format>(table: &Table<F>, map: Map) {
    let other = thread::spawn(move || insert::<F>(map, 5, 50));
    let reader = thread::spawn(move || get::<F>(map, 5));
    let mine = insert::<F>(map, 5, 51);
    let theirs = other.join().unwrap();
    let seen = reader.join().unwrap();
    assert!(mine != theirs, "one of two inserts a key");
    let value = if mine { 51 } else { 50 } & value_mask::<F>();
    assert!(
        [None, Some(value)].contains(&seen),
        "a value of nobody: {seen:x?}"
    );
    assert_eq!(table.pairs(), [(5, value)].into());
}

/// Two keys reach one empty slot, with one more after it.
fn two_keys<F: Format>(table: &Table<F>, map: Map) {
    let other = thread::spawn(move || insert::<F>(map, 6, 60));
    let reader = thread::spawn(move || (get::<F>(map, 6), get::<F>(map, 5)));
    assert!(insert::<F>(map, 5, 50), "it was absent");
    assert!(other.join().unwrap(), "it was absent");
    let mask = value_mask::<F>();
    let (six, five) = reader.join().unwrap();
    assert!([None, Some(60 & mask)].contains(&six), "not 6: {six:x?}");
    assert!([None, Some(50 & mask)].contains(&five), "not 5: {five:x?}");
    assert_eq!(table.pairs(), [(5, 50 & mask), (6, 60 & mask)].into());
}

/// Two keys and room for one.
fn last_slot<F: Format>(table: &Table<F>, map: Map) {
    let other = thread::spawn(move || insert::<F>(map, 6, 60));
    let mine = insert::<F>(map, 5, 50);
    let theirs = other.join().unwrap();
    assert!(mine != theirs, "one finds room");
    let (key, value) = if mine { (5, 50) } else { (6, 60) };
    assert_eq!(table.pairs(), [(key, value & value_mask::<F>())].into());
}

/// Two remove a key that one inserts again: each pair is removed once.
fn removals<F: Format>(table: &Table<F>, map: Map) {
    assert!(insert::<F>(map, 5, 50));
    let other = thread::spawn(move || remove::<F>(map, 5));
    let again = thread::spawn(move || insert::<F>(map, 5, 51));
    let mine = remove::<F>(map, 5);
    let removed = usize::from(mine) + usize::from(other.join().unwrap());
    let stored = 1 + usize::from(again.join().unwrap());
    assert_eq!(stored, table.pairs().len() + removed, "counts do not fit");
}

/// Additions to a key that is absent at first: none is lost.
fn additions<F: Format>(table: &Table<F>, map: Map) {
    let other = thread::spawn(move || add::<F>(map, 5, 10));
    let reader = thread::spawn(move || get::<F>(map, 5));
    let mine = add::<F>(map, 5, 1);
    assert!(mine != other.join().unwrap(), "one of them was first");
    let seen = reader.join().unwrap();
    assert!(
        [None, Some(1), Some(10), Some(11)].contains(&seen),
        "a sum of no thread: {seen:x?}"
    );
    assert_eq!(table.pairs(), [(5, 11)].into(), "an addition was lost");
}

/// Additions to a key that is there.
fn additions_to_a_pair<F: Format>(table: &Table<F>, map: Map) {
    assert!(insert::<F>(map, 5, 100));
    let other = thread::spawn(move || add::<F>(map, 5, 10));
    assert!(!add::<F>(map, 5, 1) && !other.join().unwrap());
    assert_eq!(table.pairs(), [(5, 111)].into(), "an addition was lost");
}

/// All gets and inserts return the same.
fn entries<F: Format>(table: &Table<F>, map: Map) {
    let other = thread::spawn(move || get_or_insert::<F>(map, 5, 50));
    let mine = get_or_insert::<F>(map, 5, 51);
    assert_eq!(mine, other.join().unwrap(), "two values for one key");
    assert_eq!(table.pairs(), [(5, mine)].into());
}

/// An addition beside a removal: it is of the pair that was there, or stores one.
fn additions_beside_a_removal<F: Format>(table: &Table<F>, map: Map) {
    assert!(insert::<F>(map, 5, 50));
    let other = thread::spawn(move || add::<F>(map, 5, 1));
    assert!(remove::<F>(map, 5), "it was there");
    let new = other.join().unwrap().then_some((5, 1));
    assert_eq!(table.pairs(), new.into_iter().collect());
}

/// What a value keeps of 64 bits: a set keeps none.
fn value_mask<F: Format>() -> u64 {
    use gpumap_kernels::slot::Bits;
    F::Value::from_u64(!0).to_u64()
}

macro_rules! models {
    ($($name:ident: $format:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn two_insert_one_key() {
                on_table::<$format>(2, Fault::None, one_key);
            }
            #[test]
            fn two_keys_meet_in_one_slot() {
                on_table::<$format>(2, Fault::None, two_keys);
            }
            #[test]
            fn the_last_slot_is_one_keys() {
                on_table::<$format>(1, Fault::None, last_slot);
            }
            #[test]
            fn pairs_are_removed_once() {
                on_table::<$format>(2, Fault::None, removals);
            }
        }
    )*};
}

models! {
    packed: Packed;
    one_step: OneStep;
    two_steps: TwoSteps;
    sets: Keys<u64>;
}

macro_rules! value_models {
    ($($name:ident: $format:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn no_addition_is_lost() {
                on_table::<$format>(2, Fault::None, additions);
            }
            #[test]
            fn additions_of_two_meet_in_a_pair() {
                on_table::<$format>(2, Fault::None, additions_to_a_pair);
            }
            #[test]
            fn all_are_told_the_same_value() {
                on_table::<$format>(2, Fault::None, entries);
            }
            #[test]
            fn additions_meet_a_removal() {
                on_table::<$format>(2, Fault::None, additions_beside_a_removal);
            }
        }
    )*};
}

value_models! {
    packed_values: Packed;
    one_step_values: OneStep;
    two_steps_values: TwoSteps;
}

/// Bugs that loom has to find.
mod planted {
    use super::*;

    macro_rules! bugs {
        ($($bug:ident: $what:ident;)*) => {$(
            #[derive(Clone, Copy)]
            struct $bug;
            impl Bug for $bug {
                const $what: bool = true;
            }
        )*};
    }

    bugs! {
        BlindBury: BURIES_BLINDLY;
        Halves: PUBLISHES_IN_HALVES;
        PassedBusy: PASSES_BUSY;
        Forgetful: FORGETS_WHO_WON;
        TwoStepUpdate: UPDATES_IN_TWO_STEPS;
    }

    #[test]
    #[should_panic(expected = "counts do not fit")]
    fn blind_bury() {
        on_table::<Planted<OneStep, BlindBury>>(2, Fault::None, removals);
    }

    #[test]
    #[should_panic(expected = "a value of nobody")]
    fn published_in_halves() {
        on_table::<Planted<OneStep, Halves>>(2, Fault::None, one_key);
    }

    #[test]
    #[should_panic(expected = "one of two inserts a key")]
    fn busy_slot_passed_over() {
        on_table::<Planted<TwoSteps, PassedBusy>>(2, Fault::None, one_key);
    }

    #[test]
    #[should_panic(expected = "one of two inserts a key")]
    fn lost_race_not_looked_at() {
        on_table::<Planted<OneStep, Forgetful>>(2, Fault::None, one_key);
    }

    #[test]
    #[should_panic(expected = "an addition was lost")]
    fn update_in_two_steps() {
        on_table::<Planted<OneStep, TwoStepUpdate>>(2, Fault::None, additions_to_a_pair);
    }

    #[test]
    #[should_panic(expected = "a value of nobody")]
    fn torn_loads() {
        on_table::<OneStep>(2, Fault::TornLoads, one_key);
    }

    #[test]
    #[should_panic(expected = "one of two inserts a key")]
    fn exchanges_in_two_steps() {
        on_table::<Packed>(2, Fault::LostUpdates, one_key);
    }
}
