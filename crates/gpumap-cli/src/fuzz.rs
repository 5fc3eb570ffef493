//! Malformed files and command lines: an error or rows, no panic, and no more memory than the
//! input is worth.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use clap::Parser;
use gpumap_fuzz::{Target, Watched, mend_database, mend_saved_map};

use crate::cli::Cli;
use crate::columns::{ColumnWriter, Group};
use crate::error::{Result, one_line};
use crate::gpk;
use crate::gzip::tests::{blocks, compare, small};
use crate::kmer::{Code, KmerLength, Kmers, Strand};
use crate::ledger::Ledger;
use crate::packed::Block;
use crate::pairs::{Input, for_each_batch};
use crate::parse::{Blocks, parse};
use crate::pieces::Cutter;
use crate::progress::Progress;
use crate::source::Source;
use crate::values::Values;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Rows at a time.
const BATCH: usize = 16;
/// Bytes of a record at most, so that a small input would be found that is longer.
const RECORD: u64 = 1 << 18;
/// The buffers that a reader has, whatever it reads.
const BUFFERS: usize = 1 << 20;

/// A file that is written anew for each input.
struct Scratch {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Scratch {
    fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        Self {
            _folder: folder,
            path,
        }
    }
}

/// An error is one line that says something.
fn check<T>(outcome: Result<T>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            let line = one_line(&error);
            assert!(
                !line.is_empty() && !line.contains(char::is_control),
                "{line:?}"
            );
            None
        }
    }
}

/// Reads a file as `N` columns, and returns how many rows it has.
fn rows<C: Code, const N: usize>(scratch: &Scratch) -> Option<u64> {
    let mut seen = 0;
    let rows = for_each_batch::<C, N>(
        Input {
            path: &scratch.path,
            format: None,
            max_record: Some(RECORD),
            columns: None,
            values: Values::Unsigned,
        },
        BATCH,
        &Progress::hidden(),
        |keys, values| {
            let len = keys.len();
            assert!((1..=BATCH).contains(&len) && values.len() == (N - 1) * len);
            seen += len as u64;
            Ok(())
        },
    );
    let rows = check(rows)?;
    assert_eq!(rows, seen);
    Some(rows)
}

/// Tries files of pairs or keys with this name.
fn pairs(file: &str, target: Target<'_>) {
    let scratch = Scratch::named(file);
    target.run(|bytes| {
        fs::write(&scratch.path, bytes).unwrap();
        rows::<u64, 2>(&scratch);
        rows::<u64, 1>(&scratch);
        if file.ends_with(".gpumap") {
            rows::<u128, 2>(&scratch);
        }
    });
}

#[test]
fn text() {
    for (name, good) in [
        (
            "a.csv",
            &b"key,value\n1,2\n0xff, 18446744073709551615\r\n\"3\",4\n"[..],
        ),
        ("a.tsv", b"1\t2\n3\t4\n"),
    ] {
        let target = Target {
            name: "text",
            corpus: Some("text"),
            good: vec![good.to_vec(), b"key\n1\n2\n".to_vec()],
            words: &[
                b"0x",
                b"\"",
                b"\"\"",
                b"\r\n",
                b"\xef\xbb\xbf",
                b"-1",
                b"+",
                b"1e9",
                b"\0",
            ],
            memory: BUFFERS,
            memory_per_byte: 4,
            ..Target::default()
        };
        pairs(name, target);
    }
}

#[test]
fn binary() {
    let target = Target {
        name: "binary",
        good: vec![(0..64).collect()],
        memory: BUFFERS,
        memory_per_byte: 4,
        ..Target::default()
    };
    pairs("a.bin", target);
}

#[test]
fn saved_maps() {
    let device = gpumap::Device::cpu();
    let map = gpumap::Map::<u64, u64>::from_pairs(&device, (0..20).map(|i| (i, i * i))).unwrap();
    let mut wide = Vec::new();
    map.save_to(&mut wide).unwrap();
    let map = gpumap::Map::<u32, u32>::from_pairs(&device, [(1, 2)]).unwrap();
    let mut narrow = Vec::new();
    map.save_to(&mut narrow).unwrap();
    let set = gpumap::Map::<u64, ()>::from_keys(&device, 0..20).unwrap();
    let mut keys = Vec::new();
    set.save_to(&mut keys).unwrap();
    let map = gpumap::Map::<u128, u64>::new(&device).unwrap();
    map.insert(&[1, 1 << 100], &[3, 4]).unwrap();
    let mut widest = Vec::new();
    map.save_to(&mut widest).unwrap();
    let target = Target {
        name: "saved-maps",
        corpus: Some("saved"),
        good: vec![wide, narrow, keys, widest],
        mend: mend_saved_map,
        // A block that is claimed and not there.
        memory: BUFFERS + gpumap::file::MAX_BLOCK_PAIRS * 24,
        memory_per_byte: 4,
        ..Target::default()
    };
    pairs("a.gpumap", target);
}

