//! Whatever is wrong: one line with the cause, exit code 2, no output.

use crate::common::{LAMBDA, Scene, expect_failure, fails, gzip};

fn lambda() -> Scene {
    Scene::new().with("lambda.fa.gz", LAMBDA)
}

#[test]
fn sequences_that_are_none() {
    let scene = lambda()
        .with("text.fa", "hello\n")
        .with("cut.fa.gz", &LAMBDA[..LAMBDA.len() / 2])
        .with("cut.fq", "@a\nACGT\n+\nII")
        .with("no_plus.fq", "@a\nACGT\nACGT\nIIII\n")
        .with("table.csv", "1,2\n")
        // Faults P11 and P12.
        .with("both.fa", ">a\nACGT\n>b\nAC\n@r\nACGT\n+\nIIII\n")
        .with("both.fq", "@r\nACGT\n+\nIIII\n\n>a\nACGT\n")
        .with("few.fq", "@a\nACGT\n+\nII\n@b\nACGT\n+\nIIII\n")
        .with("many.fq", "@a\nACGT\n+\nII\nIII\n@b\nACGT\n+\nIIII\n")
        .with("data.gz", [gzip(b">a\nACGT\n"), b"more".to_vec()].concat())
        .with("not.gz", b"\x1f\x8b\x08 and no more");
    for (name, causes) in [
        ("missing.fa", &["missing.fa", "No such file"][..]),
        (".", &["directory"]),
        ("text.fa", &["text.fa", "line 1", "FASTA", "`h`"]),
        ("table.csv", &["table.csv", "FASTA"]),
        ("cut.fa.gz", &["cut.fa.gz", "cut off"]),
        ("cut.fq", &["cut.fq", "line 1", "4 letters", "2 qualities"]),
        ("no_plus.fq", &["no_plus.fq", "line 1", "`+`"]),
        (
            "both.fa",
            &["both.fa", "line 5", "`@`", "FASTQ follows FASTA"],
        ),
        ("both.fq", &["both.fq", "line 6", "FASTA follows FASTQ"]),
        ("few.fq", &["few.fq", "line 6", "too few"]),
        (
            "many.fq",
            &["many.fq", "line 1", "4 letters and 5 qualities"],
        ),
        ("data.gz", &["data.gz", "behind its compressed data"]),
        ("not.gz", &["not.gz", "header", "damaged"]),
    ] {
        let arguments = [
            "count-kmers",
            name,
            "-o",
            "out.tsv",
            "--spectrum",
            "out.svg",
        ];
        fails(&scene, &arguments, causes);
    }
}

/// Audit finding 16.
#[test]
fn control_characters_are_shown_and_not_obeyed() {
    let bad = "1,\x1b[31mX\x1b]0;pwn\x07\n";
    let name = "red\x1b[31m.csv";
    let scene = lambda()
        .with("plain.csv", bad)
        .with(name, "1,x\n")
        .with("red\x1b", "1");
    let dump = ["--dump", "out.tsv"];
    let load = |name| [&["load", name][..], &dump].concat();
    for (arguments, causes) in [
        (load("plain.csv"), &[r"`\u{1b}[31mX\u{1b}]0;pwn\u{7}`"][..]),
        (load(name), &[r"red\u{1b}[31m.csv, line 1"]),
        (load("no\x1b[31m.csv"), &[r"cannot open no\u{1b}[31m.csv"]),
        (load("red\x1b"), &[r"red\u{1b}: the name must end in"]),
        (
            vec!["count-kmers", "-k", "\x1b[31m", "lambda.fa.gz"],
            &["1 to 64"],
        ),
    ] {
        fails(&scene, &arguments, causes);
    }
}

#[test]
fn k_from_1_to_64() {
    let scene = lambda();
    for k in ["0", "65", "-1", "21.0", "many", "300", ""] {
        let argument = format!("-k={k}");
        let arguments = ["count-kmers", "lambda.fa.gz", &argument, "-o", "out.tsv"];
        fails(&scene, &arguments, &["-k", "1 to 64"]);
    }
}

