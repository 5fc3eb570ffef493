//! The layout [`Rows`](crate::Layout::Rows) of a [`Map`](crate::Map): keys have rows as in a [`RowMap`](crate::RowMap), and the value of a
//! key lies in an array at its row.

mod column;
mod core;
mod storage;

pub(crate) use self::column::ValueForm;
pub(crate) use self::core::Core;
