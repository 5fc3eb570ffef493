//! Joins: the customer of each order, as pairs of row numbers, by which columns are gathered; and the orders without one.
//!
//! `cargo run -p gpumap --example join`

use gpumap::primitives::{JoinTable, Primitives};
use gpumap::rows::NO_ROW;
use gpumap::{Device, Result};

/// Number `i` of numbers that look random, and are all different.
fn scattered(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {device}");

    // A table of customers: a key, and a column.
    let customers: Vec<u64> = (0..10_000).map(scattered).collect();
    let names: Vec<String> = (0..10_000).map(|i| format!("customer {i}")).collect();
    // A table of orders. Every eleventh is of a customer that is not there.
    let orders: Vec<u64> = (0..50_000u64)
        .map(|i| scattered(i * 7 % 10_000 + i % 11 / 10 * 10_000))
        .collect();
    let cents: Vec<u64> = (0..50_000).map(|i| 100 + i % 900).collect();

    // In one call. Rows of `left` are orders, rows of `right` are customers.
    let pairs = Primitives::new(&device).join(&orders, &customers).inner()?;
    println!(
        "{} of {} orders have a customer",
        pairs.left.len(),
        orders.len()
    );
    let mut turnover = vec![0; customers.len()];
    for (&order, &customer) in pairs.left.iter().zip(&pairs.right) {
        assert_eq!(orders[order as usize], customers[customer as usize]);
        turnover[customer as usize] += cents[order as usize];
    }
    println!("{}: {} cents", names[0], turnover[0]);

    // A table that is built once, and probed with batches of orders.
    let table = JoinTable::new(&device, &customers)?;
    let mut unmatched = 0;
    for batch in orders.chunks(20_000) {
        let pairs = table.join(batch).left()?;
        let without = pairs.right.iter().filter(|&&row| row == NO_ROW).count();
        assert_eq!(table.join(batch).anti()?.len(), without);
        println!(
            "a batch: {} orders, {without} without a customer",
            batch.len()
        );
        unmatched += without;
    }
    assert_eq!(pairs.left.len() + unmatched, orders.len());

    // Keys that repeat on both sides: each later order with all earlier ones of its customer.
    let (earlier, later) = orders.split_at(25_000);
    let table = JoinTable::new(&device, earlier)?;
    let pairs = table.join(later).inner()?;
    println!(
        "{} earlier orders of {} customers, {} pairs",
        table.len(),
        table.distinct(),
        pairs.left.len()
    );
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
