//! `gpumap dump`, `query`, `merge`, `intersect` and `subtract`: what they make of saved counts.

use std::collections::BTreeMap;
use std::fs;

use gpumap_fuzz::mend_saved_map;

use crate::common::{LAMBDA, READS, Scene, fails, sorted};

type Counts = BTreeMap<String, u64>;

fn counts_of(text: &str) -> Counts {
    let lines = text.lines().map(|line| line.split_once('\t').unwrap());
    lines
        .map(|(kmer, count)| (kmer.to_owned(), count.parse().unwrap()))
        .collect()
}

fn text_of(counts: impl IntoIterator<Item = (String, u64)>) -> String {
    let line = |(kmer, count)| format!("{kmer}\t{count}\n");
    counts.into_iter().map(line).collect()
}

/// Two databases of canonical 7-mers in `a.gpumap` and `b.gpumap`, and their counts as sorted text.
fn two() -> (Scene, Counts, Counts) {
    let scene = Scene::new()
        .with("lambda.fa.gz", LAMBDA)
        .with("reads.fq.gz", READS);
    let count = |input, rest: &[&str]| {
        let arguments = [&["count-kmers", input, "-k7", "-C"], rest].concat();
        scene.succeed(&arguments)
    };
    count("lambda.fa.gz", &["-o", "a.gpumap", "-L3"]);
    count("reads.fq.gz", &["-o", "b.gpumap", "-U20"]);
    let a = counts_of(&count("lambda.fa.gz", &["-L3"]));
    let b = counts_of(&count("reads.fq.gz", &["-U20"]));
    assert!(a.len() > 1_000 && b.len() > 1_000 && a.keys().any(|kmer| !b.contains_key(kmer)));
    (scene, a, b)
}

#[test]
fn a_dump_is_what_was_counted() {
    let scene = Scene::new().with("lambda.fa.gz", LAMBDA);
    let count = |rest: &[&str]| {
        let arguments = [&["count-kmers", "lambda.fa.gz", "-k9"], rest].concat();
        scene.succeed(&arguments)
    };
    let dump = |rest: &[&str]| scene.succeed(&[&["dump"], rest].concat());
    let expected = count(&["--sorted"]);
    count(&["-o", "c.gpumap"]);
    count(&["-o", "c.bin"]);
    count(&["-o", "c.parquet"]);
    count(&["-o", "c", "--format=gpumap"]);
    // The saved map says what its keys are; the others do not.
    count(&["-o", "c.gpk"]);
    fs::copy(scene.path("c.gpk"), scene.path("renamed.bin")).unwrap();
    fs::copy(scene.path("c.gpumap"), scene.path("no-ending")).unwrap();
    for database in [
        &["c.gpk"][..],
        &["c.gpk", "-k9"],
        &["c.gpk", "--db-format=gpk"],
        // The first bytes say what it is.
        &["renamed.bin"],
        &["no-ending"],
        &["c.gpumap"],
        &["c.gpumap", "-k9"],
        &["c", "--db-format=gpumap"],
        &["c.bin", "-k", "9"],
        &["c.parquet", "-k9"],
    ] {
        let text = dump(database);
        assert_eq!(sorted(&text), expected, "{database:?}");
        assert_eq!(dump(&[database, &["--sorted"]].concat()), expected);
    }
    let numbers = scene.succeed(&["load", "c.bin", "--dump", "-", "--sorted"]);
    assert_eq!(dump(&["c.bin", "--sorted"]), numbers);
    assert_eq!(dump(&["c.parquet", "--sorted"]), numbers);
    // From one format to the other, and what it says goes along.
    dump(&["c.gpumap", "-o", "again.bin", "--sorted"]);
    dump(&["c.parquet", "-o", "c.bin", "--sorted"]);
    dump(&["c.bin", "-k9", "-o", "again.gpumap", "--sorted"]);
    assert_eq!(dump(&["again.gpumap"]), expected);
    assert!(fs::read(scene.path("again.bin")).unwrap() == fs::read(scene.path("c.bin")).unwrap());
    dump(&["c.gpumap", "-o", "c.csv", "--sorted"]);
    assert_eq!(scene.read("c.csv"), expected.replace('\t', ","));
    // Bounds, histogram and drawing.
    let within = counts_of(&expected).into_iter();
    let within = text_of(within.filter(|(_, count)| (2..=3).contains(count)));
    let arguments = [
        "c.gpumap",
        "--sorted",
        "-L2",
        "-U3",
        "--histogram",
        "h.txt",
        "--spectrum",
        "s.svg",
    ];
    assert_eq!(dump(&arguments), within);
    count(&["-o", "c.tsv", "--histogram", "h2.txt"]);
    assert_eq!(scene.read("h.txt"), scene.read("h2.txt"));
    assert!(scene.read("s.svg").contains("9-mer spectrum"));
    let said = scene.run(&["dump", "c.gpumap", "-o", "c.tsv", "--json"]);
    assert!(said.stderr.contains("\"job\":\"dump\""), "{said:?}");
}

