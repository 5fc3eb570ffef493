//! `gpumap load`: pairs through every format and back, lookups, keys that come twice.

use crate::common::{Scene, sorted};
use proptest::prelude::*;

/// Keys without a pattern, and those that a map might be tempted to reserve.
fn pairs() -> Vec<(u64, u64)> {
    let edges = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, u64::from(u32::MAX)];
    let spread = (1..5000).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let keys = edges.into_iter().chain(spread);
    keys.map(|key| (key, key.rotate_left(17) ^ 0xabcd))
        .collect()
}

fn text(pairs: &[(u64, u64)], delimiter: char) -> String {
    let line = |(key, value): &(u64, u64)| format!("{key}{delimiter}{value}\n");
    pairs.iter().map(line).collect()
}

fn binary(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

#[test]
fn every_format_reads_back_as_it_was_written() {
    let mut pairs = pairs();
    let scene = Scene::new()
        .with("in.csv", format!("key,value\n{}", text(&pairs, ',')))
        .with("in.tsv", text(&pairs, '\t'))
        .with(
            "in.bin",
            binary(pairs.iter().flat_map(|&(key, value)| [key, value])),
        );
    pairs.sort_unstable();
    for input in ["in.csv", "in.tsv", "in.bin"] {
        for output in ["out.csv", "out.tsv", "out.bin"] {
            scene.succeed(&["load", input, "--dump", output, "--sorted"]);
            let dump = scene.succeed(&["load", output, "--dump", "-", "--sorted"]);
            assert_eq!(dump, text(&pairs, '\t'), "{input} to {output}");
        }
    }
    assert_eq!(scene.read("out.csv"), text(&pairs, ','));
    let dump = scene.succeed(&["load", "in.csv", "--dump", "-"]);
    assert_eq!(sorted(&dump), sorted(&text(&pairs, '\t')));
}

#[test]
fn lookups_come_in_the_order_of_the_keys() {
    let pairs = pairs();
    let keys: Vec<u64> = pairs
        .iter()
        .rev()
        .flat_map(|&(key, _)| [key, key ^ 0x55])
        .collect();
    let value = |key| pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
    let lines: String = keys
        .iter()
        .map(|&key| match value(key) {
            Some(value) => format!("{key}\t{value}\n"),
            None => format!("{key}\t\n"),
        })
        .collect();
    let column: String = keys.iter().map(|key| format!("{key}\n")).collect();
    let scene = Scene::new()
        .with("pairs.tsv", text(&pairs, '\t'))
        .with("keys.tsv", &column)
        .with("keys.csv", format!("key\n{column}"))
        .with("keys.bin", binary(keys));
    for keys in ["keys.tsv", "keys.csv", "keys.bin"] {
        let found = scene.succeed(&["load", "pairs.tsv", "--lookup", keys]);
        assert_eq!(found, lines, "{keys}");
    }
    let arguments = [
        "load",
        "pairs.tsv",
        "--lookup",
        "keys.bin",
        "--results",
        "found.csv",
        "--dump",
        "all.csv",
    ];
    assert_eq!(scene.succeed(&arguments), "");
    assert_eq!(scene.read("found.csv"), lines.replace('\t', ","));
    assert_eq!(sorted(&scene.read("all.csv")), sorted(&text(&pairs, ',')));
}

#[test]
fn standard_input_is_tsv() {
    let scene = Scene::new();
    let arguments = ["load", "-", "--dump", "-", "--sorted"];
    let outcome = scene.run_with(&arguments, &[], b"k\tv\n0x10\t1\n2\t0xff\n");
    assert_eq!(outcome.stdout, "2\t255\n16\t1\n", "{outcome:?}");
}

#[test]
fn no_pairs_are_a_file_too() {
    let scene = Scene::new()
        .with("none.csv", "")
        .with("header.csv", "key,value\n")
        .with("none.bin", "")
        .with("keys.tsv", "5\n");
    for input in ["none.csv", "header.csv", "none.bin"] {
        assert_eq!(scene.succeed(&["load", input, "--dump", "-"]), "");
        assert_eq!(
            scene.succeed(&["load", input, "--lookup", "keys.tsv"]),
            "5\t\n"
        );
    }
}

#[test]
fn a_key_that_comes_twice() {
    let scene = Scene::new()
        .with("equal.csv", "1,5\n2,6\n1,5\n")
        .with("several.csv", "1,5\n2,6\n1,4\n1,18446744073709551615\n");
    let dump = |rest: &[&str]| {
        let arguments = [&["load"], rest, &["--dump", "-", "--sorted"]].concat();
        scene.succeed(&arguments)
    };
    assert_eq!(dump(&["equal.csv"]), "1\t5\n2\t6\n");
    assert_eq!(dump(&["equal.csv", "--duplicates", "sum"]), "1\t10\n2\t6\n");
    assert_eq!(
        dump(&["several.csv", "--duplicates", "first"]),
        "1\t5\n2\t6\n"
    );
    assert_eq!(
        dump(&["several.csv", "--duplicates", "sum"]),
        "1\t8\n2\t6\n"
    );
}

#[test]
fn several_files_are_loaded_as_one() {
    let scene = Scene::new()
        .with("a.csv", "key,value\n1,5\n2,6\n")
        .with("b.tsv", "3\t7\n1\t5\n")
        .with("c.bin", binary([4, 8, 2, 6]))
        .with("other.csv", "2,9\n");
    let load = |rest: &[&str]| {
        let arguments = [&["load", "--dump", "-", "--sorted"], rest].concat();
        scene.succeed(&arguments)
    };
    let all = "1\t5\n2\t6\n3\t7\n4\t8\n";
    assert_eq!(load(&["a.csv", "b.tsv", "c.bin"]), all);
    assert_eq!(load(&["c.bin", "a.csv", "b.tsv", "a.csv"]), all);
    let sum = load(&["a.csv", "b.tsv", "c.bin", "--aggregate", "sum"]);
    assert_eq!(sum, "1\t10\n2\t12\n3\t7\n4\t8\n");
    // Keys meet over files too.
    let outcome = scene.run(&["load", "a.csv", "other.csv"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome
            .stderr
            .contains("other.csv: key 2 comes with the values 6 and 9")
    );
    let said = scene.run(&["load", "a.csv", "b.tsv", "--json"]);
    assert!(said.stderr.contains("\"pairs\":4"), "{said:?}");
    for (arguments, cause) in [
        (&["load", "a.csv", "none.csv"][..], "cannot open none.csv"),
        (&["load"], "PAIRS"),
        (&["load", "-", "-"], "named twice"),
        (
            &["load", "a.csv", "b.tsv", "--dump", "b.tsv"],
            "named twice",
        ),
    ] {
        let outcome = scene.run(arguments);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(cause), "{cause}: {outcome:?}");
    }
}

#[test]
fn values_of_a_key_are_aggregated() {
    let rows = "1,5\n2,6\n1,4\n1,18446744073709551615\n3,0\n2,6\n1,7\n";
    let keys: String = rows
        .lines()
        .map(|row| row.split(',').next().unwrap().to_owned() + "\n")
        .collect();
    let scene = Scene::new()
        .with("a.csv", rows)
        .with("keys.csv", keys)
        .with("keys.bin", binary([1, 2, 1, 1, 3, 2, 1]));
    let load = |input: &str, rule| {
        scene.succeed(&[
            "load",
            input,
            "--aggregate",
            rule,
            "--dump",
            "-",
            "--sorted",
        ])
    };
    for (rule, expected) in [
        ("sum", "1\t15\n2\t12\n3\t0\n"),
        ("min", "1\t4\n2\t6\n3\t0\n"),
        ("max", "1\t18446744073709551615\n2\t6\n3\t0\n"),
        ("first", "1\t5\n2\t6\n3\t0\n"),
        ("last", "1\t7\n2\t6\n3\t0\n"),
    ] {
        assert_eq!(load("a.csv", rule), expected, "{rule}");
    }
    for keys in ["keys.csv", "keys.bin"] {
        assert_eq!(load(keys, "count"), "1\t4\n2\t2\n3\t1\n");
    }
    for (arguments, cause) in [
        (
            &["load", "a.csv", "--aggregate", "count"][..],
            "2 fields where 1 were expected",
        ),
        (
            &["load", "keys.csv", "--aggregate", "sum"],
            "1 fields where 2 were expected",
        ),
        (&["load", "a.csv", "--aggregate", "mean"], "--aggregate"),
        (
            &["load", "a.csv", "--aggregate", "sum", "--duplicates", "sum"],
            "--duplicates",
        ),
    ] {
        let outcome = scene.run(arguments);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(cause), "{cause}: {outcome:?}");
    }
}

