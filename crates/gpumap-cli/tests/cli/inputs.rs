//! What `gpumap count-kmers` reads: several files, standard input, packed in any way, damaged.

use crate::common::{LAMBDA, READS, Scene, block, block_gzip, fails, gzip, program, zstd};
use flate2::read::MultiGzDecoder;
use std::io::Read;

fn unpack(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    MultiGzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

type Packer = fn(&[u8]) -> Vec<u8>;

const PACKERS: [(&str, Packer); 3] = [("gz", gzip), ("bgz", block_gzip), ("zst", zstd)];

/// Counts of these files and options, in order.
fn counts(scene: &Scene, files: &[&str]) -> String {
    let arguments = [&["count-kmers", "--sorted", "-C", "--quiet"][..], files].concat();
    scene.succeed(&arguments)
}

#[test]
fn however_it_is_packed_the_counts_are_the_same() {
    let reads = unpack(READS);
    let mut scene = Scene::new().with("reads.fq", &reads);
    for (name, pack) in PACKERS {
        // No name says what is in the file.
        scene = scene.with(name, pack(&reads));
    }
    let expected = counts(&scene, &["reads.fq"]);
    assert!(expected.lines().count() > 10_000);
    for (name, pack) in PACKERS {
        assert!(counts(&scene, &[name]) == expected, "{name}");
        let arguments = ["count-kmers", "--sorted", "-C", "--quiet", "-"];
        let piped = scene.run_with(&arguments, &[], &pack(&reads));
        assert!(piped.stdout == expected, "{name}: {}", piped.stderr);
    }
}

/// Reads of random bases and qualities, of which little can be saved.
fn noisy_reads(reads: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    let mut text = Vec::new();
    for read in 0..reads {
        let bases: Vec<u8> = (0..100).map(|_| b"ACGT"[random() % 4]).collect();
        let qualities: Vec<u8> = (0..100).map(|_| b'#' + (random() % 40) as u8).collect();
        let name = format!("@{read}\n");
        text.extend([name.as_bytes(), &bases, b"\n+\n", &qualities, b"\n"].concat());
    }
    text
}

/// A member of several chunks, which threads inflate each by itself, and frames of Zstandard one after the other.
#[test]
fn large_packed_files_are_counted_alike_by_any_number_of_threads() {
    let reads = noisy_reads(22_000);
    let packed = gzip(&reads);
    assert!(packed.len() > 4 << 19);
    let half = reads.len() / 2;
    let frames = [zstd(&reads[..half]), zstd(&reads[half..])].concat();
    let mut damaged = packed.clone();
    damaged[packed.len() / 3] ^= 0x10;
    let scene = Scene::new()
        .with("reads.fq", &reads)
        .with("reads.gz", &packed)
        .with("reads.zst", &frames)
        .with("damaged.gz", damaged)
        .with("cut.gz", &packed[..packed.len() - 9]);
    let files = scene.files();
    let count = ["count-kmers", "--sorted", "-C", "-L2", "-k9", "--quiet"];
    let expected = scene.succeed(&[&count[..], &["reads.fq"]].concat());
    assert!(expected.lines().count() > 10_000);
    for threads in ["1", "2", "4", "9"] {
        let count = [&count[..], &["-t", threads]].concat();
        for name in ["reads.gz", "reads.zst"] {
            let found = scene.succeed(&[&count[..], &[name]].concat());
            assert!(found == expected, "{name}, {threads} threads");
        }
        let piped = scene.run_with(&[&count[..], &["-"]].concat(), &[], &packed);
        assert!(piped.stdout == expected, "{threads}: {}", piped.stderr);
        for name in ["damaged.gz", "cut.gz"] {
            let outcome = scene.run(&[&count[..], &[name, "-o", "out.tsv"]].concat());
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            assert!(outcome.stderr.contains("cannot read"), "{outcome:?}");
            assert_eq!(scene.files(), files, "{name}");
        }
    }
}

#[test]
fn several_files_equal_their_concatenation() {
    let (lambda, reads) = (unpack(LAMBDA), unpack(READS));
    // In halves, cut where a record begins.
    let middle = lambda.len() / 2;
    let middle = middle + lambda[middle..].iter().position(|&b| b == b'\n').unwrap() + 1;
    let two = [&lambda[..middle], b">second half\n", &lambda[middle..]].concat();
    let lines = reads.split_inclusive(|&byte| byte == b'\n');
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (i, line) in lines.enumerate() {
        if i / 4 % 2 == 0 {
            &mut first
        } else {
            &mut second
        }
        .extend_from_slice(line);
    }
    let scene = Scene::new()
        .with("two.fa", &two)
        .with("first.fa.zst", zstd(&two[..middle]))
        .with("second.fa", &two[middle..])
        .with("reads.fq.gz", READS)
        .with("first.fq", &first)
        .with("second.fq.bgz", block_gzip(&second));
    let fasta = counts(&scene, &["two.fa"]);
    assert!(counts(&scene, &["first.fa.zst", "second.fa"]) == fasta);
    let fastq = counts(&scene, &["reads.fq.gz"]);
    assert!(counts(&scene, &["first.fq", "second.fq.bgz"]) == fastq);
    // FASTA beside FASTQ, a file twice, and standard input among files.
    let all = counts(&scene, &["two.fa", "reads.fq.gz"]);
    let parts = ["second.fa", "first.fq", "-", "second.fq.bgz"];
    let arguments = [&["count-kmers", "--sorted", "-C", "--quiet"][..], &parts].concat();
    let piped = scene.run_with(&arguments, &[], &two[..middle]);
    assert!(piped.stdout == all, "{}", piped.stderr);
    let twice = counts(&scene, &["two.fa", "two.fa"]);
    let doubled = fasta.lines().map(|line| {
        let (kmer, count) = line.split_once('\t').unwrap();
        format!("{kmer}\t{}\n", 2 * count.parse::<u64>().unwrap())
    });
    assert!(doubled.eq(twice.split_inclusive('\n')));
}

#[test]
fn a_long_record_is_counted_whole() {
    // Longer than several pieces, in one line and in many.
    let lambda = unpack(LAMBDA);
    let begin = lambda.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let letters: Vec<u8> = lambda[begin..]
        .iter()
        .copied()
        .filter(|&b| b != b'\n')
        .collect();
    let letters = letters.repeat(60);
    let wrapped: Vec<&[u8]> = letters.chunks(61).collect();
    let scene = Scene::new()
        .with("line.fa", [b">a\n", &letters[..], b"\n"].concat())
        .with(
            "lines.fa",
            [b">a\r\n", &wrapped.join(&b"\r\n"[..])[..]].concat(),
        )
        .with("line.fq", {
            let qualities = vec![b'@'; letters.len()];
            [b"@a\n", &letters[..], b"\n+\n", &qualities].concat()
        });
    let line = counts(&scene, &["line.fa"]);
    let most = line.lines().filter(|line| line.ends_with("\t60")).count();
    // All k-mers of the genome, and those across its ends one time less.
    assert_eq!((line.lines().count(), most), (48_502, 48_482));
    assert!(counts(&scene, &["lines.fa"]) == line);
    assert!(counts(&scene, &["line.fq"]) == line);
}

#[test]
fn damage_ends_in_one_line_and_no_output() {
    let reads = unpack(READS);
    let mut scene = Scene::new()
        .with("reads.fq", &reads)
        .with("broken.fq", "@a\nAC\n+\nII\n@b\nAC\nIIII\n");
    let mut bad = vec![
        ("missing.fa".to_owned(), "missing.fa"),
        ("broken.fq".to_owned(), "broken.fq"),
        (".".to_owned(), "directory"),
    ];
    for (name, pack) in PACKERS {
        let packed = pack(&reads);
        let mut damaged = packed.clone();
        damaged[packed.len() / 2] ^= 0x55;
        let (cut, flipped) = (format!("cut.{name}"), format!("flipped.{name}"));
        scene = scene
            .with(&cut, &packed[..packed.len() * 2 / 3])
            .with(&flipped, damaged);
        bad.extend([(cut, "cannot read"), (flipped, "cannot read")]);
    }
    let before = scene.files();
    for (name, cause) in &bad {
        for files in [
            &[name.as_str()][..],
            &["reads.fq", name],
            &[name, "reads.fq"],
        ] {
            let options = ["-o", "out.tsv", "--spectrum", "out.svg"];
            let arguments = [&["count-kmers"][..], files, &options].concat();
            let outcome = scene.run(&arguments);
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            assert_eq!(outcome.stdout, "");
            assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
            assert!(outcome.stderr.contains(cause), "{outcome:?}");
            assert_eq!(scene.files(), before, "{name}");
        }
    }
    let arguments = ["count-kmers", "-", "reads.fq", "-"];
    let outcome = scene.run(&arguments);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("- is named twice"), "{outcome:?}");
}

