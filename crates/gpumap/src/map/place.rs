//! [`Place`]: where a map is, and [`Held`]: what it has there.

use std::fmt::Debug;
use std::marker::PhantomData;

use gpumap_kernels::primitives::filter::Test;

use super::storage::Store;
use super::{Chunk, Core, Growth, Key, Layout, Map, MapBuilder, Storage, TableChunks, Value};
use crate::device::Device;
use crate::error::Result;
use crate::file::{Header, Kinds};
use crate::input::Source;
use crate::op::Op;
use crate::output::Output;
use crate::primitives::Order;
use crate::rows::Growing;
use crate::wide;

/// Where a map is: on a [`Device`], or over the [`Ranks`](crate::sharded::Ranks) of a group.
///
/// A program that is generic over it works in both places:
///
/// ```
/// use gpumap::sharded::{Ranks, devices};
/// use gpumap::{Device, Map, Merge, Place, Result};
///
/// /// How many words there are.
/// fn words<P: Place>(place: &P, text: &[u64]) -> Result<usize> {
///     let counts: Map<u64, u32, P> = Map::with_capacity(place, text.len())?;
///     counts.merge(text, 1, Merge::Add)
/// }
///
/// assert_eq!(words(&Device::cpu(), &[7, 8, 7])?, 2);
/// assert_eq!(words(&Ranks::new(&devices("cpu,cpu")?)?, &[7, 8, 7])?, 2);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no place of a map",
    label = "no place of a map",
    note = "a map is on a `Device`, or over the `Ranks` of a group"
)]
pub trait Place: Clone + Debug + Send + Sync {
    /// What a map has there.
    #[doc(hidden)]
    type Map<K: Key, V: Value>: Held<K, V, Place = Self>;
}

/// What a map has in its place. No type of another crate implements it, which seals [`Place`].
pub trait Held<K: Key, V: Value>: Sized + Send + Sync {
    /// Where it is.
    type Place;

    /// Whether a map that is loaded grows as the one that was saved, or has its fixed capacity; else it grows by the usual
    /// factor.
    const KEEPS_GROWTH: bool;

    /// An empty map with settings, which have been checked.
    fn build(settings: MapBuilder<K, V, Self::Place>) -> Result<Self>;

    /// Where it is.
    fn place(&self) -> &Self::Place;

    /// Runs an operation, and waits.
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A>;

    /// See [`Map::len`].
    fn len(&self) -> usize;

    /// See [`Map::capacity`].
    fn capacity(&self) -> usize;

    /// See [`Map::is_fixed`].
    fn is_fixed(&self) -> bool;

    /// See [`Map::reserve`].
    fn reserve(&self, more: usize) -> Result<()>;

    /// See [`Map::shrink_to_fit`].
    fn shrink_to_fit(&self) -> Result<()>;

    /// See [`Map::trim`].
    fn trim(&self);

    /// See [`Map::clear`].
    fn clear(&self) -> Result<()>;

    /// Keeps the pairs that satisfy two raised tests.
    fn retain_where(&self, keys: Test<u64>, values: Test<u64>) -> Result<usize>;

    /// See [`Map::retain_keys`].
    fn retain_keys(&self, keys: Source<'_, K>) -> Result<usize>;

    /// See [`Map::retrieve_all`].
    fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)>;

    /// See [`Map::retrieve_all_into`].
    fn retrieve_all_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize>;

    /// See [`Map::drain`].
    fn drain(&self) -> Result<(Vec<K>, Vec<V>)>;

    /// What is saved about it.
    fn header(&self) -> Header;

    /// Gives all pairs out, about so many at a time, until that fails.
    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()>;

    /// How it grows from now on, unless that is settled when it is made; none is the default. One that does not grow was asked to have
    /// such a capacity.
    fn set_growth(&mut self, _growth: Option<Growth>, _capacity: usize) {}
}

impl Place for Device {
    type Map<K: Key, V: Value> = Local<K, V>;
}