#[test]
fn columns_are_found_by_their_names() {
    let scene = Scene::new()
        .with("a.csv", "name,score, id ,\nann,70,7,x\n\"b, c\",90,0x9,\n")
        .with("b.tsv", "id\tscore\n11\t5\n")
        .with("short.csv", "name,score,id\nann,70\n")
        .with("bad.csv", "name,score,id\nann,high,7\n")
        .with("empty.csv", "")
        .with("a.bin", binary([1, 2]));
    let load = |rest: &[&str]| {
        let arguments = [&["load", "--dump", "-", "--sorted"], rest].concat();
        scene.succeed(&arguments)
    };
    let named = ["--key", "id", "--value", "score"];
    assert_eq!(load(&[&["a.csv"], &named[..]].concat()), "7\t70\n9\t90\n");
    let both = load(&[&["a.csv", "b.tsv"], &named[..]].concat());
    assert_eq!(both, "7\t70\n9\t90\n11\t5\n");
    let swapped = load(&["b.tsv", "--key", "score", "--value", "id"]);
    assert_eq!(swapped, "5\t11\n");
    let counted = load(&["a.csv", "--key", "score", "--aggregate", "count"]);
    assert_eq!(counted, "70\t1\n90\t1\n");
    assert_eq!(load(&[&["empty.csv"], &named[..]].concat()), "");
    for (input, names, causes) in [
        (
            "a.csv",
            ["id", "points"],
            &[
                "a.csv has no column `points`",
                "it has `name`, `score`, `id`",
            ][..],
        ),
        ("a.csv", ["ID", "score"], &["no column `ID`"]),
        (
            "short.csv",
            ["id", "score"],
            &["line 2", "2 fields where 3"],
        ),
        ("bad.csv", ["id", "score"], &["line 2", "`high`"]),
        ("a.bin", ["id", "score"], &["a.bin", ".bin have no names"]),
    ] {
        let arguments = ["load", input, "--key", names[0], "--value", names[1]];
        let outcome = scene.run(&arguments);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        for cause in causes {
            assert!(outcome.stderr.contains(cause), "{cause}: {outcome:?}");
        }
    }
    // Without a value it is the usual name.
    let outcome = scene.run(&["load", "a.csv", "--key", "id"]);
    assert!(outcome.stderr.contains("no column `value`"), "{outcome:?}");
}

