//! Operations, described once, for everything that runs them.
//!
//! An [`Op`] is an operation on a batch: its keys, its values, and where answers go. It does nothing by itself. What
//! runs it is a *receiver*:
//!
//! | receiver | runs an operation by | the answer is there |
//! |---|---|---|
//! | [`Map`](crate::Map), [`MultiMap`](crate::MultiMap), [`ShardedMap`](crate::ShardedMap) | [`execute`](Execute::execute) | when that returns |
//! | [`OnStream`](crate::OnStream), made by `on` of the first two | [`submit`](crate::OnStream::submit) | when the [`Pending`](crate::Pending) is done |
//! | [`Recording`](crate::Recording), made by [`Graph::record`](crate::Graph::record), of the same | [`add`](crate::Recording::add) | when the launch is done, in buffers |
//! | [`Shard`](crate::sharded::Shard), in work of a group | [`execute`](crate::sharded::Shard::execute) with its rank | when that returns |
//!
//! ```
//! use gpumap::op::{self, Execute};
//! use gpumap::{Device, Map, MultiMap, Result};
//!
//! /// How many of the words were new.
//! fn learn(known: &impl Execute<u32, u32>, words: &[u32], since: &[u32]) -> Result<usize> {
//!     let is_new = known.execute(op::insert(words, since).each())?;
//!     Ok(is_new.into_iter().filter(|&is_new| is_new).count())
//! }
//!
//! let device = Device::cpu();
//! assert_eq!(learn(&Map::new(&device)?, &[7, 8], &[1, 1])?, 2);
//! assert_eq!(learn(&MultiMap::with_capacity(&device, 8)?, &[7, 8, 7], &[1, 1, 1])?, 2);
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! The daily methods of the receivers, as [`Map::insert`](crate::Map::insert), are short for running one of these.
//!
//! # What runs what
//! | receiver | runs all operations, except |
//! |---|---|
//! | [`Map`](crate::Map) of values with 0, 4 or 8 bytes, aligned as `u32` or `u64`, [`ShardedMap`](crate::ShardedMap) | |
//! | [`Map`](crate::Map) of other values | [`merge`], [`update_with`], [`get_and_touch`]: its values are bytes and no numbers; [`get`] with a default other than zeros |
//! | [`MultiMap`](crate::MultiMap) | [`upsert`], [`merge`], [`update`], [`update_with`], [`get_and_touch`]: a key may have several pairs; [`get`] with a default other than zeros |
//!
//! # Shapes
//! Keys and values are [`Input`]s: a slice, array or vector of the host, or a [`Buffer`](crate::Buffer) of the
//! receiver's device. There are as many values as keys, or where an operation takes an [`Operand`], one for all keys.
//! Outputs are [`Output`]s with a place for each key at least; places after those are not written. A graph takes only
//! buffers, and answers in them, a [`ShardedMap`](crate::ShardedMap)
//! only arrays of the host.
//!
//! # Errors
//! | | |
//! |---|---|
//! | [`Error::Unsupported`] | the receiver does not run the operation, or not with these outputs: see [above](self#what-runs-what) |
//! | [`Error::LengthMismatch`] | there are not as many values as keys |
//! | [`Error::OutputTooSmall`] | an output is shorter than the keys |
//! | [`Error::OutOfMemory`] | nothing has been done |
//! | [`Error::Full`] | the map does not grow: nothing of the batch is in the map, unless it says `partial` |
//! | [`Error::WrongDevice`] | a buffer is of another device |
//! | [`Error::Poisoned`], [`Error::Driver`], [`Error::Group`] | see there |
//!
//! # Concurrency
//! Each key is linearizable: what an operation does with it happens at one moment between call and return, or in the
//! order of the stream. Keys of one batch are worked on at the same time, so of several equal ones any may come first.

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;
use gpumap_simt::atomic::part::Update;

use crate::array::{Array, ArrayMut};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::{Input, Source};
use crate::map::{
    Arrays, Batch, Collect, Kind, Merge, Number, Numeric, Operand, Operands, Outcome, Outputs,
    Receiver, Value, Wanted, bits, told,
};
use crate::memory::{bytes_of_places, host_vec};
use crate::output::Output;
use crate::scratch::{Fill, Places};

