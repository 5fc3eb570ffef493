//! The answers of many lanes, with their times, and whether those for one key fit one order of
//! events: each operation takes effect at one moment between its beginning and its end
//! (Herlihy and Wing, 1990).

mod search;
mod timed;

pub use search::is_linearizable;
pub use timed::{Clock, Timed};

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;

/// What an operation on a key does, and its answer.
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
    /// Stores a value, whatever was there.
    Put(u64),
    /// Stores a value if the key is absent; the answer does not say whether it was.
    Offer(u64),
    /// Removes the key; what was there.
    Take(Option<u64>),
    /// Stores nothing, though the key is absent: there is no room.
    Refused,
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
    /// What is there afterwards, if its answer fits what was there before. Values are
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
            Self::Put(v) => (true, Some(v)),
            Self::Offer(v) => (true, before.or(Some(v))),
            Self::Take(got) => (got == before, None),
            Self::Refused => (absent, None),
        };
        fits.then_some(after)
    }

    /// Whether it never changes anything.
    fn only_looks(self) -> bool {
        match self {
            Self::Get(_)
            | Self::Contains(_)
            | Self::Refused
            | Self::Remove(false)
            | Self::Take(None) => true,
            Self::Insert(_, new) | Self::GetOrInsert(_, new, _) => !new,
            Self::Upsert(..)
            | Self::Add(..)
            | Self::Put(_)
            | Self::Offer(_)
            | Self::Remove(true)
            | Self::Take(_) => false,
        }
    }
}

/// The events of each key.
#[derive(Clone, Debug, Default)]
pub struct History(HashMap<u64, Vec<Event>>);

impl History {
    /// Takes note of an event.
    pub fn note(&mut self, key: u64, event: Event) {
        self.0.entry(key).or_default().push(event);
    }

    /// The keys, in any order.
    pub fn keys(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// How many events of a key satisfy something.
    pub fn count(&self, key: u64, which: impl Fn(&Event) -> bool) -> usize {
        let of_key = self.0.get(&key).into_iter().flatten();
        of_key.filter(|event| which(event)).count()
    }

    /// Whether the events of each key fit some order that ends with what is held, for values that
    /// are cut to `mask`.
    ///
    /// # Errors
    /// A key whose events do not, and what they are.
    pub fn check<S: BuildHasher>(
        &self,
        held: &HashMap<u64, u64, S>,
        mask: u64,
    ) -> Result<(), String> {
        if let Some(foreign) = held.keys().find(|key| !self.0.contains_key(key)) {
            return Err(format!(
                "key {foreign:#x} is there, and nothing happened to it"
            ));
        }
        let mut keys: Vec<&u64> = self.0.keys().collect();
        keys.sort_unstable();
        for key in keys {
            let mut events = self.0[key].clone();
            events.sort_unstable_by_key(|event| event.begin);
            let there = held.get(key).copied();
            if !is_linearizable(&events, there, mask) {
                let lines: Vec<String> = events.iter().map(|event| format!("{event}")).collect();
                let lines = lines.join("\n  ");
                return Err(format!(
                    "key {key:#x}, in the end {there:x?}, has no order of\n  {lines}"
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{} {:x?}", self.begin, self.end, self.deed)
    }
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

    #[test]
    fn a_key_that_is_refused_is_absent() {
        let beside = [
            event(Deed::Refused, 0, 9),
            event(Deed::Insert(1, true), 2, 3),
        ];
        assert!(is_linearizable(&beside, Some(1), !0));
        let after = [
            event(Deed::Insert(1, true), 0, 1),
            event(Deed::Refused, 2, 3),
        ];
        assert!(!is_linearizable(&after, Some(1), !0));
    }

    #[test]
    fn a_value_that_nobody_stored_is_none_of_the_orders() {
        let torn = [
            event(Deed::Upsert(0x1_0000_0001, true), 0, 1),
            event(Deed::Upsert(0x2_0000_0002, false), 2, 9),
            event(Deed::Get(Some(0x1_0000_0002)), 3, 4),
        ];
        assert!(!is_linearizable(&torn, Some(0x2_0000_0002), !0));
        // Reads of one key do not go back in time.
        let back = [
            event(Deed::Upsert(1, true), 0, 1),
            event(Deed::Upsert(2, false), 2, 9),
            event(Deed::Get(Some(2)), 3, 4),
            event(Deed::Get(Some(1)), 5, 6),
        ];
        assert!(!is_linearizable(&back, Some(2), !0));
        assert!(is_linearizable(&back[..3], Some(2), !0));
    }

    #[test]
    fn a_value_may_be_replaced_by_the_same_before_or_after_another() {
        let history = [
            event(Deed::Upsert(5, true), 0, 9),
            event(Deed::Upsert(5, false), 0, 9),
            event(Deed::Upsert(6, false), 0, 9),
        ];
        assert!(is_linearizable(&history, Some(5), !0));
        assert!(is_linearizable(&history, Some(6), !0));
        assert!(!is_linearizable(&history, Some(7), !0));
    }

    #[test]
    fn sixty_events_at_once_are_decided() {
        // Additions one after the other, as each has seen, except for the one that found none.
        let history = |first: u64| -> Vec<Event> {
            let adds = (0..12).map(|i| event(Deed::Add(1 << i, i == first), i, 100));
            let sum = |i: u64| (i > 0).then_some((1 << i.min(12)) - 1);
            let gets = (0..48).map(|i| event(Deed::Get(sum(i)), i, 100));
            adds.chain(gets).collect()
        };
        let sum = Some((1 << 12) - 1);
        assert!(is_linearizable(&history(0), sum, !0));
        assert!(!is_linearizable(&history(7), sum, !0));
    }

    #[test]
    fn a_history_names_the_key_that_is_wrong() {
        let mut history = History::default();
        history.note(1, event(Deed::Insert(5, true), 0, 1));
        history.note(2, event(Deed::Insert(6, true), 0, 1));
        let held = |pairs: &[(u64, u64)]| pairs.iter().copied().collect::<HashMap<_, _>>();
        assert_eq!(history.check(&held(&[(1, 5), (2, 6)]), !0), Ok(()));
        let wrong = |pairs: &[(u64, u64)]| history.check(&held(pairs), !0).unwrap_err();
        assert!(wrong(&[(1, 5), (2, 7)]).starts_with("key 0x2, in the end Some(7)"));
        assert!(wrong(&[(1, 5)]).starts_with("key 0x2, in the end None"));
        assert!(wrong(&[(1, 5), (2, 6), (3, 0)]).starts_with("key 0x3 is there"));
    }
}
