//! Reading and dressing PTX text: entries, instructions, what they order, the header, launch bounds.
//! Everything here is text in, text out.

pub mod bounds;
pub mod count;
pub mod forbidden;
pub mod header;
pub mod module;
pub mod torn;
pub mod unread;