/// What runs operations at once. A program that is generic over it works with a map of one device or of several, with
/// large values, or in the order of a stream, which it then waits for.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not run operations on keys of type `{K}` and values of type `{V}`",
    note = "operations run on a Map, MultiMap or ShardedMap of these types, or on the `on(&stream)` of one"
)]
pub trait Execute<K, V> {
    /// Runs an operation, and waits for its answer.
    ///
    /// # Errors
    /// See [`op`](self).
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A>;
}

impl<K, V, R: Execute<K, V> + ?Sized> Execute<K, V> for &R {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        (**self).execute(op)
    }
}

/// Answers that take no memory of the host: a count, or nothing. Answers for single keys go to outputs.
pub trait InPlace: in_place::Sealed {}
impl InPlace for usize {}
impl InPlace for () {}

mod in_place {
    /// Only the answers of this module.
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for () {}
}

/// An operation on a batch of keys `K` and values `V`, which answers with an `A`. Made by the functions of
/// [`op`](self), and run by an [`Execute`].
#[must_use = "an operation does nothing until a map runs it"]
pub struct Op<'a, K, V, A> {
    pub(crate) batch: Batch<'a>,
    pub(crate) outputs: Arrays<'a>,
    pub(crate) answer: Answer<A>,
    _pair: PhantomData<fn(K) -> V>,
}

/// What is made of the counts and answers of an operation.
pub(crate) enum Answer<A> {
    /// Only of its count.
    Count(fn(usize) -> A),
    /// Of its answer for each key.
    Each(Wanted, Make<A>),
}

