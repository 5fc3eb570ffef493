//! Reserved keys: their tombstones are used again, in a cell that is theirs.

use gpumap_kernels::count::Counters;
use gpumap_kernels::slot::{Format, Packed, Split, Wide};
use gpumap_kernels::table::MapView;
use gpumap_loom::{Bug, Fault, Planted, Table, explore_on, get, insert, remove};
use loom::thread;

type OneStep = Wide<u64, u64>;
type TwoSteps = Split<u64, u64>;
type Map = (MapView, Counters);

/// The cell of the key whose bits are all ones but the last.
const ALIAS: u64 = 1;

/// Runs a model with a reserved key whose slots are all used up.
fn on_cell<F: Format + Send + Sync>(model: fn(&Table<F>, Map, u64)) {
    let setup = || {
        let table = Table::<F>::with_room(1);
        table.bury_cell(ALIAS);
        let units = table.units();
        (table, units)
    };
    explore_on(3, Fault::None, setup, move |table| {
        let key = 2u64.wrapping_neg() & all_ones::<F>();
        model(table, (table.view(), table.counters()), key);
    });
}

fn all_ones<F: Format>() -> u64 {
    use gpumap_kernels::slot::Bits;
    F::Key::from_u64(!0).to_u64()
}

/// Two store the key and a third looks on.
fn stored_by_two<F: Format>(table: &Table<F>, map: Map, key: u64) {
    let other = thread::spawn(move || insert::<F>(map, key, 50));
    let reader = thread::spawn(move || get::<F>(map, key));
    let mine = insert::<F>(map, key, 51);
    assert!(mine != other.join().unwrap(), "one of two inserts a key");
    let value = if mine { 51 } else { 50 };
    let seen = reader.join().unwrap();
    assert!(
        [None, Some(value)].contains(&seen),
        "a value of nobody: {seen:x?}"
    );
    assert_eq!(table.pairs(), [(key, value)].into());
}

/// One stores it again while another takes it away: each pair goes once.
fn stored_again<F: Format>(table: &Table<F>, map: Map, key: u64) {
    assert!(insert::<F>(map, key, 50));
    let other = thread::spawn(move || remove::<F>(map, key));
    let again = thread::spawn(move || insert::<F>(map, key, 51));
    let mine = remove::<F>(map, key);
    let removed = usize::from(mine) + usize::from(other.join().unwrap());
    let stored = 1 + usize::from(again.join().unwrap());
    assert_eq!(stored, table.pairs().len() + removed, "counts do not fit");
}

macro_rules! models {
    ($($name:ident: $format:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn two_store_the_key() {
                on_cell::<$format>(stored_by_two);
            }
            #[test]
            fn it_comes_and_goes() {
                on_cell::<$format>(stored_again);
            }
        }
    )*};
}

models! {
    packed: Packed;
    one_step: OneStep;
    two_steps: TwoSteps;
}

#[derive(Clone, Copy)]
struct Blind;
impl Bug for Blind {
    const REVIVES_BLINDLY: bool = true;
}

#[test]
#[should_panic(expected = "one of two inserts a key")]
fn a_cell_that_is_filled_blindly_is_found() {
    on_cell::<Planted<OneStep, Blind>>(stored_by_two);
}
