//! Sorts of `n` numbers alone and beside values, and the greatest thousand: each beside a copy of the bytes that its passes move.

use anyhow::{Result, ensure};
use gpumap::primitives::{Direction, Element, Primitives};
use gpumap::{Key, Numeric};

use crate::bench::Bench;
use crate::data::Word;

/// Numbers `K`, and as many values `V`.
pub fn run<K: Word + Key + Element + Ord, V: Word + Numeric>(bench: &mut Bench) -> Result<()> {
    let (n, primitives) = (bench.n, Primitives::new(bench.device()));
    let (of_key, of_value) = (size_of::<K>(), size_of::<V>());
    let name = |what: &str| format!("{what}, {of_key} bytes");
    // A pass reads the keys twice; and one over the keys comes before and after.
    let moved = |beside: usize| {
        let pass = 2 * (of_key + beside) + of_key;
        bench.ceilings.copy_ms(n * (of_key * pass + 4 * of_key))
    };
    let (alone, pairs, places) = (moved(0), moved(of_value), moved(4));

    let numbers = bench.buffer((0..n as u64).map(K::sparse))?;
    let values = bench.buffer((0..n as u64).map(V::dense))?;
    let mut expected = numbers.to_vec()?;
    expected.sort_unstable();
    let (mut keys, mut beside) = (bench.zeroed::<K>(n)?, bench.zeroed::<V>(n)?);
    let ascending = Direction::Ascending;
    let (took, ()) = bench.time(|| primitives.sort_into(&numbers, ascending, &mut keys))?;
    ensure!(keys.to_vec()? == expected, "not sorted");
    bench.add(name("sort"), took, alone);
    let (took, ()) = bench.time(|| {
        primitives.sort_pairs_into(&numbers, &values, ascending, &mut keys, &mut beside)
    })?;
    ensure!(keys.to_vec()? == expected, "not sorted");
    let is_of = |(key, value): (&K, V)| K::sparse(value.number()) == *key;
    ensure!(
        expected.iter().zip(beside.to_vec()?).all(is_of),
        "a value of another key"
    );
    bench.add(
        format!("sort of pairs, {of_key} + {of_value} bytes"),
        took,
        pairs,
    );
    let k = n.min(1_000);
    let (took, (greatest, _)) = bench.time(|| primitives.top_k(&numbers, k))?;
    ensure!(
        greatest.iter().eq(expected.iter().rev().take(k)),
        "not the greatest"
    );
    bench.add(name("the greatest 1,000"), took, places);
    Ok(())
}