/// Makes answers for so many keys: has places for them filled.
pub(crate) type Make<A> = fn(usize, Collector<'_>) -> Result<A>;

/// Has something made of each answer, in places for that.
pub(crate) type Collector<'c> = &'c mut dyn FnMut(Collect<'_>) -> Result<()>;

impl<'a, K, V, A> Op<'a, K, V, A> {
    /// The same operation with another answer.
    #[inline]
    fn answering<B>(self, answer: Answer<B>) -> Op<'a, K, V, B> {
        let Self { batch, outputs, .. } = self;
        Op {
            batch,
            outputs,
            answer,
            _pair: PhantomData,
        }
    }

    /// The same, with one of its outputs.
    #[inline]
    fn with_output<T: Pod>(self, at: usize, output: &'a mut (impl Output<T> + ?Sized)) -> Self {
        self.with_array(at, Some(output.sink().into()))
    }

    /// The same, with an output or without.
    #[inline]
    pub(crate) fn with_array(mut self, at: usize, output: Option<ArrayMut<'a>>) -> Self {
        self.outputs[at] = output;
        self
    }

    /// Whether a value is returned for each key, and whether it was found, stored or removed.
    #[inline]
    pub(crate) fn told(&self) -> [bool; 2] {
        match &self.answer {
            Answer::Count(_) => told(&self.outputs),
            Answer::Each(wanted, _) => wanted.both(),
        }
    }

    /// Whether the receiver runs it, and its arrays are long enough.
    #[inline]
    pub(crate) fn check(&self, by: Receiver) -> Result<()> {
        self.batch.check(by, self.told())?;
        if let (Answer::Each(..), [Some(_), _] | [_, Some(_)]) = (&self.answer, &self.outputs) {
            // Both `outcomes` and `each`.
            return Err(self.batch.unsupported(" with outcomes twice", by.name()));
        }
        let mut outputs = self.outputs.iter().flatten();
        outputs.try_for_each(|output| expect_room(self.batch.keys.len(), output.len()))
    }

    /// Checks it, has it run, and makes the answer.
    #[inline]
    pub(crate) fn run(
        self,
        by: Receiver,
        run: impl FnOnce(&Batch<'_>, Outputs<'_>) -> Result<usize>,
    ) -> Result<A> {
        self.check(by)?;
        self.run_checked(run)
    }

    /// The same, when it has been checked.
    #[inline]
    pub(crate) fn run_checked(
        self,
        run: impl FnOnce(&Batch<'_>, Outputs<'_>) -> Result<usize>,
    ) -> Result<A> {
        let batch = &self.batch;
        match self.answer {
            Answer::Count(answer) => run(batch, Outputs::Arrays(self.outputs)).map(answer),
            Answer::Each(_, make) => {
                let mut run = Some(run);
                make(batch.keys.len(), &mut |collect| {
                    let run = run.take();
                    let done = run.map_or(Ok(0), |run| run(batch, Outputs::Collect(collect)));
                    done.map(drop)
                })
            }
        }
    }
}

impl<'a, K: Pod, V> Op<'a, K, V, usize> {
    /// One that counts.
    #[inline]
    pub(crate) fn of(kind: Kind, keys: Source<'a, K>, values: Operands<'a>) -> Self {
        Self {
            batch: Batch {
                kind,
                keys: keys.into(),
                values,
                default: 0,
            },
            outputs: [None, None],
            answer: Answer::Count(|count| count),
            _pair: PhantomData,
        }
    }
}

/// # Answers
impl<'a, K, V> Op<'a, K, V, usize> {
    /// Says for each key whether the operation stored or removed its pair: `outcomes[i]` is 1 or 0. Of several equal
    /// keys of a batch, one did; where a [`MultiMap`](crate::MultiMap) removes, as many as there were pairs.
    ///
    /// ```
    /// use gpumap::op::{self, Execute};
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// let mut outcomes = [9; 2];
    /// assert_eq!(map.execute(op::upsert(&[1, 2], &[10, 20]).outcomes(&mut outcomes))?, 2);
    /// assert_eq!(map.execute(op::remove(&[2, 3]).outcomes(&mut outcomes))?, 1);
    /// assert_eq!(outcomes, [1, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn outcomes(self, outcomes: &'a mut (impl Output<u8> + ?Sized)) -> Self {
        self.with_output(FLAGS, outcomes)
    }

    /// Has values merged as such numbers, whatever their type says: for programs that learn the type of values when they run, and
    /// have maps of their bits.
    ///
    /// ```
    /// use gpumap::op::{self, Execute};
    /// use gpumap::{Device, Map, Merge, Number};
    /// let map = Map::<u32, u64>::new(&Device::cpu())?;
    /// for value in [0.5_f64, -2.5] {
    ///     let bits = [value.to_bits()];
    ///     map.execute(op::merge(&[7], &bits, Merge::Add).numbers(Number::Float))?;
    /// }
    /// assert_eq!(map.get(&[7])?, [Some((-2.0_f64).to_bits())]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn numbers(mut self, number: Number) -> Self {
        if let Kind::Merge(update) | Kind::Update(update) | Kind::GetAndTouch(update) =
            &mut self.batch.kind
        {
            *update = Merge::reread(*update, number);
        }
        self
    }

    /// Answers for each key whether the operation stored or removed its pair, as [`outcomes`](Self::outcomes) says it.
    pub fn each(self) -> Op<'a, K, V, Vec<bool>> {
        self.answering(Answer::Each(Wanted::FOUND, booleans))
    }

    /// The same, for operations that store.
    pub(crate) fn each_outcome(self) -> Op<'a, K, V, Vec<Outcome>> {
        self.answering(Answer::Each(Wanted::FOUND, outcomes))
    }
}

/// # Answers
impl<'a, K, V: Pod> Op<'a, K, V, Vec<Option<V>>> {
    /// Answers with `default` for absent keys. With values of 4 or 8 bytes that takes half the memory of the host.
    ///
    /// ```
    /// use gpumap::op::{self, Execute};
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, f32>::from_pairs(&Device::cpu(), [(1, 0.1)])?;
    /// assert_eq!(map.execute(op::get(&[1, 2]).or(f32::INFINITY))?, [0.1, f32::INFINITY]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn or(mut self, default: V) -> Op<'a, K, V, Vec<V>>
    where
        V: Value,
    {
        self.batch.default = bits(default);
        self.answering(Answer::Each(Wanted::VALUES, values::<V>))
    }
}

