//! Saved databases: packed k-mers with their counts, as `count-kmers` writes them, or any pairs of numbers.
//!
//! The words are those of jellyfish (`dump`, `query`, `merge`) and of KMC's tools (`intersect`, `subtract`, and
//! which count a k-mer gets). One rule for a key that comes more than once in a file: its counts are added.

pub mod args;
mod combine;
mod query;
mod sorted;

use std::path::{Path, PathBuf};

pub use combine::{dump, intersect, merge, subtract};
pub use query::query;

use self::args::ReadArgs;
use crate::columns;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::gpk;
use crate::kind::KmerKind;
use crate::kmer::Code;
use crate::pairs::{Input, for_each_batch};
use crate::progress::Progress;
use crate::saved;
use crate::source::{open_input, read_at};

/// A saved database.
struct Database {
    path: PathBuf,
    format: Format,
    /// Which k-mers it says that it has.
    label: Option<KmerKind>,
    /// Bytes of a key.
    key_bytes: u16,
}

impl Database {
    /// Finds out what a database holds, without reading the pairs.
    fn open(path: &Path, read: &ReadArgs) -> Result<Self> {
        let unsuitable = || Error::NotADatabase {
            path: path.to_owned(),
        };
        let name = path.display().to_string();
        if path.as_os_str() == "-" {
            return Err(unsuitable());
        }
        // It is read twice.
        let (file, length) = open_input(path)?;
        let Some(length) = length else {
            return Err(unsuitable());
        };
        let format = match read.db_format {
            Some(format) => Some(format),
            None => {
                let mut first = [0; 8];
                let is_long = length >= first.len() as u64;
                let known = is_long
                    .then(|| read_at(&file, &mut first, 0).ok())
                    .flatten();
                let known = known.and_then(|()| Format::by_first_bytes(&first));
                known.or_else(|| Format::by_extension(path))
            }
        };
        let format = format.filter(|format| !format.is_text());
        let format = format.ok_or_else(unsuitable)?;
        let (label, key_bytes) = match format {
            Format::Gpk => {
                let kind = gpk::kind_of(&name, &file)?;
                (Some(kind), gpk::key_bytes(kind))
            }
            Format::Gpumap => {
                let header = saved::header(&name, file)?;
                (KmerKind::of_label(header.label), header.key_bytes)
            }
            Format::Parquet if columns::has_keys_of(&name, &file, size_of::<u128>())? => {
                (None, size_of::<u128>() as u16)
            }
            _ => (None, size_of::<u64>() as u16),
        };
        if let (Some(kind), Some(asked)) = (label, read.k)
            && kind.length != asked
        {
            return Err(Error::OtherLength { name, kind, asked });
        }
        let path = path.to_owned();
        Ok(Self {
            path,
            format,
            label,
            key_bytes,
        })
    }

    /// Whether a `u64` is too short for its keys.
    fn is_wide(&self) -> bool {
        usize::from(self.key_bytes) > size_of::<u64>()
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Opens it for blocks to be read, if it has such.
    fn reader<C: Code>(&self) -> Result<Option<gpk::Reader<C>>> {
        if self.format != Format::Gpk {
            return Ok(None);
        }
        let (file, length) = open_input(&self.path)?;
        gpk::Reader::open(&self.name(), file, length.unwrap_or(0)).map(Some)
    }

    /// Hands all pairs to `take`, up to `batch` at a time; returns how many there are. Where it is known which k-mers the
    /// keys are, none may be another number.
    fn for_each_batch<C: Code>(
        &self,
        kind: Option<KmerKind>,
        batch: usize,
        progress: &Progress,
        mut take: impl FnMut(&[C], &[u64]) -> Result<()>,
    ) -> Result<u64> {
        let input = Input::new(&self.path, Some(self.format));
        for_each_batch::<C, 2>(input, batch, progress, |keys, values| {
            if let Some(kind) = kind {
                self.expect_kmers(keys, kind)?;
            }
            take(keys, values)
        })
    }

    fn expect_kmers<C: Code>(&self, keys: &[C], kind: KmerKind) -> Result<()> {
        match keys.iter().find_map(|&key| Some((key, kind.why_not(key)?))) {
            None => Ok(()),
            Some((key, problem)) => Err(Error::NoSuchKmer {
                name: self.name(),
                key: key.number(),
                kind,
                problem,
            }),
        }
    }
}

/// Which k-mers databases have, where that is known. They must agree; those that do not say it have those that are
/// `asked` for.
fn common_kind(databases: &[Database], asked: Option<KmerKind>) -> Result<Option<KmerKind>> {
    let labels = databases
        .iter()
        .filter_map(|database| Some((database, database.label?)));
    let mut labels = labels.clone().zip(labels.skip(1));
    let other = labels.find(|((_, one), (_, other))| one != other);
    if let Some(((first, one), (second, other))) = other {
        return Err(Error::OtherKmers {
            names: [first.name(), second.name()],
            kinds: [one, other],
        });
    }
    let labelled = databases.iter().find_map(|database| database.label);
    let kind = labelled.or(asked);
    let is_wide = kind.map_or_else(|| are_wide(databases), |kind| kind.length.is_wide());
    match databases
        .iter()
        .find(|database| database.is_wide() != is_wide)
    {
        Some(other) => Err(Error::OtherKeys {
            name: other.name(),
            found: other.key_bytes,
        }),
        None => Ok(kind),
    }
}

/// Whether a `u64` is too short for keys of databases.
fn are_wide(databases: &[Database]) -> bool {
    databases.iter().any(Database::is_wide)
}
