//! One launch of one warp: a verb, its inputs, and the answer for each, with the times.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use gpumap::simt::atomic::part::Update;
use gpumap_kernels::count::Counters;
use gpumap_kernels::probe::{Job, Next, Seen, Verb, serve_batch};
use gpumap_kernels::slot::{Bits, Format};
use gpumap_kernels::source::Batch;
use gpumap_kernels::table::MapView;
use gpumap_kernels::verbs::look_up::{Answers, Get};
use gpumap_kernels::verbs::remove::Remove;
use gpumap_kernels::verbs::store::{Account, Keep, Merge, Present, Read, Select, Store};

use super::Role;
use crate::history::{Clock, Deed, Event, History, Timed};
use crate::interleave::Out;

/// Keys that one warp takes at most.
const PER_WARP: u32 = 32;

/// A launch.
pub struct Part<F: Format> {
    role: Role,
    keys: Vec<F::Key>,
    values: Vec<F::Value>,
    told: Vec<F::Value>,
    found: Vec<u8>,
    outcomes: Vec<u8>,
    unplaced: u32,
    times: Vec<[u64; 2]>,
    /// Pairs stored less pairs removed.
    balance: AtomicU64,
}

/// A verb that stores, and does not see that a slot is being written: an error.
struct Hasty<V>(V);

impl<F: Format, V: Verb<F>> Verb<F> for Hasty<V> {
    const TAKES: bool = V::TAKES;
    const READS: bool = V::READS;
    const LOCATES: bool = V::LOCATES;
    const CLAIMS: bool = V::CLAIMS;

    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: the caller's promise.
        unsafe {
            self.0.serve(
                job,
                Seen {
                    busy: false,
                    ..seen
                },
            )
        }
    }

    unsafe fn walked_off(&mut self, job: &Job<F>, cell: bool) -> Next {
        // SAFETY: the caller's promise.
        unsafe { self.0.walked_off(job, cell) }
    }
}

impl<F: Format> Part<F> {
    /// A launch with these keys, at most 32. Its values are its own, distinguished from those of
    /// others by `number`. Some replace by the same value, and what they add is the same
    /// everywhere: the more operations are alike, the fewer orders there are to search.
    ///
    /// # Panics
    /// If there are more keys.
    pub fn new(role: Role, number: u64, keys: impl IntoIterator<Item = u64>) -> Self {
        let keys: Vec<F::Key> = keys.into_iter().map(F::Key::from_u64).collect();
        let len = keys.len();
        assert!(len <= PER_WARP as usize, "more keys than lanes");
        let value = |i: u64| match role {
            Role::Add => 0x1_0001_0001,
            // Both halves name the launch that wrote them.
            Role::Upsert => ((number << 8) | (i / 8)) * 0x1_0000_0001,
            _ => (number << 8 | i) * 0x1_0000_0001,
        };
        Self {
            role,
            keys,
            values: (0..len as u64)
                .map(|i| F::Value::from_u64(value(i)))
                .collect(),
            told: vec![F::Value::default(); len],
            found: vec![0; len],
            outcomes: vec![0; len],
            unplaced: 0,
            times: vec![[0; 2]; len],
            balance: AtomicU64::new(0),
        }
    }