/// # Answers
impl<'a, K, V: Pod, T> Op<'a, K, V, Vec<T>> {
    /// Answers go to memory of the caller, of the host or of the device: `values[i]` is the value of `keys[i]`, or where it
    /// is absent what is given by [`or`](Op::or), else zero.
    ///
    /// ```
    /// use gpumap::op::{self, Execute};
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u64>::from_pairs(&Device::cpu(), [(1, 10), (2, 20)])?;
    /// let (mut values, mut found) = ([9; 3], [9; 3]);
    /// map.execute(op::get(&[2, 3, 1]).into(&mut values).found(&mut found))?;
    /// assert_eq!((values, found), ([20, 0, 10], [1, 0, 1]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn into(self, values: &'a mut (impl Output<V> + ?Sized)) -> Op<'a, K, V, ()> {
        self.answering(Answer::Count(drop))
            .with_output(VALUES, values)
    }
}

/// # Answers
impl<'a, K, V> Op<'a, K, V, Vec<bool>> {
    /// Answers go to memory of the caller: `found[i]` is 1 or 0.
    pub fn found(self, found: &'a mut (impl Output<u8> + ?Sized)) -> Op<'a, K, V, ()> {
        self.answering(Answer::Count(drop))
            .with_output(FLAGS, found)
    }
}

/// # Answers
impl<'a, K, V> Op<'a, K, V, ()> {
    /// Says for each key whether it was found, stored or removed: `found[i]` is 1 or 0.
    pub fn found(self, found: &'a mut (impl Output<u8> + ?Sized)) -> Self {
        self.with_output(FLAGS, found)
    }

    /// Answers how many pairs were stored or removed, or how many keys were present. A lookup counts nothing.
    ///
    /// ```
    /// use gpumap::op::{self, Execute};
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::from_pairs(&Device::cpu(), [(1, 10)])?;
    /// let mut held = [0; 2];
    /// let stored = op::get_or_insert(&[1, 2], &[11, 20]).into(&mut held).count();
    /// assert_eq!((map.execute(stored)?, held), (1, [10, 20]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn count(self) -> Op<'a, K, V, usize> {
        self.answering(Answer::Count(|count| count))
    }
}

/// Where values go, of the outputs of a batch.
pub(crate) const VALUES: usize = 0;
/// Where bytes for what was found, stored or removed go.
pub(crate) const FLAGS: usize = 1;

/// Stores the pairs whose key is absent; a present key keeps its value, unlike in `HashMap::insert`. Of several pairs of
/// the batch with one key, one is stored. Answers how many were. May make the map grow.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::new(&Device::cpu())?;
/// assert_eq!(map.execute(op::insert(&[1, 2], &[10, 20]))?, 2);
/// assert_eq!(map.execute(op::insert(&[2, 3], &[99, 30]).each())?, [false, true]);
/// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(20), Some(30)]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn insert<'a, K: Pod, V: Pod>(
    keys: &'a (impl Input<K> + ?Sized),
    values: &'a (impl Input<V> + ?Sized),
) -> Op<'a, K, V, usize> {
    pairs(Kind::Insert, keys, values)
}

/// Stores keys in a set. Answers how many were new.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let set = Map::<u32, ()>::new(&Device::cpu())?;
/// assert_eq!(set.execute(op::insert_keys(&[1, 2, 2]))?, 2);
/// assert_eq!(set.execute(op::contains(&[2, 3]))?, [true, false]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn insert_keys<'a, K: Pod>(keys: &'a (impl Input<K> + ?Sized)) -> Op<'a, K, (), usize> {
    counting(Kind::Insert, keys, Operands::Same(0))
}

/// Stores pairs; a present key gets the new value. Of several pairs of the batch with one key, one is there in the end.
/// Answers how many keys were new. May make the map grow.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::from_pairs(&Device::cpu(), [(1, 10), (2, 20)])?;
/// assert_eq!(map.execute(op::upsert(&[2, 3], &[99, 30]))?, 1);
/// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(99), Some(30)]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn upsert<'a, K: Pod, V: Pod>(
    keys: &'a (impl Input<K> + ?Sized),
    values: &'a (impl Input<V> + ?Sized),
) -> Op<'a, K, V, usize> {
    pairs(Kind::Merge(Update::Replace), keys, values)
}