/// Fault P6: what gzip reads, whatever its members are.
#[test]
fn members_of_both_kinds_are_counted() {
    let texts = [&b">a\nACGTTGCATT\nGG"[..], b"ATTACA\n>b\nACGTTGCA\n"];
    let scene = Scene::new().with("plain.fa", texts.concat());
    let right = scene.succeed(&["count-kmers", "-k4", "--sorted", "plain.fa"]);
    assert!(right.lines().count() > 8);
    let [first, second] = texts;
    for (name, bytes) in [
        (
            "blocks, then gzip",
            [block_gzip(first), gzip(second)].concat(),
        ),
        (
            "gzip, then blocks",
            [gzip(first), block_gzip(second)].concat(),
        ),
        (
            "another field first",
            [block(first, b"XX\x03\0abc"), block_gzip(second)].concat(),
        ),
        (
            "another BC first",
            [block(first, b"BC\x01\0a"), block_gzip(second)].concat(),
        ),
        ("BC that is no length", {
            let mut member = block(first, b"");
            member[16] ^= 5;
            [member, gzip(second)].concat()
        }),
        (
            "zeros behind blocks",
            [block_gzip(&texts.concat()), vec![0; 999]].concat(),
        ),
        (
            "zeros behind gzip",
            [gzip(&texts.concat()), vec![0; 999]].concat(),
        ),
    ] {
        let scene = Scene::new().with("a.gz", bytes);
        let outcome = scene.run(&["count-kmers", "-k4", "--sorted", "--quiet", "a.gz"]);
        let found = (outcome.code, outcome.stdout, outcome.stderr);
        assert_eq!(found, (Some(0), right.clone(), String::new()), "{name}");
    }
}