    /// What each thread of a block of one warp does.
    pub fn body<'a>(&'a mut self, view: MapView, clock: &'a Clock) -> Box<dyn Fn() + Sync + 'a> {
        let (told, found) = (Out::of(&mut self.told), Out::of(&mut self.found));
        let (outcomes, times) = (Out::of(&mut self.outcomes), Out::of(&mut self.times));
        let unplaced = Out::of(std::slice::from_mut(&mut self.unplaced));
        let (role, balance) = (self.role, &self.balance);
        let (keys, values) = (&self.keys, &self.values);
        let counters = [AtomicU64::new(0), AtomicU64::new(0)];
        Box::new(move || {
            let batch = Batch {
                keys: keys.as_ptr(),
                values: values.as_ptr(),
                value: 0,
                len: keys.len() as u64,
                per_warp: PER_WARP,
            };
            let times = times.ptr();
            let answers = Answers {
                values: told.ptr(),
                found: found.ptr(),
                default: 0,
            };
            let account = Account {
                outcomes: outcomes.ptr(),
                unplaced: unplaced.ptr(),
                counters: Counters::of(counters[0].as_ptr()),
                select: Select::All,
            };
            let read = Read { values: told.ptr() };
            // SAFETY: the warp is whole; everything outlives the launch, which alone writes the
            // outputs.
            let change = unsafe {
                match role {
                    Role::Insert => store::<F, _>(&view, batch, clock, times, Keep, account),
                    Role::HastyInsert => {
                        let mut timed = Timed {
                            verb: Hasty(storing(Keep, account)),
                            clock,
                            times,
                        };
                        serve_batch::<F, _, _>(&view, &batch, &mut timed);
                        u64::from(timed.verb.0.stored)
                    }
                    Role::Upsert => {
                        let present = Merge(Update::Replace);
                        store::<F, _>(&view, batch, clock, times, present, account)
                    }
                    Role::Add => {
                        let present = Merge(Update::Add);
                        store::<F, _>(&view, batch, clock, times, present, account)
                    }
                    Role::GetOrInsert => store::<F, _>(&view, batch, clock, times, read, account),
                    Role::Get => {
                        let verb = Get(answers);
                        let mut timed = Timed { verb, clock, times };
                        serve_batch::<F, _, _>(&view, &batch, &mut timed);
                        0
                    }
                    Role::Remove => {
                        let answers = Answers {
                            values: ptr::null_mut(),
                            ..answers
                        };
                        let verb = Remove::<_, false> {
                            answers,
                            removed: 0,
                        };
                        let mut timed = Timed { verb, clock, times };
                        serve_batch::<F, _, _>(&view, &batch, &mut timed);
                        u64::from(timed.verb.removed).wrapping_neg()
                    }
                }
            };
            balance.fetch_add(change, Ordering::Relaxed);
        })
    }

    /// Takes note of what happened to each key.
    ///
    /// # Errors
    /// A key that was never finished.
    pub fn note(&self, history: &mut History) -> Result<(), String> {
        for (i, &key) in self.keys.iter().enumerate() {
            let [begin, end] = self.times[i];
            if end <= begin {
                return Err(format!("input {i} of {:?} was left out", self.role));
            }
            let (value, new) = (self.values[i].to_u64(), self.outcomes[i] == 1);
            let (got, there) = (self.told[i].to_u64(), self.found[i] == 1);
            let deed = match self.role {
                _ if self.unplaced >> i & 1 != 0 => Deed::Refused,
                Role::Insert | Role::HastyInsert => Deed::Insert(value, new),
                Role::Upsert => Deed::Upsert(value, new),
                Role::Add => Deed::Add(value, new),
                Role::GetOrInsert => Deed::GetOrInsert(value, new, got),
                Role::Get => Deed::Get(there.then_some(got)),
                Role::Remove => Deed::Remove(there),
            };
            history.note(key.to_u64(), Event { deed, begin, end });
        }
        Ok(())
    }

    /// Pairs stored less pairs removed, as the verbs counted them.
    pub fn balance(&self) -> u64 {
        self.balance.load(Ordering::Relaxed)
    }
}

fn storing<P>(present: P, account: Account) -> Store<P> {
    Store {
        present,
        account,
        stored: 0,
    }
}

/// Serves the warp's keys; returns how many pairs this lane stored.
///
/// # Safety
/// As for [`serve_batch`].
unsafe fn store<F: Format, P: Present<F>>(
    view: &MapView,
    batch: Batch<F::Key, F::Value>,
    clock: &Clock,
    times: *mut [u64; 2],
    present: P,
    account: Account,
) -> u64 {
    let verb = storing(present, account);
    let mut timed = Timed { verb, clock, times };
    // SAFETY: passed on.
    unsafe { serve_batch::<F, _, _>(view, &batch, &mut timed) };
    u64::from(timed.verb.stored)
}
