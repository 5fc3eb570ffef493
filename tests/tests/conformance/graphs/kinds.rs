//! Graphs of every kind of map do what calls without a graph do, whether they are captured or called one by one.

use bytemuck::Pod;
use gpumap::op::{self, Execute, Op};
use gpumap::rows::NO_ROW;
use gpumap::strings::{StringColumn, Strings};
use gpumap::{
    Buffer, Device, Error, Graph, Key, Layout, Map, Merge, MultiMap, Numeric, Result, RowMap,
    Stream, Value, Word, WordKey,
};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{Halves64, nth_key};
use gpumap_tests::{Target, on_every_target, on_pairs, value};

/// A map of any kind that has graphs.
pub trait HasGraphs<K, V>: Execute<K, V> {
    /// As tables of [`op`] name it.
    const NAME: &str;
    fn graph(&self, stream: &Stream) -> Graph<'_, K, V>;
    fn device(&self) -> &Device;
    /// Frees or moves memory that kernels use, and keeps all pairs.
    fn remake(&self) -> Result<()>;
}

/// For a map, by the types that it takes, and what remakes its memory.
macro_rules! has_graphs {
    ($map:ident, $name:expr, [$($bounds:tt)*], |$this:ident| $remake:expr) => {
        impl<$($bounds)*> HasGraphs<K, V> for $map<K, V> {
            const NAME: &str = $name;
            fn graph(&self, stream: &Stream) -> Graph<'_, K, V> {
                self.graph(stream)
            }
            fn device(&self) -> &Device {
                self.device()
            }
            fn remake(&self) -> Result<()> {
                let $this = self;
                $remake
            }
        }
    };
}
has_graphs!(Map, name_of::<V>(Self::LAYOUT), [K: Key, V: Value], |map| match Self::LAYOUT {
    Layout::Rows => map.reserve(10 * map.len()),
    _ => map.shrink_to_fit(),
});
has_graphs!(MultiMap, "MultiMap", [K: WordKey, V: Word<Bits = K::Bits>], |map| map.reserve(map.capacity()));

/// As tables of [`op`] name maps of a layout.
const fn name_of<V>(layout: Layout) -> &'static str {
    let has_words = matches!(Layout::of::<u32, V>(), Layout::Inline);
    match layout {
        Layout::Cells => "Map (Cells)",
        Layout::Rows if has_words => "Map (Rows)",
        Layout::Rows => "Map (Rows of bytes)",
        _ => "Map",
    }
}

/// What a map is asked, by graphs.
struct Asked<'p, K, V> {
    pairs: &'p (Vec<K>, Vec<V>),
    keys: Buffer<K>,
    values: Buffer<V>,
    found: Buffer<u8>,
    there: Buffer<u8>,
}

impl<'p, K: Pod, V: Pod> Asked<'p, K, V> {
    fn new(on: &Target, pairs: &'p (Vec<K>, Vec<V>), n: usize) -> Self {
        let (one, other) = (on.stream(), on.stream());
        Self {
            pairs,
            keys: Buffer::zeroed(&one, n).unwrap(),
            values: Buffer::zeroed(&other, n).unwrap(),
            found: Buffer::zeroed(&one, n).unwrap(),
            there: Buffer::zeroed(&other, n).unwrap(),
        }
    }

    /// Looks `len` keys from the `first` on up, and compares the answers with those of the map itself.
    #[track_caller]
    fn ask(
        &mut self,
        map: &impl HasGraphs<K, V>,
        graph: &mut Graph<'_, K, V>,
        first: usize,
        len: usize,
    ) {
        let n = self.keys.len();
        self.keys
            .copy_from_slice(&self.pairs.0[first..][..n])
            .unwrap();
        self.values.fill_bytes(9).unwrap();
        self.found.fill_bytes(9).unwrap();
        let keys = self.keys.slice(..len).unwrap();
        let mut recording = graph.record();
        let values = self.values.slice_mut(..len).unwrap();
        let found = self.found.slice_mut(..len).unwrap();
        recording.get_into(keys, values, found).unwrap();
        recording.contains_into(keys, &mut self.there).unwrap();
        let answer = recording.launch().unwrap();
        // In the order of their streams.
        let (values, found) = (self.values.to_vec().unwrap(), self.found.to_vec().unwrap());
        let there = self.there.to_vec().unwrap();
        assert_eq!(answer.wait().unwrap(), [0, 0]);
        let asked = &self.pairs.0[first..][..len];
        for (i, wanted) in map.execute(op::get(asked)).unwrap().into_iter().enumerate() {
            let flag = u8::from(wanted.is_some());
            assert_eq!([found[i], there[i]], [flag; 2], "key {i}");
            let wanted = wanted.unwrap_or_else(V::zeroed);
            assert_eq!(bytemuck::bytes_of(&values[i]), bytemuck::bytes_of(&wanted));
        }
        assert!(found[len..].iter().all(|&byte| byte == 9));
    }
}

