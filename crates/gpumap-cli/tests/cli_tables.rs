//! `gpumap group` and `gpumap join`: against loops over the same rows, through text and Parquet.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float16Array, Float32Array,
    Int16Array, Int64Array, ListArray, RecordBatch, StringArray, UInt32Array,
};
use common::{Scene, fails, sorted};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;

/// Columns as a file, in row groups of 700 rows.
fn parquet(scene: &Scene, name: &str, columns: Vec<(&str, ArrayRef)>) {
    let columns = columns.into_iter().map(|(name, array)| {
        let is_nullable = array.logical_null_count() > 0;
        (name, array, is_nullable)
    });
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(700))
        .build();
    let file = File::create(scene.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// All rows of a file.
fn rows(scene: &Scene, name: &str) -> RecordBatch {
    let file = File::open(scene.path(name)).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let mut reader = reader.with_batch_size(1 << 20).build().unwrap();
    let batch = reader.next().unwrap().unwrap();
    assert!(reader.next().is_none());
    batch
}

/// A sale: shop, article if it is known, pieces if they were counted, price.
type Sale = (i64, Option<String>, Option<i64>, f64);

fn sales(n: i64) -> Vec<Sale> {
    let article = |i: i64| (i % 11 != 3).then(|| format!("article {}", i * i % 13));
    let pieces = |i: i64| (i % 5 != 1).then_some(i % 17 - 4);
    (0..n)
        .map(|i| (i % 7 - 3, article(i), pieces(i), (i % 41) as f64 / 4.0))
        .collect()
}

fn sales_text(sales: &[Sale], delimiter: char) -> String {
    let mut text = ["shop", "article", "pieces", "price"].join(&delimiter.to_string()) + "\n";
    for (shop, article, pieces, price) in sales {
        let article = article.clone().unwrap_or_default();
        let pieces = pieces.map_or(String::new(), |it| it.to_string());
        let d = delimiter;
        text += &format!("{shop}{d}{article}{d}{pieces}{d}{price}\n");
    }
    text
}

fn sales_parquet(scene: &Scene, name: &str, sales: &[Sale]) {
    let shops = Int64Array::from_iter_values(sales.iter().map(|it| it.0));
    let articles: StringArray = sales.iter().map(|it| it.1.as_deref()).collect();
    let pieces: Int64Array = sales.iter().map(|it| it.2).collect();
    let prices = arrow_array::Float64Array::from_iter_values(sales.iter().map(|it| it.3));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("price", Arc::new(prices)),
        ("article", Arc::new(articles)),
        ("shop", Arc::new(shops)),
        ("pieces", Arc::new(pieces)),
    ];
    parquet(scene, name, columns);
}

/// What a loop finds: lines of shop, article, count, sum, min, max and mean of pieces, sum of prices.
fn grouped(sales: &[Sale]) -> String {
    let mut groups = BTreeMap::<(i64, Option<&String>), Vec<&Sale>>::new();
    for sale in sales {
        groups
            .entry((sale.0, sale.1.as_ref()))
            .or_default()
            .push(sale);
    }
    let line = |((shop, article), sales): ((i64, Option<&String>), Vec<&Sale>)| {
        let pieces: Vec<i64> = sales.iter().filter_map(|it| it.2).collect();
        let sum: i64 = pieces.iter().sum();
        let text = |it: Option<&i64>| it.map_or(String::new(), i64::to_string);
        let mean = match pieces.len() {
            0 => String::new(),
            n => format!("{:?}", sum as f64 / n as f64),
        };
        let article = article.map_or("", String::as_str);
        let (least, most) = (text(pieces.iter().min()), text(pieces.iter().max()));
        let (rows, counted) = (sales.len(), pieces.len());
        let price: f64 = sales.iter().map(|it| it.3).sum();
        format!("{shop}\t{article}\t{rows}\t{counted}\t{sum}\t{least}\t{most}\t{mean}\t{price:?}\n")
    };
    groups.into_iter().map(line).collect()
}

const ASKED: [&str; 16] = [
    "--by",
    "shop,article",
    "--agg",
    "count",
    "--agg",
    "count:pieces",
    "--agg",
    "sum:pieces",
    "--agg",
    "min:pieces",
    "--agg",
    "max:pieces",
    "--agg",
    "mean:pieces",
    "--agg",
    "sum:price=total",
];

