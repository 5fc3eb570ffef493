//! What the compiler advises where a type does not fit (`#[diagnostic::on_unimplemented]`): each piece of advice is followed here, so
//! that it compiles and works.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use gpumap::op::{self, Execute};
use gpumap::primitives::{Count, GroupBy, Max, Mean, Min, Op, Primitives, Sum};
use gpumap::sharded::Ranks;
use gpumap::strings::{StringColumn, StringColumnMut};
use gpumap::{
    Buffer, Device, Map, Merge, MultiMap, Number, Numeric, Result, RowMap, ShardedMap, Stream,
    Word, element_type, floats,
};

/// Keys and values of a program's own.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Place {
    row: u32,
    column: u32,
    height: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Pod, Zeroable)]
#[repr(transparent)]
struct Id(u64);

impl Numeric for Id {
    const NUMBER: Number = Number::Unsigned;
}

// SAFETY: it is a u64.
unsafe impl Word for Id {
    type Bits = u64;
}

element_type!(Id: u64);

fn keys() -> Result<()> {
    let device = Device::cpu();
    assert_eq!(Map::<u128, u32>::new(&device)?.insert(&[1 << 90], &[7])?, 1);
    assert_eq!(
        Map::<[i16; 2], u32>::new(&device)?.insert(&[[1, 2]], &[7])?,
        1
    );
    let place = Place {
        row: 1,
        column: 2,
        height: 0.5,
    };
    assert_eq!(Map::<Place, u32>::new(&device)?.insert(&[place], &[7])?, 1);
    assert_eq!(
        Map::<u32, u32>::new(&device)?.insert(&[u32::from('x')], &[7])?,
        1
    );
    Ok(())
}

fn strings_as_keys() -> Result<()> {
    let map = RowMap::<str>::new(&Device::cpu())?;
    assert_eq!(map.insert(&["word"])?, [0]);
    let map = RowMap::<[u8]>::new(&Device::cpu())?;
    assert_eq!(map.insert(&[b"\xff"])?, [0]);
    Ok(())
}

fn row_batches() -> Result<()> {
    let stream = Stream::new(&Device::cpu())?;
    let map = RowMap::<Place>::new(stream.device())?;
    let places = vec![Place::zeroed()];
    assert_eq!(map.insert(&places[..])?, [0]);
    assert_eq!(map.insert(&places)?, [0]);
    assert_eq!(map.insert(&Buffer::from_slice(&stream, &places)?)?, [0]);
    assert_eq!(map.insert(&[Place::zeroed()])?, [0]);
    strings()
}

fn row_places() -> Result<()> {
    let stream = Stream::new(&Device::cpu())?;
    let map = RowMap::<u64>::new(stream.device())?;
    map.insert(&[7, 8])?;
    let (mut array, mut vector) = ([0; 2], vec![0; 2]);
    let mut buffer = Buffer::zeroed(&stream, 2)?;
    assert_eq!(map.keys_into(&mut array)?, 2);
    assert_eq!(map.keys_into(&mut vector)?, 2);
    assert_eq!(map.keys_into(&mut vector[..])?, 2);
    assert_eq!(map.keys_into(&mut buffer)?, 2);
    assert_eq!(
        (array, vector, buffer.to_vec()?),
        ([7, 8], vec![7, 8], vec![7, 8])
    );
    let map = RowMap::<[u8]>::new(stream.device())?;
    map.insert(&["to", "be"])?;
    let (mut offsets, mut bytes) = ([0; 3], [0; 4]);
    map.keys_into(&mut StringColumnMut::new(&mut offsets, &mut bytes))?;
    assert_eq!((offsets, &bytes), ([0, 2, 4], b"tobe"));
    Ok(())
}

fn row_graphs() -> Result<()> {
    let stream = Stream::new(&Device::cpu())?;
    let (numbers, words) = (
        RowMap::<u64>::new(stream.device())?,
        RowMap::<str>::new(stream.device())?,
    );
    numbers.insert(&[7, 8])?;
    words.insert(&["to", "be"])?;
    let keys = Buffer::from_slice(&stream, &[8_u64])?;
    let offsets = Buffer::from_slice(&stream, &[0_i32, 2])?;
    let bytes = Buffer::from_slice(&stream, b"be")?;
    let mut rows = [Buffer::zeroed(&stream, 1)?, Buffer::zeroed(&stream, 1)?];
    let [row, row_of_word] = &mut rows;
    let mut graph = numbers.graph(&stream);
    let mut lookups = graph.record();
    lookups.get_into(&keys, row)?;
    lookups.launch()?.wait()?;
    let mut graph = words.graph(&stream);
    let mut lookups = graph.record();
    lookups.get_into(&StringColumn::new(&offsets, &bytes), row_of_word)?;
    lookups.launch()?.wait()?;
    let [row, row_of_word] = rows;
    assert_eq!((row.to_vec()?, row_of_word.to_vec()?), (vec![1], vec![1]));
    Ok(())
}