#[test]
fn what_is_not_counts_can_be_dumped_too() {
    let scene = Scene::new().with("pairs.csv", "7,70\n9,90\n");
    scene.succeed(&["load", "pairs.csv", "--dump", "pairs.gpumap"]);
    let text = scene.succeed(&["dump", "pairs.gpumap", "--sorted"]);
    assert_eq!(text, "7\t70\n9\t90\n");
}

/// The lines are what jellyfish 2.3.0 writes for the same queries.
#[test]
fn queries_are_answered_as_by_jellyfish() {
    let scene = Scene::new().with("lambda.fa.gz", LAMBDA);
    for (options, name) in [(&["-C"][..], "canonical"), (&[], "as-read")] {
        for format in ["gpk", "gpumap", "bin", "parquet"] {
            let output = format!("{name}.{format}");
            let count = ["count-kmers", "lambda.fa.gz", "-o", &output];
            scene.succeed(&[&count[..], options].concat());
        }
    }
    let scene = scene.with(
        "q.fa",
        ">x\nGGGCGGCGACCTCGCGGGTTTCN\nAAACCCGCGAGGTCGCCGCCCA\n>short\nACGT\n",
    );
    let kmers = [
        "GGGCGGCGACCTCGCGGGTTT",
        "AAACCCGCGAGGTCGCCGCCC",
        "AAAAAAAAAAAAAAAAAAAAA",
        "aaacccgcgaggtcgccgccc",
    ];
    let canonical = "AAACCCGCGAGGTCGCCGCCC 1\nAAACCCGCGAGGTCGCCGCCC 1\n\
                     AAAAAAAAAAAAAAAAAAAAA 0\nAAACCCGCGAGGTCGCCGCCC 1\n";
    let file = "AAACCCGCGAGGTCGCCGCCC 1\nGAAACCCGCGAGGTCGCCGCC 0\n\
                AAACCCGCGAGGTCGCCGCCC 1\nAACCCGCGAGGTCGCCGCCCA 0\n";
    let query = |rest: &[&str]| scene.succeed(&[&["query"], rest].concat());
    for database in [
        &["canonical.gpk"][..],
        &["canonical.gpk", "-k", "21"],
        &["canonical.gpumap"],
        &["canonical.bin", "-C", "-k21"],
        &["canonical.parquet", "-Ck", "21"],
        &["canonical.gpumap", "-k", "21", "-C"],
    ] {
        let of = |queries: &[&str]| query(&[database, queries].concat());
        assert_eq!(of(&kmers), canonical, "{database:?}");
        assert_eq!(of(&["q.fa"]), file, "{database:?}");
        assert_eq!(of(&["--sequence", "q.fa"]), file);
        // In the order in which they are given.
        let several = of(&[kmers[0], "q.fa", kmers[2], "-s", "q.fa"]);
        let (one, absent) = (&canonical[..24], "AAAAAAAAAAAAAAAAAAAAA 0\n");
        assert_eq!(several, [one, file, absent, file].concat());
    }
    let as_read = "GGGCGGCGACCTCGCGGGTTT 0\nAAACCCGCGAGGTCGCCGCCC 1\n\
                   AAAAAAAAAAAAAAAAAAAAA 0\nAAACCCGCGAGGTCGCCGCCC 1\n";
    let answer = |rest: &[&str]| query(&[&["as-read.gpumap"], rest].concat());
    let found = answer(&kmers);
    assert!(as_read == found || found.starts_with("GGGCGGCGACCTCGCGGGTTT 1\n"));
    let tsv = answer(&[&kmers[1..], &["-o", "out.tsv"]].concat());
    assert_eq!(tsv, "");
    let lines: String = found
        .lines()
        .skip(1)
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert_eq!(scene.read("out.tsv"), lines.replace(' ', "\t"));
    answer(&[&kmers[1..], &["-o", "out.csv"]].concat());
    assert_eq!(scene.read("out.csv"), lines.replace(' ', ","));
    let arguments = ["query", "canonical.gpumap", "-"];
    let piped = scene.run_with(&arguments, &[], scene.read("q.fa").as_bytes());
    assert_eq!(piped.stdout, file, "{piped:?}");
    assert!(
        piped.stderr.contains("looked up   4\nfound       2\n"),
        "{piped:?}"
    );
}

#[test]
fn every_kmer_of_an_input_is_found_with_its_count() {
    let scene = Scene::new().with("reads.fq.gz", READS);
    scene.succeed(&["count-kmers", "reads.fq.gz", "-k11", "-C", "-o", "r.gpumap"]);
    let counts = counts_of(&scene.succeed(&["dump", "r.gpumap"]));
    let answers = scene
        .succeed(&["query", "r.gpumap", "reads.fq.gz"])
        .replace(' ', "\t");
    let mut occurrences = Counts::new();
    for line in answers.lines() {
        let (kmer, count) = line.split_once('\t').unwrap();
        assert_eq!(counts[kmer].to_string(), count, "{kmer}");
        *occurrences.entry(kmer.to_owned()).or_default() += 1;
    }
    assert_eq!(occurrences, counts);
}