const NAMES: &str =
    "shop\tarticle\tcount\tpieces_count\tpieces_sum\tpieces_min\tpieces_max\tpieces_mean\ttotal\n";

/// The rows of a table in text, in bytewise order, behind its names.
fn rows_of(text: &str) -> (String, String) {
    let (names, rows) = text.split_once('\n').unwrap();
    (format!("{names}\n"), sorted(rows))
}

#[test]
fn groups_are_those_of_a_loop() {
    let sales = sales(5_000);
    let scene = Scene::new()
        .with("a.csv", sales_text(&sales, ','))
        .with("first.tsv", sales_text(&sales[..1_234], '\t'))
        .with("rest.csv", sales_text(&sales[1_234..], ','));
    sales_parquet(&scene, "a.parquet", &sales);
    sales_parquet(&scene, "rest.parquet", &sales[1_234..]);
    let expected = (NAMES.to_owned(), sorted(&grouped(&sales)));
    for inputs in [
        &["a.csv"][..],
        &["a.parquet"],
        &["first.tsv", "rest.csv"],
        &["first.tsv", "rest.parquet"],
    ] {
        let text = scene.succeed(&[&["group"], inputs, &ASKED].concat());
        assert_eq!(rows_of(&text), expected, "{inputs:?}");
    }
    // In the order of the first rows of the groups, on a device of any kind.
    let text = scene.succeed(&[&["group", "a.csv", "--device", "checked"][..], &ASKED].concat());
    assert_eq!(rows_of(&text), expected);
    assert!(text[NAMES.len()..].starts_with("-3\tarticle 0\t"), "{text}");
    // Through Parquet, which has the same numbers again.
    scene.succeed(&[&["group", "a.parquet", "-o", "groups.parquet"][..], &ASKED].concat());
    let shops = [
        "group",
        "groups.parquet",
        "--by",
        "shop",
        "--agg",
        "sum:count=n",
        "-o",
        "n.csv",
    ];
    scene.succeed(&shops);
    let direct = scene.succeed(&["group", "a.csv", "--by", "shop", "--agg=count=n"]);
    assert_eq!(scene.read("n.csv"), direct.replace('\t', ","));
}

#[test]
fn standard_input_is_grouped() {
    let scene = Scene::new();
    let arguments = ["group", "-", "--by", "k"];
    let outcome = scene.run_with(&arguments, &[], b"\xef\xbb\xbfk\tv\nb\t1\na\t2\nb\t3\n");
    assert_eq!(outcome.stdout, "k\tcount\nb\t2\na\t1\n", "{outcome:?}");
    assert!(
        outcome.stderr.contains("pairs       3, 2 distinct"),
        "{outcome:?}"
    );
    let arguments = [
        "group",
        "-",
        "--format=csv",
        "--by=k",
        "--output-format=csv",
        "-q",
    ];
    let outcome = scene.run_with(&arguments, &[], b"k\r\n\"a,b\"\r\n\"c\nd\"\r\n");
    assert_eq!(
        outcome.stdout, "k,count\n\"a,b\",1\n\"c\nd\",1\n",
        "{outcome:?}"
    );
}

