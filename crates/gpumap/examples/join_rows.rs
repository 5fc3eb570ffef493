//! Two tables joined to one: pairs of row numbers gather the columns of both sides. Keys have two columns, and repeat on
//! both sides.
//!
//! `cargo run -p gpumap --example join_rows`

use std::collections::HashMap;

use gpumap::primitives::JoinTable;
use gpumap::rows::NO_ROW;
use gpumap::{Device, Result};

/// Shop and day.
type Key = [u32; 2];

/// What was sold: a key, and a column.
struct Sales {
    keys: Vec<Key>,
    cents: Vec<u32>,
}

/// Who worked: a key, and a column.
struct Shifts {
    keys: Vec<Key>,
    names: Vec<String>,
}

fn tables() -> (Sales, Shifts) {
    let (sales, shifts) = (0..6_000u32, 0..500u32);
    let sales = Sales {
        keys: sales.clone().map(|i| [i % 12, i * 7 % 31]).collect(),
        cents: sales.map(|i| 99 + i % 500).collect(),
    };
    let shifts = Shifts {
        // No shift in shops 10 and 11, and some in shops without sales.
        keys: shifts
            .clone()
            .map(|i| [i % 16 + i % 16 / 10 * 90, i * 5 % 31])
            .collect(),
        names: shifts.map(|i| format!("clerk {}", i % 40)).collect(),
    };
    (sales, shifts)
}

/// The rows of a table with each key.
fn rows_of(keys: &[Key]) -> HashMap<Key, Vec<u32>> {
    let mut rows = HashMap::<Key, Vec<u32>>::new();
    for (row, &key) in (0..).zip(keys) {
        rows.entry(key).or_default().push(row);
    }
    rows
}

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {device}");
    let (sales, shifts) = tables();
    let expected = rows_of(&shifts.keys);

    // The table of the side that is probed, built once for all three joins.
    let table = JoinTable::new(&device, &shifts.keys)?;
    assert_eq!(table.distinct(), expected.len());

    // Inner: each sale with each shift of its shop and day. The pairs gather what is wanted of both sides.
    let pairs = table.join(&sales.keys).inner()?;
    let joined = pairs.left.iter().zip(&pairs.right).map(|(&sale, &shift)| {
        assert_eq!(sales.keys[sale as usize], shifts.keys[shift as usize]);
        (&shifts.names[shift as usize], sales.cents[sale as usize])
    });
    let joined: Vec<(&String, u32)> = joined.collect();
    println!(
        "{} sales with a clerk; the first: {:?}",
        joined.len(),
        joined[0]
    );
    let mut found: Vec<(u32, u32)> = pairs.left.into_iter().zip(pairs.right).collect();
    found.sort_unstable(); // The pairs of one sale come in no order.
    let pairs_of = |(sale, key)| {
        let shifts = expected.get(key).into_iter().flatten();
        shifts.map(move |&shift| (sale, shift))
    };
    let all: Vec<(u32, u32)> = (0..).zip(&sales.keys).flat_map(pairs_of).collect();
    assert_eq!(found, all);

    // Left: sales without a shift are there too, with `NO_ROW`.
    let pairs = table.join(&sales.keys).left()?;
    let alone = pairs.left.iter().zip(&pairs.right);
    let alone = alone.filter(|&(_, &shift)| shift == NO_ROW);
    let alone: Vec<u32> = alone.map(|(&sale, _)| sale).collect();
    assert_eq!(pairs.left.len(), all.len() + alone.len());

    // Semi: each sale that has a shift, once, however many shifts it has.
    let worked = table.join(&sales.keys).semi()?;
    let has_shift = |&row: &u32| expected.contains_key(&sales.keys[row as usize]);
    let (with, without): (Vec<u32>, Vec<u32>) = (0..sales.keys.len() as u32).partition(has_shift);
    assert_eq!(worked, with);
    assert_eq!(alone, without);
    println!("{} sales have a clerk, {} none", with.len(), without.len());
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