#[test]
fn devices_that_are_not_there() {
    let scene = lambda();
    let count = ["count-kmers", "lambda.fa.gz", "-o", "out.tsv"];
    for device in ["gpu", "CPU", "cuda:x", "cuda:-1", "vulkan:0"] {
        let named = [&count[..], &["--device", device]].concat();
        fails(&scene, &named, &["--device", "unknown device", device]);
        expect_failure(
            &scene,
            &count,
            &[("GPUMAP_DEVICE", device)],
            &["not a device", "auto", "GPUMAP_DEVICE", device],
        );
        fails(&scene, &["--device", device], &["unknown device"]);
        fails(&scene, &["info", "--device", device], &["unknown device"]);
    }
    // No machine has that many, and many have none.
    for devices in ["gpu,cpu", "0,", "cuda", "cpu cpu"] {
        let named = [&count[..], &["--devices", devices]].concat();
        fails(&scene, &named, &["--devices", "no list of devices"]);
    }
    let mixed = [&count[..], &["--devices", "cpu,4095"]].concat();
    fails(&scene, &mixed, &["cannot use the devices"]);
    let both = [&count[..], &["--devices", "cpu,cpu", "--device", "cpu"]].concat();
    fails(
        &scene,
        &both,
        &["--devices", "--device", "cannot be used with"],
    );
    let named = [&count[..], &["--device", "cuda:4095"]].concat();
    fails(&scene, &named, &["cannot use the device"]);
    expect_failure(
        &scene,
        &["info"],
        &[("GPUMAP_DEVICE", "cuda:4095")],
        &["device"],
    );
}

#[test]
fn device_code_that_is_none() {
    let scene = lambda()
        .with("text.ptx", "hello\n")
        .with("binary.ptx", b"\xff\xfe\0");
    let count = ["count-kmers", "lambda.fa.gz", "-o", "out.tsv"];
    for (path, cause) in [
        ("missing.ptx", "No such file"),
        // Neither a name nor a path: the error says which names there are.
        ("sm_80", "auto, sm_70, sm_90 or a path"),
        ("text.ptx", "is not PTX"),
        ("binary.ptx", "is not PTX"),
        (".", "directory"),
    ] {
        let named = [&count[..], &["--ptx", path]].concat();
        fails(&scene, &named, &[path, cause]);
        expect_failure(&scene, &count, &[("GPUMAP_PTX", path)], &[path, cause]);
        fails(&scene, &["--ptx", path], &[path, cause]);
        fails(&scene, &["info", "--ptx", path], &[path, cause]);
        fails(
            &scene,
            &["info", "--device", "cpu", "--ptx", path],
            &[path, cause],
        );
        let on_two = [&count[..], &["--devices", "cpu,cpu", "--ptx", path]].concat();
        fails(&scene, &on_two, &[path, cause]);
    }
}

#[test]
fn pairs_that_are_none() {
    let scene = Scene::new()
        .with("good.csv", "1,2\n3,4\n")
        .with("odd.bin", [0; 24])
        .with("byte.bin", [0; 17])
        .with("one.csv", "1,2\n3\n")
        .with("three.tsv", "1\t2\n3\t4\t5\n")
        .with("tabs.csv", "1\t2\n")
        .with("text.csv", "key,value\n1,two\n")
        .with("half.csv", "1,value\n")
        .with("negative.csv", "1,-2\n")
        .with("large.csv", "18446744073709551616,1\n")
        .with("latin.csv", b"\xe9,1\n1,\xe9\n")
        .with("good.txt", "1 2\n")
        .with("conflict.csv", "7,1\n8,1\n7,2\n8,1\n");
    for (pairs, causes) in [
        ("missing.csv", &["missing.csv", "No such file"][..]),
        (".", &["."]),
        ("odd.bin", &["odd.bin", "24 bytes", "multiple of 16"]),
        ("byte.bin", &["byte.bin", "17 bytes", "multiple of 16"]),
        ("one.csv", &["one.csv, line 2", "1 field"]),
        ("three.tsv", &["three.tsv, line 2", "3 fields"]),
        ("tabs.csv", &["tabs.csv, line 1", "1 field"]),
        ("text.csv", &["text.csv, line 2", "`two`"]),
        ("half.csv", &["half.csv, line 1", "`value`"]),
        ("negative.csv", &["negative.csv, line 1", "`-2`"]),
        (
            "large.csv",
            &["large.csv, line 1", "`18446744073709551616`"],
        ),
        ("latin.csv", &["latin.csv, line"]),
        (
            "good.txt",
            &["good.txt", ".csv, .tsv, .bin, .gpk, .gpumap, .parquet"],
        ),
        (
            "conflict.csv",
            &["conflict.csv", "key 7", "1 and 2", "--duplicates"],
        ),
    ] {
        let arguments = ["load", pairs, "--lookup", "good.csv", "--dump", "out.csv"];
        fails(&scene, &arguments[..2], causes);
        let arguments = ["load", pairs, "--dump", "out.csv"];
        fails(&scene, &arguments, causes);
    }
}

