//! What outputs are called, and that they are what they are called.

use std::io::Read;
use std::process::Command;

use crate::common::{LAMBDA, Scene, fails};
use flate2::read::MultiGzDecoder;

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(bytes)
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn scene() -> Scene {
    Scene::new()
        .with("lambda.fa.gz", LAMBDA)
        .with("pairs.csv", "5,50\n3,30\n4,40\n")
        .with("keys.csv", "4\n9\n")
}

const COUNT: [&str; 5] = ["count-kmers", "lambda.fa.gz", "--sorted", "--quiet", "-o"];

/// P2: each output that may be packed is what it is without, and the same bytes whatever the threads are.
#[test]
fn names_in_gz_are_packed() {
    let scene = scene();
    scene.succeed(&["count-kmers", "lambda.fa.gz", "--quiet", "-o", "db.gpumap"]);
    for (arguments, output, plain) in [
        (&COUNT[..], "a.tsv.gz", "a.tsv"),
        (&COUNT, "a.CSV.GZ", "a.csv"),
        (&COUNT, "a.txt.gz", "a.txt"),
        (
            &["count-kmers", "lambda.fa.gz", "-k", "40", "--sorted", "-o"],
            "b.tsv.gz",
            "b.tsv",
        ),
        (
            &["count-kmers", "lambda.fa.gz", "-o", "c.bin", "--histogram"],
            "h.txt.gz",
            "h.txt",
        ),
        (
            &["count-kmers", "lambda.fa.gz", "-o", "c.bin", "--spectrum"],
            "s.svg.gz",
            "s.svg",
        ),
        (
            &["count-kmers", "lambda.fa.gz", "-o", "c.bin", "--spectrum"],
            "s.svgz",
            "s.svg",
        ),
        (
            &["dump", "db.gpumap", "--sorted", "-o"],
            "d.tsv.gz",
            "d.tsv",
        ),
        (
            &["merge", "db.gpumap", "db.gpumap", "--sorted", "-o"],
            "m.tsv.gz",
            "m.tsv",
        ),
        (
            &["query", "db.gpumap", "-s", "lambda.fa.gz", "-o"],
            "q.txt.gz",
            "q.txt",
        ),
        (
            &["load", "pairs.csv", "--sorted", "--dump"],
            "p.csv.gz",
            "p.csv",
        ),
        (
            &["load", "pairs.csv", "--lookup", "keys.csv", "--results"],
            "r.tsv.gz",
            "r.tsv",
        ),
    ] {
        let run = |output: &str, threads: &str| {
            scene.succeed(&[arguments, &[output, "--threads", threads]].concat());
            std::fs::read(scene.path(output)).unwrap()
        };
        let bytes = run(plain, "2");
        let packed = run(output, "1");
        assert!(packed.starts_with(b"\x1f\x8b"), "{output}");
        assert!(unpacked(&packed).as_bytes() == bytes, "{output}");
        for threads in ["2", "5"] {
            assert!(run(output, threads) == packed, "{output}");
        }
        // Blocks as bgzip has them: each says how long it is, and the last is empty.
        let mut lengths = Vec::new();
        let mut rest = &packed[..];
        while !rest.is_empty() {
            assert_eq!(rest[12..16], *b"BC\x02\0", "{output}");
            let len = usize::from(u16::from_le_bytes([rest[16], rest[17]])) + 1;
            lengths.push(len);
            rest = &rest[len..];
        }
        assert_eq!(lengths.last(), Some(&28), "{output}");
    }
    let mut gzip = Command::new("gzip");
    if let Ok(status) = gzip.arg("-t").arg(scene.path("a.tsv.gz")).status() {
        assert!(status.success());
    }
    let text = std::fs::metadata(scene.path("a.tsv")).unwrap().len();
    let packed = std::fs::metadata(scene.path("a.tsv.gz")).unwrap().len();
    assert!(packed * 2 < text, "{packed} of {text}");
    // An option says the format, and the name still says that it is packed.
    scene.succeed(&[&COUNT[..], &["any.gz", "--format", "tsv"]].concat());
    let any = std::fs::read(scene.path("any.gz")).unwrap();
    assert!(unpacked(&any) == scene.read("a.tsv"));
}

#[test]
fn pairs_that_were_packed_are_read_again() {
    let scene = scene();
    let load =
        |input, output| scene.succeed(&["load", input, "--sorted", "--quiet", "--dump", output]);
    load("pairs.csv", "p.csv.gz");
    load("p.csv.gz", "p.tsv.gz");
    assert_eq!(load("p.tsv.gz", "-"), "3\t30\n4\t40\n5\t50\n");
    let damaged = std::fs::read(scene.path("p.csv.gz")).unwrap();
    std::fs::write(scene.path("cut.csv.gz"), &damaged[..20]).unwrap();
    fails(
        &scene,
        &["load", "cut.csv.gz", "--dump", "out.csv"],
        &["cannot read cut.csv.gz"],
    );
}

/// P2: a name that says nothing, or something that is not written, is refused with those that are known.
#[test]
fn names_that_say_nothing_are_refused() {
    let scene = scene();
    scene.succeed(&["count-kmers", "lambda.fa.gz", "-o", "db.gpumap"]);
    let counts = ".csv, .tsv, .txt, .bin, .gpk, .gpumap, .parquet, .csv.gz, .tsv.gz or .txt.gz";
    let text = ".csv, .tsv, .txt, .csv.gz, .tsv.gz or .txt.gz";
    let pairs = ".csv, .tsv, .bin, .gpumap, .parquet, .csv.gz or .tsv.gz";
    let histogram = ".txt, .tsv, .hist, .histo, .txt.gz, .tsv.gz, .hist.gz or .histo.gz";
    for name in [
        "out",
        "out.fa",
        "out.foo",
        "out.tsv.zst",
        "out.gz",
        "out.tsv.xz",
        "out.gpumap.gz",
        "out.gpuma",
        ".tsv",
    ] {
        let bins = ["count-kmers", "lambda.fa.gz", "-o", "out.bin"];
        let histogram_of = [&bins[..], &["--histogram", name]].concat();
        let drawing = [&bins[..], &["--spectrum", name]].concat();
        for (arguments, known) in [
            (&[&COUNT[..], &[name]].concat()[..], counts),
            (&["dump", "db.gpumap", "-o", name], counts),
            (&["merge", "db.gpumap", "-o", name], counts),
            (
                &["query", "db.gpumap", "-s", "lambda.fa.gz", "-o", name],
                text,
            ),
            (&["load", "pairs.csv", "--dump", name], pairs),
            (
                &[
                    "load",
                    "pairs.csv",
                    "--lookup",
                    "keys.csv",
                    "--results",
                    name,
                ],
                text,
            ),
            (&histogram_of, histogram),
            (&drawing, ".svg or .svg.gz"),
        ] {
            let message = format!("{name}: the name must end in {known}");
            fails(&scene, arguments, &[&message]);
        }
    }
    let packed = [&COUNT[..], &["out.gz", "--format", "gpumap"]].concat();
    fails(
        &scene,
        &packed,
        &["out.gz", ".gpumap is not packed by gzip"],
    );
    // What is no regular file may have any name.
    #[cfg(unix)]
    assert_eq!(scene.succeed(&[&COUNT[..], &["/dev/null"]].concat()), "");
}