fn values() -> Result<()> {
    let device = Device::cpu();
    assert_eq!(Map::<u32, f64>::new(&device)?.insert(&[1], &[0.5])?, 1);
    assert_eq!(
        Map::<u32, [f32; 5]>::new(&device)?.insert(&[1], &[[0.5; 5]])?,
        1
    );
    assert_eq!(Map::<u32, ()>::new(&device)?.insert_keys(&[1])?, 1);
    assert_eq!(
        Map::<u32, Place>::new(&device)?.insert(&[1], &[Place::zeroed()])?,
        1
    );
    assert_eq!(
        Map::<u32, u8>::new(&device)?.insert(&[1], &[u8::from(true)])?,
        1
    );
    Ok(())
}

fn numbers_to_merge() -> Result<()> {
    let map = Map::<u32, Id>::new(&Device::cpu())?;
    assert_eq!(map.merge(&[1, 1], &[Id(2), Id(3)], Merge::Add)?, 1);
    assert_eq!(map.get(&[1])?, [Some(Id(5))]);
    Ok(())
}

fn words() -> Result<()> {
    let map = MultiMap::<Id, Id>::with_capacity(&Device::cpu(), 10)?;
    assert_eq!(map.insert(&[Id(1)], &[Id(2)])?, 1);
    Ok(())
}

fn values_of_chains() -> Result<()> {
    let device = Device::cpu();
    let map = MultiMap::<u64, f64>::with_capacity(&device, 10)?;
    assert_eq!(map.insert(&[1], &[0.5])?, 1);
    let map = MultiMap::<u32, i32>::with_capacity(&device, 10)?;
    assert_eq!(map.insert(&[1], &[-1])?, 1);
    let map = MultiMap::<u64, Id>::with_capacity(&device, 10)?;
    assert_eq!(map.insert(&[1], &[Id(2)])?, 1);
    Ok(())
}

fn inputs() -> Result<()> {
    let device = Device::cpu();
    let stream = Stream::new(&device)?;
    let map = Map::<u64, u64>::new(&device)?;
    let vector = vec![3, 4];
    let buffer = Buffer::from_slice(&stream, &[5, 6])?;
    assert_eq!(map.insert(&vector[..], &[30, 40])?, 2);
    assert_eq!(map.insert(&buffer, &vector)?, 2);
    assert_eq!(map.insert(&[1], &[10])?, 1);
    Ok(())
}

fn outputs() -> Result<()> {
    let device = Device::cpu();
    let stream = Stream::new(&device)?;
    let map = Map::<u64, u64>::new(&device)?;
    map.insert(&[1, 2], &[10, 20])?;
    let (mut values, mut found) = (vec![0; 2], [0; 2]);
    map.get_into(&[1, 2], &mut values, &mut found)?;
    assert_eq!((&values[..], found), (&[10, 20][..], [1, 1]));
    map.get_into(&[2, 3], &mut values[..], &mut found[..])?;
    let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    map.get_into(&[2, 3], &mut values, &mut found)?;
    assert_eq!(found.to_vec()?, [1, 0]);
    Ok(())
}

fn strings() -> Result<()> {
    let map = RowMap::<str>::new(&Device::cpu())?;
    let words = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(map.insert(&words)?, [0, 1]);
    assert_eq!(map.get(&words[1..])?, [Some(1)]);
    assert_eq!(map.get(&["a", "b"])?, [Some(0), Some(1)]);
    let column = StringColumn::new(&[0_i64, 1, 2], b"ab");
    assert_eq!(map.get(&column)?, [Some(0), Some(1)]);
    assert_eq!(map.get(&["a"])?, [Some(0)]);
    Ok(())
}

