//! Row maps of strings, beside a `HashMap` of the strings.

mod beside;
mod collisions;
mod files;
mod offsets;
mod room;
mod streams;
mod verbs;

use gpumap::RowMap;
use gpumap_tests::Target;

use super::rows;

/// Runs a body on every target, of which some differ only in the slots of other maps.
fn on_every_device(body: fn(&Target)) {
    rows::on_every_device::<String>(body);
}

/// String number `i`: of 0 to 30 bytes as a rule, some of them of hundreds, and no two are equal. Many begin alike.
fn string(i: u64) -> Vec<u8> {
    let filled = match i {
        0 => return Vec::new(),
        _ if i.is_multiple_of(97) => 300 + i % 50,
        _ => i * 7 % 23,
    };
    let fill = if i.is_multiple_of(5) { 0 } else { b'x' };
    let mut string = vec![fill; filled as usize];
    string.extend(i.to_string().bytes());
    string
}

/// Strings by their numbers.
fn strings(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(string).collect()
}

/// What strings come to in one batch after the other.
#[derive(Clone, Debug, Default)]
struct Oracle(rows::Oracle);

impl Oracle {
    /// The rows of a batch, and for each string whether it is new.
    fn insert(&mut self, batch: &[Vec<u8>]) -> (Vec<u32>, Vec<u8>) {
        let insert = |string: &Vec<u8>| self.0.insert_bytes(string);
        batch.iter().map(insert).unzip()
    }

    fn get(&self, batch: &[Vec<u8>]) -> Vec<Option<u32>> {
        let row = |string| self.0.rows.get(string).copied();
        batch.iter().map(row).collect()
    }

    /// How many strings of a batch there were.
    fn remove(&mut self, batch: &[Vec<u8>]) -> usize {
        let removed = |string: &&Vec<u8>| self.0.rows.remove(*string).is_some();
        batch.iter().filter(removed).count()
    }

    /// The rows that have a string, and these.
    fn present(&self) -> (Vec<u32>, Vec<Vec<u8>>) {
        self.0.present()
    }

    /// The rows that strings had before they were dense.
    fn compact(&mut self) -> Vec<u32> {
        self.0.compact()
    }

    /// Panics unless a map holds this.
    fn assert_same(&self, map: &RowMap<str>) {
        let rows::Oracle { rows, keys } = &self.0;
        assert_eq!(
            (map.len(), map.is_empty(), map.row_bound()),
            (rows.len(), rows.is_empty(), keys.len())
        );
        assert!(map.capacity() >= map.row_bound());
        let (rows, keys) = self.present();
        let all = map.keys().expect("keys");
        assert!(all.iter().eq(&keys), "strings in the order of rows");
        let told = map.retrieve_all().expect("keys and rows");
        assert_eq!((&told.0, &told.1), (&all, &rows));
        assert_eq!(map.byte_len().expect("their bytes"), all.bytes().len());
        assert!(map.byte_capacity() >= all.bytes().len());
        let got = map.get(&all).expect("get");
        assert!(
            got.into_iter().eq(rows.into_iter().map(Some)),
            "the rows of all strings"
        );
    }
}