#[test]
fn queries_that_are_none() {
    let (scene, _, _) = two();
    scene.succeed(&["dump", "a.gpumap", "-o", "a.bin"]);
    let scene = scene
        .with("bad.fa", "no sequence\n")
        .with("a.tsv", ">a\nACGTACG\n");
    for (arguments, causes) in [
        (&["a.gpumap"][..], &["SEQ|FILE"][..]),
        (&["a.gpumap", "ACGT"], &["`ACGT`", "7 bases", "nor a file"]),
        (&["a.gpumap", "ACGTACGT"], &["`ACGTACGT`", "7 bases"]),
        (&["a.gpumap", "ACGTNCG"], &["`ACGTNCG`", "7 bases"]),
        (&["a.gpumap", "ACGTACG", "none.fa"], &["`none.fa`"]),
        (&["a.gpumap", "-s", "none.fa"], &["cannot open none.fa"]),
        (&["a.gpumap", "bad.fa"], &["bad.fa"]),
        (
            &["a.gpumap", "ACGTACG", "-k8"],
            &["a.gpumap", "7-mers", "-k asks for 8"],
        ),
        (&["a.bin", "ACGTACG"], &["how long its k-mers are", "-k"]),
        (&["a.bin", "ACGTACG", "-k65"], &["1 to 64"]),
        (
            &["a.bin", "ACGTACG", "-k33"],
            &["a.bin has keys of 8 bytes", "longer ones 16"],
        ),
        (&["none.gpumap", "ACGTACG"], &["cannot open none.gpumap"]),
        (
            &["bad.fa", "ACGTACG"],
            &["bad.fa", "a database is a file in .gpk"],
        ),
        (&["-", "ACGTACG"], &["a database is a file in .gpk"]),
        (
            &["a.gpumap", "ACGTACG", "-o", "x.bin"],
            &["x.bin", ".csv or .tsv"],
        ),
        (
            &["a.gpumap", "ACGTACG", "-s", "a.tsv", "-o", "a.tsv"],
            &["named twice"],
        ),
        (&["a.gpumap", "-", "-"], &["named twice"]),
        (
            &["a.gpumap", "ACGTACG", "-o", "no/x.tsv"],
            &["cannot write"],
        ),
    ] {
        fails(&scene, &[&["query"], arguments].concat(), causes);
    }
}

#[test]
fn databases_are_merged() {
    let (scene, a, b) = two();
    let merged = |pick: &dyn Fn(u64, u64) -> u64| {
        let mut all = a.clone();
        for (kmer, &count) in &b {
            all.entry(kmer.clone())
                .and_modify(|left| *left = pick(*left, count))
                .or_insert(count);
        }
        text_of(all)
    };
    let merge = |rest: &[&str]| {
        let arguments = [&["merge", "a.gpumap", "b.gpumap"], rest].concat();
        scene.succeed(&arguments)
    };
    let sum = merged(&|left, right| left + right);
    assert_eq!(sorted(&merge(&[])), sum);
    for (counts, expected) in [
        ("sum", sum.clone()),
        ("min", merged(&|left, right| left.min(right))),
        ("max", merged(&|left, right| left.max(right))),
        ("left", merged(&|left, _| left)),
        ("right", merged(&|_, right| right)),
    ] {
        let text = merge(&["--counts", counts, "--sorted"]);
        assert_eq!(text, expected, "{counts}");
    }
    // What comes out is a database of the same k-mers, and any number of them can be merged.
    merge(&["-o", "sum.gpumap"]);
    assert_eq!(scene.succeed(&["dump", "sum.gpumap", "--sorted"]), sum);
    let twice = scene.succeed(&["merge", "sum.gpumap", "b.gpumap", "a.gpumap", "--sorted"]);
    let double = counts_of(&sum)
        .into_iter()
        .map(|(kmer, count)| (kmer, 2 * count));
    assert_eq!(twice, text_of(double));
    assert_eq!(scene.succeed(&["merge", "sum.gpumap", "--sorted"]), sum);
    scene.succeed(&["dump", "b.gpumap", "-o", "b.bin"]);
    let mixed = scene.succeed(&["merge", "b.bin", "a.gpumap", "--sorted"]);
    assert_eq!(mixed, sum);
    let bounded = merge(&["-L", "5", "-U", "9", "--sorted", "--histogram", "h.txt"]);
    let within = counts_of(&sum).into_iter();
    assert_eq!(
        bounded,
        text_of(within.filter(|(_, count)| (5..=9).contains(count)))
    );
    assert!(scene.read("h.txt").lines().count() > 9);
}

#[test]
fn parts_that_were_counted_are_merged_to_the_whole() {
    let scene = Scene::new()
        .with("lambda.fa.gz", LAMBDA)
        .with("reads.fq.gz", READS)
        .with("one.fa", ">a\nACGTTGCATTAGGACCATTTAAACG\n")
        .with("two.fa", ">b\nGGACCATTTAAACGACGTTGCATTACC\n")
        .with(
            "both.fa",
            ">a\nACGTTGCATTAGGACCATTTAAACG\n>b\nGGACCATTTAAACGACGTTGCATTACC\n",
        );
    for name in ["one", "two"] {
        let (input, output) = (format!("{name}.fa"), format!("{name}.gpumap"));
        scene.succeed(&["count-kmers", &input, "-k5", "-o", &output]);
    }
    let whole = scene.succeed(&["count-kmers", "both.fa", "-k5", "--sorted"]);
    let merged = scene.succeed(&["merge", "one.gpumap", "two.gpumap", "--sorted"]);
    assert_eq!(merged, whole);
}