/// Merges values with those of present keys, and stores the pairs whose key is absent. Several pairs of the batch may
/// have one key: all are merged. Answers how many keys were new. May make the map grow. One value instead of a batch of
/// them comes with every key, and takes no memory.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map, Merge};
/// let counts = Map::<u32, u64>::new(&Device::cpu())?;
/// assert_eq!(counts.execute(op::merge(&[7, 8, 7], &[1, 1, 5], Merge::Add))?, 2);
/// assert_eq!(counts.execute(op::merge(&[7, 9], 10, Merge::Max))?, 1);
/// assert_eq!(counts.get(&[7, 8, 9])?, [Some(10), Some(1), Some(10)]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn merge<'a, K: Pod, V: Numeric, Form>(
    keys: &'a (impl Input<K> + ?Sized),
    values: impl Operand<V, Form> + 'a,
    merge: Merge,
) -> Op<'a, K, V, usize> {
    let kind = Kind::Merge(merge.update::<V>());
    counting(kind, keys, values.values().erased())
}

/// Gives present keys new values; absent keys stay absent, so the map never grows. Of several pairs of the batch with
/// one key, the value of one is there in the end. Answers how many keys of the batch were present; one that comes several
/// times counts each time. The methods of the maps are called `update`, as in NVIDIA's HierarchicalKV.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::from_pairs(&Device::cpu(), [(1, 10), (2, 20)])?;
/// assert_eq!(map.execute(op::update(&[2, 3], &[99, 30]))?, 1);
/// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(99), None]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn update<'a, K: Pod, V: Pod>(
    keys: &'a (impl Input<K> + ?Sized),
    values: &'a (impl Input<V> + ?Sized),
) -> Op<'a, K, V, usize> {
    pairs(Kind::Update(Update::Replace), keys, values)
}

/// Merges values with those of present keys, as [`merge`] does; absent keys stay absent. Answers how many keys of the
/// batch were present; one that comes several times counts each time. The methods of the maps are called `update_with`.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map, Merge};
/// let watched = Map::<u32, u64>::from_pairs(&Device::cpu(), [(7, 0), (8, 0)])?;
/// assert_eq!(watched.execute(op::update_with(&[7, 9, 7], 1, Merge::Add))?, 2);
/// assert_eq!(watched.get(&[7, 8, 9])?, [Some(2), Some(0), None]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn update_with<'a, K: Pod, V: Numeric, Form>(
    keys: &'a (impl Input<K> + ?Sized),
    values: impl Operand<V, Form> + 'a,
    merge: Merge,
) -> Op<'a, K, V, usize> {
    let kind = Kind::Update(merge.update::<V>());
    counting(kind, keys, values.values().erased())
}

/// Stores the pairs whose key is absent, and answers for each key with the value that the map holds: its own where it
/// was stored, else the one that was there. May make the map grow.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::from_pairs(&Device::cpu(), [(1, 10)])?;
/// assert_eq!(map.execute(op::get_or_insert(&[1, 2], &[11, 20]))?, [10, 20]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn get_or_insert<'a, K: Pod, V: Pod>(
    keys: &'a (impl Input<K> + ?Sized),
    values: &'a (impl Input<V> + ?Sized),
) -> Op<'a, K, V, Vec<V>> {
    pairs(Kind::GetOrInsert, keys, values)
        .answering(Answer::Each(Wanted::VALUES, self::values::<V>))
}

/// Looks keys up: answers with the value of each, or none.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let map = Map::<u32, f32>::from_pairs(&Device::cpu(), [(1, 0.1), (2, 0.2)])?;
/// assert_eq!(map.execute(op::get(&[2, 3, 2]))?, [Some(0.2), None, Some(0.2)]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn get<'a, K: Pod, V: Pod>(keys: &'a (impl Input<K> + ?Sized)) -> Op<'a, K, V, Vec<Option<V>>> {
    counting(Kind::Get, keys, Operands::NONE).answering(Answer::Each(Wanted::BOTH, options::<V>))
}

/// Looks keys up: answers for each whether it is present. Values are not read.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::from_pairs(&Device::cpu(), [(1, 10), (2, 20)])?;
/// assert_eq!(map.execute(op::contains(&[2, 3]))?, [true, false]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn contains<'a, K: Pod, V: Pod>(keys: &'a (impl Input<K> + ?Sized)) -> Op<'a, K, V, Vec<bool>> {
    counting(Kind::Get, keys, Operands::NONE).answering(Answer::Each(Wanted::FOUND, booleans))
}

