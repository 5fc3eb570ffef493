//! Aggregates of columns by key: [`Primitives::group_by`] of one batch, [`GroupBy`] of many.

mod aggregates;
mod chosen;
mod core;
mod plan;

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

pub use aggregates::{Aggregate, Aggregates, Count, Fixed, Max, Mean, Min, Push, Sum};
pub use chosen::{Chosen, Function, Numbers, NumbersMut};

use self::core::Core;
use super::{Element, Floats, Primitives};
use crate::array::{Array, ArrayMut};
use crate::buffer::BufferViewMut;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::Input;
use crate::output::Output;
use crate::rows::key_bytes;
use crate::scratch::{ScratchRole, Workspace};
use plan::{Finished, Kind, Plan, Targets};

/// What a grouping finds: the different keys, and a column for each aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouped<K, C> {
    /// The key of each group, in the order of first occurrences.
    pub keys: Vec<K>,
    /// For each aggregate, in the order in which they were asked for, a vector with a place for each group.
    pub columns: C,
}

/// A batch that is to be grouped, and what is asked of it so far. Nothing is done before `run`.
///
/// `T` is what it is for: [`Primitives`], or a [`GroupBy`]. `A` is the tuple of the aggregates.
#[must_use = "nothing is grouped before `run`"]
pub struct Grouping<'a, T, K, A> {
    of: &'a T,
    keys: Array<'a>,
    kinds: Vec<Kind>,
    columns: Vec<Array<'a>>,
    _types: PhantomData<fn(K) -> A>,
}

impl<T, K, A> fmt::Debug for Grouping<'_, T, K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grouping")
            .field("keys", &self.keys.len())
            .field("aggregates", &self.columns.len())
            .finish_non_exhaustive()
    }
}

/// # What is asked
///
/// Each adds an aggregate to those before. A column has a number for each key: a slice, vector or array of the host, or a
/// [`Buffer`](crate::Buffer) of the device, of any [`Element`].
impl<'a, T, K: Pod, A> Grouping<'a, T, K, A> {
    fn new(of: &'a T, keys: &'a (impl Input<K> + ?Sized)) -> Self {
        Self {
            of,
            keys: Array::of_keys(keys),
            kinds: Vec::new(),
            columns: Vec::new(),
            _types: PhantomData,
        }
    }

    fn with<B: Aggregate>(mut self, column: Array<'a>) -> Grouping<'a, T, K, A::With>
    where
        A: Push<B>,
    {
        self.kinds.push(B::KIND);
        self.columns.push(column);
        self.of_type()
    }

    fn of_type<B>(self) -> Grouping<'a, T, K, B> {
        Grouping {
            of: self.of,
            keys: self.keys,
            kinds: self.kinds,
            columns: self.columns,
            _types: PhantomData,
        }
    }

    /// How many rows each group has, as `u64`.
    pub fn count(self) -> Grouping<'a, T, K, A::With>
    where
        A: Push<Count>,
    {
        self.with::<Count>(Array::NONE)
    }

    /// The sum of a column: see [`Sum`] for its type.
    pub fn sum<N: Element>(
        self,
        column: &'a (impl Input<N> + ?Sized),
    ) -> Grouping<'a, T, K, A::With>
    where
        A: Push<Sum<N>>,
    {
        self.with::<Sum<N>>(column.source().into())
    }

    /// The least number of a column; NaN only of nothing else.
    pub fn min<N: Element>(
        self,
        column: &'a (impl Input<N> + ?Sized),
    ) -> Grouping<'a, T, K, A::With>
    where
        A: Push<Min<N>>,
    {
        self.with::<Min<N>>(column.source().into())
    }

    /// The greatest number of a column; NaN only of nothing else.
    pub fn max<N: Element>(
        self,
        column: &'a (impl Input<N> + ?Sized),
    ) -> Grouping<'a, T, K, A::With>
    where
        A: Push<Max<N>>,
    {
        self.with::<Max<N>>(column.source().into())
    }

    /// The mean of a column, as `f64`; NaN if one of its numbers is.
    pub fn mean<N: Element>(
        self,
        column: &'a (impl Input<N> + ?Sized),
    ) -> Grouping<'a, T, K, A::With>
    where
        A: Push<Mean<N>>,
    {
        self.with::<Mean<N>>(column.source().into())
    }
}

