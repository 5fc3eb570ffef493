//! Saved maps and Parquet, in and out, beside the text formats.

use std::fs;
use std::sync::Arc;

use crate::common::{LAMBDA, Scene, fails, sorted};
use gpumap::{Device, Map};
use parquet::basic::Compression;
use parquet::data_type::{DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use parquet::schema::parser::parse_message_type;

const FORMATS: [&str; 5] = ["csv", "tsv", "bin", "gpumap", "parquet"];

fn text() -> String {
    let edges = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63];
    let spread = (1..20_000).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let line = |key: u64| format!("{key}\t{}\n", key.rotate_left(17) ^ 0xabcd);
    edges.into_iter().chain(spread).map(line).collect()
}

/// The lines in the order of the keys.
fn by_key(text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.sort_by_key(|line| line.split('\t').next().unwrap().parse::<u64>().unwrap());
    lines.concat()
}

#[test]
fn every_format_becomes_every_other() {
    let pairs = text();
    let scene = Scene::new().with("in.tsv", &pairs);
    for format in FORMATS {
        let name = format!("in.{format}");
        if format != "tsv" {
            scene.succeed(&["load", "in.tsv", "--dump", &name]);
        }
        for other in FORMATS {
            let target = format!("out.{other}");
            scene.succeed(&["load", &name, "--dump", &target, "--sorted"]);
            let dump = scene.succeed(&["load", &target, "--dump", "-"]);
            assert_eq!(sorted(&dump), sorted(&pairs), "{format} to {other}");
        }
    }
    // Sorted outputs are the same on every run.
    let first: Vec<_> = FORMATS
        .map(|it| fs::read(scene.path(&format!("out.{it}"))).unwrap())
        .into();
    for (format, first) in FORMATS.into_iter().zip(first) {
        let name = format!("out.{format}");
        scene.succeed(&["load", "in.csv", "--dump", &name, "--sorted"]);
        assert!(fs::read(scene.path(&name)).unwrap() == first, "{name}");
    }
}

#[test]
fn an_option_says_the_format_whatever_the_name() {
    let scene = Scene::new()
        .with("pairs", "1,5\n2,6\n")
        .with("wrong.bin", "1,5\n2,6\n");
    for format in FORMATS {
        for pairs in ["pairs", "wrong.bin"] {
            let dump = [
                "load",
                pairs,
                "--format",
                "csv",
                "--dump",
                "out",
                "--dump-format",
                format,
            ];
            scene.succeed(&dump);
            let back = ["load", "out", "--format", format, "--dump", "-", "--sorted"];
            assert_eq!(scene.succeed(&back), "1\t5\n2\t6\n", "{format}");
        }
    }
    // A saved map may come through a pipe, and go into one.
    let scene = scene.with("a.csv", "3,4\n");
    scene.succeed(&["load", "a.csv", "--dump", "a.gpumap"]);
    let bytes = fs::read(scene.path("a.gpumap")).unwrap();
    let outcome = scene.run_with(
        &["load", "-", "--format", "gpumap", "--dump", "-"],
        &[],
        &bytes,
    );
    assert_eq!(outcome.stdout, "3\t4\n", "{outcome:?}");
}

#[test]
fn files_without_pairs() {
    let scene = Scene::new().with("none.csv", "");
    for format in FORMATS {
        let name = format!("out.{format}");
        scene.succeed(&["load", "none.csv", "--dump", &name]);
        assert_eq!(
            scene.succeed(&["load", &name, "--dump", "-"]),
            "",
            "{format}"
        );
    }
}

