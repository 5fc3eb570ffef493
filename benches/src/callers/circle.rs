//! [`Circle`]: the keys of one thread, from one run to the next.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A share of some keys, call by call in a circle. Each begins at another place: keys that a run before has asked for would be in the
/// caches.
#[derive(Clone, Debug)]
pub struct Circle {
    share: Range<usize>,
    keys: usize,
    first: usize,
    at: usize,
    rounds: usize,
}

impl Circle {
    /// One for each of some threads, for calls with `keys` of `n` keys: each thread has one call at least.
    pub fn shares(n: usize, threads: usize, keys: usize) -> impl Iterator<Item = Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let calls = n / threads / keys;
        (0..threads).map(move |thread| {
            // Relaxed: only different ones are wanted.
            let random = NEXT.fetch_add(1, Ordering::Relaxed);
            let random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let call = ((u128::from(random) * calls as u128) >> 64) as usize;
            Self::new(thread * calls * keys, calls, keys, call)
        })
    }

    fn new(start: usize, calls: usize, keys: usize, call: usize) -> Self {
        let first = start + call * keys;
        Self {
            share: start..start + calls * keys,
            keys,
            first,
            at: first,
            rounds: 0,
        }
    }

    /// The keys of the next call.
    pub fn next(&mut self) -> Range<usize> {
        let part = self.at..self.at + self.keys;
        self.at = part.end;
        if self.at == self.share.end {
            self.at = self.share.start;
            self.rounds += 1;
        }
        part
    }

    /// Keys of all calls so far.
    pub fn asked(&self) -> usize {
        self.rounds * self.share.len() + self.at - self.first
    }

    /// What is added up by all calls, modulo 2^64, if `sum` says what a part adds up to.
    pub fn sum(&self, sum: impl Fn(Range<usize>) -> u64) -> u64 {
        let rounds = (self.rounds as u64).wrapping_mul(sum(self.share.clone()));
        let before = |at| sum(self.share.start..at);
        let last = before(self.at).wrapping_sub(before(self.first));
        rounds.wrapping_add(last)
    }

    /// The first keys of all calls, `most` at most.
    pub fn first(&self, most: usize) -> Range<usize> {
        let len = self.asked().min(self.share.end - self.first).min(most);
        self.first..self.first + len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_whole_calls() {
        for (n, threads, keys) in [(10, 2, 2), (10, 1, 10), (1_000, 7, 9)] {
            let mut end = 0;
            for circle in Circle::shares(n, threads, keys) {
                let Circle { share, first, .. } = circle;
                assert_eq!(share.start, end);
                assert!(share.contains(&first) && (first - share.start) % keys == 0);
                end = share.end;
            }
            assert!(end <= n && n - end < threads * keys);
        }
    }

    #[test]
    fn sums_are_those_of_the_calls() {
        let numbers = |part: Range<usize>| part.map(|i| (i * i) as u64).sum::<u64>();
        let mut circle = Circle::new(4, 3, 2, 1);
        let mut sum = 0;
        for call in 0..8 {
            assert_eq!(circle.asked(), 2 * call);
            assert_eq!(circle.sum(numbers), sum);
            let part = circle.next();
            assert_eq!(part.start, 4 + (call + 1) % 3 * 2);
            sum += numbers(part);
        }
        assert_eq!(circle.first(100), 6..10);
        assert_eq!(circle.first(3), 6..9);
    }
}