/// # Groups
///
/// Keys are plain data of 4 to 64 bytes, a multiple of 4, up to 2^31 - 1 of them. They are compared by their bits, and floats with
/// one zero and one NaN: `f32`, `f64`, arrays of these, and of structs the fields that [`Floats`] names. Such keys are
/// returned with `0.0` and a positive NaN. Groups are in the order of the first occurrences of their keys, the same on every run
/// and every device.
///
/// | aggregate | of | is returned as |
/// |---|---|---|
/// | `count` | | `u64` |
/// | `sum` | `u32`, `u64` | `u64`, modulo 2^64 |
/// | | `i32`, `i64` | `i64`, modulo 2^64 |
/// | | `f32`, `f64` | `f64`; NaN if a number is, or if infinities of both signs are |
/// | `min`, `max` | any number | the same type; of floats those that are no NaN, and NaN of nothing else; -0.0 lies below 0.0 |
/// | `mean` | any number | `f64`: the sum of the numbers, each as `f64`, divided by the count; so NaN if that is |
///
/// All results are exact and the same on every run, except the sums of floats, and the means: numbers are added as `f64` for
/// these, in an order that varies from run to run, so that last bits can differ, those of means of large integers too. A sum of *n* numbers differs from the exact one by at most *n u* / (1 − *n u*) times
/// the sum of their absolute values, with *u* = 2⁻⁵³. Sums that must not vary are sums of integers: of numbers in
/// fixed point, as `i64`.
impl Primitives {
    /// Groups keys, and columns beside them: to be followed by what is asked of each group, and by
    /// [`run`](Grouping::run).
    ///
    /// ```
    /// use gpumap::{Device, primitives::Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let city = [10u64, 7, 10, 10];
    /// let price = [2.5f32, 4.0, 0.5, 3.0];
    /// let stock = [3u32, 1, 9, 6];
    /// let grouped = primitives.group_by(&city).count().sum(&price).min(&price).max(&stock).mean(&stock).run()?;
    /// assert_eq!(grouped.keys, [10, 7]);
    /// let (count, sum, least, most, mean) = grouped.columns;
    /// assert_eq!(count, [3, 1]);
    /// assert_eq!(sum, [6.0, 4.0]); // f64
    /// assert_eq!(least, [0.5, 4.0]);
    /// assert_eq!(most, [9, 1]);
    /// assert_eq!(mean, [6.0, 1.0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// Aggregates that are not known before the program runs are [chosen](Grouping::chosen).
    ///
    /// Without any aggregate it does not compile, nor with more than twelve:
    ///
    /// ```compile_fail,E0599
    /// # use gpumap::{Device, primitives::Primitives};
    /// Primitives::new(&Device::cpu()).group_by(&[1u32, 2]).run();
    /// ```
    pub fn group_by<'a, K: Pod>(
        &'a self,
        keys: &'a (impl Input<K> + ?Sized),
    ) -> Grouping<'a, Self, K, ()> {
        Grouping::new(self, keys)
    }
}

