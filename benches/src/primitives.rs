//! Scans, reductions and filters over `i32`, each beside a copy of the bytes that it must move.

use anyhow::{Result, ensure};
use gpumap::Buffer;
use gpumap::primitives::{Op, Order, Predicate, Primitives};
use gpumap_bench_kernels::ceilings::{COPY_16, CeilingArgs};
use gpumap_simt::kernel::{Grid, Launcher};

use crate::bench::Bench;
use crate::data::Word;
use crate::measure::Time;
use crate::report::Row;

const ORDERS: [Order; 2] = [Order::Any, Order::Stable];

/// Measures and verifies all of them on `n` elements.
pub fn run(bench: &mut Bench, n: usize) -> Result<()> {
    let host: Vec<i32> = (0..n as u64).map(|i| u32::sparse(i) as i32).collect();
    let mut suite = Suite {
        primitives: Primitives::new(bench.device()),
        input: bench.buffer(host.iter().copied())?,
        output: bench.zeroed(n)?,
        copy_rate: f64::NAN,
        host,
        bench,
    };
    suite.copy()?;
    suite.scans()?;
    suite.reduce()?;
    for percent in [5, 50, 95] {
        suite.filter(percent)?;
    }
    suite.filter_by_flag()?;
    suite.filter_indices()
}

struct Suite<'a, 'b> {
    bench: &'a mut Bench<'b>,
    primitives: Primitives,
    host: Vec<i32>,
    input: Buffer<i32>,
    output: Buffer<i32>,
    /// Bytes that a copy of the input reads and writes per millisecond.
    copy_rate: f64,
}

impl Suite<'_, '_> {
    fn add(&mut self, name: impl Into<String>, took: Time, bytes: usize) {
        let (n, bytes) = (self.host.len(), bytes as f64);
        let row = Row::op(name, took, n, bytes / self.copy_rate);
        self.bench.report.add(row.moving(bytes));
    }

    /// The input to the output: the ceiling of all others.
    fn copy(&mut self) -> Result<()> {
        let units = (self.input.len() / 4) as u64;
        let args = CeilingArgs {
            table: self.input.as_ptr().cast_mut().cast(),
            units,
            other: self.output.as_mut_ptr().cast(),
            n: units,
        };
        let stream = self.bench.stream;
        let (took, ()) = self.bench.time(|| {
            // SAFETY: both have as many units; the kernel reads the table only.
            unsafe { Launcher::launch(stream, &COPY_16, Grid::covering(units, 256), args) }?;
            stream.synchronize()
        })?;
        let (n, bytes) = (self.input.len(), (8 * self.input.len()) as f64);
        self.copy_rate = bytes / took.median;
        let row = Row::ceiling("copy", took, n).moving(bytes);
        self.bench.report.add(row);
        Ok(())
    }

    fn scans(&mut self) -> Result<()> {
        let mut sum = 0i32;
        let inclusive = |p: &Primitives, input: &_, output: &mut _| {
            p.inclusive_scan_into(input, Op::Add, output)
        };
        self.scan("inclusive scan, add", inclusive, |x| {
            sum = sum.wrapping_add(x);
            sum
        })?;
        let mut sum = 5i32;
        let exclusive = |p: &Primitives, input: &_, output: &mut _| {
            p.exclusive_scan_into(input, Op::Add, 5, output)
        };
        self.scan("exclusive scan, add", exclusive, |x| {
            let before = sum;
            sum = sum.wrapping_add(x);
            before
        })?;
        let mut most = i32::MIN;
        let maxima = |p: &Primitives, input: &_, output: &mut _| {
            p.inclusive_scan_into(input, Op::Max, output)
        };
        self.scan("inclusive scan, max", maxima, |x| {
            most = most.max(x);
            most
        })
    }

