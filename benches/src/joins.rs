//! Joins of 8-byte keys to pairs of row numbers: `n` rows with `n`, all keys different, and `n` rows with a tenth as many, whose
//! keys come four times each, while half of the probe side is unmatched; beside the random accesses that they take at least.

use anyhow::{Result, ensure};
use gpumap::Buffer;
use gpumap::primitives::{JoinTable, Primitives};
use gpumap::rows::NO_ROW;

use crate::bench::Bench;
use crate::data::{Word, strided};
use crate::report::Row;

/// Both pairs of sides.
pub fn run(bench: &mut Bench) -> Result<()> {
    let n = bench.n as u64;
    let different = Sides {
        name: "join n x n",
        gathers: 2.0,
        left: (0..n).map(|i| strided(i, n)).collect(),
        right: (0..n).collect(),
    };
    different.run(bench)?;
    let few = n.div_ceil(10);
    let distinct = few.div_ceil(4);
    let repeated = Sides {
        name: "join n x n/10, keys repeat",
        // As well where the rows of a key begin, and the rows.
        gathers: 4.0,
        left: (0..n).map(|i| strided(i, n) % (2 * distinct)).collect(),
        right: (0..few).map(|i| strided(i, few) % distinct).collect(),
    };
    repeated.run(bench)
}

/// Two sides, by the numbers of their keys.
struct Sides {
    name: &'static str,
    /// Random accesses of a key of the probe side: to a slot, a key and so on.
    gathers: f64,
    left: Vec<u64>,
    right: Vec<u64>,
}

impl Sides {
    fn run(&self, bench: &mut Bench) -> Result<()> {
        let left = bench.buffer(self.left.iter().map(|&i| u64::sparse(i)))?;
        let right = bench.buffer(self.right.iter().map(|&i| u64::sparse(i)))?;
        let all = self.left_join();
        let inner: Vec<_> = all.iter().copied().filter(|it| it.1 != NO_ROW).collect();
        let mut semi: Vec<u32> = inner.iter().map(|it| it.0).collect();
        semi.dedup();
        let unmatched = all.iter().filter(|it| it.1 == NO_ROW);
        let anti: Vec<u32> = unmatched.map(|it| it.0).collect();
        let mut rows = bench.zeroed(all.len())?;
        let mut of_right = bench.zeroed(all.len())?;
        let (cas_64, gather) = (bench.ceilings.cas_64, bench.ceilings.gather);
        let build = cas_64 * self.right.len() as f64 / bench.n as f64;
        let probe = self.gathers * gather;
        let name = |what: &str| format!("{}: {what}", self.name);

        let primitives = Primitives::new(bench.device());
        let (took, found) = bench.time(|| {
            let join = primitives.join(&left, &right);
            join.inner_into(&mut rows, &mut of_right)
        })?;
        verify(&rows, &of_right, found, &inner)?;
        bench.add(name("build and inner"), took, build + probe);

        let (took, table) = bench.time(|| JoinTable::new(bench.device(), &right))?;
        let row = Row::op(name("build"), took, self.right.len(), build);
        bench.report.add(row);
        let (took, found) =
            bench.time(|| table.join(&left).inner_into(&mut rows, &mut of_right))?;
        verify(&rows, &of_right, found, &inner)?;
        bench.add(name("inner"), took, probe);
        let (took, found) = bench.time(|| table.join(&left).left_into(&mut rows, &mut of_right))?;
        verify(&rows, &of_right, found, &all)?;
        bench.add(name("left"), took, probe);
        let (took, found) = bench.time(|| table.join(&left).semi_into(&mut rows))?;
        ensure!(rows.slice(..found)?.to_vec()? == semi, "wrong rows");
        bench.add(name("semi"), took, 2.0 * gather);
        let (took, found) = bench.time(|| table.join(&left).anti_into(&mut rows))?;
        ensure!(rows.slice(..found)?.to_vec()? == anti, "wrong rows");
        bench.add(name("anti"), took, 2.0 * gather);
        Ok(())
    }

    /// The pairs of a left join, in order.
    fn left_join(&self) -> Vec<(u32, u32)> {
        let numbers = self.left.iter().chain(&self.right).max();
        let mut ends = vec![0u32; numbers.map_or(0, |&most| most as usize + 1)];
        for &number in &self.right {
            ends[number as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        // From the last one, each goes before those that are there; so ends become beginnings.
        let mut begins = ends.clone();
        let mut rows = vec![0u32; self.right.len()];
        for (row, &number) in self.right.iter().enumerate().rev() {
            let at = &mut begins[number as usize];
            *at -= 1;
            rows[*at as usize] = row as u32;
        }
        let mut pairs = Vec::new();
        for (row, &number) in (0..).zip(&self.left) {
            let number = number as usize;
            let found = &rows[begins[number] as usize..ends[number] as usize];
            pairs.extend(found.iter().map(|&right| (row, right)));
            if found.is_empty() {
                pairs.push((row, NO_ROW));
            }
        }
        pairs
    }
}

/// An error unless the pairs that were found are the expected ones, those of one row in any order.
fn verify(
    left: &Buffer<u32>,
    right: &Buffer<u32>,
    found: usize,
    expected: &[(u32, u32)],
) -> Result<()> {
    let pairs = expected.len();
    ensure!(found == pairs, "{found} pairs instead of {pairs}");
    let left = left.slice(..found)?.to_vec()?;
    let right = right.slice(..found)?.to_vec()?;
    let mut told: Vec<_> = left.into_iter().zip(right).collect();
    ensure!(
        told.is_sorted_by_key(|it| it.0),
        "rows are not in the order of the probe side"
    );
    told.sort_unstable();
    ensure!(told == expected, "wrong pairs");
    Ok(())
}
