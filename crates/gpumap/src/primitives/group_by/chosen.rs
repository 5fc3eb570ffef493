//! Aggregates that are chosen while the program runs, of columns whose types it learns then.

use bytemuck::Pod;
use gpumap_kernels::rows::Number;

use super::Grouping;
use super::aggregates::{Aggregates, Push, sealed};
use super::plan::{Finished, Targets};
use crate::buffer::BufferViewMut;
use crate::error::{Error, Result, expect_same_len};
use crate::input::Input;
use crate::primitives::Element;

/// Aggregates that are chosen while the program runs: see [`Grouping::chosen`].
#[derive(Clone, Copy, Debug)]
pub struct Chosen(());

/// What is asked of a column: see [`Grouping::aggregate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// As [`Grouping::count`]; the column is not looked at.
    Count,
    /// As [`Grouping::sum`].
    Sum,
    /// As [`Grouping::min`].
    Min,
    /// As [`Grouping::max`].
    Max,
    /// As [`Grouping::mean`].
    Mean,
}

/// A column of answers of a type that the program learns when it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Of `u32`.
    U32(Vec<u32>),
    /// Of `i32`.
    I32(Vec<i32>),
    /// Of `f32`.
    F32(Vec<f32>),
    /// Of `u64`.
    U64(Vec<u64>),
    /// Of `i64`.
    I64(Vec<i64>),
    /// Of `f64`.
    F64(Vec<f64>),
}

/// Places on the device for such a column.
#[derive(Debug)]
pub enum NumbersMut<'a> {
    /// For `u32`.
    U32(BufferViewMut<'a, u32>),
    /// For `i32`.
    I32(BufferViewMut<'a, i32>),
    /// For `f32`.
    F32(BufferViewMut<'a, f32>),
    /// For `u64`.
    U64(BufferViewMut<'a, u64>),
    /// For `i64`.
    I64(BufferViewMut<'a, i64>),
    /// For `f64`.
    F64(BufferViewMut<'a, f64>),
}

impl<B> Push<B> for Chosen {
    type With = Self;
}

impl sealed::Aggregates for Chosen {}

impl Aggregates for Chosen {
    type Columns = Vec<Numbers>;
    type Places<'a> = Vec<NumbersMut<'a>>;

    fn read(finished: &mut Finished<'_>) -> Result<Self::Columns> {
        let outputs = finished.outputs.clone();
        let column = |number| {
            Ok(match number {
                Number::U32 => Numbers::U32(finished.next()?),
                Number::I32 => Numbers::I32(finished.next()?),
                Number::F32 => Numbers::F32(finished.next()?),
                Number::U64 => Numbers::U64(finished.next()?),
                Number::I64 => Numbers::I64(finished.next()?),
                Number::F64 => Numbers::F64(finished.next()?),
            })
        };
        outputs.into_iter().map(column).collect()
    }

    fn place(places: Self::Places<'_>, targets: &mut Targets<'_>) -> Result<()> {
        expect_same_len(targets.outputs.len(), places.len())?;
        for (column, places) in places.into_iter().enumerate() {
            let (expected, given) = (targets.outputs[column], places.number());
            if expected != given {
                return Err(Error::ColumnType {
                    column,
                    expected: name(expected),
                    given: name(given),
                });
            }
            match places {
                NumbersMut::U32(places) => targets.add(places)?,
                NumbersMut::I32(places) => targets.add(places)?,
                NumbersMut::F32(places) => targets.add(places)?,
                NumbersMut::U64(places) => targets.add(places)?,
                NumbersMut::I64(places) => targets.add(places)?,
                NumbersMut::F64(places) => targets.add(places)?,
            }
        }
        Ok(())
    }
}

impl NumbersMut<'_> {
    fn number(&self) -> Number {
        match self {
            Self::U32(_) => Number::U32,
            Self::I32(_) => Number::I32,
            Self::F32(_) => Number::F32,
            Self::U64(_) => Number::U64,
            Self::I64(_) => Number::I64,
            Self::F64(_) => Number::F64,
        }
    }
}

pub(super) fn name(number: Number) -> &'static str {
    match number {
        Number::U32 => "u32",
        Number::I32 => "i32",
        Number::F32 => "f32",
        Number::U64 => "u64",
        Number::I64 => "i64",
        Number::F64 => "f64",
    }
}

impl<'a, T, K: Pod> Grouping<'a, T, K, ()> {
    /// Lets aggregates be chosen while the program runs, such as those of a query: one to twelve. The columns of the result are
    /// a vector of [`Numbers`]; [`run_into`](Grouping::run_into) takes a vector of [`NumbersMut`].
    ///
    /// ```
    /// use gpumap::Device;
    /// use gpumap::primitives::{Function, Numbers, Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let keys = [10u64, 7, 10];
    /// let prices = [2.5f32, 4.0, 0.5];
    /// let mut grouping = primitives.group_by(&keys).chosen();
    /// for function in [Function::Count, Function::Sum, Function::Max] {
    ///     grouping = grouping.aggregate(function, &prices);
    /// }
    /// let grouped = grouping.run()?;
    /// assert_eq!(grouped.keys, [10, 7]);
    /// let columns = [
    ///     Numbers::U64(vec![2, 1]),
    ///     Numbers::F64(vec![3.0, 4.0]),
    ///     Numbers::F32(vec![2.5, 4.0]),
    /// ];
    /// assert_eq!(grouped.columns, columns);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// `run` and `run_into` return [`Error::Aggregates`] for none and for more than twelve, and
    /// [`Error::ColumnType`] for places of another type than the answers. `run` of a batch of a [`GroupBy`](super::GroupBy)
    /// returns [`Error::OtherAggregates`] unless it asks for what its first batch asked for.
    pub fn chosen(self) -> Grouping<'a, T, K, Chosen> {
        self.of_type()
    }
}

impl<'a, T, K: Pod> Grouping<'a, T, K, Chosen> {
    /// Adds an aggregate of a column to those before.
    pub fn aggregate<N: Element>(
        self,
        function: Function,
        column: &'a (impl Input<N> + ?Sized),
    ) -> Self {
        match function {
            Function::Count => self.count(),
            Function::Sum => self.sum(column),
            Function::Min => self.min(column),
            Function::Max => self.max(column),
            Function::Mean => self.mean(column),
        }
    }
}
