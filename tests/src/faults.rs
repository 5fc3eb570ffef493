//! Every call of the device that a verb makes fails in turn, and what becomes of the map is looked at.
//!
//! A [`Trial`] is a map, made anew each time, and one verb. It runs once undisturbed, to know what it
//! should do, and then four times for each call: [once](Fault::Once) that call alone fails,
//! [once](Fault::NoMemory) there is no memory any more from then on, [once](Fault::WaitsRefused) the next waits and
//! questions are refused, and [once](Fault::Lost) all fails from then on. Afterwards:
//!
//! - the error says what failed;
//! - the map holds what it held before, or what it holds when the verb has succeeded (only the answer
//!   did not come home), or says that it is poisoned, until it is cleared; an error of memory leaves it as it
//!   was;
//! - waits and questions that were refused changed nothing (audit finding 1);
//! - the verb works, on what the map holds now;
//! - when the map is gone, so is its memory;
//! - a device that is lost refuses every verb with an error, and nothing panics or waits for ever.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::mpsc;
use std::time::Duration;
use std::{process, thread};

use gpumap::bytemuck::{Pod, bytes_of};
use gpumap::primitives::{Count, GroupBy, Sum};
use gpumap::{
    Call, Error, Fault, Faults, Key, Map, MultiMap, Result, RowMap, Value, Word, WordKey,
};

use gpumap_kernels::kernels::Encoding;

use crate::Target;
use crate::device::{noting, say};

/// What a map holds: the bytes of keys and values, sorted.
pub type Contents = Vec<(Vec<u8>, Vec<u8>)>;

/// Pairs as contents.
pub fn sorted<K: Pod, V: Pod>((keys, values): (Vec<K>, Vec<V>)) -> Contents {
    assert_eq!(keys.len(), values.len(), "keys and values");
    let pair = |(k, v)| (bytes_of(k).to_vec(), bytes_of(v).to_vec());
    let mut contents: Contents = keys.iter().zip(&values).map(pair).collect();
    contents.sort();
    contents
}

/// A map of any kind.
pub trait Subject {
    /// All that it holds.
    fn contents(&self) -> Result<Contents>;
    /// How many pairs that are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Empties it.
    fn clear(&self) -> Result<()>;
    /// Cells that are lost. Panics if one is in two places.
    fn idle_cells(&self) -> usize {
        0
    }
}

/// The methods of a map that have the same name.
macro_rules! its_own {
    () => {
        fn len(&self) -> usize {
            self.len()
        }
        fn clear(&self) -> Result<()> {
            self.clear()
        }
    };
}

impl<K: Key, V: Value> Subject for Map<K, V> {
    fn contents(&self) -> Result<Contents> {
        self.retrieve_all().map(sorted)
    }
    its_own!();
    fn idle_cells(&self) -> usize {
        let audit = self.audit().expect("where cells are");
        let places = [audit.stored, audit.free, audit.retired].concat();
        let somewhere: HashSet<u32> = places.iter().copied().collect();
        assert_eq!(somewhere.len(), places.len(), "a cell is in two places");
        let all: HashSet<u32> = audit.all.into_iter().collect();
        assert!(somewhere.is_subset(&all), "a cell that is not there");
        all.len() - somewhere.len()
    }
}

impl<K: WordKey, V: Word<Bits = K::Bits>> Subject for MultiMap<K, V> {
    fn contents(&self) -> Result<Contents> {
        self.retrieve_all().map(sorted)
    }
    its_own!();
}

impl<K: Pod> Subject for RowMap<K> {
    /// Keys with their rows.
    fn contents(&self) -> Result<Contents> {
        self.retrieve_all().map(sorted)
    }
    its_own!();
}

impl Subject for RowMap<str> {
    /// Strings with their rows.
    fn contents(&self) -> Result<Contents> {
        let (keys, rows) = self.retrieve_all()?;
        let row = |row: u32| row.to_ne_bytes().to_vec();
        let mut contents: Contents = keys
            .to_vecs()
            .into_iter()
            .zip(rows.into_iter().map(row))
            .collect();
        contents.sort();
        Ok(contents)
    }
    its_own!();
}

impl<K: Pod> Subject for GroupBy<K, (Count, Sum<u32>)> {
    /// Keys with their sums, which change with each batch, and counts above them.
    fn contents(&self) -> Result<Contents> {
        let grouped = self.finish()?;
        let (counts, sums) = grouped.columns;
        let of_group = |(count, sum): (u64, u64)| count << 48 | sum;
        let values = counts.into_iter().zip(sums).map(of_group).collect();
        Ok(sorted((grouped.keys, values)))
    }
    its_own!();
}

/// What came of the calls of a trial that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls of the verb, undisturbed.
    pub calls: u64,
    /// Faults that it got over: it succeeded all the same.
    pub absorbed: u64,
    /// After which the map was as before.
    pub before: u64,
    /// After which it held what the verb had done.
    pub after: u64,
    /// After which it was poisoned.
    pub poisoned: u64,
}

