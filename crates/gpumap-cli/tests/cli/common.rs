//! Runs the `gpumap` program in a folder of its own, and looks at what it said and left.
//!
//! Inputs are in the test binaries themselves, and `GPUMAP_BIN` may name the program, so that the
//! tests also run on a machine that has nothing but the binaries.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};
use tempfile::TempDir;

pub static LAMBDA: &[u8] = include_bytes!("../../../../data/lambda_virus.fa.gz");
pub static READS: &[u8] = include_bytes!("../golden/reads.fq.gz");

/// A folder with its files, in which the program runs.
pub struct Scene(TempDir);

/// What a run said.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Scene {
    /// An empty folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The same with a file in it.
    pub fn with(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// All files in the folder, hidden ones too.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Runs `gpumap` with these arguments in the folder.
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_with(arguments, &[], b"")
    }

    /// The same with variables of the environment and standard input.
    pub fn run_with(
        &self,
        arguments: &[&str],
        variables: &[(&str, &str)],
        input: &[u8],
    ) -> Outcome {
        let mut child = program(self.0.path())
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // The program may end without having read everything.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().unwrap()
        });
        Outcome {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs `gpumap` and expects it to succeed; gives standard output.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        outcome.stdout
    }
}

/// A member of gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A member of gzip that says how long it is, as bgzip writes it, with another subfield of its header before that or not.
pub fn block(bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut body = DeflateEncoder::new(Vec::new(), Compression::default());
    body.write_all(bytes).unwrap();
    let body = body.finish().unwrap();
    let mut crc = Crc::new();
    crc.update(bytes);
    let last = (12 + other.len() + 6 + body.len() + 8 - 1) as u16;
    let field = other.len() as u16 + 6;
    [
        &[0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff][..],
        &field.to_le_bytes(),
        other,
        b"BC\x02\0",
        &last.to_le_bytes(),
        &body,
        &crc.sum().to_le_bytes(),
        &crc.amount().to_le_bytes(),
    ]
    .concat()
}

/// Blocks, with the empty one at their end.
pub fn block_gzip(bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(0xff00).chain([&b""[..]]);
    blocks.flat_map(|bytes| block(bytes, b"")).collect()
}

/// A frame of Zstandard.
pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// The program, without arguments.
pub fn program(folder: &Path) -> Command {
    let built: &OsStr = env!("CARGO_BIN_EXE_gpumap").as_ref();
    let named = std::env::var_os("GPUMAP_BIN");
    let mut command = Command::new(named.as_deref().unwrap_or(built));
    command.current_dir(folder);
    command
}

/// The lines of a text in bytewise order, with their line ends.
pub fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// Runs `gpumap` in `scene` and expects one line with these causes, exit code 2, and no file more than before.
#[track_caller]
pub fn expect_failure(
    scene: &Scene,
    arguments: &[&str],
    variables: &[(&str, &str)],
    causes: &[&str],
) {
    let before = scene.files();
    let outcome = scene.run_with(arguments, variables, b"");
    assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
    assert_eq!(outcome.stdout, "", "{arguments:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
    let text = outcome.stderr.trim_end();
    assert!(!text.contains(char::is_control), "{outcome:?}");
    for cause in causes {
        assert!(outcome.stderr.contains(cause), "{cause}: {outcome:?}");
    }
    assert_eq!(scene.files(), before, "{arguments:?} left something behind");
}

/// The same with the variables as they are.
#[track_caller]
pub fn fails(scene: &Scene, arguments: &[&str], causes: &[&str]) {
    expect_failure(scene, arguments, &[], causes);
}