#[test]
fn columns_of_many_types_are_grouped() {
    let scene = Scene::new();
    let n = 2_000;
    let flag: BooleanArray = (0..n).map(|i| (i % 6 != 0).then_some(i % 2 == 0)).collect();
    let day = Date32Array::from_iter_values((0..n).map(|i| i % 3 - 1));
    let small: Int16Array = (0..n)
        .map(|i| (i % 4 != 0).then_some((i % 9 - 4) as i16))
        .collect();
    let cents = Decimal128Array::from_iter_values((0..n).map(|i| i128::from(i % 2)))
        .with_precision_and_scale(9, 2)
        .unwrap();
    let ratio = Float32Array::from_iter_values(
        (0..n).map(|i| if i / 36 % 2 == 0 { f32::NAN } else { 0.5 }),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("flag", Arc::new(flag.clone())),
        ("day", Arc::new(day.clone())),
        ("small", Arc::new(small.clone())),
        ("cents", Arc::new(cents.clone())),
        ("ratio", Arc::new(ratio)),
    ];
    parquet(&scene, "a.parquet", columns);
    let asked = [
        "--agg=sum:small",
        "--agg=min:day",
        "--agg=max:flag",
        "--agg=sum:flag=yes",
        "--agg=min:ratio",
        "--agg=max:ratio",
        "-oout.parquet",
    ];
    scene.succeed(&[&["group", "a.parquet", "--by=flag,cents,small"][..], &asked].concat());
    let out = rows(&scene, "out.parquet");
    // Each group once, with the types of the file.
    let keys = (0..n as usize).map(|i| {
        let flag = flag.is_valid(i).then(|| flag.value(i));
        (
            flag,
            cents.value(i),
            small.is_valid(i).then(|| small.value(i)),
        )
    });
    let expected: std::collections::BTreeSet<_> = keys.collect();
    assert_eq!(out.num_rows(), expected.len());
    for (name, array) in [
        ("flag", &flag as &dyn Array),
        ("cents", &cents),
        ("small", &small),
        ("day_min", &day),
    ] {
        assert_eq!(out[name].data_type(), array.data_type(), "{name}");
    }
    let text = scene.succeed(&["group", "out.parquet", "--by=day_min,ratio_min,ratio_max"]);
    assert!(text.contains("1969-12-31"), "{text}");
    assert!(text.contains("0.5\tNaN"), "{text}");
    let flags = scene.succeed(&[&["group", "a.parquet", "--by=flag"], &asked[3..4]].concat());
    assert_eq!(sorted(&flags), "\t0\nfalse\t0\nflag\tyes\ntrue\t666\n");
    // More than the library computes in one pass.
    let many: Vec<String> = (0..30).map(|i| format!("--agg=max:small=m{i}")).collect();
    let mut arguments = vec![
        "group",
        "a.parquet",
        "--by=cents",
        "--agg=min:day",
        "--agg=min:ratio",
    ];
    arguments.extend([
        "--agg=sum:small",
        "--agg=sum:flag",
        "--agg=max:ratio",
        "--agg=max:flag",
    ]);
    arguments.extend([
        "--agg=max:day",
        "--agg=mean:small",
        "--agg=mean:flag",
        "--agg=mean:ratio",
    ]);
    arguments.extend(many.iter().map(String::as_str));
    let text = scene.succeed(&arguments);
    assert_eq!(text.lines().count(), 3);
    assert!(
        text.lines().skip(1).all(|line| line.ends_with("\t4\t4\t4")),
        "{text}"
    );
}

#[test]
fn tables_without_rows() {
    let scene = Scene::new()
        .with("none.csv", "a,b\n")
        .with("some.csv", "a,c\n1,2\n");
    let columns: Vec<(&str, ArrayRef)> =
        vec![("a", Arc::new(UInt32Array::from(Vec::<u32>::new())))];
    parquet(&scene, "none.parquet", columns);
    for input in ["none.csv", "none.parquet"] {
        assert_eq!(scene.succeed(&["group", input, "--by", "a"]), "a\tcount\n");
    }
    let join = |arguments: &[&str]| {
        scene.succeed(&[&["join", "--on=a", "--type=a:i64"], arguments].concat())
    };
    assert_eq!(join(&["none.csv", "some.csv"]), "a\tb\tc\n");
    assert_eq!(join(&["some.csv", "none.csv"]), "a\tc\tb\n");
    assert_eq!(
        join(&["some.csv", "none.csv", "--how=left"]),
        "a\tc\tb\n1\t2\t\n"
    );
    assert_eq!(
        join(&["some.csv", "none.csv", "--how=anti"]),
        "a\tc\n1\t2\n"
    );
}