#[test]
fn databases_are_intersected_and_subtracted() {
    let (scene, a, b) = two();
    let picked = |pick: &dyn Fn(u64, Option<u64>) -> Option<u64>| {
        let kept = a.iter().filter_map(|(kmer, &count)| {
            let count = pick(count, b.get(kmer).copied())?;
            Some((kmer.clone(), count))
        });
        text_of(kept)
    };
    let run = |command: &str, rest: &[&str]| {
        let arguments = [&[command, "a.gpumap", "b.gpumap"], rest].concat();
        scene.succeed(&arguments)
    };
    let left_over = |left: u64, right| left.checked_sub(right).filter(|&count| count > 0);
    let min = picked(&|left, right| Some(left.min(right?)));
    assert_eq!(sorted(&run("intersect", &[])), min);
    for (counts, expected) in [
        ("min", min.clone()),
        ("max", picked(&|left, right| Some(left.max(right?)))),
        ("sum", picked(&|left, right| Some(left + right?))),
        ("diff", picked(&|left, right| left_over(left, right?))),
        ("left", picked(&|left, right| right.map(|_| left))),
        ("right", picked(&|_, right| right)),
    ] {
        let text = run("intersect", &["--counts", counts, "--sorted"]);
        assert_eq!(text, expected, "{counts}");
        assert!(!text.is_empty());
    }
    let absent = picked(&|left, right| right.is_none().then_some(left));
    assert_eq!(sorted(&run("subtract", &[])), absent);
    let text = run("subtract", &["--counts", "all", "--sorted"]);
    assert_eq!(text, absent);
    let diff = picked(&|left, right| left_over(left, right.unwrap_or(0)));
    let text = run("subtract", &["--counts", "diff", "--sorted"]);
    assert_eq!(text, diff);
    // They are in order, and what the first database says stays.
    assert_eq!(run("intersect", &[]), min);
    run("subtract", &["-o", "rest.gpumap"]);
    assert_eq!(scene.succeed(&["dump", "rest.gpumap", "--sorted"]), absent);
    let nothing = ["subtract", "a.gpumap", "a.gpumap", "-o", "nothing.gpumap"];
    scene.succeed(&nothing);
    assert_eq!(scene.succeed(&["dump", "nothing.gpumap"]), "");
    let said = scene.run(&["intersect", "a.gpumap", "b.gpumap", "-o", "x.bin", "--json"]);
    let distinct = format!("\"distinct\":{}", min.lines().count());
    assert!(said.stderr.contains(&distinct), "{said:?}");
}

#[test]
fn databases_that_do_not_go_together() {
    let (scene, _, _) = two();
    let count = |rest: &[&str]| {
        scene.succeed(&[&["count-kmers", "lambda.fa.gz"], rest].concat());
    };
    count(&["-k7", "-o", "as-read.gpumap"]);
    count(&["-k8", "-C", "-o", "eight.gpumap"]);
    let twice: Vec<u8> = [1_u64, 5, 2, 6, 1, 7]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    let good = fs::read(scene.path("a.gpumap")).unwrap();
    let mut damaged = good.clone();
    damaged[3_000] ^= 1;
    let scene = scene
        .with("twice.bin", twice)
        .with("cut.gpumap", &good[..good.len() / 2])
        .with("damaged.gpumap", damaged)
        .with("odd.bin", [1; 17])
        .with("text.tsv", "ACGTACG\t1\n");
    for command in ["merge", "intersect", "subtract"] {
        for (other, causes) in [
            (
                "as-read.gpumap",
                &["7-mers as read", "7-mers of both strands", "same k-mers"][..],
            ),
            ("eight.gpumap", &["8-mers", "7-mers", "same k-mers"]),
            ("cut.gpumap", &["cut.gpumap", "cut off"]),
            ("damaged.gpumap", &["damaged.gpumap", "checksum"]),
            ("odd.bin", &["odd.bin", "multiple of 16"]),
            ("text.tsv", &["text.tsv", "a database is a file in .gpk"]),
            ("none.gpumap", &["cannot open none.gpumap"]),
            ("-", &["a database is a file in .gpk"]),
        ] {
            fails(
                &scene,
                &[command, "a.gpumap", other, "-o", "out.tsv"],
                causes,
            );
            fails(
                &scene,
                &[command, other, "a.gpumap", "-o", "out.gpumap"],
                causes,
            );
        }
        fails(&scene, &[command], &["DB"]);
        let counts = [command, "a.gpumap", "b.gpumap", "--counts", "mean"];
        fails(&scene, &counts, &["--counts", "mean"]);
        fails(
            &scene,
            &[command, "a.gpumap", "b.gpumap", "-k6"],
            &["-k asks for 6"],
        );
        let bounds = [command, "a.gpumap", "b.gpumap", "-L5", "-U4"];
        fails(&scene, &bounds, &["--min-count"]);
    }
    for command in ["intersect", "subtract"] {
        fails(&scene, &[command, "a.gpumap"], &["DB2"]);
    }
    for (arguments, causes) in [
        (&["cut.gpumap"][..], &["cut off"][..]),
        (&["damaged.gpumap"], &["checksum"]),
        (&["text.tsv"], &["a database is a file in .gpk"]),
        (&["-"], &["a database is a file in .gpk"]),
        (
            &["text.tsv", "--db-format=tsv"],
            &["a database is a file in .gpk"],
        ),
        (&["text.tsv", "--db-format=gpumap"], &["not a saved map"]),
        (&["a.gpumap", "-k9"], &["7-mers", "-k asks for 9"]),
        (
            &["twice.bin", "--spectrum", "s.svg"],
            &["how long its k-mers are"],
        ),
        (&["a.gpumap", "-L2", "-U1"], &["--min-count"]),
        (&["a.gpumap", "--spectrum", "s.png"], &[".svg"]),
        (&["a.gpumap", "--histogram", "-"], &["named twice"]),
    ] {
        fails(
            &scene,
            &[&["dump"], arguments, &["--sorted"]].concat(),
            causes,
        );
        fails(&scene, &[&["dump"], arguments].concat(), causes);
    }
}