    /// One scan, which gives `expected` of each element in turn.
    fn scan(
        &mut self,
        name: &str,
        scan: impl Fn(&Primitives, &Buffer<i32>, &mut Buffer<i32>) -> gpumap::Result<()>,
        expected: impl FnMut(i32) -> i32,
    ) -> Result<()> {
        let scan = || scan(&self.primitives, &self.input, &mut self.output);
        let (took, ()) = self.bench.time(scan)?;
        let expected = self.host.iter().copied().map(expected);
        ensure!(expected.eq(self.output.to_vec()?), "{name} is wrong");
        self.add(name, took, 8 * self.host.len());
        Ok(())
    }

    fn reduce(&mut self) -> Result<()> {
        let reduce = || self.primitives.reduce(&self.input, Op::Add, 0);
        let (took, sum) = self.bench.time(reduce)?;
        let right = self.host.iter().fold(0i32, |sum, &x| sum.wrapping_add(x));
        ensure!(sum == right, "the sum is wrong");
        self.add("reduce, add", took, 4 * self.host.len());
        Ok(())
    }

    fn filter(&mut self, percent: i64) -> Result<()> {
        let limit = (i64::from(i32::MIN) + (1i64 << 32) * percent / 100) as i32;
        let kept = self.below(limit);
        for order in ORDERS {
            let (p, input, output) = (&self.primitives, &self.input, &mut self.output);
            let filter = || p.filter_into(input, Predicate::Less(limit), order, &mut *output);
            let (took, count) = self.bench.time(filter)?;
            verify(&kept, &output.slice(..count)?.to_vec()?, order)?;
            let name = format!("filter, {percent} % kept, {order:?}");
            self.add(name, took, 4 * (self.host.len() + kept.len()));
        }
        Ok(())
    }

    fn filter_by_flag(&mut self) -> Result<()> {
        let kept = self.below(0);
        let flags = self.host.iter().map(|&x| u8::from(x < 0));
        let flags = self.bench.buffer(flags)?;
        for order in ORDERS {
            let (p, input, output) = (&self.primitives, &self.input, &mut self.output);
            let filter = || p.filter_by_flag_into(input, &flags, order, &mut *output);
            let (took, count) = self.bench.time(filter)?;
            verify(&kept, &output.slice(..count)?.to_vec()?, order)?;
            let name = format!("filter by flag, 50 %, {order:?}");
            self.add(name, took, 5 * self.host.len() + 4 * kept.len());
        }
        Ok(())
    }

    fn filter_indices(&mut self) -> Result<()> {
        let n = self.host.len();
        let mut at = self.bench.zeroed::<u64>(n)?;
        let (p, negative) = (&self.primitives, Predicate::Less(0));
        let filter = || p.filter_indices_into(&self.input, negative, Order::Stable, &mut at);
        let (took, count) = self.bench.time(filter)?;
        let right = (0..n as u64).filter(|&i| self.host[i as usize] < 0);
        ensure!(
            at.slice(..count)?.to_vec()?.into_iter().eq(right),
            "the indices are wrong"
        );
        self.add("filter indices, 50 %, Stable", took, 4 * n + 8 * count);
        Ok(())
    }

    /// The elements below a limit.
    fn below(&self, limit: i32) -> Vec<i32> {
        self.host.iter().copied().filter(|&x| x < limit).collect()
    }
}

/// Stable: the very sequence. Any order: as many, with the same sum of a mix of each.
fn verify(kept: &[i32], got: &[i32], order: Order) -> Result<()> {
    let digest = |all: &[i32]| {
        let mixed = all.iter().map(|&x| u64::sparse(x as u64));
        mixed.fold(0u64, u64::wrapping_add)
    };
    ensure!(
        kept.len() == got.len(),
        "{} kept instead of {}",
        got.len(),
        kept.len()
    );
    match order {
        Order::Stable => ensure!(kept == got, "the stable filter is wrong"),
        Order::Any => ensure!(digest(kept) == digest(got), "the filter is wrong"),
    }
    Ok(())
}
