//! Maps with keys of 16 and 32 bytes and counts of 8: each beside the random accesses that it takes at least.

use anyhow::{Result, ensure};
use gpumap::{Key, Map, Merge};

use crate::bench::Bench;
use crate::data::{Word, strided};

/// Keys of both widths, with 10 and 100 % of them different.
pub fn run(bench: &mut Bench) -> Result<()> {
    for percent in [10, 100] {
        run_keys::<[u64; 2]>(bench, percent)?;
        run_keys::<[u64; 4]>(bench, percent)?;
    }
    Ok(())
}

fn run_keys<K: Word + Key>(bench: &mut Bench, percent: usize) -> Result<()> {
    let n = bench.n as u64;
    let distinct = (n * percent as u64 / 100).max(1);
    let number = |i: u64| strided(i, n) % distinct;
    let of = |number: u64| n / distinct + u64::from(number < n % distinct);
    let name = |what: &str| format!("{} bytes, {percent} % distinct, {what}", size_of::<K>());
    let (cas, add, gather) = (
        bench.ceilings.cas_64,
        bench.ceilings.add_64,
        bench.ceilings.gather,
    );
    let map = Map::<K, u64>::builder(bench.device())
        .capacity(bench.n)
        .hash_seed(1)
        .build()?;
    let keys = bench.buffer((0..n).map(|i| K::sparse(number(i))))?;
    let absent = bench.buffer((n..2 * n).map(K::sparse))?;
    let mut told = bench.zeroed::<u64>(bench.n)?;
    let mut all = bench.zeroed::<K>(bench.n)?;

    let count = || map.merge(&keys, 1, Merge::Add);
    let (took, new) = bench.time_after(|| map.clear(), count)?;
    ensure!(new as u64 == distinct, "{new} new keys");
    let (took_get, ()) = bench.time(|| map.get_or_into(&keys, 0, &mut told))?;
    for (i, held) in (0..n).zip(told.to_vec()?) {
        ensure!(held == of(number(i)), "a wrong count");
    }
    bench.add(name("merge into an empty map"), took, cas + add);
    // A slot, a key and a value.
    bench.add(name("get, hit"), took_get, 3.0 * gather);
    let (took, ()) = bench.time(|| map.get_or_into(&absent, 7, &mut told))?;
    ensure!(told.to_vec()?.into_iter().all(|held| held == 7), "found");
    bench.add(name("get, miss"), took, gather);
    let (took, present) = bench.time(|| map.update_with(&keys, 0, Merge::Add))?;
    ensure!(present as u64 == n, "{present} keys are present");
    bench.add(name("merge_present"), took, 2.0 * gather + add);
    let (took, new) = bench.time(|| map.merge(&keys, 0, Merge::Add))?;
    ensure!(new == 0, "{new} new keys");
    bench.add(name("merge, all present"), took, 2.0 * gather + add);
    let (took, pairs) = bench.time(|| map.retrieve_all_into(&mut all, &mut told))?;
    ensure!(pairs as u64 == distinct, "{pairs} pairs");
    let held = told.slice(..pairs)?.to_vec()?;
    let mut told = all.slice(..pairs)?.to_vec()?.into_iter().zip(held);
    let mut is_seen = vec![false; distinct as usize];
    for number in (0..n).map(number) {
        if !std::mem::replace(&mut is_seen[number as usize], true) {
            let expected = (K::sparse(number), of(number));
            ensure!(
                told.next() == Some(expected),
                "not in order, or a wrong count"
            );
        }
    }
    let bytes = 2 * pairs * (size_of::<K>() + 8);
    bench.add(name("retrieve_all"), took, bench.ceilings.copy_ms(bytes));
    Ok(())
}