/// Lookups, while the map changes between launches.
fn lookups<K: Pod, V: Pod>(on: &Target, map: &impl HasGraphs<K, V>, pairs: &(Vec<K>, Vec<V>)) {
    let n = pairs.0.len() / 8;
    let insert = |part: std::ops::Range<usize>| {
        let (keys, values) = (&pairs.0[part.clone()], &pairs.1[part]);
        map.execute(op::insert(keys, values)).unwrap();
    };
    let stream = on.stream();
    let mut graph = map.graph(&stream);
    let mut asked = Asked::new(on, pairs, n);
    asked.ask(map, &mut graph, 0, n);
    insert(0..n);
    asked.ask(map, &mut graph, n / 2, n);
    // Whatever keys there are, in the same buffers.
    let captures = graph.captures();
    for first in [0, n / 3, n, 0] {
        asked.ask(map, &mut graph, first, n);
        assert_eq!(graph.captures(), captures);
    }
    // As many as these.
    for len in [n - 1, n, n - 1] {
        asked.ask(map, &mut graph, n / 2, len);
        assert_eq!(graph.captures(), captures + 1);
    }
    // A map that grows, if it has to.
    insert(n..8 * n);
    let captures = graph.captures();
    for first in [0, 5 * n] {
        asked.ask(map, &mut graph, first, n);
        assert!(graph.captures() <= captures + 1);
    }
    let gone = &pairs.0[..5 * n + n / 2];
    assert_eq!(map.execute(op::remove(gone)).unwrap(), gone.len());
    asked.ask(map, &mut graph, 5 * n, n);
    let captures = graph.captures();
    map.remake().unwrap();
    for first in [0, 5 * n, 7 * n] {
        asked.ask(map, &mut graph, first, n);
        assert_eq!(graph.captures(), captures + 1);
    }
    drop(graph);
    assert!(
        map.execute(op::contains(&pairs.0[7 * n..]))
            .unwrap()
            .into_iter()
            .all(|there| there)
    );
}