#[test]
fn values_are_signed_or_floating_point_when_told() {
    let scene = Scene::new()
        .with(
            "signed.csv",
            "1,-5\n2,0x10\n1,3\n3,-9223372036854775808\n2,+16\n1,-5\n",
        )
        .with("float.tsv", "1\t-0.5\n2\t1e300\n1\t0.25\n3\t-inf\n2\t7\n")
        .with("once.csv", "1,-1.5\n2,2\n")
        .with("bad.csv", "1,2\n2,x\n")
        .with("keys.csv", "2\n9\n1\n");
    let load = |input: &str, values: &str, rest: &[&str]| {
        let head = ["load", input, "--values", values, "--sorted", "--dump"];
        scene.succeed(&[&head[..], rest].concat())
    };
    for (rule, expected) in [
        ("sum", "1\t-7\n2\t32\n3\t-9223372036854775808\n"),
        ("min", "1\t-5\n2\t16\n3\t-9223372036854775808\n"),
        ("max", "1\t3\n2\t16\n3\t-9223372036854775808\n"),
        ("first", "1\t-5\n2\t16\n3\t-9223372036854775808\n"),
        ("last", "1\t-5\n2\t16\n3\t-9223372036854775808\n"),
    ] {
        let text = load("signed.csv", "signed", &["-", "--aggregate", rule]);
        assert_eq!(text, expected, "{rule}");
    }
    for (rule, expected) in [
        ("min", "1\t-0.5\n2\t7.0\n3\t-inf\n"),
        ("max", "1\t0.25\n2\t1e300\n3\t-inf\n"),
        ("first", "1\t-0.5\n2\t1e300\n3\t-inf\n"),
        ("last", "1\t0.25\n2\t7.0\n3\t-inf\n"),
    ] {
        let text = load("float.tsv", "float", &["-", "--aggregate", rule]);
        assert_eq!(text, expected, "{rule}");
        // Through every format and back.
        for name in ["x.csv", "x.bin", "x.gpumap", "x.parquet"] {
            load("float.tsv", "float", &[name, "--aggregate", rule]);
            assert_eq!(load(name, "float", &["-"]), expected, "{rule}, {name}");
        }
    }
    for name in ["y.tsv", "y.bin", "y.gpumap", "y.parquet"] {
        load("signed.csv", "signed", &[name, "--aggregate", "min"]);
        let back = load(name, "signed", &["-"]);
        assert_eq!(back, "1\t-5\n2\t16\n3\t-9223372036854775808\n");
    }
    let lookup = [
        "--values",
        "float",
        "--aggregate",
        "max",
        "--lookup",
        "keys.csv",
    ];
    let found = scene.succeed(&[&["load", "float.tsv"], &lookup[..]].concat());
    assert_eq!(found, "2\t1e300\n9\t\n1\t0.25\n");
    let counted = scene.succeed(&[
        "load",
        "keys.csv",
        "--aggregate=count",
        "--values=float",
        "--dump=-",
    ]);
    assert_eq!(sorted(&counted), "1\t1\n2\t1\n9\t1\n");
    for (arguments, causes) in [
        (
            &["once.csv"][..],
            &["`-1.5` is not an unsigned 64-bit integer"][..],
        ),
        (
            &["once.csv", "--values=signed"],
            &["`-1.5` is not a signed 64-bit integer"],
        ),
        (
            &["bad.csv", "--values=float"],
            &["line 2", "`x` is not a floating-point number"],
        ),
        (
            &["float.tsv", "--values=float"],
            &["key 1 comes with the values -0.5 and 0.25"],
        ),
        (
            &["signed.csv", "--values=signed"],
            &["key 1 comes with the values -5 and 3"],
        ),
        (
            &["once.csv", "--values=float", "--aggregate=sum"],
            &["not summed"],
        ),
        (
            &["once.csv", "--values=float", "--duplicates=sum"],
            &["not summed"],
        ),
        (&["once.csv", "--values=text"], &["--values"]),
        (
            &["y.gpumap"],
            &["y.gpumap", "signed 64-bit integer", "--values"],
        ),
        (
            &["x.gpumap", "--values=signed"],
            &["floating-point number", "--values"],
        ),
        (&["y.parquet"], &["`value` is negative", "--values signed"]),
        (&["x.parquet"], &["`value` is not of integers"]),
        (
            &["y.parquet", "--values=float"],
            &["`value` is not of floating-point numbers"],
        ),
    ] {
        let outcome = scene.run(&[&["load"], arguments].concat());
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
        for cause in causes {
            assert!(outcome.stderr.contains(cause), "{cause}: {outcome:?}");
        }
    }
    let dump = scene.run(&["dump", "x.gpumap"]);
    assert!(dump.stderr.contains("floating-point number"), "{dump:?}");
}