/// Looks keys up, and merges values into those that are present: clocks of a cache, counters, tickets. Answers with the value
/// that each key had just before, or none; absent keys stay absent, so the map never grows. Of several equal keys each
/// gets a value of its own.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map, Merge};
/// let last_used = Map::<u32, u64>::from_pairs(&Device::cpu(), [(1, 10), (2, 20)])?;
/// let now = 30;
/// assert_eq!(last_used.execute(op::get_and_touch(&[1, 3], now, Merge::Max))?, [Some(10), None]);
/// assert_eq!(last_used.get(&[1, 2, 3])?, [Some(30), Some(20), None]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn get_and_touch<'a, K: Pod, V: Numeric, Form>(
    keys: &'a (impl Input<K> + ?Sized),
    values: impl Operand<V, Form> + 'a,
    merge: Merge,
) -> Op<'a, K, V, Vec<Option<V>>> {
    let kind = Kind::GetAndTouch(merge.update::<V>());
    counting(kind, keys, values.values().erased())
        .answering(Answer::Each(Wanted::BOTH, options::<V>))
}

/// Removes keys. Answers how many were present; a key that comes several times counts once.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::from_pairs(&Device::cpu(), [(1, 10), (2, 20), (3, 30)])?;
/// assert_eq!(map.execute(op::remove(&[2, 3, 3, 4]))?, 2);
/// assert_eq!(map.get(&[1, 2])?, [Some(10), None]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn remove<'a, K: Pod, V: Pod>(keys: &'a (impl Input<K> + ?Sized)) -> Op<'a, K, V, usize> {
    counting(Kind::Remove, keys, Operands::NONE)
}

/// Removes keys, and answers with their values. Of several equal keys, one gets it; in a
/// [`MultiMap`](crate::MultiMap) as many as there are pairs. On maps that update values it waits for the calls in flight,
/// since a value that is read might be updated before its pair is removed.
///
/// ```
/// use gpumap::op::{self, Execute};
/// use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::from_pairs(&Device::cpu(), [(1, 10), (2, 20)])?;
/// assert_eq!(map.execute(op::take(&[2, 3]))?, [Some(20), None]);
/// assert_eq!(map.len(), 1);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub fn take<'a, K: Pod, V: Pod>(
    keys: &'a (impl Input<K> + ?Sized),
) -> Op<'a, K, V, Vec<Option<V>>> {
    counting(Kind::Take, keys, Operands::NONE).answering(Answer::Each(Wanted::BOTH, options::<V>))
}

/// An operation that counts.
fn counting<'a, K: Pod, V>(
    kind: Kind,
    keys: &'a (impl Input<K> + ?Sized),
    values: Operands<'a>,
) -> Op<'a, K, V, usize> {
    Op::of(kind, keys.source(), values)
}

/// The same, on pairs.
fn pairs<'a, K: Pod, V: Pod>(
    kind: Kind,
    keys: &'a (impl Input<K> + ?Sized),
    values: &'a (impl Input<V> + ?Sized),
) -> Op<'a, K, V, usize> {
    Op::of(kind, keys.source(), Operands::Each(values.source().into()))
}