/// Fault P5: whatever reads a database, in whatever format.
#[test]
fn keys_that_are_no_kmers_are_refused() {
    let words: [u64; 4] = [0, 1, 1 << 10, 3];
    let mut scene = Scene::new()
        .with("c.bin", words.map(u64::to_le_bytes).concat())
        .with("c.csv", "0,1\n1024,3\n")
        .with("good.bin", [0_u64, 1].map(u64::to_le_bytes).concat())
        .with("long.fa", ">a\nACGTTGCATTAGGACCATTTAAACGGGCTTATTCGAGCATT\n")
        .with("t.fa", ">a\nTTTTT\n");
    for name in ["c.parquet", "c.gpumap"] {
        scene.succeed(&["load", "c.csv", "--dump", name]);
    }
    for name in ["long.bin", "long.gpumap"] {
        scene.succeed(&["count-kmers", "long.fa", "-k21", "-o", name]);
    }
    scene.succeed(&["count-kmers", "long.fa", "-k40", "-o", "wide.parquet"]);
    // Only the label says which k-mers the keys are.
    scene.succeed(&["count-kmers", "t.fa", "-k5", "-o", "t.gpumap"]);
    let mut declared = fs::read(scene.path("t.gpumap")).unwrap();
    assert_eq!(declared[56..60], *b"K\x05\0\0");
    declared[58] = 1;
    mend_saved_map(&mut declared);
    let mut shorter = fs::read(scene.path("long.gpumap")).unwrap();
    shorter[57] = 5;
    mend_saved_map(&mut shorter);
    scene = scene
        .with("declared.gpumap", declared)
        .with("shorter.gpumap", shorter);
    let of_five = ["the key 1024,", "5-mers", "too large"];
    let too_large = ["the key ", "5-mers", "too large"];
    let other_strand = [
        "the key 1023,",
        "5-mers of both strands as one",
        "reverse complement",
    ];
    for (name, k, causes) in [
        ("c.bin", &["-k5"][..], of_five),
        ("c.parquet", &["-k5"], of_five),
        ("c.gpumap", &["-k5"], of_five),
        ("long.bin", &["-k5"], too_large),
        ("shorter.gpumap", &[], too_large),
        (
            "wide.parquet",
            &["-k33"],
            ["the key ", "33-mers", "too large"],
        ),
        ("declared.gpumap", &[], other_strand),
    ] {
        let causes = [&[name][..], &causes].concat();
        let other = match name {
            "wide.parquet" => "wide.parquet",
            _ => "good.bin",
        };
        for arguments in [
            &["dump", name][..],
            &["dump", name, "-o", "out.gpumap"],
            &["query", name, "AAAAA"],
            &["query", name, "t.fa"],
            &["merge", name, "-o", "out.tsv"],
            &["merge", other, name, "-o", "out.gpumap"],
            &["intersect", name, other, "-o", "out.tsv"],
            &["intersect", other, name, "-o", "out.tsv"],
            &["subtract", name, other, "-o", "out.tsv"],
            &["subtract", other, name, "-o", "out.tsv"],
        ] {
            // A k-mer of 33 bases is none of these.
            if !(name == "wide.parquet" && arguments.contains(&"AAAAA")) {
                fails(&scene, &[arguments, k].concat(), &causes);
            }
        }
    }
    // -C says that there are none of the other strand.
    scene.succeed(&["dump", "t.gpumap", "-o", "t.bin"]);
    fails(
        &scene,
        &["query", "t.bin", "-k5", "-C", "AAAAA"],
        &other_strand,
    );
    // Keys that nothing calls k-mers may be any.
    assert_eq!(
        scene.succeed(&["dump", "c.bin", "--sorted"]),
        "0\t1\n1024\t3\n"
    );
}