/// Fault P6.
#[test]
fn blocks_without_the_last_one_are_warned_of() {
    let whole = block_gzip(b">a\nACGTA\n");
    let scene = Scene::new()
        .with("whole.fa.gz", &whole)
        .with("cut.fa.gz", block(b">a\nACGTA\n", b""));
    let count = |name| scene.run(&["count-kmers", "-k5", "--quiet", name]);
    assert_eq!(count("whole.fa.gz").stderr, "");
    let outcome = count("cut.fa.gz");
    assert_eq!((outcome.code, &outcome.stdout[..]), (Some(0), "ACGTA\t1\n"));
    let said = outcome.stderr;
    for text in ["warning: cut.fa.gz", "empty block", "cut off"] {
        assert!(said.contains(text) && said.lines().count() == 1, "{said}");
    }
}

/// Fault P10.
#[test]
fn empty_inputs_count_as_nothing() {
    let empty = [
        ("empty.fa", Vec::new()),
        ("lines.fa", b"\n\r\n\n".to_vec()),
        ("empty.gz", gzip(b"")),
        ("empty.bgz", block_gzip(b"")),
        ("empty.zst", zstd(b"")),
    ];
    let mut scene = Scene::new().with("good.fa", ">a\nACGTA\n");
    for (name, bytes) in &empty {
        scene = scene.with(name, bytes);
    }
    let count = |files: &[&str]| {
        let outcome = scene.run(&[&["count-kmers", "-k5", "--quiet"][..], files].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        (outcome.stdout, outcome.stderr)
    };
    let warning = |name: &str| format!("warning: {name} is empty: it counts as nothing\n");
    let names: Vec<&str> = empty.iter().map(|(name, _)| *name).collect();
    for name in &names {
        assert_eq!(count(&[name]), (String::new(), warning(name)));
        for files in [[name, "good.fa"], ["good.fa", name]] {
            assert_eq!(count(&files), ("ACGTA\t1\n".to_owned(), warning(name)));
        }
    }
    let all: String = names.iter().map(|name| warning(name)).collect();
    assert_eq!(count(&names), (String::new(), all));
    assert_eq!(count(&["-"]), (String::new(), warning("standard input")));
    // Of a query too.
    scene.succeed(&["count-kmers", "-k5", "good.fa", "-o", "db.gpumap"]);
    let outcome = scene.run(&["query", "db.gpumap", "--quiet", "ACGTA", "empty.gz"]);
    assert_eq!((outcome.code, &outcome.stdout[..]), (Some(0), "ACGTA 1\n"));
    assert_eq!(outcome.stderr, warning("empty.gz"));
}

/// Fault P11: the same reads as any program may write them.
#[test]
fn fastq_is_read_however_its_lines_are() {
    let right = "AACCG\t1\nACCGG\t1\nGGTTA\t1\n";
    for (name, text) in [
        ("four lines", "@a\nAACCGG\n+\n@+>III\n@b\nGGTTA\n+\nIIIII\n"),
        (
            "more lines",
            "@a\nAAC\nCGG\n+\n@+>\nIII\n@b\nGGT\nTA\n+b\nII\nIII\n",
        ),
        (
            "qualities like names",
            "@a\nAACC\nGG\n+\n@III\n@b\n@b\nGG\nTTA\n+\n@\n+\n@b>\n",
        ),
        (
            "blank lines",
            "\n\n@a\nAACCGG\n+\nIIIIII\n\n\n@b\nGGTTA\n+\nIIIII\n\n",
        ),
        (
            "blank lines in records",
            "@a\nAAC\n\nCGG\n+\n\nIIIIII\n@b\nGGTTA\n\n+\nII\n\nIII",
        ),
        (
            "CR LF",
            "\r\n@a\r\nAACC\r\nGG\r\n+a\r\nIIII\r\nII\r\n@b\r\nGGTTA\r\n+\r\nIIIII\r\n",
        ),
        (
            "lower case, N, empty",
            "@a\naacc\ngg\n+\nIIIIII\n@c\n\n+\n\n@d\n+\n@b\nACGTNggt\nta\n+\n@@@@@@@@\n@@",
        ),
    ] {
        let scene = Scene::new()
            .with("a.fq", text)
            .with("a.fq.gz", gzip(text.as_bytes()));
        for file in ["a.fq", "a.fq.gz"] {
            let found = scene.succeed(&["count-kmers", "-k5", "--sorted", "--quiet", file]);
            assert_eq!(found, right, "{name}");
        }
    }
}

/// Fault P12: the threads that parse read parts of such a file themselves.
#[test]
fn errors_in_a_large_file_name_the_line() {
    let lines = "ACGTTGCATTAGGACCATTTAAACGGGCTTATTCGAGCATTACGTTGCATTAGGACCATTT\n".repeat(80_000);
    let text = format!(">a\n{lines}@r\nACGT\n+\nIIII\n{lines}");
    let scene = Scene::new().with("large.fa", text);
    fails(
        &scene,
        &["count-kmers", "large.fa"],
        &["large.fa", "line 80002", "`@`"],
    );
}

/// The input goes on, but nothing is left to be counted.
#[test]
fn an_error_does_not_wait_for_the_rest_of_the_input() {
    // Enough for several batches.
    let scene = Scene::new().with("lambda.fa", unpack(LAMBDA).repeat(10));
    let mut child = program(&scene.path(""))
        .args(["count-kmers", "-", "lambda.fa", "--capacity", "10"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--capacity"), "{said}");
}

#[test]
fn no_kmer_at_all_is_said() {
    let scene = Scene::new()
        .with("short.fa", ">a\nACGT\n>b\nNNNNNNNNNN\n")
        .with("good.fa", ">a\nACGTA\n");
    let count = ["count-kmers", "short.fa", "-o", "-", "-k5"];
    let outcome = scene.run(&count);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""));
    let warning = outcome.stderr.lines().next().unwrap();
    for text in ["warning: ", "no 5-mer", "short.fa"] {
        assert!(
            warning.starts_with("warning: ") && warning.contains(text),
            "{warning}"
        );
    }
    let quiet = scene.run(&[&count[..], &["--quiet"]].concat());
    assert_eq!(quiet.stderr, format!("{warning}\n"));
    let json = scene.run(&[&count[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!(
        format!("warning: {}", json["warning"].as_str().unwrap()),
        warning
    );
    let both = scene.run(&[&count[..], &["good.fa", "--quiet"]].concat());
    assert_eq!(
        (both.stdout.as_str(), both.stderr.as_str()),
        ("ACGTA\t1\n", "")
    );
}

#[test]
fn the_seconds_of_each_step_are_told() {
    let scene = Scene::new().with("lambda.fa.gz", LAMBDA);
    let count = ["count-kmers", "lambda.fa.gz", "-o", "out.tsv"];
    let said = scene.run(&count).stderr;
    let outcome = scene.run(&[&count[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
    assert!(json["warning"].is_null());
    let seconds = json["seconds"].as_f64().unwrap();
    for step in ["read", "parse", "count", "write"] {
        let spent = json["steps"][step].as_f64().unwrap();
        assert!(0.0 < spent && spent < seconds, "{step}: {json}");
        let line = said.lines().find(|line| line.starts_with("steps")).unwrap();
        assert!(line.contains(&format!("{step} ")), "{line}");
    }
    for format in [
        "out.tsv",
        "out.tsv.gz",
        "out.gpk",
        "out.parquet",
        "out.gpumap",
    ] {
        let outcome = scene.run(&["count-kmers", "lambda.fa.gz", "--json", "-o", format]);
        let json: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
        let step = json["steps"]["write"].as_f64().unwrap();
        for part in ["sort", "copy", "pack", "write"] {
            let spent = json["writing"][part].as_f64().unwrap();
            assert!((part == "sort" || 0.0 < spent) && spent < step, "{json}");
        }
    }
}
