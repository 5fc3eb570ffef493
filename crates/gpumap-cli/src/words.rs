//! What crates say, in the words of the program: the remedies of the library are calls of Rust, and a user has options and
//! files.

use gpumap::file::FileError;
use gpumap::{Error, PtxError};
use parquet::errors::ParquetError;

/// An error of the library.
pub fn of_library(error: &Error) -> String {
    match error {
        Error::NoDriver => {
            "no CUDA driver found: install an NVIDIA driver, or use --device cpu".to_owned()
        }
        Error::NoDevice { ordinal, count } => format!(
            "no CUDA device {ordinal}: the driver shows {count}; check --device, GPUMAP_DEVICE and CUDA_VISIBLE_DEVICES"
        ),
        Error::UnsupportedDevice { name, major, minor } => format!(
            "{name} has compute capability {major}.{minor}, and 7.0 or newer is needed: choose another device by --device cuda:N, or use --device cpu"
        ),
        Error::Ptx { path, cause } => {
            let file = path.as_ref().map(|path| path.display().to_string());
            let file = file.unwrap_or_else(|| "the PTX of the kernels".to_owned());
            format!("{file}: {}", of_ptx(cause))
        }
        Error::KernelMissing { kernel } => format!(
            "the PTX has no kernel {kernel}: it is of another version of gpumap; leave --ptx and GPUMAP_PTX out"
        ),
        Error::OutOfMemory { needed, available } => out_of_memory(*needed, *available),
        Error::CapacityOverflow { elements, .. } => format!(
            "{elements} pairs are more than a machine can address: use a smaller --capacity"
        ),
        Error::Full {
            growth: Some(error),
            ..
        } => format!("the map is full and cannot grow: {}", of_library(error)),
        Error::File { cause, .. } => of_file(cause),
        Error::Kernel(fault) => format!("{fault}; please report this"),
        other => other.to_string(),
    }
}

fn out_of_memory(needed: u64, available: u64) -> String {
    let available = match available < needed {
        true => format!("{available} are free"),
        // There may be holes between what is taken, or another process was faster.
        false => "the system refuses them".to_owned(),
    };
    format!(
        "out of memory: {needed} bytes are needed, and {available}: raise the limit of the process (ulimit -v), \
         or use a machine or a GPU with more memory"
    )
}

fn of_ptx(cause: &PtxError) -> String {
    match cause {
        PtxError::Read(cause) => {
            format!("cannot be read: {cause}; --ptx takes auto, sm_70, sm_90 or a path")
        }
        PtxError::NoLayout { kernel } | PtxError::Layout { kernel, .. } => format!(
            "its kernel {kernel} is of another version of gpumap: leave --ptx and GPUMAP_PTX out"
        ),
        PtxError::Rejected { code, log } => format!(
            "the driver rejected it, {code}: {log}; install a newer driver, or choose other kernels by --ptx"
        ),
        other => other.to_string(),
    }
}

/// What is wrong with a saved map.
pub fn of_file(cause: &FileError) -> String {
    let of_another_map =
        |what: &str| format!("has {what}: gpumap reads maps from numbers to numbers");
    match cause {
        FileError::Io(cause) => format!("cannot be read or written: {cause}"),
        FileError::NotAMap => {
            "is not a saved map: count-kmers and load write them to names in .gpumap".to_owned()
        }
        FileError::KeySize { found, .. } => of_another_map(&format!("keys of {found} bytes")),
        FileError::ValueSize { found, .. } => of_another_map(&format!("values of {found} bytes")),
        FileError::Multimap => of_another_map("several values for a key"),
        FileError::Rows => of_another_map("rows of several columns"),
        FileError::Strings => of_another_map("strings as keys"),
        FileError::RowBound { .. } | FileError::Slots { .. } => {
            "asks for far more memory than its pairs need: it is damaged".to_owned()
        }
        FileError::Group { rank, ranks, .. } => of_another_map(&format!(
            "the part {rank} of {ranks} of a map of several devices"
        )),
        other => other
            .to_string()
            .replace("save the map again", "write it again"),
    }
}

/// What is wrong with a file of Parquet, after its name.
pub fn of_parquet(error: &ParquetError) -> String {
    match error {
        ParquetError::NYI(what) => format!("uses a part of Parquet that is not read: {what}"),
        ParquetError::EOF(what) => format!("is not Parquet, or is cut off: {what}"),
        ParquetError::General(what) => format!("is not Parquet, or is damaged: {what}"),
        ParquetError::External(cause) => format!("cannot be read as Parquet: {cause}"),
        other => format!("cannot be read as Parquet: {other}"),
    }
}