#[test]
fn the_library_and_the_program_read_each_other() {
    let scene = Scene::new().with("pairs.tsv", text());
    scene.succeed(&["load", "pairs.tsv", "--dump", "pairs.gpumap"]);
    let device = Device::cpu();
    let map = Map::<u64, u64>::load(&device, scene.path("pairs.gpumap")).unwrap();
    assert_eq!(map.len(), 20_004);
    assert_eq!(map.get(&[u64::MAX]).unwrap(), [Some(!0 ^ 0xabcd)]);

    let keys: Vec<u32> = (0..1_000).collect();
    let lines: String = keys
        .iter()
        .map(|key| format!("{key}\t{}\n", 2 * key))
        .collect();
    let save = |name: &str, bytes: usize| {
        let values = || keys.iter().map(|key| 2 * key);
        let path = scene.path(name);
        if bytes == 4 {
            let pairs = keys.iter().copied().zip(values());
            Map::<u32, u32>::from_pairs(&device, pairs)
                .unwrap()
                .save(path)
                .unwrap();
        } else {
            let pairs = keys.iter().copied().zip(values().map(u64::from));
            Map::<u32, u64>::from_pairs(&device, pairs)
                .unwrap()
                .save(path)
                .unwrap();
        }
    };
    for bytes in [4, 8] {
        save("small.gpumap", bytes);
        let dump = scene.succeed(&["load", "small.gpumap", "--dump", "-", "--sorted"]);
        assert_eq!(dump, lines);
    }
    let found = scene.succeed(&["load", "small.gpumap", "--lookup", "small.gpumap"]);
    assert_eq!(sorted(&found), sorted(&lines));
}

#[test]
fn saved_sets_are_keys() {
    let device = Device::cpu();
    let scene = Scene::new().with("pairs.csv", "7,70\n8,80\n9,90\n");
    let narrow = Map::<u32, ()>::from_keys(&device, [7, 9, 10]).unwrap();
    narrow.save(scene.path("narrow.gpumap")).unwrap();
    let wide = Map::<u64, ()>::from_keys(&device, [7, 9, 10]).unwrap();
    wide.save(scene.path("wide.gpumap")).unwrap();
    let none = Map::<u64, ()>::new(&device).unwrap();
    none.save(scene.path("none.gpumap")).unwrap();
    for set in ["narrow.gpumap", "wide.gpumap"] {
        let found = scene.succeed(&["load", "pairs.csv", "--lookup", set]);
        assert_eq!(by_key(&found), "7\t70\n9\t90\n10\t\n", "{set}");
    }
    let found = scene.succeed(&["load", "pairs.csv", "--lookup", "none.gpumap"]);
    assert_eq!(found, "");
    for set in ["narrow.gpumap", "wide.gpumap", "none.gpumap"] {
        let dump = ["load", set, "--dump", "out.csv"];
        fails(&scene, &dump, &[set, "is a set: it has no values"]);
    }
    // A damaged one is none.
    let mut bytes = fs::read(scene.path("wide.gpumap")).unwrap();
    bytes[64 + 8] ^= 1;
    let scene = scene.with("wide.gpumap", bytes);
    let lookup = ["load", "pairs.csv", "--lookup", "wide.gpumap"];
    fails(&scene, &lookup, &["checksum of block 0"]);
}

#[test]
fn counts_of_kmers_as_columns_and_as_a_map() {
    let scene = Scene::new().with("lambda.fa.gz", LAMBDA);
    let count = |rest: &[&str]| {
        let arguments = [&["count-kmers", "lambda.fa.gz", "-k", "9"], rest].concat();
        scene.succeed(&arguments)
    };
    count(&["-o", "counts.bin"]);
    count(&["-o", "counts.parquet"]);
    count(&["-o", "counts", "--format", "gpumap"]);
    let dump = |rest: &[&str]| {
        let arguments = [&["load"], rest, &["--dump", "-", "--sorted"]].concat();
        scene.succeed(&arguments)
    };
    let expected = dump(&["counts.bin"]);
    assert!(expected.lines().count() > 10_000);
    assert_eq!(dump(&["counts.parquet"]), expected);
    assert_eq!(dump(&["counts", "--format", "gpumap"]), expected);
}

#[test]
fn kmers_of_more_than_32_bases_as_columns() {
    let scene = Scene::new().with("lambda.fa.gz", LAMBDA);
    for k in ["33", "64"] {
        let count = |rest: &[&str]| {
            let arguments = [&["count-kmers", "lambda.fa.gz", "-k", k, "--sorted"], rest].concat();
            scene.succeed(&arguments)
        };
        let expected = count(&[]);
        count(&["-o", "counts.parquet", "--devices", "cpu,cpu"]);
        count(&["-o", "counts.gpumap"]);
        scene.succeed(&["dump", "counts.gpumap", "-o", "dump.parquet", "--sorted"]);
        for name in ["counts.parquet", "dump.parquet"] {
            let file = fs::File::open(scene.path(name)).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            let mut rows = String::new();
            for row in reader.get_row_iter(None).unwrap() {
                let row = row.unwrap();
                let key = u128::from_be_bytes(row.get_bytes(0).unwrap().data().try_into().unwrap());
                let bases = (0..k.parse::<u32>().unwrap()).rev();
                let letters =
                    bases.map(|base| char::from(b"ACGT"[(key >> (2 * base) & 3) as usize]));
                let count = row.get_ulong(1).unwrap();
                rows += &format!("{}\t{count}\n", letters.collect::<String>());
            }
            assert!(rows == expected, "{name}");
            assert_eq!(scene.succeed(&["dump", name, "-k", k]), expected);
        }
    }
}