fn elements() -> Result<()> {
    let primitives = Primitives::new(&Device::cpu());
    let most = primitives.reduce(&[Id(3), Id(7)], Op::Max, Id(0))?;
    assert_eq!(most, Id(7));
    Ok(())
}

fn aggregates() -> Result<()> {
    let (keys, values) = ([1_u32, 2, 1], [5_u64, 6, 7]);
    let primitives = Primitives::new(&Device::cpu());
    let grouping = primitives.group_by(&keys).count().sum(&values);
    let grouping = grouping.min(&values).max(&values).mean(&values);
    let grouped = grouping.run()?;
    let (count, sum, least, most, mean) = grouped.columns;
    assert_eq!((count, sum), (vec![2, 1], vec![12, 6]));
    assert_eq!(
        (least, most, mean),
        (vec![5, 6], vec![7, 6], vec![6.0, 6.0])
    );
    Ok(())
}

fn one_to_twelve_aggregates() -> Result<()> {
    let (keys, values) = ([1_u32, 2, 1], [5_u64, 6, 7]);
    let primitives = Primitives::new(&Device::cpu());
    let grouped = primitives.group_by(&keys).count().run()?;
    assert_eq!(grouped.columns.0, [2, 1]);
    let three = |v| primitives.group_by(v).count().count().count();
    let six = three(&keys).count().count().count();
    let twelve = six.min(&values).min(&values).max(&values);
    let twelve = twelve.max(&values).sum(&values).sum(&values);
    assert_eq!(twelve.run()?.columns.11, [12, 6]);
    Ok(())
}

fn aggregates_of_batches() -> Result<()> {
    type All = (Count, Sum<u64>, Min<u64>, Max<u64>, Mean<u64>);
    let groups = GroupBy::<u32, All>::new(&Device::cpu())?;
    let values = [5_u64, 6, 7];
    let batch = groups.batch(&[1, 2, 1]).count().sum(&values);
    let batch = batch.min(&values).max(&values).mean(&values);
    assert_eq!(batch.run()?, 2);
    assert_eq!(groups.finish()?.columns.4, [6.0, 6.0]);
    Ok(())
}

fn float_fields() -> Result<()> {
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C)]
    struct Sale {
        shop: u32,
        price: f32,
        place: [f64; 2],
    }
    let primitives = Primitives::new(&Device::cpu());
    let sale = |price| Sale {
        shop: 1,
        price,
        place: [price.into(); 2],
    };
    let floats = floats!(Sale { price, place });
    let unique = primitives.unique(&floats.of(&[sale(0.0), sale(-0.0)]))?;
    assert_eq!(unique.keys.len(), 1);
    Ok(())
}

fn operands() -> Result<()> {
    let device = Device::cpu();
    let map = Map::<u32, u64>::new(&device)?;
    map.merge(&[1, 2], 5, Merge::Add)?;
    map.merge(&[1, 2], &vec![1, 2], Merge::Add)?;
    map.merge(&[1, 2], &[1, 2][..], Merge::Add)?;
    let buffer = Buffer::from_slice(&Stream::new(&device)?, &[1_u64, 2])?;
    map.merge(&[1, 2], &buffer, Merge::Add)?;
    assert_eq!(map.get(&[1, 2])?, [Some(8), Some(11)]);
    Ok(())
}

fn receivers() -> Result<()> {
    fn get(of: &impl Execute<u64, u64>) -> Result<Vec<Option<u64>>> {
        of.execute(op::get(&[1]))
    }
    let device = Device::cpu();
    let stream = Stream::new(&device)?;
    let map = Map::<u64, u64>::new(&device)?;
    map.insert(&[1], &[10])?;
    let chains = MultiMap::<u64, u64>::with_capacity(&device, 10)?;
    chains.insert(&[1], &[10])?;
    let sharded = ShardedMap::<u64, u64>::new(&Ranks::new(&[device.clone(), device.clone()])?)?;
    sharded.insert(&[1], &[10])?;
    assert_eq!(get(&map)?, [Some(10)]);
    assert_eq!(get(&chains)?, [Some(10)]);
    assert_eq!(get(&sharded)?, [Some(10)]);
    assert_eq!(get(&map.on(&stream))?, [Some(10)]);
    Ok(())
}

type Follow = fn() -> Result<()>;