/// # One batch
impl<K: Pod, A: Aggregates> Grouping<'_, Primitives, K, A> {
    /// Groups the keys, and returns the key of each group and what was asked.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if a column has not as many numbers as there are keys; [`Error::OutOfMemory`],
    /// [`Error::CapacityOverflow`] for too many keys, [`Error::WrongDevice`], [`Error::Driver`].
    pub fn run(self) -> Result<Grouped<K, A::Columns>> {
        let plan = Plan::new(self.kinds)?;
        let mut scratch = self.of.scratch.take()?;
        let (mut keys, mut targets) = (None, Vec::new());
        let groups = core::group_once(
            &mut scratch,
            (self.keys, key_bytes::<K>()),
            (&plan, &self.columns),
            &mut |scratch, groups| {
                targets = Finished::reserve(scratch, &plan, groups)?;
                let output = keys.insert(scratch.output::<K>(ScratchRole::FirstOutput, groups)?);
                Ok((output.as_mut_ptr().cast(), targets.clone()))
            },
        )?;
        let keys = match keys {
            Some(output) => scratch.fetch(output, groups)?,
            None => Vec::new(),
        };
        if groups == 0 {
            targets = Finished::reserve(&mut scratch, &plan, 0)?;
        }
        let columns = A::read(&mut Finished::new(&mut scratch, &plan, targets, groups))?;
        Ok(Grouped { keys, columns })
    }

    /// The same, into buffers of the caller or parts of them, which have a place for each group. Returns how many groups
    /// there are.
    ///
    /// ```
    /// use gpumap::primitives::Primitives;
    /// use gpumap::{Buffer, Device, Stream};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let keys = Buffer::from_slice(&stream, &[7u64, 9, 7])?;
    /// let values = Buffer::from_slice(&stream, &[-1i32, 5, 3])?;
    /// let mut different = Buffer::<u64>::zeroed(&stream, 3)?;
    /// let mut sums = Buffer::<i64>::zeroed(&stream, 3)?;
    /// let mut least = Buffer::<i32>::zeroed(&stream, 3)?;
    /// let primitives = Primitives::new(stream.device());
    /// let grouping = primitives.group_by(&keys).sum(&values).min(&values);
    /// let n = grouping.run_into(&mut different, ((&mut sums).into(), (&mut least).into()))?;
    /// assert_eq!(different.slice(..n)?.to_vec()?, [7, 9]);
    /// assert_eq!(sums.slice(..n)?.to_vec()?, [2, 5]);
    /// assert_eq!(least.slice(..n)?.to_vec()?, [-1, 5]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; those of [`run`](Self::run).
    pub fn run_into<'b>(
        self,
        keys: impl Into<BufferViewMut<'b, K>>,
        columns: A::Places<'b>,
    ) -> Result<usize> {
        let plan = Plan::new(self.kinds)?;
        let mut scratch = self.of.scratch.take()?;
        let mut places = Some((keys.into(), columns));
        let groups = core::group_once(
            &mut scratch,
            (self.keys, key_bytes::<K>()),
            (&plan, &self.columns),
            &mut |scratch, groups| {
                let (keys, columns) = places.take().expect("asked for once");
                expect_room(groups, keys.len())?;
                let columns = place::<A>(columns, scratch, &plan, groups)?;
                Ok((scratch.target(keys)?.cast(), columns))
            },
        )?;
        scratch.wait()?;
        Ok(groups)
    }

    /// Groups the keys as the first of many batches: the others follow by [`GroupBy::batch`]. Aggregates need not be known before
    /// the program runs.
    ///
    /// ```
    /// use gpumap::Device;
    /// use gpumap::primitives::{Numbers, Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let (keys, values) = ([4u32, 4, 1], [0.5f64, 1.0, 3.0]);
    /// let groups = primitives.group_by(&keys).chosen().count().sum(&values).start()?;
    /// let (keys, values) = ([1, 9], [4.0, 0.25]);
    /// assert_eq!(groups.batch(&keys).chosen().count().sum(&values).run()?, 1); // new groups
    ///
    /// let grouped = groups.finish()?;
    /// assert_eq!(grouped.keys, [4, 1, 9]);
    /// let columns = [Numbers::U64(vec![2, 2, 1]), Numbers::F64(vec![1.5, 7.0, 0.25])];
    /// assert_eq!(grouped.columns, columns);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn start(self) -> Result<GroupBy<K, A>> {
        let (kinds, device) = (self.kinds, self.of.device());
        let key = (key_bytes::<K>(), self.keys.floats());
        let core = Core::new(device, key, Plan::new(kinds.clone())?, 0)?;
        core.add(self.keys, &kinds, &self.columns)?;
        Ok(GroupBy {
            core,
            _types: PhantomData,
        })
    }
}

/// Where kernels can write columns for so many groups.
fn place<A: Aggregates>(
    places: A::Places<'_>,
    scratch: &mut Workspace,
    plan: &Plan,
    groups: usize,
) -> Result<Vec<*mut u8>> {
    let mut targets = Targets {
        scratch,
        groups,
        outputs: plan.outputs(),
        columns: Vec::new(),
    };
    A::place(places, &mut targets)?;
    Ok(targets.columns)
}

/// Groups that come in batches: the keys are rows of a [`RowMap`](crate::RowMap), and aggregates grow with them.
///
/// `A` is the tuple of aggregates, as `(Count, Sum<f32>)`: all batches ask for the same, in the same order. Those that are
/// [chosen](Grouping::chosen) while the program runs are those of the first batch, which [starts](Grouping::start) the groups.
///
/// ```
/// use gpumap::Device;
/// use gpumap::primitives::{Count, GroupBy, Max, Sum};
///
/// let groups = GroupBy::<u64, (Count, Sum<f32>, Max<f32>)>::new(&Device::cpu())?;
/// let (keys, values) = (vec![4, 4, 1], vec![0.5f32, 1.0, 3.0]);
/// assert_eq!(groups.batch(&keys).count().sum(&values).max(&values).run()?, 2); // new groups
/// let (keys, values) = (vec![1, 9], vec![4.0f32, 0.0]);
/// assert_eq!(groups.batch(&keys).count().sum(&values).max(&values).run()?, 1);
///
/// let grouped = groups.finish()?;
/// assert_eq!(grouped.keys, [4, 1, 9]);
/// let (count, sum, max) = grouped.columns;
/// assert_eq!((count, sum, max), (vec![2, 2, 1], vec![1.5, 7.0, 0.0], vec![1.0, 4.0, 0.0]));
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// A batch that asks for something else does not compile:
///
/// ```compile_fail,E0599
/// # use gpumap::Device;
/// # use gpumap::primitives::{Count, GroupBy};
/// let groups = GroupBy::<u64, (Count,)>::new(&Device::cpu()).unwrap();
/// groups.batch(&[1]).sum(&[2.0f32]).run();
/// ```
///
/// # Aggregates
/// What each is, and of what type, is said at [`Primitives::group_by`], also that only sums and means of floats depend on
/// the order. Groups are in the order of the first occurrences of their keys in all batches.
///
/// # Concurrency
/// `GroupBy` is [`Send`] and [`Sync`], and every verb takes `&self`. Batches run one after the other, and what is read is
/// the state between two of them.
///
/// # Room
/// It grows as groups come. A batch that there is no memory for is refused as a whole, and leaves the groups as they were.
/// There are up to 2^31 groups, and up to 2^31 - 1 keys in a batch. A group takes its key, about 12 bytes of slots, and 8
/// bytes for each aggregate, of which all counts and means share one count.
pub struct GroupBy<K: Pod, A> {
    core: Core,
    _types: PhantomData<fn(K) -> A>,
}