#[test]
fn columns_without_a_field_take_the_type_of_the_other_table() {
    let days = Date32Array::from(vec![1, 2, 1]);
    let scene = Scene::new()
        .with("none.csv", "a,b\n")
        .with("missing.tsv", "b\ta\n5\t\n")
        .with("some.csv", "a,b\n1,x\n2,\n1,z\n")
        .with("dates.csv", "a,b\n1970-01-03,5\n")
        .with("text.csv", "a\nx\n");
    let columns: Vec<(&str, ArrayRef)> = vec![("a", Arc::new(days))];
    parquet(&scene, "days.parquet", columns);
    let group = |inputs: &[&str]| scene.succeed(&[&["group", "--by=a"], inputs].concat());
    let some = "a\tcount\n1\t2\n2\t1\n";
    assert_eq!(group(&["none.csv", "some.csv"]), some);
    assert_eq!(group(&["some.csv", "none.csv"]), some);
    assert_eq!(
        group(&["none.csv", "none.csv", "some.csv", "none.csv"]),
        some
    );
    assert_eq!(
        group(&["missing.tsv", "none.csv", "some.csv"]),
        "a\tcount\n\t1\n1\t2\n2\t1\n"
    );
    assert_eq!(
        group(&["none.csv", "days.parquet", "dates.csv"]),
        "a\tcount\n1970-01-02\t2\n1970-01-03\t2\n"
    );
    assert_eq!(group(&["none.csv", "none.csv"]), "a\tcount\n");
    let sum = ["group", "none.csv", "dates.csv", "--by=a", "--agg=sum:b"];
    assert_eq!(scene.succeed(&sum), "a\tb_sum\n1970-01-03\t5\n");
    fails(
        &scene,
        &["group", "none.csv", "some.csv", "text.csv", "--by=a"],
        &["text.csv: the column `a` is of Utf8, and Int64 is expected"],
    );
    let join = |arguments: &[&str]| scene.succeed(&[&["join", "--on=a"], arguments].concat());
    assert_eq!(join(&["none.csv", "some.csv"]), "a\tb\tb_right\n");
    assert_eq!(join(&["some.csv", "none.csv"]), "a\tb\tb_right\n");
    assert_eq!(
        join(&["some.csv", "none.csv", "--how=left"]),
        "a\tb\tb_right\n1\tx\t\n2\t\t\n1\tz\t\n"
    );
    assert_eq!(join(&["days.parquet", "none.csv", "--how=semi"]), "a\n");
    assert_eq!(
        join(&["days.parquet", "missing.tsv", "--how=anti"]),
        "a\n1970-01-02\n1970-01-03\n1970-01-02\n"
    );
    assert_eq!(join(&["none.csv", "days.parquet"]), "a\tb\n");
}

#[test]
fn values_of_a_column_of_nulls_are_not_counted() {
    let scene = Scene::new();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int64Array::from(vec![1, 1, 2]))),
        ("none", Arc::new(arrow_array::NullArray::new(3))),
    ];
    parquet(&scene, "a.parquet", columns);
    let arguments = [
        "group",
        "a.parquet",
        "--by=a",
        "--agg=count:none",
        "--agg=count",
    ];
    assert_eq!(
        scene.succeed(&arguments),
        "a\tnone_count\tcount\n1\t0\t2\n2\t0\t1\n"
    );
}

#[test]
fn times_of_text_are_read_without_loss() {
    // Finer than all in the first megabyte.
    let seconds: String = (0..60_000)
        .map(|i| format!("2024-01-01 10:00:{:02}\n", i % 60))
        .collect();
    let days = "2024-01-01\n".repeat(100_000);
    let scene = Scene::new()
        .with(
            "times.csv",
            format!("t\n{seconds}2024-01-01 10:00:07.25\n2024-01-01 11:00:07.25+01:00\n"),
        )
        .with("days.csv", format!("t\n{days}2024-01-02 10:00:00\n"))
        .with("late.csv", format!("t\n{seconds}soon\n"));
    let times = scene.succeed(&["group", "times.csv", "--by=t"]);
    assert!(times.ends_with("\n2024-01-01T10:00:07.250\t2\n"), "{times}");
    assert_eq!(times.lines().count(), 62);
    for (input, causes) in [
        (
            "days.csv",
            &[
                "days.csv, line 100002: `2024-01-02 10:00:00` in the column `t`",
                "--type",
            ],
        ),
        (
            "late.csv",
            &["late.csv, line 60002: `soon` in the column `t`", "--type"],
        ),
    ] {
        fails(&scene, &["group", input, "--by=t"], causes);
    }
    let text = scene.succeed(&["group", "days.csv", "--by=t", "--type=t:text"]);
    assert_eq!(
        text,
        "t\tcount\n2024-01-01\t100000\n2024-01-02 10:00:00\t1\n"
    );
}