/// What other programs write: each field is read as what it says, or refused with its line.
#[test]
fn fields_are_what_they_say_or_are_refused() {
    const UNSIGNED: &str = "is not an unsigned 64-bit integer";
    const SIGNED: &str = "is not a signed 64-bit integer";
    const FLOAT: &str = "is not a floating-point number of 64 bits";
    const EMPTY: &str = "line 2: an empty field is not an unsigned 64-bit integer";
    let keys = ["--lookup", "in.csv"];
    let named = ["in.csv", "--key", "id", "--value", "v"];
    let pairs = ["in.csv", "--sorted", "--dump", "-"];
    let of = |kind: &'static str| ["in.csv", "--values", kind, "--sorted", "--dump", "-"];
    let all = |kind: &'static str, rule: &'static str| {
        let head = ["in.csv", "--values", kind, "--aggregate", rule];
        [&head[..], &["--sorted", "--dump", "-"]].concat()
    };
    for (arguments, text, expected) in [
        // Numbers.
        (&of("unsigned")[..], "1,0x10\n", Ok("1\t16\n")),
        (&of("unsigned"), "0X1f,007\n", Ok("31\t7\n")),
        (
            &of("unsigned"),
            "18446744073709551615,18446744073709551615\n",
            Ok("18446744073709551615\t18446744073709551615\n"),
        ),
        (&of("unsigned"), "1,18446744073709551616\n", Err(UNSIGNED)),
        (&of("unsigned"), " 1,2 \n\" 3\",\"4\"\n", Ok("1\t2\n3\t4\n")),
        (&of("unsigned"), "1,Infinity\n", Err(UNSIGNED)),
        (&of("unsigned"), "1,1e3\n", Err(UNSIGNED)),
        (&of("unsigned"), "1,1.0\n", Err(UNSIGNED)),
        (&of("unsigned"), "1,-0\n", Err(UNSIGNED)),
        (&of("unsigned"), "1,2\n,4\n", Err(EMPTY)),
        (&of("unsigned"), "1,2\n3,\"\"\n", Err(EMPTY)),
        (&of("signed"), "1,-007\n2,0x10\n", Ok("1\t-7\n2\t16\n")),
        (&of("signed"), "1,9223372036854775808\n", Err(SIGNED)),
        (&of("signed"), "1,0xffffffffffffffff\n", Err(SIGNED)),
        (&of("signed"), "1,-Infinity\n", Err(SIGNED)),
        (
            &of("float"),
            "1,Infinity\n2,-inf\n",
            Ok("1\tinf\n2\t-inf\n"),
        ),
        (&of("float"), "1,nan\n2,007\n", Ok("1\tNaN\n2\t7.0\n")),
        (
            &of("float"),
            "1,1e308\n2,1e-400\n",
            Ok("1\t1e308\n2\t0.0\n"),
        ),
        (&of("float"), "1,1e400\n", Err(FLOAT)),
        (&of("float"), "1,0x10\n", Err(FLOAT)),
        // A NaN gives way to every number.
        (
            &all("float", "min"),
            "1,NaN\n1,-2\n1,5\n1,-nan\n2,NaN\n3,inf\n3,nan\n",
            Ok("1\t-2.0\n2\tNaN\n3\tinf\n"),
        ),
        (
            &all("float", "max"),
            "1,NaN\n1,-2\n1,5\n1,-nan\n2,-nan\n3,-inf\n3,nan\n",
            Ok("1\t5.0\n2\tNaN\n3\t-inf\n"),
        ),
        // Rows and their lines.
        (&pairs, "key,value\n", Ok("")),
        (&pairs, "key,value\r\n", Ok("")),
        (&pairs, "\n1,2\n\n\n3,4\n\n", Ok("1\t2\n3\t4\n")),
        (&pairs, "1,2\n\n\n3,x\n", Err("line 4: `x`")),
        (&pairs, "1,2\r\n3,x\r\n", Err("line 2: `x`")),
        (&pairs, "1,2\r\r3,x\r", Err("line 3: `x`")),
        (&pairs, "1,2\n\n3\n", Err("line 3: 1 fields")),
        (&keys, "key\n", Ok("")),
        (&keys, "5\n1\n", Ok("5\t\n1\t2\n")),
        (&keys, "5\n\n1\n", Err(EMPTY)),
        (&keys, "5\r\n\r\n1\r\n", Err(EMPTY)),
        (&keys, "5\n\n", Err(EMPTY)),
        (&keys, "5\n\"\"\n1\n", Err(EMPTY)),
        (&keys, "key\n \n1\n", Err(EMPTY)),
        // Columns.
        (&named, "v,id\n", Ok("")),
        (&named, "id,v,id\n1,2,3\n", Err("two columns `id`")),
        (&named, "\n\nv,id\n\n1,x\n", Err("line 5: `x`")),
    ] {
        let scene = Scene::new().with("in.csv", text).with("some.csv", "1,2\n");
        let pairs = (arguments[0] == "--lookup").then_some("some.csv");
        let command = ["load"].into_iter().chain(pairs);
        let command: Vec<&str> = command.chain(arguments.iter().copied()).collect();
        let outcome = scene.run(&command);
        match expected {
            Ok(rows) => assert_eq!(outcome.stdout, rows, "{text:?}: {outcome:?}"),
            Err(cause) => {
                assert_eq!(outcome.code, Some(2), "{text:?}: {outcome:?}");
                assert!(outcome.stderr.contains("error: in.csv"), "{outcome:?}");
                assert!(outcome.stderr.contains(cause), "{text:?}: {outcome:?}");
            }
        }
    }
}