#[test]
fn databases() {
    let narrow = gpk::tests::kind(21, Strand::Canonical);
    let wide = gpk::tests::kind(40, Strand::AsRead);
    let many = |kmers| {
        let kmers = gpk::tests::kmers::<u64>(narrow, kmers, gpk::tests::mixed);
        gpk::tests::file_of(narrow, &kmers, usize::MAX)
    };
    let of_wide = gpk::tests::kmers::<u128>(wide, 60, gpk::tests::mixed);
    let target = Target {
        name: "databases",
        good: vec![
            many(0),
            many(3),
            many(300),
            many(4_200),
            gpk::tests::file_of(wide, &of_wide, usize::MAX),
        ],
        words: &[&gpk::MAGIC],
        mend: mend_database,
        // The blocks that are read at a time, of which each is full, whatever it has in the file.
        memory: BUFFERS + 64 * 4096 * 24,
        memory_per_byte: 16,
        ..Target::default()
    };
    fn look_up<C: Code>(scratch: &Scratch) {
        let file = fs::File::open(&scratch.path).unwrap();
        let length = file.metadata().unwrap().len();
        if let Some(reader) = check(gpk::Reader::<C>::open("a.gpk", file, length)) {
            let wanted = [0, 1 << 20, 1 << 41, u128::MAX].map(C::of_number);
            let counts = check(reader.counts_of(&wanted));
            assert!(counts.is_none_or(|counts| counts.len() == wanted.len()));
        }
    }
    let scratch = Scratch::named("a.gpk");
    target.run(|bytes| {
        fs::write(&scratch.path, bytes).unwrap();
        rows::<u64, 2>(&scratch);
        rows::<u64, 1>(&scratch);
        rows::<u128, 2>(&scratch);
        look_up::<u64>(&scratch);
        look_up::<u128>(&scratch);
    });
}

#[test]
fn parquet() {
    let save = |rows: u64| {
        let mut bytes = Vec::new();
        let mut writer = ColumnWriter::new::<u64>(&mut bytes, Values::Unsigned).unwrap();
        let keys: Vec<u64> = (0..rows).collect();
        let values: Vec<u64> = (0..rows).map(|i| i % 3).collect();
        writer
            .append(Group::of(&keys, &values, Values::Unsigned).unwrap())
            .unwrap();
        writer.finish().unwrap();
        bytes
    };
    let target = Target {
        name: "parquet",
        corpus: Some("parquet"),
        good: vec![save(0), save(3), save(100)],
        words: &[b"PAR1", b"key", b"value"],
        memory: 4 << 20,
        // What Snappy makes of a byte, and the parts of the footer, in vectors that double.
        memory_per_byte: 512,
        ..Target::default()
    };
    pairs("a.parquet", target);
}