#[test]
fn timestamps_of_text_go_with_those_of_any_unit() {
    let times = arrow_array::TimestampMicrosecondArray::from(vec![1_500_000, 2_000_000]);
    let late = arrow_array::TimestampMicrosecondArray::from(vec![i64::MAX]);
    let scene = Scene::new()
        .with("a.csv", "t\n1970-01-01 00:00:01.5\n1970-01-01 00:00:03\n")
        .with("fine.csv", "t\n1970-01-01 00:00:01.0000005\n");
    parquet(&scene, "a.parquet", vec![("t", Arc::new(times))]);
    parquet(&scene, "late.parquet", vec![("t", Arc::new(late))]);
    let counts = [
        "1970-01-01T00:00:01.500\t2",
        "1970-01-01T00:00:02\t1",
        "1970-01-01T00:00:03\t1",
    ];
    for inputs in [["a.csv", "a.parquet"], ["a.parquet", "a.csv"]] {
        let text = scene.succeed(&[&["group", "--by=t"], &inputs[..]].concat());
        assert_eq!(rows_of(&text).1, counts.join("\n") + "\n");
        let join = scene.succeed(&[&["join", "--on=t"], &inputs[..]].concat());
        assert_eq!(join, "t\n1970-01-01T00:00:01.500\n");
    }
    for (inputs, causes) in [
        (
            ["a.parquet", "fine.csv"],
            &["fine.csv, line 2", "`t`", "Timestamp"][..],
        ),
        (["a.csv", "late.parquet"], &["cannot convert times"]),
    ] {
        fails(
            &scene,
            &[&["group", "--by=t"], &inputs[..]].concat(),
            causes,
        );
    }
}