/// # Create
impl<K: Pod, A: Fixed> GroupBy<K, A> {
    /// No groups, and no room for any yet.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        Self::with_capacity(device, 0)
    }

    /// No groups yet, and room for so many.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Driver`].
    pub fn with_capacity(device: &Device, groups: usize) -> Result<Self> {
        let key = (key_bytes::<K>(), Floats::<K>::of_type().words());
        Ok(Self {
            core: Core::new(device, key, Plan::new(A::kinds())?, groups)?,
            _types: PhantomData,
        })
    }
}

/// # Batches
impl<K: Pod, A> GroupBy<K, A> {
    /// A batch of keys, to be followed by the columns of each aggregate, and by [`run`](Grouping::run). Name the
    /// [`Floats`] of a struct in each batch: those of the batch that [started](Grouping::start) the groups count
    /// for all, and others for their batch alone.
    pub fn batch<'a>(&'a self, keys: &'a (impl Input<K> + ?Sized)) -> Grouping<'a, Self, K, ()> {
        Grouping::new(self, keys)
    }
}

/// # A batch of many
impl<K: Pod, A: Aggregates> Grouping<'_, GroupBy<K, A>, K, A> {
    /// Adds the batch to the groups. Returns how many groups are new.
    ///
    /// # Errors
    /// [`Error::OtherAggregates`] if aggregates are [chosen](Grouping::chosen), and others than in the first batch;
    /// [`Error::LengthMismatch`] if a column has not as many numbers as there are keys; [`Error::OutOfMemory`],
    /// [`Error::CapacityOverflow`]; [`Error::WrongDevice`]: the groups are as they were. [`Error::Poisoned`],
    /// [`Error::Driver`].
    pub fn run(self) -> Result<usize> {
        self.of.core.add(self.keys, &self.kinds, &self.columns)
    }
}

/// # Results
impl<K: Pod, A: Aggregates> GroupBy<K, A> {
    /// The key of each group, and what was asked, of all batches so far. Others may follow.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn finish(&self) -> Result<Grouped<K, A::Columns>> {
        let mut scratch = self.core.scratch().take()?;
        let held = self.core.read()?;
        let keys = held.keys()?;
        let targets = Finished::reserve(&mut scratch, held.plan(), keys.len())?;
        // SAFETY: reserved with a place for each group.
        unsafe { held.finish(&mut scratch, &targets, keys.len()) }?;
        let columns = A::read(&mut Finished::new(
            &mut scratch,
            held.plan(),
            targets,
            keys.len(),
        ))?;
        Ok(Grouped { keys, columns })
    }

    /// The same, into buffers of the caller or parts of them, which have a place for each group. Returns how many groups
    /// there are.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; those of [`finish`](Self::finish).
    pub fn finish_into<'b>(
        &self,
        keys: impl Into<BufferViewMut<'b, K>>,
        columns: A::Places<'b>,
    ) -> Result<usize> {
        let mut keys = keys.into();
        let mut scratch = self.core.scratch().take()?;
        let held = self.core.read()?;
        let groups = held.len();
        expect_room(groups, keys.len())?;
        let targets = place::<A>(columns, &mut scratch, held.plan(), groups)?;
        held.keys_into(ArrayMut::from(keys.sink()).into_bytes())?;
        // SAFETY: there is a place for each group.
        unsafe { held.finish(&mut scratch, &targets, groups) }?;
        scratch.wait()?;
        Ok(groups)
    }
}

/// # Size and memory
impl<K: Pod, A> GroupBy<K, A> {
    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all groups. Their room stays, and the groups are sound again if they were [poisoned](Error::Poisoned).
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        self.core.clear()
    }

    /// Frees the scratch memory that no call is using; see [`Map::trim`](crate::Map::trim).
    pub fn trim(&self) {
        self.core.scratch().trim();
    }

    /// The device that the groups live on.
    pub fn device(&self) -> &Device {
        self.core.device()
    }
}

impl<K: Pod, A> fmt::Debug for GroupBy<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBy")
            .field("device", self.device())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
