//! The search for an order of events.

use std::collections::HashSet;

use super::{Deed, Event};

/// States that are looked at before the search gives up.
const LIMIT: usize = 1 << 22;

/// Whether there is an order of these events of one key, at most 64, that they all fit, from an
/// absent key to what is there in the end.
///
/// The search of Wing and Gong ("Testing and verifying concurrent objects", 1993), with the states
/// that it has seen (Lowe, "Testing for linearizability", 2017), and two short cuts. An event that
/// only looks and may be next, and fits, is next: it would not fit any better later. Of equal
/// deeds that may be next, the one that ends first is: the other may take its place.
///
/// # Panics
/// If there are more events, or too many orders to be tried.
pub fn is_linearizable(events: &[Event], there: Option<u64>, mask: u64) -> bool {
    assert!(events.len() <= 64, "too many events for a search");
    let all = u64::MAX.checked_shr(64 - events.len() as u32).unwrap_or(0);
    let mut seen = HashSet::new();
    let mut open = vec![(0u64, None)];
    while let Some((done, state)) = open.pop() {
        if done == all {
            if state == there {
                return true;
            }
            continue;
        }
        let next = candidates(events, done);
        let fits = |i: usize| events[i].deed.after(state, mask);
        let quiet = next
            .iter()
            .find(|&&i| events[i].deed.only_looks() && fits(i).is_some());
        let mut tried: Vec<Deed> = Vec::new();
        for &i in quiet.map_or(&next[..], std::slice::from_ref) {
            let deed = events[i].deed;
            if tried.contains(&deed) {
                continue;
            }
            tried.push(deed);
            if let Some(after) = fits(i)
                && seen.insert((done | 1 << i, after))
            {
                open.push((done | 1 << i, after));
            }
        }
        assert!(
            seen.len() < LIMIT,
            "too many orders of {} events",
            events.len()
        );
    }
    false
}

/// The events that may be next: those that began before any other of the rest ended. Those that end
/// first come first.
fn candidates(events: &[Event], done: u64) -> Vec<usize> {
    let rest = (0..events.len()).filter(|i| done >> i & 1 == 0);
    let first_end = rest.clone().map(|i| events[i].end).min().unwrap_or(0);
    let mut next: Vec<usize> = rest.filter(|&i| events[i].begin <= first_end).collect();
    next.sort_unstable_by_key(|&i| events[i].end);
    next
}