/// Three databases in three formats, beside what a map of the standard library makes of them.
#[test]
fn databases_of_any_formats_go_together() {
    let (scene, a, b) = two();
    scene.succeed(&[
        "count-kmers",
        "reads.fq.gz",
        "-k7",
        "-C",
        "-o",
        "c.gpk",
        "-L2",
    ]);
    let c = counts_of(&scene.succeed(&["dump", "c.gpk"]));
    scene.succeed(&["dump", "a.gpumap", "-o", "a.parquet"]);
    scene.succeed(&["dump", "b.gpumap", "-o", "b.bin"]);
    scene.succeed(&["dump", "b.gpumap", "-o", "b.gpk"]);
    let mut sum = Counts::new();
    for (kmer, count) in a.iter().chain(&b).chain(&c) {
        *sum.entry(kmer.clone()).or_default() += count;
    }
    let expected = text_of(sum.clone());
    for b in ["b.bin", "b.gpumap", "b.gpk"] {
        let merge =
            |rest: &[&str]| scene.succeed(&[&["merge", "a.parquet", b, "c.gpk"], rest].concat());
        assert_eq!(merge(&[]), expected);
        merge(&["-o", "sum.gpk"]);
        assert_eq!(scene.succeed(&["dump", "sum.gpk"]), expected);
        merge(&["-o", "sum.gpumap", "--histogram", "h.txt"]);
        let dumped = scene.succeed(&["dump", "sum.gpumap", "--histogram", "h2.txt"]);
        assert_eq!(dumped, expected);
        assert_eq!(scene.read("h.txt"), scene.read("h2.txt"));
    }
    // Every way to the same content gives the same file.
    let bytes = |name: &str| fs::read(scene.path(name)).unwrap();
    let whole = bytes("sum.gpk");
    for threads in ["1", "2"] {
        let again = ["dump", "sum.gpumap", "-o", "again.gpk", "-t", threads];
        scene.succeed(&again);
        assert!(bytes("again.gpk") == whole);
    }
    let within = sum.into_iter().filter(|(_, count)| (5..=9).contains(count));
    let within = text_of(within);
    let bounds = ["dump", "sum.gpk", "-L5", "-U9"];
    assert_eq!(scene.succeed(&bounds), within);
    scene.succeed(&[&bounds[..], &["-o", "few.gpk"]].concat());
    assert_eq!(scene.succeed(&["dump", "few.gpk"]), within);
    // Pairs read it too, and have their own formats.
    let numbers = scene.succeed(&["load", "b.bin", "--dump", "-", "--sorted"]);
    assert_eq!(
        scene.succeed(&["load", "b.gpk", "--dump", "-", "--sorted"]),
        numbers
    );
    for (arguments, causes) in [
        (
            &["load", "b.gpk", "--dump", "x.gpk"][..],
            &["x.gpk", "must end in"][..],
        ),
        (
            &["load", "b.gpk", "--dump", "x", "--dump-format", "gpk"],
            &["x: .gpk is for k-mers"],
        ),
        (
            &["load", "b.gpk", "--values", "signed"],
            &["b.gpk", "unsigned"],
        ),
        (&["load", "-", "--format", "gpk"], &["must be a file"]),
        (
            &["dump", "b.bin", "-o", "x.gpk"],
            &["how long its k-mers are", "-k"],
        ),
        (
            &["count-kmers", "lambda.fa.gz", "-o", "x.gpk.gz"],
            &["must end in"],
        ),
    ] {
        fails(&scene, arguments, causes);
    }
}

/// Fault P18: an output appears when it is complete.
#[test]
fn an_output_may_take_the_place_of_a_database() {
    let (scene, a, b) = two();
    for format in ["gpk", "gpumap"] {
        let [all, new] = ["all", "new"].map(|name| format!("{name}.{format}"));
        scene.succeed(&["dump", "a.gpumap", "-o", &all]);
        scene.succeed(&["dump", "b.gpumap", "-o", &new]);
        scene.succeed(&["merge", &all, &new, "-o", &all]);
        let mut sum = a.clone();
        for (kmer, count) in &b {
            *sum.entry(kmer.clone()).or_default() += count;
        }
        assert_eq!(scene.succeed(&["dump", &all]), text_of(sum.clone()));
        scene.succeed(&["subtract", &all, &new, "--counts", "diff", "-o", &new]);
        let left = sum.iter().filter_map(|(kmer, count)| {
            let left = count - b.get(kmer).unwrap_or(&0);
            (left > 0).then(|| (kmer.clone(), left))
        });
        assert_eq!(scene.succeed(&["dump", &new]), text_of(left));
        scene.succeed(&["intersect", &all, &all, "-o", &all]);
        scene.succeed(&["dump", &all, "-L2", "-o", &all]);
        let kept = sum.into_iter().filter(|&(_, count)| count > 1);
        assert_eq!(scene.succeed(&["dump", &all]), text_of(kept));
    }
    // What goes wrong leaves it as it was.
    let before = fs::read(scene.path("all.gpk")).unwrap();
    let arguments = ["merge", "all.gpk", "lambda.fa.gz", "-o", "all.gpk"];
    fails(&scene, &arguments, &["a database is a file in"]);
    assert!(fs::read(scene.path("all.gpk")).unwrap() == before);
    // An input of sequences stays.
    let onto = ["query", "a.gpumap", "-s", "all.gpk", "-o", "all.gpk"];
    fails(&scene, &onto, &["all.gpk"]);
}