#[test]
fn tables_that_cannot_be_grouped() {
    let long = format!("a,b\n1,\"{}\n", "x".repeat(3 << 20));
    let late: String = (0..300_000).map(|i| format!("{i},1\n")).collect();
    let scene = Scene::new()
        .with("a.csv", "a,b\n1,x\n2,\n")
        .with("float.csv", "a,b\n1.5,x\n")
        .with("short.csv", "a,b\n1,2\n3\n")
        .with("twice.csv", "a,b, a\n1,2,3\n")
        .with("empty.csv", "")
        .with("latin.csv", b"a,b\n\xe9,1\n")
        .with("long.csv", long)
        .with("late.csv", format!("a,b\n{late}x\x1b,1\n"))
        .with("a.txt", "a\n1\n")
        .with("a.bin", [0; 16])
        .with("text.parquet", "hello");
    let lists =
        ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>([Some([Some(1)])]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("list", Arc::new(lists)),
        ("a", Arc::new(Int64Array::from(vec![1]))),
        ("half", Arc::new(Float16Array::new_null(1))),
    ];
    parquet(&scene, "list.parquet", columns);
    let whole = std::fs::read(scene.path("list.parquet")).unwrap();
    let scene = scene.with("cut.parquet", &whole[..whole.len() / 2]);
    let by = |input| vec!["group", input, "--by", "a", "-o", "out.csv"];
    let and = |input, more: &[&'static str]| [by(input), more.to_vec()].concat();
    for (arguments, causes) in [
        (by("missing.csv"), &["missing.csv", "No such file"][..]),
        (by("a.txt"), &["a.txt", ".csv, .tsv or .parquet"]),
        (by("a.bin"), &["a.bin", ".csv, .tsv or .parquet"]),
        (by("empty.csv"), &["empty.csv has no column `a`"]),
        (
            by("short.csv"),
            &["short.csv, line 3: 1 fields where 2 were expected"],
        ),
        (by("twice.csv"), &["twice.csv has two columns `a`"]),
        (by("latin.csv"), &["latin.csv", "UTF-8"]),
        (
            by("long.csv"),
            &["long.csv, line 2", "1048576 bytes", "--max-record"],
        ),
        (
            by("late.csv"),
            &[
                "late.csv, line 300002",
                r"`x\u{1b}`",
                "`a`",
                "Int64",
                "--type",
            ],
        ),
        (
            by("text.parquet"),
            &["text.parquet cannot be read as Parquet"],
        ),
        (
            by("cut.parquet"),
            &["cut.parquet cannot be read as Parquet"],
        ),
        (
            and("list.parquet", &["--max-record=3"]),
            &["list.parquet, page", "3 are allowed"],
        ),
        (
            and("a.csv", &["--by=no"]),
            &["a.csv has no column `no`; it has a, b"],
        ),
        (and("a.csv", &["--by=a"]), &["--by has two columns `a`"]),
        (
            and("list.parquet", &["--by=list"]),
            &["`list` is of List", "keys are"],
        ),
        (
            and("list.parquet", &["--by=half"]),
            &["`half` is of Float16", "floats of 4 and 8 bytes"],
        ),
        (
            and("a.csv", &["--agg=sum:b"]),
            &["`b` is of Utf8, and sums and means are"],
        ),
        (
            and("a.csv", &["--agg=min:b"]),
            &["`b` is of Utf8, and min and max are"],
        ),
        (and("a.csv", &["--agg=max:no"]), &["no column `no`"]),
        (
            and("a.csv", &["--agg=median:a"]),
            &["--agg", "count, sum, min, max or mean"],
        ),
        (and("a.csv", &["--agg=sum"]), &["--agg", "sum:COLUMN"]),
        (
            and("a.csv", &["--agg=count=a"]),
            &["out.csv has two columns `a`"],
        ),
        (
            and("a.csv", &["--format=bin"]),
            &["--format", "use csv, tsv or parquet"],
        ),
        (
            and("a.csv", &["--type=b:i64", "--agg=sum:b"]),
            &["a.csv, line 2: `x` in the column `b`", "Int64"],
        ),
        (and("a.csv", &["--type=no:i64"]), &["no column `no`"]),
        (
            and("a.csv", &["--type=a:int"]),
            &["--type", "a type is i32"],
        ),
        (
            and("a.csv", &["float.csv"]),
            &["float.csv: the column `a` is of Float64, and Int64 is expected"],
        ),
        (and("a.csv", &["empty.csv"]), &["empty.csv has no column"]),
        (vec!["group", "a.csv"], &["--by"]),
        (vec!["group", "--by", "a"], &["INPUT"]),
        (
            vec!["group", "a.csv", "--by=a", "-o", "out.gpumap"],
            &["out.gpumap", ".parquet"],
        ),
        (
            vec!["group", "a.csv", "--by=a", "-o", "no/out.csv"],
            &["cannot write"],
        ),
        (
            vec!["group", "a.csv", "--by=a", "-o", "a.csv"],
            &["named twice"],
        ),
        (vec!["group", "-", "-", "--by=a"], &["named twice"]),
        (
            vec!["group", "-", "--format=parquet", "--by=a"],
            &["standard input", "must be a file"],
        ),
    ] {
        fails(&scene, &arguments, causes);
    }
}

/// An order: its number, the customer if there is one, the country of delivery.
fn orders(n: i64) -> Vec<(i64, Option<i64>, String)> {
    let customer = |i: i64| (i % 13 != 5).then_some(i * i % 89 - 20);
    (0..n)
        .map(|i| {
            (
                i,
                customer(i),
                ["de", "fr", "it"][i as usize % 3].to_owned(),
            )
        })
        .collect()
}

/// A customer, who may be there several times: number if it is known, country, name.
fn customers(n: i64) -> Vec<(Option<i64>, String, String)> {
    (0..n)
        .map(|i| {
            let number = (i % 10 != 9).then_some(i * 3 % 70 - 15);
            (
                number,
                ["de", "it"][i as usize % 2].to_owned(),
                format!("name {i}"),
            )
        })
        .collect()
}

fn text_of(number: Option<i64>) -> String {
    number.map_or(String::new(), |it| it.to_string())
}

fn joining_scene(
    orders: &[(i64, Option<i64>, String)],
    customers: &[(Option<i64>, String, String)],
) -> Scene {
    let order = |(id, customer, country): &(i64, Option<i64>, String)| {
        format!("{id},{},{country}\n", text_of(*customer))
    };
    let customer = |(id, country, name): &(Option<i64>, String, String)| {
        format!("{name}\t{}\t{country}\n", text_of(*id))
    };
    let left: String = orders.iter().map(order).collect();
    let right: String = customers.iter().map(customer).collect();
    let scene = Scene::new()
        .with("orders.csv", format!("id,customer,country\n{left}"))
        .with("customers.tsv", format!("name\tid\tcountry\n{right}"));
    let ids = Int64Array::from_iter_values(orders.iter().map(|it| it.0));
    let of: arrow_array::Int32Array = orders.iter().map(|it| it.1.map(|it| it as i32)).collect();
    let countries = StringArray::from_iter_values(orders.iter().map(|it| &it.2));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(ids)),
        ("customer", Arc::new(of)),
        ("country", Arc::new(countries)),
    ];
    parquet(&scene, "orders.parquet", columns);
    let names = StringArray::from_iter_values(customers.iter().map(|it| &it.2));
    let ids: Int16Array = customers
        .iter()
        .map(|it| it.0.map(|it| it as i16))
        .collect();
    let countries = StringArray::from_iter_values(customers.iter().map(|it| &it.1));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("name", Arc::new(names)),
        ("id", Arc::new(ids)),
        ("country", Arc::new(countries)),
    ];
    parquet(&scene, "customers.parquet", columns);
    scene
}