/// What a map on a device has.
pub struct Local<K, V> {
    pub(super) store: Store,
    /// What saved files say that keys and values are.
    pub(super) kinds: Kinds,
    pub(super) _pair: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value> Local<K, V> {
    /// Its memory, of which the compiler sees the layout: a program has no code for those that it does not use.
    #[inline(always)]
    pub(super) fn store(&self) -> &Store {
        assert!(
            matches!(
                (Map::<K, V>::LAYOUT, &self.store),
                (Layout::Inline, Store::Inline(_))
                    | (Layout::Cells, Store::Cells(_))
                    | (Layout::Rows, Store::Rows(_))
            ),
            "the types choose the layout"
        );
        &self.store
    }

    /// What all layouts do.
    #[inline]
    pub(super) fn storage(&self) -> &dyn Storage {
        self.store().any()
    }
}

impl<K: Key, V: Value> Held<K, V> for Local<K, V> {
    type Place = Device;

    const KEEPS_GROWTH: bool = true;

    fn build(settings: MapBuilder<K, V>) -> Result<Self> {
        Ok(Self {
            store: settings.store()?,
            kinds: settings.kinds,
            _pair: PhantomData,
        })
    }

    fn place(&self) -> &Device {
        self.storage().device()
    }

    #[inline]
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        let storage = self.storage();
        op.run(storage.receiver(), |batch, outputs| {
            storage.run(batch, outputs)
        })
    }

    fn len(&self) -> usize {
        self.storage().len()
    }

    fn capacity(&self) -> usize {
        self.storage().capacity().max(self.len())
    }

    fn is_fixed(&self) -> bool {
        match self.store() {
            Store::Inline(core) => core.growth == Growth::Fixed,
            Store::Cells(core) => core.growth() == Growth::Fixed,
            Store::Rows(core) => core.is_fixed(),
        }
    }

    fn reserve(&self, more: usize) -> Result<()> {
        self.storage().reserve(more)
    }

    fn shrink_to_fit(&self) -> Result<()> {
        self.storage().shrink_to_fit()
    }

    fn trim(&self) {
        self.storage().scratch().trim();
    }

    fn clear(&self) -> Result<()> {
        self.storage().clear()
    }

    fn retain_where(&self, keys: Test<u64>, values: Test<u64>) -> Result<usize> {
        let () = Map::<K, V>::EXPECT_INLINE;
        self.inline().retain_where(keys, values)
    }

    fn retain_keys(&self, keys: Source<'_, K>) -> Result<usize> {
        let keys = keys.into();
        match self.store() {
            Store::Inline(core) => core.retain_keys(keys),
            Store::Cells(core) => core.retain_keys(keys),
            Store::Rows(core) => core.retain_keys::<K, V>(keys, &mut || Ok(())),
        }
    }

    fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        self.storage().retrieve_all(Order::Any)
    }

    fn retrieve_all_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        self.storage().retrieve_into(Order::Any, keys, values)
    }

    fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        self.storage().drain_pairs(&mut || Ok(()))
    }

    fn header(&self) -> Header {
        let header = Header::of_kinds::<K, V>(self.kinds, self.len() as u64);
        self.storage().settings_in(header)
    }

    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        match self.store() {
            Store::Inline(core) => TableChunks::of(core, pairs).try_for_each(|chunk| give(&chunk?)),
            Store::Cells(core) => core.give_chunks(pairs, give),
            Store::Rows(core) => core.give_chunks(pairs, give),
        }
    }

    fn set_growth(&mut self, growth: Option<Growth>, capacity: usize) {
        let capacity = capacity.max(self.len());
        match &mut self.store {
            Store::Inline(core) => core.growth = growth.unwrap_or_default(),
            Store::Cells(core) => core.set_growth(growth.unwrap_or_default()),
            Store::Rows(core) => core.set_growing(Growing::of(growth, capacity)),
        }
    }
}

/// Where layouts differ.
impl<K: Key, V: Value> Local<K, V> {
    /// Its table. The layout is [`Inline`](Layout::Inline).
    pub(super) fn inline(&self) -> &Core {
        match self.store() {
            Store::Inline(core) => core,
            Store::Cells(_) | Store::Rows(_) => unreachable!("the types choose the layout"),
        }
    }

    /// Its rows. The layout is [`Rows`](Layout::Rows).
    pub(super) fn rows(&self) -> &wide::Core {
        match self.store() {
            Store::Rows(core) => core,
            Store::Inline(_) | Store::Cells(_) => unreachable!("the types choose the layout"),
        }
    }
}