/// A verb on a map, to be tried on a target.
pub struct Trial<'t, S, A> {
    on: &'t Target,
    name: &'t str,
    exception: Exception,
    build: &'t dyn Fn(&Target) -> Result<S>,
    act: &'t dyn Fn(&S) -> Result<A>,
    reference: Reference<A>,
}

/// What is otherwise with one verb than with all the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// Nothing.
    None,
    /// It makes a poisoned map sound.
    Heals,
    /// When it has taken pairs away, what they lay in may stay idle, with an error that says why.
    LeavesCellsIdle,
}

/// What happens when nothing fails.
struct Reference<A> {
    before: Contents,
    answer: A,
    after: Contents,
    /// When the verb is done once more.
    twice: Contents,
    /// When it is done after `clear`.
    anew: Contents,
}

impl<A> Reference<A> {
    fn of<S: Subject>(
        on: &Target,
        build: &dyn Fn(&Target) -> Result<S>,
        act: &dyn Fn(&S) -> Result<A>,
    ) -> Self {
        let map = build(on).expect("the map");
        let before = map.contents().expect("what it holds");
        let answer = act(&map).expect("the verb");
        let after = map.contents().expect("what it holds then");
        act(&map).expect("the verb once more");
        let twice = map.contents().expect("what it holds then");
        map.clear().expect("clear");
        act(&map).expect("the verb on an empty map");
        let anew = map.contents().expect("what it holds then");
        Self {
            before,
            answer,
            after,
            twice,
            anew,
        }
    }
}

/// Fails every call of a verb in turn; see the [module](self). Prints and returns what came of it.
pub fn try_every_call<S: Subject, A: Debug + PartialEq>(
    on: &Target,
    name: &str,
    build: impl Fn(&Target) -> Result<S>,
    act: impl Fn(&S) -> Result<A>,
) -> Tally {
    try_every_call_but(on, name, Exception::None, build, act)
}

/// As [`try_every_call`], for a verb that differs from the others.
pub fn try_every_call_but<S: Subject, A: Debug + PartialEq>(
    on: &Target,
    name: &str,
    exception: Exception,
    build: impl Fn(&Target) -> Result<S>,
    act: impl Fn(&S) -> Result<A>,
) -> Tally {
    if is_twice(on) {
        return Tally::default();
    }
    let _watchdog = Watchdog::new(name);
    let reference = Reference::of(on, &build, &act);
    let trial = Trial {
        on,
        name,
        exception,
        build: &build,
        act: &act,
        reference,
    };
    let mut tally = Tally::default();
    let stride = on.stride(3) as u64;
    let kinds = [
        Fault::Once,
        Fault::NoMemory,
        Fault::WaitsRefused(3),
        Fault::Lost,
    ];
    for (first, fault) in (0..).zip(kinds) {
        let mut calls = first % stride;
        while noting(&format!("{name}: call {calls}, {fault:?}"), || {
            trial.run(calls, fault, &mut tally)
        }) {
            // Of the many calls of a long verb fewer.
            calls += match stride {
                1 => 1,
                _ => stride.max(calls / 4),
            };
        }
        // Of the last ones none allocates memory.
        tally.calls = tally.calls.max(calls);
    }
    assert!(
        tally.before + tally.after + tally.poisoned > 0,
        "{name}: nothing failed"
    );
    println!("{name}: {tally:?}");
    tally
}

impl<S: Subject, A: Debug + PartialEq> Trial<'_, S, A> {
    /// Runs the verb with a fault at one call; whether it made that many.
    fn run(&self, call: u64, fault: Fault, tally: &mut Tally) -> bool {
        let faults = Faults::default();
        let on = self.on.with_faults(&faults);
        let map = (self.build)(&on).expect("the map");
        faults.plan(call, fault);
        let answer = (self.act)(&map);
        let Some(failed) = faults.failed() else {
            return false;
        };
        if fault == Fault::Lost {
            assert_lost(&map, &answer);
            // It is only dropped.
            drop(map);
        } else {
            faults.heal();
            if fault == Fault::WaitsRefused(3) {
                assert!(
                    answer.is_ok(),
                    "a refused question is no failure: {answer:?}"
                );
            }
            self.look(&map, answer, failed, tally);
            drop(map);
        }
        assert_eq!(on.device().allocated_bytes(), 0, "bytes that leaked");
        true
    }

    /// Looks at what the verb has left behind, and does it again.
    fn look(&self, map: &S, answer: Result<A>, failed: Call, tally: &mut Tally) {
        let Reference {
            before,
            answer: expected,
            after,
            twice,
            anew,
        } = &self.reference;
        let name = self.name;
        let found = map.contents();
        let next = match (&answer, &found) {
            (Ok(answer), Ok(found)) => {
                assert_eq!(
                    (answer, found),
                    (expected, after),
                    "{name}, as if nothing was"
                );
                tally.absorbed += 1;
                twice
            }
            (Err(error), Ok(found)) => {
                assert_says(error, failed);
                assert_eq!(map.len(), found.len(), "len()");
                if found == before {
                    tally.before += 1;
                    after
                } else {
                    let changed = !matches!(error, Error::OutOfMemory { .. })
                        || self.exception == Exception::LeavesCellsIdle;
                    assert!(changed, "changed, though it says: {error}");
                    assert_eq!(found, after, "neither before nor after: {error}");
                    tally.after += 1;
                    twice
                }
            }
            (Err(error), Err(Error::Poisoned)) => {
                assert_says(error, failed);
                let changed = !matches!(error, Error::OutOfMemory { .. });
                assert!(changed, "poisoned, though it says: {error}");
                if self.exception != Exception::Heals {
                    let refused = (self.act)(map);
                    assert!(matches!(refused, Err(Error::Poisoned)), "{refused:?}");
                }
                map.clear().expect("clear after poison");
                assert_eq!((map.contents().expect("cleared"), map.len()), (vec![], 0));
                tally.poisoned += 1;
                anew
            }
            (answer, found) => panic!("{answer:?}, and the map says {found:?}"),
        };
        let idle = self.exception == Exception::LeavesCellsIdle && answer.is_err();
        assert!(idle || map.idle_cells() == 0, "cells are lost");
        (self.act)(map).expect("the verb, when nothing fails any more");
        assert_eq!(map.contents().as_ref().ok(), Some(next), "{name}, then");
    }
}