/// For each operation its name, and for each receiver the name and a cell.
#[doc(hidden)]
pub type Table = Vec<(&'static str, Vec<(&'static str, &'static str)>)>;

/// Which receiver runs which operation: for each its name, and for each receiver "yes" or "no". From this the guide's table
/// is made, and by this tests know what to expect.
#[doc(hidden)]
pub fn table() -> Table {
    table_of(&Receiver::ALL, |batch, by| {
        let traits = batch.kind.traits();
        match batch.check(by, [traits.tells_values, traits.tells_flags]) {
            Ok(()) => "yes",
            Err(_) => "no",
        }
    })
}

/// What receivers do with an operation on a stream: "queued", "queued if it fits", "waits", or "no".
#[doc(hidden)]
pub fn streams() -> Table {
    table_of(&Receiver::WITH_STREAMS, |batch, by| {
        let traits = batch.kind.traits();
        match batch.check(by, [traits.tells_values, false]) {
            Err(_) => "no",
            Ok(()) if !by.queues(batch.kind) => "waits",
            Ok(()) if traits.stores => "queued if it fits",
            Ok(()) => "queued",
        }
    })
}

/// A table of operations and receivers.
fn table_of(receivers: &[Receiver], cell: impl Fn(&Batch<'_>, Receiver) -> &'static str) -> Table {
    let row = |kind: Kind| {
        let batch = Batch {
            kind,
            keys: Array::NONE,
            values: Operands::NONE,
            default: 0,
        };
        let cells = receivers.iter().map(|&by| (by.name(), cell(&batch, by)));
        (kind.traits().name, cells.collect())
    };
    Kind::OPERATIONS.into_iter().map(row).collect()
}

/// [`Make`] of values, or none.
fn options<V: Pod>(len: usize, collect: Collector<'_>) -> Result<Vec<Option<V>>> {
    /// # Safety
    /// The places are for as many options, with such values and bytes.
    unsafe fn fill<V: Pod>(Places { to, from, len }: Places) {
        let (to, values) = (to.cast::<Option<V>>(), from[0].cast::<V>());
        for i in 0..len {
            // SAFETY: the caller's promise.
            unsafe {
                let is_found = from[1].add(i).read() != 0;
                to.add(i)
                    .write(is_found.then_some(values.add(i).read_unaligned()));
            }
        }
    }
    // SAFETY: made for them.
    unsafe { make(len, Wanted::BOTH, size_of::<V>(), fill::<V>, collect) }
}

/// [`Make`] of values.
pub(crate) fn values<V: Pod>(len: usize, collect: Collector<'_>) -> Result<Vec<V>> {
    /// # Safety
    /// The places are for as many values, of which there are as many.
    unsafe fn fill<V>(Places { to, from, len }: Places) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from[0], to, len * size_of::<V>()) };
    }
    // SAFETY: made for them.
    unsafe { make(len, Wanted::VALUES, size_of::<V>(), fill::<V>, collect) }
}

/// [`Make`] of whether keys were found, stored or removed.
fn booleans(len: usize, collect: Collector<'_>) -> Result<Vec<bool>> {
    /// # Safety
    /// The places are for as many booleans, with such bytes.
    unsafe fn fill(Places { to, from, len }: Places) {
        for i in 0..len {
            // SAFETY: the caller's promise.
            unsafe { to.cast::<bool>().add(i).write(from[1].add(i).read() != 0) };
        }
    }
    // SAFETY: made for them.
    unsafe { make(len, Wanted::FOUND, 0, fill, collect) }
}

/// [`Make`] of what became of pairs that were to be stored.
fn outcomes(len: usize, collect: Collector<'_>) -> Result<Vec<Outcome>> {
    /// # Safety
    /// The places are for as many outcomes, with such bytes.
    unsafe fn fill(Places { to, from, len }: Places) {
        for i in 0..len {
            // SAFETY: the caller's promise.
            unsafe {
                let outcome = Outcome::from_byte(from[1].add(i).read());
                to.cast::<Outcome>().add(i).write(outcome);
            }
        }
    }
    // SAFETY: made for them.
    unsafe { make(len, Wanted::FOUND, 0, fill, collect) }
}

/// A vector of what is made of each answer.
///
/// # Safety
/// `fill` writes such elements, from values of `value` bytes and from bytes, of which those are there that are wanted.
unsafe fn make<T>(
    len: usize,
    wanted: Wanted,
    value: usize,
    fill: Fill,
    collect: Collector<'_>,
) -> Result<Vec<T>> {
    let mut answers = host_vec::<T>(len)?;
    collect(Collect {
        places: bytes_of_places(&mut answers.spare_capacity_mut()[..len]),
        element: size_of::<T>(),
        wanted,
        value,
        fill,
    })?;
    // SAFETY: all places have been written to if there is no error.
    unsafe { answers.set_len(len) };
    Ok(answers)
}

impl<K, V, A> fmt::Debug for Op<'_, K, V, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Op")
            .field("name", &self.batch.kind.traits().name)
            .field("keys", &self.batch.keys.len())
            .finish_non_exhaustive()
    }
}