#[test]
fn keys_that_are_none() {
    let scene = Scene::new()
        .with("good.csv", "1,2\n3,4\n")
        .with("odd.bin", [0; 12])
        .with("empty_field.tsv", "1\n\"\"\n");
    for (keys, causes) in [
        ("missing.tsv", &["missing.tsv", "No such file"][..]),
        ("good.csv", &["good.csv, line 1", "2 fields"]),
        ("odd.bin", &["odd.bin", "12 bytes", "multiple of 8"]),
        ("empty_field.tsv", &["empty_field.tsv, line 2"]),
    ] {
        let arguments = [
            "load",
            "good.csv",
            "--lookup",
            keys,
            "--dump",
            "out.csv",
            "--results",
            "found.tsv",
        ];
        fails(&scene, &arguments, causes);
    }
}

#[test]
fn outputs_that_cannot_be() {
    let scene = lambda()
        .with("good.csv", "1,2\n")
        .with("keys.tsv", "1\n")
        .with("in.txt", ">a\nACGT\n");
    for arguments in [
        &[
            "count-kmers",
            "lambda.fa.gz",
            "-o",
            "no/such/folder/out.tsv",
        ][..],
        &["count-kmers", "lambda.fa.gz", "-o", "."],
        &[
            "count-kmers",
            "lambda.fa.gz",
            "-o",
            "out.tsv",
            "--spectrum",
            "no/out.svg",
        ],
        &[
            "count-kmers",
            "lambda.fa.gz",
            "-o",
            "out.tsv",
            "--histogram",
            "no/out.txt",
        ],
        &["load", "good.csv", "--dump", "no/out.csv"],
    ] {
        fails(&scene, arguments, &["cannot write"]);
        let said = scene.run(arguments).stderr;
        assert!(!said.contains(".tmp"), "{said}");
    }
    for bounds in [
        &["-L", "5", "-U", "4"][..],
        &["--min-count=5", "--max-count=0"],
    ] {
        let arguments = [&["count-kmers", "lambda.fa.gz", "-o", "out.tsv"], bounds].concat();
        fails(&scene, &arguments, &["5 or more and", "--max-count"]);
    }
    for number in ["-1", "x", "1.5", "18446744073709551616", ""] {
        let bound = format!("--min-count={number}");
        fails(
            &scene,
            &["count-kmers", "lambda.fa.gz", &bound],
            &["--min-count"],
        );
    }
    for arguments in [
        &[
            "count-kmers",
            "lambda.fa.gz",
            "-o",
            "same.txt",
            "--histogram",
            "./same.txt",
        ][..],
        &[
            "count-kmers",
            "lambda.fa.gz",
            "-o",
            "lambda.fa.gz",
            "--format=tsv",
        ],
        &["count-kmers", "lambda.fa.gz", "--spectrum", "-"],
        &["count-kmers", "lambda.fa.gz", "--histogram", "-"],
        &["count-kmers", "in.txt", "--histogram", "in.txt"],
        &["load", "good.csv", "--dump", "good.csv"],
        &["load", "good.csv", "--lookup", "keys.tsv", "--dump", "-"],
        &["load", "-", "--lookup", "-"],
    ] {
        fails(&scene, arguments, &["named twice"]);
    }
    let dump = ["load", "good.csv", "--dump", "out.json"];
    fails(
        &scene,
        &dump,
        &["out.json", ".csv, .tsv, .bin, .gpumap, .parquet"],
    );
    let results = [
        "load",
        "good.csv",
        "--lookup",
        "keys.tsv",
        "--results",
        "out.bin",
    ];
    fails(&scene, &results, &["out.bin", ".csv or .tsv"]);
}

#[test]
fn a_map_that_is_too_small() {
    let scene = lambda();
    let arguments = [
        "count-kmers",
        "lambda.fa.gz",
        "-o",
        "out.tsv",
        "--capacity",
        "10",
    ];
    fails(&scene, &arguments, &["full", "--capacity"]);
}