/// They were read as unsigned ones.
#[test]
fn keys_of_a_saved_map_that_are_no_unsigned_integers_are_refused() {
    let scene = Scene::new();
    let device = gpumap::Device::cpu();
    let signed = gpumap::Map::<i64, u64>::from_pairs(&device, [(-1, 5)]).unwrap();
    signed.save(scene.path("signed.gpumap")).unwrap();
    let wide = gpumap::Map::<[f32; 2], u64>::new(&device).unwrap();
    wide.insert(&[[0.5, 1.0]], &[5]).unwrap();
    wide.save(scene.path("floats.gpumap")).unwrap();
    for (name, found) in [
        ("signed.gpumap", "has keys that are signed integers"),
        ("floats.gpumap", "has keys that are floating-point numbers"),
    ] {
        for arguments in [["load", name], ["dump", name]] {
            let outcome = scene.run(&arguments);
            assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
            assert!(outcome.stderr.contains(found), "{outcome:?}");
        }
    }
    // Those of a program's own are bytes, which may be unsigned integers.
    let bytes = gpumap::Map::<[u8; 8], u64>::new(&device).unwrap();
    bytes.insert(&[9_u64.to_le_bytes()], &[5]).unwrap();
    bytes.save(scene.path("bytes.gpumap")).unwrap();
    let dump = scene.succeed(&["load", "bytes.gpumap", "--dump", "-"]);
    assert_eq!(dump, "9\t5\n");
}

proptest! {
    // Every case is a few runs of the program.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    #[test]
    fn loads_like_a_hash_map(
        pairs in proptest::collection::vec((0..300_u64, any::<u64>()), 0..600),
    ) {
        let mut first = std::collections::BTreeMap::new();
        let mut sum = std::collections::BTreeMap::<u64, u64>::new();
        for &(key, value) in &pairs {
            first.entry(key).or_insert(value);
            let sum = sum.entry(key).or_default();
            *sum = sum.wrapping_add(value);
        }
        let scene = Scene::new().with("pairs.csv", text(&pairs, ','));
        for (rule, expected) in [("first", first), ("sum", sum)] {
            let arguments = ["load", "pairs.csv", "--duplicates", rule, "--dump", "-", "--sorted"];
            let expected: Vec<(u64, u64)> = expected.into_iter().collect();
            prop_assert_eq!(scene.succeed(&arguments), text(&expected, '\t'));
        }
    }
}
