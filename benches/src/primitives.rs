//! Scans, reductions and filters over `i32`, each beside a copy of the bytes that it must move.

use anyhow::{Result, ensure};
use gpumap::primitives::{Op, Order, Predicate, Primitives};
use gpumap::{Buffer, Stream};
use gpumap_kernels::ceilings::{COPY_16, CeilingArgs};
use gpumap_simt::kernel::Grid;

use crate::data::Word;
use crate::measure::{Time, time};
use crate::report::{Report, Row};

/// Measures and verifies all of them on `n` elements.
pub fn run(stream: &Stream, n: usize, runs: usize, report: &mut Report) -> Result<()> {
    let host: Vec<i32> = (0..n as u64).map(|i| u32::sparse(i) as i32).collect();
    let input = Buffer::from_slice(stream, &host)?;
    let mut output = Buffer::<i32>::zeroed(stream, n)?;
    let primitives = Primitives::new(stream.device());
    let measured = |body: &mut dyn FnMut() -> Result<()>| time(runs, || Ok(()), body);

    let copy = copy(stream, &input, &mut output, runs)?;
    let rate = 8.0 * n as f64 / copy.median;
    report.add(Row::ceiling("copy", copy, n).moving(8.0 * n as f64));
    let row =
        |name: String, time: Time, bytes: f64| Row::op(name, time, n, bytes / rate).moving(bytes);

    for (name, init) in [("inclusive scan", None), ("exclusive scan", Some(5))] {
        let scan = measured(&mut || {
            match init {
                None => primitives.inclusive_scan_into(&input, Op::Add, &mut output)?,
                Some(init) => primitives.exclusive_scan_into(&input, Op::Add, init, &mut output)?,
            }
            Ok(())
        })?;
        let mut sum = init.unwrap_or(0);
        let right = output.to_vec()?.into_iter().zip(&host).all(|(got, &x)| {
            let before = sum;
            sum = sum.wrapping_add(x);
            got == if init.is_some() { before } else { sum }
        });
        ensure!(right, "{name} is wrong");
        report.add(row(format!("{name}, add"), scan, 8.0 * n as f64));
    }
    let scan =
        measured(&mut || Ok(primitives.inclusive_scan_into(&input, Op::Max, &mut output)?))?;
    let mut most = i32::MIN;
    let right = output.to_vec()?.into_iter().zip(&host).all(|(got, &x)| {
        most = most.max(x);
        got == most
    });
    ensure!(right, "the scan of maxima is wrong");
    report.add(row("inclusive scan, max".to_owned(), scan, 8.0 * n as f64));

    let mut sum = 0;
    let reduce = measured(&mut || {
        sum = primitives.reduce(&input, Op::Add, 0)?;
        Ok(())
    })?;
    let right = host.iter().fold(0i32, |sum, &x| sum.wrapping_add(x));
    ensure!(sum == right, "the sum is wrong");
    report.add(row("reduce, add".to_owned(), reduce, 4.0 * n as f64));

    for percent in [5, 50, 95] {
        let limit = (i64::from(i32::MIN) + (1i64 << 32) * percent / 100) as i32;
        let kept: Vec<i32> = host.iter().copied().filter(|&x| x < limit).collect();
        for order in [Order::Any, Order::Stable] {
            let mut count = 0;
            let filter = measured(&mut || {
                count =
                    primitives.filter_into(&input, Predicate::Less(limit), order, &mut output)?;
                Ok(())
            })?;
            verify(&kept, &output.slice(..count)?.to_vec()?, order)?;
            let bytes = 4.0 * (n + kept.len()) as f64;
            report.add(row(
                format!("filter, {percent} % kept, {order:?}"),
                filter,
                bytes,
            ));
        }
    }

    let flags: Vec<u8> = host.iter().map(|&x| u8::from(x < 0)).collect();
    let kept: Vec<i32> = host.iter().copied().filter(|&x| x < 0).collect();
    let flags = Buffer::from_slice(stream, &flags)?;
    for order in [Order::Any, Order::Stable] {
        let mut count = 0;
        let filter = measured(&mut || {
            count = primitives.filter_by_flag_into(&input, &flags, order, &mut output)?;
            Ok(())
        })?;
        verify(&kept, &output.slice(..count)?.to_vec()?, order)?;
        let bytes = (5 * n + 4 * kept.len()) as f64;
        report.add(row(
            format!("filter by flag, 50 %, {order:?}"),
            filter,
            bytes,
        ));
    }

    let mut at = Buffer::<u64>::zeroed(stream, n)?;
    let mut count = 0;
    let indices = measured(&mut || {
        let negative = Predicate::Less(0);
        count = primitives.filter_indices_into(&input, negative, Order::Stable, &mut at)?;
        Ok(())
    })?;
    let right = (0..n as u64).filter(|&i| host[i as usize] < 0);
    ensure!(
        at.slice(..count)?.to_vec()?.into_iter().eq(right),
        "the indices are wrong"
    );
    let bytes = (4 * n + 8 * kept.len()) as f64;
    report.add(row(
        "filter indices, 50 %, Stable".to_owned(),
        indices,
        bytes,
    ));
    Ok(())
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

/// Copies the input to the output.
fn copy(
    stream: &Stream,
    input: &Buffer<i32>,
    output: &mut Buffer<i32>,
    runs: usize,
) -> Result<Time> {
    let units = (input.len() / 4) as u64;
    let args = CeilingArgs {
        table: input.as_ptr().cast_mut().cast(),
        units,
        other: output.as_mut_ptr().cast(),
        n: units,
    };
    time(
        runs,
        || Ok(()),
        || {
            // SAFETY: both have as many units; the kernel reads the table only.
            unsafe {
                gpumap_simt::kernel::Launcher::launch(
                    stream,
                    &COPY_16,
                    Grid::covering(units, 256),
                    args,
                )
            }?;
            Ok(stream.synchronize()?)
        },
    )
}