/// Whether another target has the same host code: how slots are claimed makes no difference to it.
fn is_twice(on: &Target) -> bool {
    on.encoding() == Some(Encoding::Split)
}

/// Panics unless an error says that this call failed.
fn assert_says(error: &Error, failed: Call) {
    let says = match (error, failed) {
        (Error::OutOfMemory { .. }, Call::Allocate { .. } | Call::AllocatePinned { .. }) => true,
        (Error::Driver { call, .. }, _) => *call == failed.name(),
        _ => false,
    };
    assert!(says, "{failed:?} failed, and the error says: {error:?}");
}

/// Panics unless a map on a lost device refuses every call.
fn assert_lost<A: Debug>(map: &impl Subject, answer: &Result<A>) {
    let refusals = [
        answer.as_ref().err().map(|error| format!("{error:?}")),
        map.contents().err().map(|error| format!("{error:?}")),
        map.clear().err().map(|error| format!("{error:?}")),
        map.contents().err().map(|error| format!("{error:?}")),
    ];
    for refusal in refusals.into_iter().flatten() {
        let known = refusal.starts_with("Driver") || refusal == "Poisoned";
        assert!(known, "a lost device says: {refusal}");
    }
    assert!(map.contents().is_err(), "a lost device shows what it holds");
    assert!(map.clear().is_err(), "a lost device empties a map");
    map.len();
}

/// Fails every call that making a map takes. What was made by then must be gone when it fails.
pub fn try_every_call_of_making<S: Subject>(
    on: &Target,
    name: &str,
    make: impl Fn(&Target) -> Result<S>,
) -> Tally {
    if is_twice(on) {
        return Tally::default();
    }
    let _watchdog = Watchdog::new(name);
    let expected = make(on).expect("the map").contents().expect("its pairs");
    let mut tally = Tally::default();
    for fault in [Fault::Once, Fault::NoMemory, Fault::Lost] {
        for call in 0.. {
            let faults = Faults::default();
            let on = on.with_faults(&faults);
            faults.plan(call, fault);
            let made = make(&on);
            let Some(failed) = faults.failed() else {
                tally.calls = tally.calls.max(call);
                break;
            };
            noting(&format!("{name}: call {call}, {fault:?}"), || {
                faults.heal();
                match made {
                    Ok(map) => {
                        assert_eq!(map.contents().ok().as_ref(), Some(&expected));
                        tally.absorbed += 1;
                    }
                    Err(error) => {
                        assert_says(&error, failed);
                        tally.before += 1;
                    }
                }
                assert_eq!(on.device().allocated_bytes(), 0, "bytes that leaked");
            });
        }
    }
    assert!(tally.before > 0, "{name}: nothing failed");
    println!("{name}: {tally:?}");
    tally
}

/// Ends the program, and says of what, if something takes far too long: a test that hangs says nothing.
#[derive(Debug)]
pub struct Watchdog {
    _ended: mpsc::Sender<()>,
}

impl Watchdog {
    /// What may take a few minutes at most.
    pub fn new(name: &str) -> Self {
        Self::after(name, Duration::from_secs(300))
    }

    /// What may take so long at most.
    pub fn after(name: &str, most: Duration) -> Self {
        let (ended, waits) = mpsc::channel();
        let name = name.to_owned();
        thread::spawn(move || {
            if waits.recv_timeout(most) == Err(mpsc::RecvTimeoutError::Timeout) {
                say(&format!("{name}: has not ended after {most:?}"));
                process::abort();
            }
        });
        Self { _ended: ended }
    }
}