/// Faults P13 and P14: one rule for keys that come again, and the end of what a count can be.
#[test]
fn counts_of_equal_keys_are_added_up_to_the_greatest() {
    let file = |pairs: &[(u64, u64)]| {
        let words = pairs.iter().flat_map(|&(key, count)| [key, count]);
        words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()
    };
    let scene = Scene::new()
        .with("twice.bin", file(&[(1, 5), (2, 6), (1, 7), (0, 1)]))
        .with(
            "full.bin",
            file(&[(2, u64::MAX - 6), (1, u64::MAX), (3, 1)]),
        )
        .with("over.bin", file(&[(3, u64::MAX), (3, 2)]))
        .with("q.fa", ">q\nAACAA\n");
    let most = u64::MAX;
    for (arguments, expected, saturated) in [
        (
            &["dump", "twice.bin"][..],
            "AA\t1\nAC\t12\nAG\t6\n".to_owned(),
            0,
        ),
        (
            &["query", "twice.bin", "AC", "AT"],
            "AC 12\nAT 0\n".to_owned(),
            0,
        ),
        (
            &["query", "twice.bin", "q.fa"],
            "AA 1\nAC 12\nCA 0\nAA 1\n".to_owned(),
            0,
        ),
        (
            &["merge", "twice.bin", "full.bin"],
            format!("AA\t1\nAC\t{most}\nAG\t{most}\nAT\t1\n"),
            1,
        ),
        (
            &["intersect", "twice.bin", "full.bin", "--counts", "sum"],
            format!("AC\t{most}\nAG\t{most}\n"),
            1,
        ),
        (
            &["subtract", "twice.bin", "full.bin"],
            "AA\t1\n".to_owned(),
            0,
        ),
        (
            &["intersect", "full.bin", "twice.bin", "--counts", "diff"],
            format!("AC\t{}\nAG\t{}\n", most - 12, most - 12),
            0,
        ),
        (&["dump", "over.bin"], format!("AT\t{most}\n"), 1),
        (&["query", "over.bin", "AT"], format!("AT {most}\n"), 0),
    ] {
        let outcome = scene.run(&[arguments, &["-k2"]].concat());
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        assert_eq!(outcome.stdout, expected, "{arguments:?}");
        let warning = format!("warning: {saturated} counts are above 2^64-1");
        assert_eq!(
            outcome.stderr.contains(&warning),
            saturated > 0,
            "{outcome:?}"
        );
    }
    // Sums that fit are written whole, in every format.
    scene.succeed(&["dump", "full.bin", "-k2", "-o", "full.gpk"]);
    scene.succeed(&["dump", "full.gpk", "-o", "full.gpumap"]);
    assert_eq!(
        scene.succeed(&["dump", "full.gpumap"]),
        format!("AC\t{most}\nAG\t{}\nAT\t1\n", most - 6)
    );
}

#[test]
fn a_damaged_database_is_named() {
    let (scene, _, _) = two();
    scene.succeed(&["dump", "a.gpumap", "-o", "good.gpk"]);
    let good = fs::read(scene.path("good.gpk")).unwrap();
    let mut damaged = good.clone();
    damaged[100] ^= 1;
    let scene = scene
        .with("damaged.gpk", damaged)
        .with("cut.gpk", &good[..good.len() - 1])
        .with("short.gpk", &good[..12])
        .with("none.gpk", "text and more of it");
    for (name, causes) in [
        (
            "damaged.gpk",
            &[
                "damaged.gpk is damaged",
                "block 0",
                "count its k-mers again",
            ][..],
        ),
        ("cut.gpk", &["cut.gpk is damaged or cut off"]),
        ("short.gpk", &["short.gpk is damaged or cut off"]),
        ("none.gpk", &["none.gpk is not a .gpk database"]),
    ] {
        for arguments in [
            &["dump", name][..],
            &["query", name, "AAAAAAA"],
            &["query", name, "lambda.fa.gz"],
            &["merge", "a.gpumap", name, "-o", "out.gpk"],
            &["intersect", "good.gpk", name, "-o", "out.gpk"],
            &["subtract", name, "good.gpk", "-o", "out.gpk"],
            &["load", name],
        ] {
            fails(&scene, arguments, causes);
        }
    }
}

