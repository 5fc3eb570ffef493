//! Row maps of strings: what there is of them alone.

mod files;
mod offsets;
mod room;
mod streams;
mod verbs;

use gpumap_tests::Target;

use super::{Text, patterns};

type Checked = super::Checked<str>;

fn on_every_device(body: fn(&Target)) {
    super::on_every_device::<str>(body);
}

/// Strings by their numbers.
fn strings(numbers: impl IntoIterator<Item = u64>) -> Vec<Text> {
    super::keys::<str>(numbers)
}
