//! Aggregates by key: what a till sold, by shop and article, from batches of receipts.
//!
//! `cargo run -p gpumap --example group_by`

use gpumap::primitives::{Count, GroupBy, Max, Mean, Primitives, Sum};
use gpumap::{Device, Result};

/// Shop and article.
type Key = [u32; 2];

/// One batch of receipts: keys, pieces, prices in cents.
fn receipts(day: u32) -> (Vec<Key>, Vec<u32>, Vec<u32>) {
    let lines = 0..10_000u32;
    let keys = lines.clone().map(|i| [i % 3, (i * i + day) % 7]);
    let pieces = lines.clone().map(|i| 1 + i % 4);
    let cents = lines.map(|i| 99 + 100 * (i % 5));
    (keys.collect(), pieces.collect(), cents.collect())
}

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {device}");

    // One batch.
    let (keys, pieces, _) = receipts(0);
    let primitives = Primitives::new(&device);
    let day = primitives.group_by(&keys).count().sum(&pieces).run()?;
    let (lines, sold) = day.columns;
    assert_eq!(lines.iter().sum::<u64>(), 10_000);
    println!(
        "day 0: {} groups, {} pieces",
        day.keys.len(),
        sold.iter().sum::<u64>()
    );

    // Many: the groups grow as keys come.
    let week = GroupBy::<Key, (Count, Sum<u32>, Max<u32>, Mean<u32>)>::new(&device)?;
    for day in 0..7 {
        let (keys, pieces, cents) = receipts(day);
        let batch = week
            .batch(&keys)
            .count()
            .sum(&pieces)
            .max(&cents)
            .mean(&cents);
        let new = batch.run()?;
        println!("day {day}: {new} new groups, {} in all", week.len());
    }
    let groups = week.finish()?;
    let (lines, sold, dearest, mean) = groups.columns;
    for (i, [shop, article]) in groups.keys.into_iter().enumerate().take(5) {
        println!(
            "shop {shop}, article {article}: {} lines, {} pieces, {} cents at most, {:.1} on average",
            lines[i], sold[i], dearest[i], mean[i]
        );
    }
    assert_eq!(lines.iter().sum::<u64>(), 70_000);
    assert_eq!(dearest.iter().max(), Some(&499));
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