#[test]
fn databases_of_more_than_32_bases() {
    let scene = Scene::new()
        .with("lambda.fa.gz", LAMBDA)
        .with("reads.fq.gz", READS);
    for k in ["33", "41", "63", "64"] {
        let count = |input, rest: &[&str]| {
            let arguments = [&["count-kmers", input, "-k", k, "-C", "--sorted"], rest].concat();
            scene.succeed(&arguments)
        };
        let run = |arguments: &[&str]| scene.succeed(&[arguments, &["--sorted"]].concat());
        let text = [count("lambda.fa.gz", &[]), count("reads.fq.gz", &[])];
        count("lambda.fa.gz", &["-o", "a.gpumap"]);
        count("reads.fq.gz", &["-o", "b.gpumap", "--histogram", "h.txt"]);
        count("reads.fq.gz", &["-o", "b.gpk"]);
        assert_eq!(run(&["dump", "b.gpk"]), text[1]);
        assert_eq!(run(&["dump", "a.gpumap"]), text[0]);
        assert_eq!(run(&["dump", "b.gpumap", "-k", k]), text[1]);
        let unsorted = scene.succeed(&["dump", "b.gpumap", "--histogram", "h2.txt", "-o", "b.csv"]);
        assert_eq!(unsorted, "");
        assert_eq!(sorted(&scene.read("b.csv")), text[1].replace('\t', ","));
        assert_eq!(scene.read("h2.txt"), scene.read("h.txt"));
        run(&["dump", "b.gpumap", "-o", "b.parquet"]);
        run(&["dump", "b.parquet", "-k", k, "-o", "again.gpumap"]);
        assert_eq!(scene.succeed(&["dump", "again.gpumap"]), text[1]);

        let [a, b] = text.map(|text| counts_of(&text));
        let both = || a.keys().filter(|kmer| b.contains_key(*kmer));
        assert!(both().count() > 100 && a.keys().any(|kmer| !b.contains_key(kmer)));
        let smaller = both().map(|kmer| (kmer.clone(), a[kmer].min(b[kmer])));
        assert_eq!(
            run(&["intersect", "a.gpumap", "b.gpumap"]),
            text_of(smaller)
        );
        let only = a.iter().filter(|(kmer, _)| !b.contains_key(*kmer));
        let only = only.map(|(kmer, &count)| (kmer.clone(), count));
        assert_eq!(run(&["subtract", "a.gpumap", "b.gpumap"]), text_of(only));
        let mut sum = a.clone();
        for (kmer, count) in &b {
            *sum.entry(kmer.clone()).or_default() += count;
        }
        for b in ["b.gpk", "b.gpumap", "b.parquet"] {
            assert_eq!(run(&["merge", "a.gpumap", b]), text_of(sum.clone()));
        }

        // K-mers by themselves, and those of a file.
        let (kmer, count) = b.iter().next_back().unwrap();
        let absent = "A".repeat(kmer.len());
        for b in [&["b.gpk"][..], &["b.gpumap"], &["b.parquet", "-C", "-k", k]] {
            let found = scene.succeed(&[&["query"], b, &[kmer, &absent]].concat());
            assert_eq!(found, format!("{kmer} {count}\n{absent} 0\n"));
        }
        let scene = Scene::new()
            .with("b.gpumap", fs::read(scene.path("b.gpumap")).unwrap())
            .with("q.fa", format!(">q\n{kmer}\n"));
        let found = scene.succeed(&["query", "b.gpumap", "q.fa", &absent]);
        assert_eq!(found, format!("{kmer} {count}\n{absent} 0\n"));
    }
}

#[test]
fn what_databases_of_more_than_32_bases_cannot_do() {
    let scene = Scene::new().with("lambda.fa.gz", LAMBDA);
    for (k, output) in [("33", "33.gpumap"), ("34", "34.gpumap"), ("7", "7.gpumap")] {
        scene.succeed(&["count-kmers", "lambda.fa.gz", "-k", k, "-o", output]);
    }
    scene.succeed(&["dump", "7.gpumap", "-o", "7.bin"]);
    scene.succeed(&["dump", "33.gpumap", "-o", "33.parquet"]);
    for (arguments, causes) in [
        (
            &["dump", "33.gpumap", "-k34"][..],
            &["33-mers", "-k asks for 34"][..],
        ),
        (
            &["dump", "33.gpumap", "-o", "x.bin"],
            &["x.bin", "more than 32 bases", ".gpumap"],
        ),
        (
            &["merge", "33.gpumap", "34.gpumap"],
            &["33-mers", "34-mers", "same k-mers"],
        ),
        (
            &["merge", "33.gpumap", "7.gpumap"],
            &["33-mers", "7-mers", "same k-mers"],
        ),
        (
            &["intersect", "33.gpumap", "7.bin"],
            &["7.bin has keys of 8 bytes"],
        ),
        (&["dump", "7.bin", "-k33"], &["7.bin has keys of 8 bytes"]),
        (
            &["dump", "33.parquet", "-k7"],
            &["33.parquet has keys of 16 bytes"],
        ),
        (
            &["load", "33.parquet", "--dump", "-"],
            &["33.parquet", "key", "integers of 32 or 64 bits"],
        ),
        (
            &["load", "33.gpumap", "--dump", "-"],
            &["33.gpumap", "keys of 16 bytes"],
        ),
    ] {
        fails(&scene, arguments, causes);
    }
}