/// A column of a file that is made here: its values, and which rows have one.
struct Column<T: DataType> {
    values: Vec<T::T>,
    levels: Option<Vec<i16>>,
}

fn of<T: DataType>(values: &[T::T]) -> Column<T> {
    let (values, levels) = (values.to_vec(), None);
    Column { values, levels }
}

/// A Parquet file of two columns in two row groups, each with all rows.
fn parquet<A: DataType, B: DataType>(
    schema: &str,
    first: &Column<A>,
    second: &Column<B>,
) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    for _ in 0..2 {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let levels = first.levels.as_deref();
        column
            .typed::<A>()
            .write_batch(&first.values, levels, None)
            .unwrap();
        column.close().unwrap();
        if let Some(mut column) = group.next_column().unwrap() {
            let levels = second.levels.as_deref();
            column
                .typed::<B>()
                .write_batch(&second.values, levels, None)
                .unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn columns_of_other_writers() {
    let narrow = of::<Int32Type>(&[7, -1, 9]);
    let wide = of::<Int64Type>(&[1, 2, i64::MAX]);
    let all = |levels: &[i16]| Column::<Int64Type> {
        values: vec![1, 2, i64::MAX],
        levels: Some(levels.to_vec()),
    };
    let unsigned = "message m { required int32 value (INTEGER(32,false)); required int64 KEY; }";
    let any_name = "message m { required int64 a (INT_64); required int32 b (UINT_32); }";
    let optional = "message m { optional int64 key; required int32 value (UINT_32); }";
    let scene = Scene::new()
        .with("by_name.parquet", parquet(unsigned, &narrow, &wide))
        .with("by_place.parquet", parquet(any_name, &wide, &narrow))
        .with(
            "optional.parquet",
            parquet(optional, &all(&[1, 1, 1]), &narrow),
        );
    let lines = "1\t7\n2\t4294967295\n9223372036854775807\t9\n";
    for name in ["by_name.parquet", "by_place.parquet", "optional.parquet"] {
        let dump = scene.succeed(&["load", name, "--dump", "-", "--sorted"]);
        assert_eq!(dump, lines, "{name}");
    }
    let found = scene.succeed(&["load", "by_place.parquet", "--lookup", "by_name.parquet"]);
    assert_eq!(by_key(&found), by_key(&lines.repeat(2)));
}

/// What pyarrow has made of `golden/make_zstd.py`, in pages of both versions.
const ZSTD: [(&str, &[u8]); 2] = [
    (
        "zstd_v1.parquet",
        include_bytes!("../golden/zstd_v1.parquet"),
    ),
    (
        "zstd_v2.parquet",
        include_bytes!("../golden/zstd_v2.parquet"),
    ),
];

#[test]
fn columns_are_unpacked_and_found_by_their_names() {
    for (name, bytes) in ZSTD {
        let scene = Scene::new().with(name, bytes);
        let load = |rest: &[&str]| {
            let arguments = [&["load", name, "--dump", "-", "--sorted"], rest].concat();
            scene.succeed(&arguments)
        };
        let expected: String = (0..20_000_u64)
            .map(|i| format!("{}\t{}\n", i * i, i % 3))
            .collect();
        assert!(
            load(&["--key", "id", "--value", "score"]) == expected,
            "{name}"
        );
        let same = load(&["--key", "same", "--aggregate", "count"]);
        assert_eq!(same, "7\t20000\n");
        let most = load(&["--key=score", "--value=id", "--aggregate=max"]);
        // The last rows of each score: 19,998, 19,999 and 19,997.
        assert_eq!(most, "0\t399920004\n1\t399960001\n2\t399880009\n");
        fails(&scene, &["load", name], &[name, "it has 4"]);
        for (column, cause) in [
            ("none", "no column `none`; it has `id`, `note`"),
            ("note", "not of integers"),
        ] {
            let arguments = ["load", name, "--key", "id", "--value", column];
            fails(&scene, &arguments, &[name, cause]);
        }
        // Pages that are larger than allowed, and pages that are damaged.
        let small = [
            "load",
            name,
            "--key=id",
            "--value=same",
            "--max-record=1000",
        ];
        fails(&scene, &small, &["--max-record"]);
        let mut outcomes = [0, 0];
        for at in (4..bytes.len() - 2_000).step_by(bytes.len() / 40) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x55;
            let scene = Scene::new().with(name, damaged);
            let outcome = scene.run(&["load", name, "--key=id", "--value=score"]);
            assert!(matches!(outcome.code, Some(0 | 2)), "{at}: {outcome:?}");
            assert!(outcome.code == Some(0) || outcome.stderr.lines().count() == 1);
            outcomes[usize::from(outcome.code == Some(2))] += 1;
        }
        assert!(outcomes[1] > 0, "{outcomes:?}");
    }
}

#[test]
fn columns_that_are_none() {
    let numbers = of::<Int64Type>(&[1, 2]);
    let negative = of::<Int64Type>(&[1, -2]);
    let reals = of::<DoubleType>(&[0.5, 1.5]);
    let gaps = Column::<Int64Type> {
        values: vec![1],
        levels: Some(vec![1, 0]),
    };
    let plain = "message m { required int64 key; required int64 value; }";
    let real = "message m { required int64 key; required double value; }";
    let time = "message m { required int64 key; required int64 value (TIMESTAMP(MILLIS,true)); }";
    let optional = "message m { optional int64 key; required int64 value; }";
    let good = parquet(plain, &numbers, &numbers);
    let mut flipped = good.clone();
    let end = flipped.len();
    flipped[end - 5] ^= 0x7f; // The length of the footer.
    let scene = Scene::new()
        .with("cut.parquet", &good[..good.len() / 2])
        .with("footer.parquet", flipped)
        .with("text.parquet", "1,2\n")
        .with("empty.parquet", "")
        .with("good.parquet", &good)
        .with("good.csv", "1,2\n")
        .with("negative.parquet", parquet(plain, &numbers, &negative))
        .with("real.parquet", parquet(real, &numbers, &reals))
        .with("time.parquet", parquet(time, &numbers, &numbers))
        .with("gaps.parquet", parquet(optional, &gaps, &numbers))
        .with(
            "one.parquet",
            parquet("message m { required int64 key; }", &numbers, &numbers),
        );
    for (name, causes) in [
        ("cut.parquet", &["Parquet"][..]),
        ("footer.parquet", &["Parquet"]),
        ("text.parquet", &["Parquet"]),
        ("empty.parquet", &["Parquet"]),
        ("negative.parquet", &["row 2", "`value` is negative"]),
        ("real.parquet", &["`value`", "not of integers"]),
        ("time.parquet", &["`value`", "not of integers"]),
        ("gaps.parquet", &["row 2", "`key` is missing"]),
        ("one.parquet", &["`key` and `value`", "it has 1"]),
        ("missing.parquet", &["No such file"]),
    ] {
        let causes = [&[name], causes].concat();
        fails(&scene, &["load", name, "--dump", "out.parquet"], &causes);
    }
    fails(
        &scene,
        &["load", "-", "--format", "parquet"],
        &["must be a file"],
    );
    for results in ["out.parquet", "out.gpumap"] {
        let lookup = [
            "load",
            "good.csv",
            "--lookup",
            "good.parquet",
            "--results",
            results,
        ];
        fails(&scene, &lookup, &["not found", ".csv or .tsv"]);
    }
    fails(
        &scene,
        &["load", "good.csv", "--format", "xml"],
        &["--format", "xml"],
    );
    fails(
        &scene,
        &["load", "good.csv", "--dump-format", "csv"],
        &["--dump"],
    );
}

#[test]
fn narrow_values_of_any_kind_are_widened() {
    let device = Device::cpu();
    let scene = Scene::new();
    let signed = Map::<u32, i32>::from_pairs(&device, [(1, -5), (2, i32::MIN)]).unwrap();
    signed.save(scene.path("signed.gpumap")).unwrap();
    let real = Map::<u64, f32>::from_pairs(&device, [(1, -0.5), (2, 0.1)]).unwrap();
    real.save(scene.path("real.gpumap")).unwrap();
    let keys = of::<Int32Type>(&[1, 2]);
    let schema = "message m { required int32 key; required float value; }";
    let scene = scene
        .with(
            "real.parquet",
            parquet(schema, &keys, &of::<FloatType>(&[-0.5, 0.1])),
        )
        .with(
            "signed.parquet",
            parquet(
                "message m { required int32 key; required int32 value; }",
                &keys,
                &of::<Int32Type>(&[-5, i32::MIN]),
            ),
        )
        .with(
            "large.parquet",
            parquet(
                "message m { required int32 key; required int64 value (UINT_64); }",
                &keys,
                &of::<Int64Type>(&[1, -1]),
            ),
        );
    let load = |name: &str, values| {
        scene.succeed(&["load", name, "--values", values, "--dump", "-", "--sorted"])
    };
    let reals = format!("1\t-0.5\n2\t{:?}\n", f64::from(0.1_f32));
    for format in ["gpumap", "parquet"] {
        let signed = load(&format!("signed.{format}"), "signed");
        assert_eq!(signed, "1\t-5\n2\t-2147483648\n");
        assert_eq!(load(&format!("real.{format}"), "float"), reals);
    }
    let large = ["load", "large.parquet", "--values", "signed"];
    fails(&scene, &large, &["row 2", "`value` is too large"]);
}

#[test]
fn saved_maps_that_are_none() {
    let scene = Scene::new().with("pairs.tsv", text());
    scene.succeed(&["load", "pairs.tsv", "--dump", "good.gpumap"]);
    let good = fs::read(scene.path("good.gpumap")).unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let newer = gpumap::file::VERSION + 1;
    let device = Device::cpu();
    let reals = Map::<u64, f64>::from_pairs(&device, [(1, 0.5)]).unwrap();
    reals.save(scene.path("real.gpumap")).unwrap();
    let scene = scene
        .with("cut.gpumap", &good[..good.len() - 1])
        .with("half.gpumap", &good[..good.len() / 2])
        .with("empty.gpumap", "")
        .with("text.gpumap", "1,2\n")
        .with("newer.gpumap", changed(8, newer as u8))
        .with("header.gpumap", changed(30, 0xaa))
        .with("block.gpumap", changed(20_000, !good[20_000]))
        .with("longer.gpumap", [&good[..], b"\n"].concat());
    for (name, cause) in [
        ("cut.gpumap", "cut off"),
        ("half.gpumap", "cut off"),
        ("empty.gpumap", "cut off after 0 bytes"),
        ("text.gpumap", "not a saved map"),
        ("newer.gpumap", &format!("version {newer}")),
        ("header.gpumap", "checksum of the header"),
        ("block.gpumap", "checksum of block 0"),
        ("longer.gpumap", "goes on after its end"),
        ("real.gpumap", "floating-point"),
        ("missing.gpumap", "No such file"),
    ] {
        let dump = ["load", name, "--dump", "out.gpumap"];
        fails(&scene, &dump, &[name, cause]);
        // What is there stays.
        let dump = ["load", name, "--dump", "good.gpumap"];
        fails(&scene, &dump, &[name, cause]);
        assert!(fs::read(scene.path("good.gpumap")).unwrap() == good);
    }
}

/// P16: Parquet by gzip, which Spark and others write.
#[test]
fn parquet_by_gzip_is_read() {
    let expected: String = (0..20_000_u64)
        .map(|row| format!("{}\t{}\n", row * row, row % 3))
        .collect();
    for file in [
        &include_bytes!("../golden/gzip_v1.parquet")[..],
        include_bytes!("../golden/gzip_v2.parquet"),
    ] {
        let scene = Scene::new().with("pairs.parquet", file);
        let load = [
            "load",
            "pairs.parquet",
            "--sorted",
            "--dump",
            "-",
            "--quiet",
        ];
        assert!(scene.succeed(&load) == expected);
        let small = ["load", "pairs.parquet", "--max-record", "2000"];
        fails(&scene, &small, &["pairs.parquet", "--max-record"]);
    }
}