#[test]
fn joins_are_those_of_two_loops() {
    let (orders, customers) = (orders(3_000), customers(120));
    let scene = joining_scene(&orders, &customers);
    let (mut inner, mut left, mut semi, mut anti) =
        (String::new(), String::new(), String::new(), String::new());
    for (id, customer, country) in &orders {
        let row = format!("{id}\t{}\t{country}", text_of(*customer));
        let mut partners = 0;
        // A missing number equals none.
        for (_, _, name) in customers
            .iter()
            .filter(|it| customer.is_some() && it.0 == *customer && it.1 == *country)
        {
            inner += &format!("{row}\t{name}\n");
            left += &format!("{row}\t{name}\n");
            partners += 1;
        }
        match partners {
            0 => {
                left += &format!("{row}\t\n");
                anti += &format!("{row}\n");
            }
            _ => semi += &format!("{row}\n"),
        }
    }
    assert!(inner.lines().count() > semi.lines().count() && !anti.is_empty());
    let names = "id\tcustomer\tcountry";
    for (how, expected) in [
        ("inner", format!("{names}\tname\n{inner}")),
        ("left", format!("{names}\tname\n{left}")),
        ("semi", format!("{names}\n{semi}")),
        ("anti", format!("{names}\n{anti}")),
    ] {
        for (left, right) in [
            ("orders.csv", "customers.tsv"),
            ("orders.parquet", "customers.parquet"),
            ("orders.csv", "customers.parquet"),
        ] {
            let arguments = [
                "join",
                left,
                right,
                "--on",
                "customer=id,country",
                "--how",
                how,
            ];
            assert_eq!(scene.succeed(&arguments), expected, "{how} {left} {right}");
        }
        // Through Parquet and back.
        let arguments = [
            "join",
            "orders.parquet",
            "customers.tsv",
            "--on=customer=id",
            "--on=country",
            "--how",
            how,
            "-o",
            "out.parquet",
            "--device=checked",
        ];
        scene.succeed(&arguments);
        let back = scene.succeed(&["join", "out.parquet", "orders.csv", "--on=id", "--how=semi"]);
        assert_eq!(back, expected, "{how}");
    }
}

#[test]
fn columns_of_a_join_are_chosen_by_name() {
    let scene = Scene::new()
        .with("a.csv", "id,name,x\n1,ann,10\n2,bob,20\n")
        .with("b.csv", "id,name,y\n2,rob,0.5\n1,ana,1.5\n2,bo,2\n");
    let join = |more: &[&str]| {
        scene.succeed(&[&["join", "a.csv", "b.csv", "--on=id", "-q"], more].concat())
    };
    let all = "id\tname\tx\tname_right\ty\n1\tann\t10\tana\t1.5\n2\tbob\t20\trob\t0.5\n2\tbob\t20\tbo\t2.0\n";
    assert_eq!(join(&[]), all);
    let some = join(&["--columns", "y,id,name_right,x"]);
    assert_eq!(
        some,
        "y\tid\tname_right\tx\n1.5\t1\tana\t10\n0.5\t2\trob\t20\n2.0\t2\tbo\t20\n"
    );
    assert_eq!(join(&["--columns=x"]), "x\n10\n20\n20\n");
    assert_eq!(join(&["--columns=y"]), "y\n1.5\n0.5\n2.0\n");
    assert_eq!(join(&["--columns=x", "--how=semi"]), "x\n10\n20\n");
    let said = scene.run(&[
        "join", "a.csv", "b.csv", "--on=id", "--json", "-o", "out.csv",
    ]);
    for part in [
        "\"left_rows\":2",
        "\"right_rows\":3",
        "\"written\":3",
        "\"distinct\":2",
    ] {
        assert!(said.stderr.contains(part), "{part}: {said:?}");
    }
    // Standard input is one of the two.
    let arguments = ["join", "-", "b.csv", "--on=id", "--columns=z,name"];
    let outcome = scene.run_with(&arguments, &[], b"z\tid\nq\t1\n");
    assert_eq!(outcome.stdout, "z\tname\nq\tana\n", "{outcome:?}");
}

