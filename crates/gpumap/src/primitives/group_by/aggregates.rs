//! [`Aggregate`]s, and tuples of them: what is asked of each group, and the types of the answers.

use std::marker::PhantomData;

use bytemuck::Pod;
use gpumap_kernels::rows::{Number, Operation};

use super::plan::{Finished, Kind, Targets};
use crate::buffer::BufferViewMut;
use crate::error::Result;
use crate::primitives::Element;
use crate::primitives::element::sealed::Kernels;

/// What is asked of the rows of a group.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an aggregate",
    note = "aggregates are `Count`, `Sum<T>`, `Min<T>`, `Max<T>` and `Mean<T>` of numbers"
)]
pub trait Aggregate: sealed::Aggregate {
    /// What is returned for each group.
    type Output: Pod;
}

/// Aggregates of one grouping: a tuple of one to twelve, or [`Chosen`](super::Chosen) while the program runs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of one to twelve aggregates",
    label = "ask for at least one aggregate, and for at most twelve"
)]
pub trait Aggregates: sealed::Aggregates {
    /// A vector for each of them, as long as there are groups.
    type Columns;
    /// Places for each of them on the device.
    type Places<'a>;
    /// Reads the columns.
    #[doc(hidden)]
    fn read(finished: &mut Finished<'_>) -> Result<Self::Columns>;
    /// Lets kernels write to places.
    #[doc(hidden)]
    fn place(places: Self::Places<'_>, targets: &mut Targets<'_>) -> Result<()>;
}

/// Aggregates that are known when the program is compiled: a tuple.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of one to twelve aggregates",
    label = "batches ask for the aggregates of a tuple"
)]
pub trait Fixed: Aggregates {
    /// What is asked, in order.
    #[doc(hidden)]
    fn kinds() -> Vec<Kind>;
}

/// Aggregates that one more can be added to.
#[diagnostic::on_unimplemented(
    message = "there is no room for one more aggregate",
    label = "a grouping has at most twelve aggregates"
)]
pub trait Push<A> {
    /// All of them.
    type With;
}

/// How many rows a group has, as `u64`.
#[derive(Clone, Copy, Debug)]
pub struct Count(());

/// The sum of a column: of `u32` and `u64` as `u64`, of `i32` and `i64` as `i64`, both modulo 2^64, of `f32` and `f64` as
/// `f64`.
#[derive(Clone, Copy, Debug)]
pub struct Sum<T>(PhantomData<fn(T)>);

/// The least number of a column; NaN only of nothing else, and -0.0 below 0.0.
#[derive(Clone, Copy, Debug)]
pub struct Min<T>(PhantomData<fn(T)>);

/// The greatest number of a column; NaN only of nothing else, and -0.0 below 0.0.
#[derive(Clone, Copy, Debug)]
pub struct Max<T>(PhantomData<fn(T)>);

/// The mean of a column as `f64`: the sum of its numbers, each as `f64`, divided by how many they are.
#[derive(Clone, Copy, Debug)]
pub struct Mean<T>(PhantomData<fn(T)>);

pub(super) mod sealed {
    use super::Kind;

    pub trait Aggregate {
        const KIND: Kind;
    }

    pub trait Aggregates {}
}

impl Aggregate for Count {
    type Output = u64;
}

impl sealed::Aggregate for Count {
    const KIND: Kind = Kind {
        operation: Operation::Count,
        // It has no column.
        number: Number::U32,
    };
}

macro_rules! of_columns {
    ($($name:ident<$t:ident>: $output:ty, $operation:expr;)*) => {$(
        impl<$t: Element> Aggregate for $name<$t> {
            type Output = $output;
        }
        impl<$t: Element> sealed::Aggregate for $name<$t> {
            const KIND: Kind = Kind {
                operation: $operation,
                number: <$t::Scalar as Kernels>::NUMBER,
            };
        }
    )*};
}
of_columns! {
    Sum<T>: <T::Scalar as Kernels>::Sum, <T::Scalar as Kernels>::SUM;
    Min<T>: T, Operation::Min;
    Max<T>: T, Operation::Max;
    Mean<T>: f64, Operation::Mean;
}

macro_rules! tuple {
    ($($a:ident)+) => {
        impl<$($a: Aggregate),+> sealed::Aggregates for ($($a,)+) {}
        impl<$($a: Aggregate),+> Aggregates for ($($a,)+) {
            type Columns = ($(Vec<$a::Output>,)+);
            type Places<'a> = ($(BufferViewMut<'a, $a::Output>,)+);

            fn read(finished: &mut Finished<'_>) -> Result<Self::Columns> {
                Ok(($(finished.next::<$a::Output>()?,)+))
            }

            #[expect(non_snake_case, reason = "named as its aggregate")]
            fn place(($($a,)+): Self::Places<'_>, targets: &mut Targets<'_>) -> Result<()> {
                $(targets.add($a)?;)+
                Ok(())
            }
        }
        impl<$($a: Aggregate),+> Fixed for ($($a,)+) {
            fn kinds() -> Vec<Kind> {
                vec![$(<$a as sealed::Aggregate>::KIND),+]
            }
        }
    };
}

/// Implements the traits for the empty tuple and for those of the first names, of all lengths.
macro_rules! tuples {
    ([$($a:ident)*]) => {};
    ([$($a:ident)*] $next:ident $($rest:ident)*) => {
        impl<$($a,)* $next> Push<$next> for ($($a,)*) {
            type With = ($($a,)* $next,);
        }
        tuple!($($a)* $next);
        tuples!([$($a)* $next] $($rest)*);
    };
}
tuples!([] A B C D E F G H I J K L);