/// Several operations in one launch, of which some kinds of maps capture not all.
fn mixed<K: Pod, V: Pod>(
    on: &Target,
    map: &impl HasGraphs<K, V>,
    pairs: &(Vec<K>, Vec<V>),
    is_captured: bool,
) {
    let n = pairs.0.len() / 8;
    let (stream, elsewhere) = (on.stream(), on.stream());
    let mut keys = Buffer::zeroed(&elsewhere, n).unwrap();
    let mut values = Buffer::zeroed(&stream, n).unwrap();
    let [mut before, mut after, mut at_last] =
        [0; 3].map(|_| Buffer::<u8>::zeroed(&elsewhere, n).unwrap());
    let mut graph = map.graph(&stream);
    let mut captures = Vec::new();
    for round in 0..4 {
        let part = round * n..(round + 1) * n;
        keys.copy_from_slice(&pairs.0[part.clone()]).unwrap();
        values.copy_from_slice(&pairs.1[part]).unwrap();
        let half = keys.slice(..n / 2).unwrap();
        let mut recording = graph.record();
        recording.contains_into(&keys, &mut before).unwrap();
        recording.insert(&keys, &values).unwrap();
        recording.contains_into(&keys, &mut after).unwrap();
        recording.remove(half).unwrap();
        recording.contains_into(&keys, &mut at_last).unwrap();
        let answer = recording.launch().unwrap();
        assert!(is_captured || answer.is_done());
        assert_eq!(before.to_vec().unwrap(), vec![0; n]);
        assert_eq!(after.to_vec().unwrap(), vec![1; n]);
        let left = [vec![0; n / 2], vec![1; n - n / 2]].concat();
        assert_eq!(at_last.to_vec().unwrap(), left);
        assert_eq!(answer.wait().unwrap(), [0, n, 0, n / 2, 0]);
        captures.push(graph.captures());
    }
    // A map that has to grow is captured thereafter.
    assert_eq!(captures[3] > 0, is_captured, "{captures:?}");
    let mut asked = Asked::new(on, pairs, n);
    for first in [0, n, 2 * n] {
        asked.ask(map, &mut graph, first, n);
    }
    assert_eq!(graph.captures(), captures[3] + 1);
    // All pairs, into places of another stream.
    let len = 4 * (n - n / 2);
    let mut all_keys = Buffer::<K>::zeroed(&elsewhere, len).unwrap();
    let mut all_values = Buffer::<V>::zeroed(&stream, len).unwrap();
    let mut recording = graph.record();
    recording.remove(&keys).unwrap();
    recording.insert(&keys, &values).unwrap();
    recording.remove(keys.slice(..n / 2).unwrap()).unwrap();
    recording
        .retrieve_all_into(&mut all_keys, &mut all_values)
        .unwrap();
    let counts = recording.launch().unwrap().wait().unwrap();
    assert_eq!(counts, [n - n / 2, n, n / 2, len]);
    let (all_keys, all_values) = (all_keys.to_vec().unwrap(), all_values.to_vec().unwrap());
    let told = map.execute(op::get(&all_keys)).unwrap();
    for (told, value) in told.iter().zip(&all_values) {
        let told = told.as_ref().expect("a key that is there");
        assert_eq!(bytemuck::bytes_of(told), bytemuck::bytes_of(value));
    }
    // One that does not fit is refused, at once or when it is waited for; what came before it is done.
    let mut few = Buffer::<K>::zeroed(&stream, 1).unwrap();
    let mut few_values = Buffer::<V>::zeroed(&stream, 1).unwrap();
    let mut recording = graph.record();
    recording.remove(&keys).unwrap();
    recording
        .retrieve_all_into(&mut few, &mut few_values)
        .unwrap();
    let short = recording.launch().and_then(gpumap::Pending::wait);
    assert!(
        matches!(short, Err(Error::OutputTooSmall { given: 1, .. })),
        "{short:?}"
    );
    let gone = map.execute(op::contains(&keys.to_vec().unwrap())).unwrap();
    assert!(gone.into_iter().all(|there| !there));
}

/// Different pairs.
fn pairs<K, V>(on: &Target, key: impl Fn(u64) -> K, value: impl Fn(u64) -> V) -> (Vec<K>, Vec<V>) {
    let n = 8 * on.n(60, 1_500) as u64;
    (
        (0..n).map(key).collect(),
        (0..n).map(|i| value(3 * i + 1)).collect(),
    )
}

#[test]
fn lookups_are_captured_while_the_map_and_its_memory_stay() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let pairs = pairs(on, nth_key::<K>, value::<V>);
        lookups(on, &on.map::<K, V>(8), &pairs);
    }
    fn multi<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let pairs = pairs(on, nth_key::<K>, value::<V>);
        lookups(on, &on.multi::<K, V>().buckets(40).build().unwrap(), &pairs);
    }
    on_pairs!(body: u32 => u64, u64 => u32);
    on_pairs!(multi: u32 => u32, u64 => u64);
    on_every_target(|on| {
        body::<Halves64, u32>(on);
        body::<u32, Halves64>(on);
        let large = pairs(on, |i| i, |i| [i as u8; 37]);
        lookups(on, &on.map::<u64, [u8; 37]>(8), &large);
        let wide = pairs(on, |i| u128::from(i) << 70, |i| i);
        lookups(on, &Map::<u128, u64>::new(on.device()).unwrap(), &wide);
        let both = pairs(on, |i| u128::from(i) << 70, |i| [i as u8; 37]);
        lookups(on, &Map::<u128, [u8; 37]>::new(on.device()).unwrap(), &both);
    });
}

