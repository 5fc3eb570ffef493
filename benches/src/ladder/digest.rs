//! One number for a multiset: to compare what came out in any order with what should have.

use std::thread;

/// Elements below which more threads are not worth starting.
const FEW: usize = 1 << 16;

/// The sum, wrapping around, of `of(i)` for each `i` below `n`; by all threads of the machine.
pub fn sum(n: usize, of: impl Fn(usize) -> u64 + Sync) -> u64 {
    let part = |begin: usize, end: usize| (begin..end).map(&of).fold(0, u64::wrapping_add);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    if n < FEW || threads == 1 {
        return part(0, n);
    }
    let len = n.div_ceil(threads);
    thread::scope(|scope| {
        let part = &part;
        let begins = (0..n).step_by(len);
        let parts: Vec<_> = begins
            .map(|begin| scope.spawn(move || part(begin, n.min(begin + len))))
            .collect();
        let sums = parts.into_iter().map(|part| part.join().unwrap_or(0));
        sums.fold(0, u64::wrapping_add)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_counts_once() {
        for n in [0, 1, FEW - 1, FEW, 3 * FEW + 7] {
            let expected = (n as u64).wrapping_mul((n as u64).wrapping_sub(1)) / 2;
            assert_eq!(sum(n, |i| i as u64), expected, "{n}");
        }
    }
}
