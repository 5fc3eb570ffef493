//! Audit finding 10: inputs that never end a record are refused with little memory.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use crate::common::{Outcome, Scene, program};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Kilobytes of address space that a run has.
const ROOM: u32 = 1_500_000;

/// Runs `gpumap` with little memory and with that as its input.
fn run(scene: &Scene, arguments: &[&str], mut input: impl Read) -> Outcome {
    let gpumap = program(&scene.path("."));
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {ROOM}; exec \"$@\""))
        .arg("sh")
        .arg(gpumap.get_program())
        .args(arguments)
        .args(["--device", "cpu"])
        .current_dir(scene.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program ends without having read everything.
    let _ = io::copy(&mut input, &mut stdin);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn refuses(scene: &Scene, arguments: &[&str], input: impl Read, causes: &[&str]) {
    let before = scene.files();
    let outcome = run(scene, arguments, input);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert_eq!(outcome.stdout, "");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    for cause in causes {
        assert!(outcome.stderr.contains(cause), "{cause}: {outcome:?}");
    }
    assert_eq!(scene.files(), before, "something is left behind");
}

/// Gzip of `begin`, and of so many megabytes of `byte`.
fn bomb(begin: &[u8], byte: u8, megabytes: usize) -> Vec<u8> {
    let packed = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    // Members of gzip may follow each other.
    let member = packed(&vec![byte; 1 << 20]);
    [packed(begin), member.repeat(megabytes)].concat()
}

#[test]
fn a_record_that_does_not_end() {
    let scene = Scene::new()
        .with("bomb.fa.gz", bomb(b">a\nACGT\n>b\n", b'A', 3000))
        .with("lines.fa.gz", bomb(b">a\n", b'\n', 100))
        .with("bomb.fq.gz", bomb(b"@a\nACGT\n+\nIIII\n@b\n", b'A', 100))
        .with("name.fa.gz", bomb(b">", b'a', 100))
        .with("record.fa", ">a\nACGTACGT\n");
    for (name, most, record) in [
        ("bomb.fa.gz", "16M", "record 2"),
        ("bomb.fa.gz", "1", "record 1"),
        ("lines.fa.gz", "1m", "record 1"),
        ("bomb.fq.gz", "1M", "record 2"),
        ("name.fa.gz", "1048576", "record 1"),
    ] {
        let count = ["count-kmers", name, "--max-record", most];
        let arguments = [&count[..], &["-o", "out.tsv", "--spectrum", "out.svg"]].concat();
        refuses(
            &scene,
            &arguments,
            io::empty(),
            &[name, record, "--max-record"],
        );
    }
    // 12 bytes, and two line ends that count as 8.
    let count = |most| {
        run(
            &scene,
            &["count-kmers", "record.fa", "-k8", "--max-record", most],
            io::empty(),
        )
    };
    assert_eq!(count("26").stdout, "ACGTACGT\t1\n");
    refuses(
        &scene,
        &["count-kmers", "record.fa", "--max-record", "20"],
        io::empty(),
        &["record 1"],
    );
}

#[test]
fn a_row_that_does_not_end() {
    let scene = Scene::new();
    let field = || (&b"1\t2\n3\t"[..]).chain(io::repeat(b'4').take(200 << 20));
    let load = ["load", "-", "--dump", "out.tsv"];
    refuses(
        &scene,
        &load,
        field(),
        &["-, line 2", "1048576", "--max-record"],
    );
    let lines = b"5\t6\n".repeat(1 << 18);
    let quote = (&b"1\t2\n3\t\"4\n"[..]).chain(&lines[..]).chain(&lines[..]);
    refuses(
        &scene,
        &load,
        quote,
        &["-, line 2", "quote", "--max-record"],
    );
    let keys = Scene::new()
        .with("pairs.tsv", "1\t2\n")
        .with("keys.csv", "7".repeat(3 << 20));
    let look_up = ["load", "pairs.tsv", "--lookup", "keys.csv"];
    refuses(
        &keys,
        &look_up,
        io::empty(),
        &["keys.csv, line 1", "--max-record"],
    );

    // Quoted numbers and long rows are no errors, nor is a row that ends with the input.
    let rows = "\"1\"\t\"2\"\n\"3\"\t4";
    for most in ["1M", "14"] {
        let arguments = ["load", "-", "--sorted", "--dump", "-", "--max-record", most];
        let outcome = run(&scene, &arguments, rows.as_bytes());
        assert_eq!(outcome.stdout, "1\t2\n3\t4\n", "{outcome:?}");
    }
    let wide = format!("{}1\t2\n", " ".repeat(3 << 20));
    let arguments = ["load", "-", "--dump", "-", "--max-record", "4M"];
    assert_eq!(run(&scene, &arguments, wide.as_bytes()).stdout, "1\t2\n");
}

#[test]
fn a_page_that_is_too_large() {
    let rows: String = (0..20_000).map(|i| format!("{i}\t{}\n", i * i)).collect();
    let scene = Scene::new().with("pairs.tsv", &rows);
    scene.succeed(&["load", "pairs.tsv", "--dump", "pairs.parquet"]);
    let load = ["load", "pairs.parquet", "--max-record"];
    let small = [&load[..], &["10000", "--dump", "out.tsv"]].concat();
    refuses(
        &scene,
        &small,
        io::empty(),
        &["pairs.parquet", "row 1", "160000 bytes", "--max-record"],
    );
    let large = [&load[..], &["1M", "--dump", "-", "--sorted", "--quiet"]].concat();
    assert_eq!(run(&scene, &large, io::empty()).stdout, rows);
}

#[test]
fn sizes_that_are_none() {
    let scene = Scene::new().with("a.fa", ">a\nAC\n");
    for size in ["0", "1GB", "-1", "many"] {
        let argument = format!("--max-record={size}");
        let count = ["count-kmers", "a.fa", &argument];
        refuses(&scene, &count, io::empty(), &["--max-record", size]);
    }
}