#[test]
fn launches_with_all_kinds_of_operations_do_what_calls_do() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let pairs = pairs(on, nth_key::<K>, value::<V>);
        let is_inline = matches!(Map::<K, V>::LAYOUT, Layout::Inline);
        mixed(on, &on.map::<K, V>(pairs.0.len()), &pairs, is_inline);
    }
    fn multi<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let pairs = pairs(on, nth_key::<K>, value::<V>);
        mixed(
            on,
            &on.multi::<K, V>().buckets(40).build().unwrap(),
            &pairs,
            false,
        );
    }
    on_pairs!(body: u32 => u64, u64 => u32);
    on_pairs!(multi: u32 => u32, u64 => u64);
    on_every_target(|on| {
        body::<Halves64, u32>(on);
        body::<u32, Halves64>(on);
        let large = pairs(on, |i| i, |i| [i as u8; 37]);
        mixed(on, &on.map::<u64, [u8; 37]>(8), &large, false);
        let wide = pairs(on, |i| u128::from(i) << 70, |i| i);
        mixed(
            on,
            &Map::<u128, u64>::new(on.device()).unwrap(),
            &wide,
            false,
        );
        let both = pairs(on, |i| u128::from(i) << 70, |i| [i as u8; 37]);
        let map = Map::<u128, [u8; 37]>::new(on.device()).unwrap();
        mixed(on, &map, &both, false);
    });
}