/// What is advised, and what follows it. Of a diagnostic without a note it is the label.
const ADVICE: [(&str, Follow); 22] = [
    (
        "use an integer, an array of them, or a `#[repr(C)]` type of your own that derives `bytemuck::Pod` (`u32` for `char`)",
        keys,
    ),
    (
        "strings are what `gpumap::RowMap<str>` is for",
        strings_as_keys,
    ),
    (
        "strings are the keys of a `RowMap<str>`, byte slices those of a `RowMap<[u8]>`",
        strings_as_keys,
    ),
    (
        "pass a reference to a slice, array, Vec or Buffer of `{K}`, of strings or a StringColumn for `str` and `[u8]`: `&[x]` for a single one",
        row_batches,
    ),
    (
        "pass a mutable reference to a slice, array, Vec or Buffer of `{K}`, or to a StringColumnMut for `str` and `[u8]`",
        row_places,
    ),
    (
        "pass a reference to a Buffer of `{K}`, or to a StringColumn of buffers for `str` and `[u8]`",
        row_graphs,
    ),
    (
        "use a number, an array of them, `()`, or a `#[repr(C)]` type of your own that derives `bytemuck::Pod` (`u8` for `bool`)",
        values,
    ),
    (
        "implement `gpumap::Numeric` for a type of your own that has 4 or 8 bytes",
        numbers_to_merge,
    ),
    (
        "a type of your own with the size and the alignment of `u32` or `u64` needs `unsafe impl gpumap::Word`",
        words,
    ),
    (
        "use numbers of one size, as in `MultiMap<u64, f64>` or `MultiMap<u32, i32>`; a type of your own with such bits needs `unsafe impl gpumap::Word`",
        values_of_chains,
    ),
    (
        "pass a reference to a slice, array, Vec or Buffer of `{T}`: `&[x]` for a single one",
        inputs,
    ),
    (
        "pass a mutable reference to a slice, array, Vec or Buffer of `{T}` that is as long as the batch",
        outputs,
    ),
    (
        "pass a reference to a slice, array or Vec of strings, or a StringColumn: `&[x]` for a single one",
        strings,
    ),
    (
        "a newtype of a number is made one by `gpumap::element_type!`",
        elements,
    ),
    (
        "aggregates are `Count`, `Sum<T>`, `Min<T>`, `Max<T>` and `Mean<T>` of numbers",
        aggregates,
    ),
    (
        "ask for at least one aggregate, and for at most twelve",
        one_to_twelve_aggregates,
    ),
    (
        "batches ask for the aggregates of a tuple",
        aggregates_of_batches,
    ),
    (
        "a grouping has at most twelve aggregates",
        one_to_twelve_aggregates,
    ),
    (
        "name fields of type f32 or f64, or arrays of these: all others are compared by their bits",
        float_fields,
    ),
    (
        "a map is on a `Device`, or over the `Ranks` of a group",
        receivers,
    ),
    (
        "pass a reference to a slice, vector or buffer of `{V}`, or one `{V}` for all keys",
        operands,
    ),
    (
        "operations run on a Map, MultiMap or ShardedMap of these types, or on the `on(&stream)` of one",
        receivers,
    ),
];

/// What the diagnostics of a source advise.
fn advice_of(source: &str) -> Vec<String> {
    let mut all = Vec::new();
    for part in source.split("#[diagnostic::on_unimplemented(\n").skip(1) {
        let (block, _) = part.split_once("\n)]").expect("its end");
        let texts = |name: &str| -> Vec<String> {
            let begin = format!("{name} = \"");
            let lines = block.lines().map(str::trim);
            let texts = lines.filter_map(|line| line.strip_prefix(&begin));
            let texts = texts.map(|text| text.trim_end_matches(',').trim_end_matches('"'));
            texts.map(str::to_owned).collect()
        };
        let mut advice = texts("note");
        if advice.is_empty() {
            advice = texts("label");
        }
        assert!(!advice.is_empty(), "no advice in {block}");
        all.extend(advice);
    }
    all
}

fn sources(folder: &Path, to: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, to);
        } else {
            to.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Some advice could not be followed: it named a macro that had no such form, and references where there were none.
#[test]
fn all_advice_of_the_compiler_is_followed() {
    let mut text = String::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut text,
    );
    let advised: BTreeSet<String> = advice_of(&text).into_iter().collect();
    let followed: BTreeSet<String> = ADVICE.iter().map(|(text, _)| (*text).to_owned()).collect();
    assert_eq!(advised, followed);
    for (text, follow) in ADVICE {
        follow().unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}
