//! Which groups' work a thread does, and which threads wait for which groups: so that none waits for itself.
//!
//! The work of a group ends when that of all its ranks has. A thread of it that waits for another group keeps it from
//! ending until that one is free. If such waits come back to where they began, none of them ever ends: so the thread
//! that would close the circle has an error.

use std::cell::RefCell;

use parking_lot::Mutex;

thread_local! {
    /// The groups whose work this thread does: that which runs it, and those whose work has called that one.
    static GROUPS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The threads that do the work of groups and wait for one.
static WAITING: Mutex<Waiting> = Mutex::new(Waiting {
    next: 0,
    threads: Vec::new(),
});

struct Waiting {
    next: u64,
    threads: Vec<Waiter>,
}

struct Waiter {
    number: u64,
    /// Groups that do not end before it has what it waits for.
    within: Vec<usize>,
    group: usize,
}

/// Those of this thread, and one more.
pub(super) fn with(group: usize) -> Vec<usize> {
    GROUPS.with_borrow(|groups| groups.iter().copied().chain([group]).collect())
}

/// Makes them those of this thread, until it ends.
pub(super) fn enter(groups: Vec<usize>) {
    GROUPS.set(groups);
}

/// Says that this thread waits for a group, until what it returns is dropped. None if the group waits for this
/// thread.
pub(super) fn wait_for(group: usize) -> Option<Turn> {
    let within = GROUPS.with_borrow(Vec::clone);
    if within.is_empty() {
        // Nothing waits for it.
        return Some(Turn(None));
    }
    let mut waiting = WAITING.lock();
    if waiting.comes_to(group, &within) {
        return None;
    }
    let number = waiting.next;
    waiting.next += 1;
    waiting.threads.push(Waiter {
        number,
        within,
        group,
    });
    Some(Turn(Some(number)))
}

impl Waiting {
    /// Whether a group is one of `ends`, or waits for one by way of others.
    fn comes_to(&self, group: usize, ends: &[usize]) -> bool {
        let mut reached = vec![group];
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            if ends.contains(&at) {
                return true;
            }
            for waiter in &self.threads {
                if waiter.within.contains(&at) && !reached.contains(&waiter.group) {
                    reached.push(waiter.group);
                }
            }
            next += 1;
        }
        false
    }
}

/// A thread waits, if it is one that others wait for.
#[derive(Debug)]
pub(super) struct Turn(Option<u64>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            let mut waiting = WAITING.lock();
            waiting.threads.retain(|waiter| waiter.number != number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_followed_to_their_ends() {
        let waiter = |within: &[usize], group| Waiter {
            number: 0,
            within: within.to_vec(),
            group,
        };
        let waiting = Waiting {
            next: 0,
            // The work of 1 waits for 2, that of 2, called by 5, for 3; and two of 6 and 7 for each other.
            threads: vec![
                waiter(&[1], 2),
                waiter(&[5, 2], 3),
                waiter(&[6], 7),
                waiter(&[7], 6),
            ],
        };
        for (group, ends, comes) in [
            (1, [3], true),
            (1, [2], true),
            (5, [3], true),
            (3, [3], true),
            (3, [1], false),
            (2, [5], false),
            (4, [1], false),
            (6, [1], false),
            (6, [7], true),
        ] {
            assert_eq!(waiting.comes_to(group, &ends), comes, "{group} to {ends:?}");
        }
    }
}