#[test]
fn sequences() {
    let target = Target {
        name: "sequences",
        corpus: Some("sequences"),
        good: vec![
            b">a x\nACG\nTTN\n\n>b\r\nAC\r\nGT\r\n>c\n>d\nA".to_vec(),
            b"@r1\nACGT\n+\n@@>>\n@r2\nGG\n+r2\nII\n".to_vec(),
            b"\n@r1\nAC\nGT\n+\n@@\n>>\n\n@r2\nGG\n+r2\nI\nI\n".to_vec(),
            blocks(b">a\nACGTACGTACGTACGTACGTACGT\n"),
            include_bytes!("../tests/golden/reads.fq.gz")[..4096].to_vec(),
        ],
        words: &[
            b">",
            b"@",
            b"\n+\n",
            b"\r\n",
            b"\x1f\x8b\x08\0",
            b"BZh9",
            b"\xfd7zXZ\0",
        ],
        // A record of FASTQ takes its limit twice: in the piece, and while that grows.
        memory: BUFFERS + 4 * RECORD as usize,
        memory_per_byte: 4,
        ..Target::default()
    };
    /// Counts k-mers of blocks and throws them away.
    struct Counted(usize);

    impl Blocks for Counted {
        type Error = ();

        fn empty(&mut self) -> Result<Block, ()> {
            Block::new(&gpumap::Device::cpu(), 1000).map_err(|_| ())
        }

        fn full(&mut self, block: Block) -> Result<(), ()> {
            let length = KmerLength::new(21).unwrap();
            let kmers = Kmers::<_, u64>::of_codes(block.codes(), length, Strand::Canonical);
            self.0 += kmers.count();
            Ok(())
        }
    }

    let scratch = Scratch::named("a.fa");
    let source = Source::File(scratch.path.clone());
    target.run(|bytes| {
        fs::write(&scratch.path, bytes).unwrap();
        let progress = Progress::hidden().bytes();
        let reader = source.open(&progress, std::num::NonZero::<usize>::MIN);
        let Some(reader) = check(reader) else {
            return;
        };
        let mut cutter = Cutter::new(reader, 1 << 16, 21, RECORD);
        let mut ledger = Ledger::new(RECORD);
        let mut kmers = Counted(0);
        while let Ok(Some(piece)) = cutter.next_piece(Vec::new()) {
            let parsed = parse(&piece.bytes, &piece.start, 21, RECORD, &mut kmers);
            if parsed.map_or(true, |parsed| ledger.add(parsed).is_err()) {
                return;
            }
        }
        assert!(kmers.0 as u64 <= ledger.totals().bases);
    });
}

/// Chunks by threads are read as flate2 alone reads the stream, errors too.
#[test]
fn gzip() {
    let (text, small) = small();
    let target = Target {
        name: "gzip",
        good: vec![
            small.clone(),
            [&small[..], &small].concat(),
            [&blocks(&text[..900]), &small[..], &[0; 20]].concat(),
        ],
        words: &[b"\x1f\x8b\x08\0", b"\0\0\xff\xff", b"\x03\0"],
        // Of the thread that reads.
        memory: 4 << 20,
        memory_per_byte: 4096,
        ..Target::default()
    };
    target.run(|bytes| {
        let (threads, chunk) = (3 + bytes.len() % 2, 150 + bytes.len() % 700);
        let _ = compare(bytes, threads, chunk, "fuzz");
    });
}

#[test]
fn command_lines() {
    let line = |words: &[&str]| words.join("\0").into_bytes();
    let target = Target {
        name: "command-lines",
        corpus: Some("command-lines"),
        good: vec![
            line(&[
                "count-kmers",
                "a.fa",
                "-k",
                "21",
                "-C",
                "-o",
                "out.tsv",
                "--sorted",
            ]),
            line(&[
                "load",
                "a.csv",
                "--lookup",
                "k.csv",
                "--duplicates",
                "sum",
                "--capacity",
                "9",
            ]),
            line(&[
                "intersect",
                "a.gpumap",
                "b.parquet",
                "-o",
                "c.bin",
                "--db-format",
                "gpumap",
            ]),
            line(&["count-kmers", "a.fq.gz", "--devices", "cpu,cpu", "-L2"]),
            line(&[
                "--device", "cuda:0", "--ptx", "sm_70", "info", "--json", "-q",
            ]),
        ],
        words: &[
            b"\0",
            b"\0--",
            b"\0-",
            b"=",
            b"--format=",
            b"18446744073709551616",
            b"-1",
            b"\xff",
            b"--help",
            b"\0-k\x0065",
            b"cuda:99999999999999999999",
        ],
        memory: 8 << 20,
        memory_per_byte: 4096,
        ..Target::default()
    };
    target.run(|bytes| {
        let name = OsString::from("gpumap");
        let words = bytes.split(|&byte| byte == 0).map(os_string);
        if let Err(error) = Cli::try_parse_from(std::iter::once(name).chain(words)) {
            let line = crate::cli::usage_error(&error);
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    });
}

/// Any bytes where the system has them, else those that are text.
fn os_string(bytes: &[u8]) -> OsString {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        std::ffi::OsStr::from_bytes(bytes).to_owned()
    }
    #[cfg(not(unix))]
    {
        String::from_utf8_lossy(bytes).into_owned().into()
    }
}
