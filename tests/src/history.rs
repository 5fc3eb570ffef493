//! Whether what many lanes were told of one key fits one order of events: each operation takes
//! effect at one moment between its beginning and its end (Herlihy and Wing, 1990).

use std::collections::HashSet;

/// What an operation on a key does, and what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Stores a value if the key is absent; whether it was.
    Insert(u64, bool),
    /// Stores a value; whether the key was absent.
    Upsert(u64, bool),
    /// Adds a value; whether the key was absent.
    Add(u64, bool),
    /// Stores a value if the key is absent; whether it was, and what is there.
    GetOrInsert(u64, bool, u64),
    /// What is there.
    Get(Option<u64>),
    /// Whether it is there.
    Contains(bool),
    /// Removes the key; whether it was there.
    Remove(bool),
}

/// One operation on a key.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What it was.
    pub deed: Deed,
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

impl Deed {
    /// What is there afterwards, if that is what it was told of what was there before. Values are
    /// cut to `mask`.
    fn after(self, before: Option<u64>, mask: u64) -> Option<Option<u64>> {
        let absent = before.is_none();
        let (fits, after) = match self {
            Self::Insert(v, new) => (new == absent, before.or(Some(v))),
            Self::Upsert(v, new) => (new == absent, Some(v)),
            Self::Add(v, new) => {
                let sum = before.unwrap_or(0).wrapping_add(v) & mask;
                (new == absent, Some(sum))
            }
            Self::GetOrInsert(v, new, got) => {
                let there = before.unwrap_or(v);
                (new == absent && got == there, Some(there))
            }
            Self::Get(got) => (got == before, before),
            Self::Contains(is) => (is != absent, before),
            Self::Remove(was) => (was != absent, None),
        };
        fits.then_some(after)
    }
}

/// Whether there is an order of these events of one key, at most 32, that they all fit, from an
/// absent key to what is there in the end.
///
/// # Panics
/// If there are more.
pub fn is_linearizable(events: &[Event], there: Option<u64>, mask: u64) -> bool {
    assert!(events.len() <= 32, "too many events for a search");
    let all = (1u64 << events.len()) - 1;
    let mut seen = HashSet::new();
    let mut open = vec![(0u64, None)];
    while let Some((done, state)) = open.pop() {
        if done == all && state == there {
            return true;
        }
        // The next one began before any other of the rest ended.
        let rest = |i: &usize| done >> i & 1 == 0;
        let first_end = (0..events.len()).filter(rest).map(|i| events[i].end).min();
        for i in (0..events.len()).filter(rest) {
            if Some(events[i].begin) > first_end {
                continue;
            }
            if let Some(after) = events[i].deed.after(state, mask)
                && seen.insert((done | 1 << i, after))
            {
                open.push((done | 1 << i, after));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(deed: Deed, begin: u64, end: u64) -> Event {
        Event { deed, begin, end }
    }

    #[test]
    fn events_side_by_side_may_go_in_any_order() {
        let history = [
            event(Deed::Remove(true), 0, 9),
            event(Deed::Insert(5, true), 1, 8),
            event(Deed::Get(Some(5)), 2, 3),
            event(Deed::Get(None), 4, 5),
        ];
        assert!(is_linearizable(&history, None, !0));
        assert!(!is_linearizable(&history, Some(5), !0));
    }

    #[test]
    fn an_event_does_not_go_before_one_that_had_ended() {
        let stale = [
            event(Deed::Insert(5, true), 0, 1),
            event(Deed::Get(None), 2, 3),
        ];
        assert!(!is_linearizable(&stale, Some(5), !0));
        let lost = [
            event(Deed::Add(2, true), 0, 5),
            event(Deed::Add(3, false), 1, 4),
        ];
        assert!(is_linearizable(&lost, Some(5), !0));
        assert!(!is_linearizable(&lost, Some(2), !0));
        let twice = [
            event(Deed::Insert(1, true), 0, 5),
            event(Deed::Insert(2, true), 0, 5),
        ];
        assert!(!is_linearizable(&twice, Some(2), !0));
    }
}