/// Formats that people have sequences in and that are not read: how they begin, what they are called, and what makes them
/// text.
const FOREIGN: [(&[u8], &str, &str); 10] = [
    (b"BZh", "is packed by bzip2", "bzip2 -dc"),
    (b"\xfd7zXZ\0", "is packed by xz", "xz -dc"),
    (b"\x04\"M\x18", "is packed by lz4", "lz4 -dc"),
    (b"PK\x03\x04", "is packed by zip", "unzip -p"),
    (b"\x1f\x9d", "is packed by compress", "uncompress -c"),
    (b"BAM\x01", "is BAM", "samtools fasta"),
    (b"CRAM", "is CRAM", "samtools fasta"),
    (b"@HD\t", "is SAM", "samtools fasta"),
    (b"@SQ\t", "is SAM", "samtools fasta"),
    (
        b"NCBI.sra",
        "is of the Sequence Read Archive",
        "fasterq-dump -Z",
    ),
];

/// What a file of sequences is, if its first bytes are those of a format that is not read, and the command that makes it one
/// that is.
pub fn foreign(first: &[u8]) -> Option<(&'static str, &'static str)> {
    let known = FOREIGN.iter().find(|(begin, ..)| first.starts_with(begin));
    known.map(|&(_, what, command)| (what, command))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    /// P16: what a user of the program cannot do is not asked for.
    #[track_caller]
    fn expect_words(text: &str) {
        for word in [
            "::",
            "builder",
            "xtask",
            "compile time",
            "feature",
            "smaller batch",
            "Map",
            "Vec",
        ] {
            assert!(!text.contains(word), "{word} in: {text}");
        }
        assert!(!text.trim_end().ends_with(':'), "{text}");
    }

    #[test]
    fn errors_of_the_library_name_what_a_user_has() {
        let memory = |needed, available| Error::OutOfMemory { needed, available };
        let file = |cause| Error::File { path: None, cause };
        let kernel = || "insert".to_owned();
        let full = Error::Full {
            len: 1,
            slots: 2,
            batch: 3,
            unplaced: 1,
            partial: false,
            growth: Some(Box::new(memory(10, 5))),
        };
        for (error, words) in [
            (Error::NoDriver, "--device cpu"),
            (
                Error::NoDevice {
                    ordinal: 3,
                    count: 1,
                },
                "--device",
            ),
            (
                Error::UnsupportedDevice {
                    name: "K80".to_owned(),
                    major: 3,
                    minor: 7,
                },
                "--device cpu",
            ),
            (Error::KernelMissing { kernel: "k" }, "--ptx"),
            (memory(10, 5), "10 bytes are needed, and 5 are free"),
            (
                memory(5, 10),
                "5 bytes are needed, and the system refuses them",
            ),
            (full, "cannot grow: out of memory"),
            (
                Error::CapacityOverflow {
                    elements: 9,
                    element_bytes: 8,
                },
                "--capacity",
            ),
            (
                Error::Ptx {
                    path: Some("a.ptx".into()),
                    cause: PtxError::Layout {
                        kernel: kernel(),
                        expected: 1,
                        found: 2,
                    },
                },
                "a.ptx: its kernel insert",
            ),
            (
                Error::Ptx {
                    path: Some("a.ptx".into()),
                    cause: PtxError::NoLayout { kernel: kernel() },
                },
                "--ptx",
            ),
            (
                Error::Ptx {
                    path: Some("a.ptx".into()),
                    cause: PtxError::Read(Arc::new(io::ErrorKind::NotFound.into())),
                },
                "--ptx takes",
            ),
            (file(FileError::NotAMap), "not a saved map"),
            (file(FileError::Multimap), "several values"),
            (file(FileError::Rows), "rows"),
            (file(FileError::Strings), "strings"),
            (
                file(FileError::KeySize {
                    found: 2,
                    expected: 8,
                }),
                "2 bytes",
            ),
            (
                file(FileError::Truncated { bytes: 7 }),
                "cut off after 7 bytes",
            ),
        ] {
            let text = of_library(&error);
            assert!(text.contains(words), "{text}");
            expect_words(&text);
        }
    }

    #[test]
    fn errors_of_parquet_are_sentences() {
        for error in [
            ParquetError::General("what".to_owned()),
            ParquetError::EOF("what".to_owned()),
            ParquetError::NYI("what".to_owned()),
            io::Error::other("what").into(),
        ] {
            let text = of_parquet(&error);
            assert!(text.ends_with("what"), "{text}");
        }
    }

    #[test]
    fn formats_that_are_not_read_are_known_by_their_first_bytes() {
        for (begin, what, _) in FOREIGN {
            assert_eq!(foreign(&[begin, b"more"].concat()).unwrap().0, what);
            assert_eq!(foreign(&begin[..begin.len() - 1]), None);
        }
        for text in [&b">BZh\nACGT"[..], b"@HDx\nA", b"\x1f\x8b\x08", b""] {
            assert_eq!(foreign(text), None);
        }
    }
}