#[test]
fn what_streams_queue_is_captured() {
    /// How many captures a launch of an operation takes.
    fn captures<K: Pod, V: Pod, A: op::InPlace>(
        map: &impl HasGraphs<K, V>,
        on: &Target,
        op: Op<'_, K, V, A>,
    ) -> usize {
        let stream = on.stream();
        let mut graph = map.graph(&stream);
        let mut recording = graph.record();
        recording.add(op).unwrap();
        recording.launch().unwrap().wait().unwrap();
        graph.captures()
    }
    fn of<K: Key, V: Numeric, M: HasGraphs<K, V>>(on: &Target, map: &M) {
        let stream = on.stream();
        let keys: Vec<K> = (0..50).map(nth_key).collect();
        let keys = Buffer::from_slice(&stream, &keys).unwrap();
        let values: Vec<V> = (0..50).map(value).collect();
        let values = Buffer::from_slice(&stream, &values).unwrap();
        let mut told = Buffer::<V>::zeroed(&stream, 50).unwrap();
        let mut flags = Buffer::<u8>::zeroed(&stream, 50).unwrap();
        for (operation, cells) in op::streams() {
            let (_, cell) = cells
                .into_iter()
                .find(|(name, _)| *name == M::NAME)
                .unwrap();
            if cell == "no" {
                continue;
            }
            let count = match operation {
                "insert" => captures(map, on, op::insert(&keys, &values)),
                "upsert" => captures(map, on, op::upsert(&keys, &values)),
                "merge" => captures(map, on, op::merge(&keys, &values, Merge::Max)),
                "update" => captures(map, on, op::update(&keys, &values)),
                "update_with" => captures(map, on, op::update_with(&keys, &values, Merge::Max)),
                "remove" => captures(map, on, op::remove(&keys).outcomes(&mut flags)),
                "get" => captures(map, on, op::get(&keys).into(&mut told).found(&mut flags)),
                "get_or_insert" => {
                    captures(map, on, op::get_or_insert(&keys, &values).into(&mut told))
                }
                "take" => captures(map, on, op::take(&keys).into(&mut told)),
                "get_and_touch" => captures(
                    map,
                    on,
                    op::get_and_touch(&keys, &values, Merge::Max).into(&mut told),
                ),
                other => panic!("{other} has no row here"),
            };
            let is_captured = cell.starts_with("queued") && operation != "take";
            assert_eq!(
                count,
                usize::from(is_captured),
                "{operation} on {}",
                M::NAME
            );
        }
        // Flags that have to be zero before.
        assert_eq!(
            captures(map, on, op::insert(&keys, &values).outcomes(&mut flags)),
            0
        );
    }
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        noting("Map", || of(on, &on.map::<K, V>(1_000)));
        noting("cells", || of(on, &on.map::<K, Halves64>(1_000)));
        noting("rows", || of(on, &on.map::<Halves64, V>(1_000)));
        noting("MultiMap", || {
            of(on, &on.multi::<K, V>().capacity(1_000).build().unwrap());
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn rows_have_graphs() {
    on_every_target(|on| {
        let n = on.n(60, 1_500);
        let map = RowMap::<[u32; 3]>::new(on.device()).unwrap();
        let (stream, elsewhere) = (on.stream(), on.stream());
        let all: Vec<[u32; 3]> = (0..8 * n as u32).map(|i| [i, 7, i / 2]).collect();
        let mut keys = Buffer::zeroed(&elsewhere, n).unwrap();
        let [mut rows, mut again] = [0; 2].map(|_| Buffer::<u32>::zeroed(&stream, n).unwrap());
        let mut graph = map.graph(&stream);
        let mut seen = Vec::new();
        for upto in [n, n, 8 * n, 8 * n] {
            map.insert(&all[..upto]).unwrap();
            for first in [0, n / 2, 7 * n] {
                keys.copy_from_slice(&all[first..][..n]).unwrap();
                let mut lookups = graph.record();
                lookups.get_into(&keys, &mut rows).unwrap();
                lookups
                    .get_into(keys.slice(1..).unwrap(), again.slice_mut(1..).unwrap())
                    .unwrap();
                let answer = lookups.launch().unwrap();
                let row = |i: usize| if i < upto { i as u32 } else { NO_ROW };
                let wanted: Vec<u32> = (first..first + n).map(row).collect();
                assert_eq!(rows.to_vec().unwrap(), wanted);
                assert_eq!(again.to_vec().unwrap()[1..], wanted[1..]);
                answer.wait().unwrap();
            }
            seen.push(graph.captures());
        }
        assert!(
            seen[0] == seen[1] && seen[1] < seen[2] && seen[2] == seen[3],
            "{seen:?}"
        );
        let mut short = Buffer::<u32>::zeroed(&stream, n - 1).unwrap();
        let refused = graph.record().get_into(&keys, &mut short);
        assert!(
            matches!(refused, Err(Error::OutputTooSmall { .. })),
            "{refused:?}"
        );
    });
}

/// Strings of up to 40 bytes, of which no two are equal.
fn strings(numbers: std::ops::Range<usize>) -> Vec<String> {
    let string = |i: usize| format!("{}{i}", "x".repeat(i * 7 % 30));
    numbers.map(string).collect()
}

/// Buffers with room for strings, of which the last ones are empty if there are fewer.
struct Column {
    wide: Buffer<i64>,
    narrow: Buffer<i32>,
    bytes: Buffer<u8>,
}

impl Column {
    fn new(on: &Target, strings: usize) -> Self {
        Self {
            wide: Buffer::zeroed(&on.stream(), strings + 1).unwrap(),
            narrow: Buffer::zeroed(&on.stream(), strings + 1).unwrap(),
            bytes: Buffer::zeroed(&on.stream(), 40 * strings).unwrap(),
        }
    }

    fn fill(&mut self, strings: &[String]) {
        let strings = Strings::from_iter(strings);
        let mut offsets = strings.offsets().to_vec();
        offsets.resize(self.wide.len(), strings.bytes().len() as i64);
        self.wide.copy_from_slice(&offsets).unwrap();
        let narrow: Vec<i32> = offsets.iter().map(|&offset| offset as i32).collect();
        self.narrow.copy_from_slice(&narrow).unwrap();
        let mut bytes = self.bytes.slice_mut(..strings.bytes().len()).unwrap();
        bytes.copy_from_slice(strings.bytes()).unwrap();
    }

    /// The same strings with either kind of offsets.
    fn both(&self) -> [StringColumn<'_>; 2] {
        [
            StringColumn::new(&self.wide, &self.bytes),
            StringColumn::new(&self.narrow, &self.bytes),
        ]
    }
}

#[test]
fn strings_have_graphs() {
    on_every_target(|on| {
        let n = on.n(60, 1_500);
        let map = RowMap::<str>::new(on.device()).unwrap();
        let all = strings(0..8 * n);
        let mut column = Column::new(on, n);
        let stream = on.stream();
        let [mut rows, mut again] = [0; 2].map(|_| Buffer::<u32>::zeroed(&on.stream(), n).unwrap());
        let mut graph = map.graph(&stream);
        let mut seen = Vec::new();
        for upto in [n, n, 8 * n, 8 * n] {
            map.insert(&all[..upto]).unwrap();
            for (first, len) in [(0, n), (n / 2, n), (7 * n, n - 7)] {
                column.fill(&all[first..][..len]);
                let [wide, narrow] = column.both();
                let mut lookups = graph.record();
                lookups.get_into(&wide, &mut rows).unwrap();
                lookups.get_into(&narrow, &mut again).unwrap();
                let answer = lookups.launch().unwrap();
                let row = |i: usize| if i < upto { i as u32 } else { NO_ROW };
                let mut wanted: Vec<u32> = (first..first + len).map(row).collect();
                // The empty string is none of them.
                wanted.resize(n, NO_ROW);
                assert_eq!(rows.to_vec().unwrap(), wanted);
                assert_eq!(again.to_vec().unwrap(), wanted);
                answer.wait().unwrap();
            }
            seen.push(graph.captures());
        }
        assert!(
            seen[0] == seen[1] && seen[1] < seen[2] && seen[2] == seen[3],
            "{seen:?}"
        );
        let [wide, _] = column.both();
        let mut short = Buffer::<u32>::zeroed(&stream, n - 1).unwrap();
        let refused = graph.record().get_into(&wide, &mut short);
        assert!(
            matches!(refused, Err(Error::OutputTooSmall { .. })),
            "{refused:?}"
        );
        let of_host = Strings::from_iter(&all[..n]);
        let of_host = StringColumn::new(of_host.offsets(), of_host.bytes());
        let refused = graph.record().get_into(&of_host, &mut rows);
        assert!(
            matches!(refused, Err(Error::Unsupported { .. })),
            "{refused:?}"
        );
    });
}

/// Of several lookups and launches those with wrong offsets are an error, and no others.
#[test]
fn wrong_offsets_are_an_error_of_that_launch() {
    on_every_target(|on| {
        let stream = on.stream();
        let map = RowMap::<str>::new(on.device()).unwrap();
        map.insert(&["aaaa"]).unwrap();
        let n = on.n(40, 3_000);
        let bytes = Buffer::from_slice(&stream, &[b'a'; 50]).unwrap();
        let mut offsets = Buffer::<i64>::zeroed(&stream, n + 1).unwrap();
        let right = Buffer::from_slice(&stream, &[3i64, 7, 7]).unwrap();
        let mut rows = Buffer::zeroed(&stream, n).unwrap();
        let mut found = Buffer::zeroed(&stream, 2).unwrap();
        let mut graph = map.graph(&stream);
        let mut answers = Vec::new();
        // Where offsets become others, these, and the first string that is wrong by that.
        for (at, ends, first) in [
            (0, [4, 3], [4, 3]),
            (n / 2, [60, -1], [50, 60]),
            (n - 1, [50, 51], [50, 51]),
        ] {
            for wrong in [Some(first), None] {
                let mut all = vec![50i64; n + 1];
                if wrong.is_some() {
                    all[at..].fill(ends[1]);
                    all[at] = ends[0];
                }
                offsets.copy_from_slice(&all).unwrap();
                let mut lookups = graph.record();
                let column = StringColumn::new(&offsets, &bytes);
                lookups.get_into(&column, &mut rows).unwrap();
                let column = StringColumn::new(&right, &bytes);
                lookups.get_into(&column, &mut found).unwrap();
                answers.push((lookups.launch().unwrap(), wrong));
                assert_eq!(found.to_vec().unwrap(), [0, NO_ROW]);
            }
        }
        for (answer, wrong) in answers {
            match (answer.wait(), wrong) {
                (Ok(()), None) => {}
                (Err(Error::OutOfRange { start, end, len }), Some(ends)) => {
                    assert_eq!(
                        [start as i64, end as i64, len as i64],
                        [ends[0], ends[1], 50]
                    );
                }
                (other, wrong) => panic!("{other:?}, and {wrong:?} is wrong"),
            }
        }
        assert_eq!(graph.captures(), 1);
    });
}