#[test]
fn an_output_that_is_there_stays_when_the_run_fails() {
    let scene = Scene::new()
        .with("out.tsv", "earlier\n")
        .with("bad.fa", ">a\nACGT\n")
        .with(
            "bad.fq",
            "@a\nACGTACGT\n+\nIIIIIIII\n@b\nACGTACGT\n+\nIII\n",
        );
    fails(
        &scene,
        &["count-kmers", "bad.fq", "-k4", "-o", "out.tsv"],
        &["bad.fq"],
    );
    assert_eq!(scene.read("out.tsv"), "earlier\n");
}

#[test]
fn usage_errors_are_one_line_too() {
    let scene = lambda();
    for arguments in [
        &["count-kmers"][..],
        &["count-kmers", "lambda.fa.gz", "--unknown"],
        &["count-kmers", "lambda.fa.gz", "--capacity", "-5"],
        &["unknown"],
        &["load"],
        &["load", "pairs.csv", "--results", "out.tsv"],
        &["load", "pairs.csv", "--duplicates", "last"],
        &["--device"],
    ] {
        fails(&scene, arguments, &["--help"]);
    }
}

/// P16: formats that are not read are called by their names, and the message says what to do instead.
#[test]
fn messages_are_in_the_words_of_the_program() {
    let scene = lambda()
        .with("a.bz2", b"BZh91AY&SY")
        .with("a.xz", b"\xfd7zXZ\0\0\x04")
        .with("a.lz4", b"\x04\"M\x18d@")
        .with("a.zip", b"PK\x03\x04\x14")
        .with("a.sam", "@HD\tVN:1.6\n@SQ\tSN:a\tLN:9\n")
        .with("text.fa", "hello\n")
        .with("no_plus.fq", "@a\nACGT\nACGT\nIIII\n")
        .with("none.csv", "\"\"\n")
        .with("lz4.parquet", include_bytes!("../golden/lz4.parquet"))
        .with("brotli.parquet", include_bytes!("../golden/brotli.parquet"))
        .with("text.parquet", "no Parquet, but long enough for its ends")
        .with(
            "text.gpumap",
            "no saved map, but as long as the header of one is: 64 bytes. More.",
        );
    let count = |name| vec!["count-kmers", name, "-o", "out.tsv"];
    let load = |name| vec!["load", name, "--dump", "out.tsv"];
    let named = vec!["load", "none.csv", "--key", "id", "--dump", "out.tsv"];
    for (arguments, message) in [
        (
            count("a.bz2"),
            "a.bz2 is packed by bzip2, which is not read: bzip2 -dc FILE | gpumap count-kmers -",
        ),
        (
            count("a.xz"),
            "a.xz is packed by xz, which is not read: xz -dc FILE | gpumap count-kmers -",
        ),
        (count("a.lz4"), "a.lz4 is packed by lz4"),
        (count("a.zip"), "a.zip is packed by zip"),
        (
            count("a.sam"),
            "a.sam is SAM, which is not read: samtools fasta FILE | gpumap count-kmers -",
        ),
        (
            count("text.fa"),
            "text.fa cannot be read as FASTA or FASTQ, plain or packed by gzip or zstd: line 1: FASTA begins with `>`",
        ),
        (
            count("no_plus.fq"),
            "line 1: the FASTQ record that begins here ends before its line with `+`",
        ),
        (
            load("lz4.parquet"),
            "lz4.parquet: the column `key` is compressed by LZ4, which is not read: write it with Snappy",
        ),
        (
            load("brotli.parquet"),
            "brotli.parquet: the column `key` is compressed by Brotli",
        ),
        (load("text.parquet"), "text.parquet is not Parquet"),
        (
            load("text.gpumap"),
            "text.gpumap is not a saved map: count-kmers and load write them",
        ),
        (named, "none.csv has no column `id`; it has ``"),
    ] {
        fails(&scene, &arguments, &[message]);
        let said = scene.run(&arguments).stderr;
        for word in [
            "Device::",
            "Map::",
            "compile time",
            "feature",
            "flate2",
            "Parquet error",
            "line 0",
        ] {
            assert!(!said.contains(word), "{said}");
        }
    }
    // What keeps a GPU from being used is in every summary; the remedy is an option.
    let said = scene.run(&["info"]).stdout;
    assert!(!said.contains("::"), "{said}");
}