#[test]
fn tables_that_cannot_be_joined() {
    let scene = Scene::new()
        .with("a.csv", "id,name,x_right,x\n1,ann,1,2\n")
        .with("b.csv", "id,name,x,u\n1,ann,3,18446744073709551615\n")
        .with("text.csv", "id\none\n")
        .with("short.csv", "id,name\n1,ann\n2\n");
    let lists =
        ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>([Some([Some(1)])]);
    let wide = arrow_array::FixedSizeBinaryArray::try_from_iter([[1u8; 64]].into_iter()).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1]))),
        ("list", Arc::new(lists)),
        ("wide", Arc::new(wide)),
    ];
    parquet(&scene, "list.parquet", columns);
    let on = |right, on| vec!["join", "a.csv", right, "--on", on, "-o", "out.csv"];
    let and = |right, more: &[&'static str]| [on(right, "id"), more.to_vec()].concat();
    for (arguments, causes) in [
        (
            on("missing.csv", "id"),
            &["missing.csv", "No such file"][..],
        ),
        (on("b.csv", "no"), &["a.csv has no column `no`"]),
        (on("b.csv", "id=no"), &["b.csv has no column `no`"]),
        (on("b.csv", "id="), &["--on", "COLUMN=COLUMN"]),
        (
            on("text.csv", "id"),
            &["text.csv: the column `id` is of Utf8, and Int64 is expected"],
        ),
        (
            on("list.parquet", "id=list"),
            &["list.parquet: the column `list` is of List", "keys are"],
        ),
        (
            on("short.csv", "id"),
            &["short.csv, line 3: 1 fields where 2 were expected"],
        ),
        (
            and("b.csv", &["--columns=y"]),
            &["the result has no column `y`; it has id, name"],
        ),
        (
            and("b.csv", &["--columns=id,id"]),
            &["out.csv has two columns `id`"],
        ),
        (and("b.csv", &["--how=outer"]), &["--how"]),
        // Both tables have an x, and the left one an x_right.
        (on("b.csv", "id"), &["out.csv has two columns `x_right`"]),
        (
            and("list.parquet", &[]),
            &["out.csv: the column `list` is of List", ".parquet"],
        ),
        (
            vec![
                "join",
                "list.parquet",
                "list.parquet",
                "--on=wide",
                "-o",
                "out.parquet",
            ],
            &["64 bytes", "60 are allowed"],
        ),
        (
            vec!["join", "a.csv", "b.csv", "--on=id=u", "--type=u:u64"],
            &["b.csv: the column `u` is of UInt64, and Int64 is expected"],
        ),
        (
            and("b.csv", &["--type=no:u64"]),
            &["a.csv has no column `no`"],
        ),
        (vec!["join", "a.csv", "b.csv"], &["--on"]),
        (vec!["join", "-", "-", "--on=id"], &["named twice"]),
        (
            vec!["join", "a.csv", "b.csv", "--on=id", "-o", "b.csv"],
            &["named twice"],
        ),
    ] {
        fails(&scene, &arguments, causes);
    }
    let lists = [
        "join",
        "list.parquet",
        "b.csv",
        "--on=id",
        "--columns=list,u",
        "-o",
        "out.parquet",
    ];
    scene.succeed(&lists);
    assert_eq!(rows(&scene, "out.parquet")["u"].len(), 1);
}
