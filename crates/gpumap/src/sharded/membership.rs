//! [`Membership`]: how a rank that has a process of its own finds its group.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use super::DEFAULT_TIMEOUT;
use super::error::GroupError;
#[cfg(feature = "nccl")]
use super::nccl;
use crate::device::{ordinal, variable};
use crate::error::{Error, Result};

/// Bytes of NCCL's id of a group.
const ID_BYTES: usize = 128;

/// What the ranks of a group have in common: NCCL's unique id of it. As text, 256 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GroupId(pub(super) [u8; ID_BYTES]);

/// Which rank of which group a process is.
///
/// One process makes an id and sends it to the others, by whatever way there is; or all name a
/// file that they share and that is not there yet; or all have it in their environment:
///
/// | variable | |
/// |---|---|
/// | `GPUMAP_RANK` | which rank this is, from 0 |
/// | `GPUMAP_RANKS` | how many there are |
/// | `GPUMAP_ID` | the [`GroupId`] as text, or |
/// | `GPUMAP_ID_FILE` | the file |
///
/// ```no_run
/// use gpumap::sharded::{Membership, Rank, Shard};
/// use gpumap::Device;
///
/// let mine = Membership::from_file("/shared/run-17/id", 3, 8)?;
/// let mut rank = Rank::join(&Device::cuda(3)?, &mine)?;
/// let mut shard = Shard::<u64, u64>::with_capacity(&mut rank, 1_000_000_000)?;
/// let new = shard.insert(&mut rank, &[1, 2, 3], &[10, 20, 30])?; // of all ranks together
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    id: GroupId,
    rank: usize,
    ranks: usize,
    timeout: Duration,
}

impl GroupId {
    /// A new one, which names this machine: rank 0 has to be in this process.
    ///
    /// # Errors
    /// [`GroupError::NoNccl`], [`GroupError::NcclDisabled`], and what else NCCL has to say.
    pub fn new() -> Result<Self> {
        #[cfg(feature = "nccl")]
        return nccl::unique_id();
        #[cfg(not(feature = "nccl"))]
        return Err(Error::Group(GroupError::NcclDisabled));
    }
}

impl FromStr for GroupId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or(Error::Group(GroupError::Variable {
            name: "GPUMAP_ID",
            expected: "256 hexadecimal digits, as rank 0 shows them",
        }))
    }
}

fn parse(text: &str) -> Option<GroupId> {
    let text = text.trim().as_bytes();
    let mut id = [0; ID_BYTES];
    if text.len() != 2 * ID_BYTES {
        return None;
    }
    for (byte, digits) in id.iter_mut().zip(text.chunks(2)) {
        let digit = |c: u8| char::from(c).to_digit(16);
        *byte = (digit(digits[0])? << 4 | digit(digits[1])?) as u8;
    }
    Some(GroupId(id))
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Membership {
    /// This rank of so many, in the group with this id.
    ///
    /// # Errors
    /// [`GroupError::NoSuchRank`].
    pub fn new(id: GroupId, rank: usize, ranks: usize) -> Result<Self> {
        if rank >= ranks {
            return Err(Error::Group(GroupError::NoSuchRank { rank, ranks }));
        }
        Ok(Self {
            id,
            rank,
            ranks,
            timeout: DEFAULT_TIMEOUT,
        })
    }

    /// Finds the group through a file that all ranks see: rank 0 makes it, the others wait for it. It
    /// must not be there before, and is of no use after all have joined.
    ///
    /// # Errors
    /// [`GroupError::IdFile`], also if the file does not come in time or is not new;
    /// [`GroupError::NoSuchRank`], [`GroupError::NoNccl`].
    pub fn from_file(path: impl AsRef<Path>, rank: usize, ranks: usize) -> Result<Self> {
        let path = path.as_ref();
        let id = match rank {
            0 => {
                let id = GroupId::new()?;
                publish(path, &id).map_err(|source| id_file(path, source))?;
                id
            }
            _ => await_id(path, DEFAULT_TIMEOUT).map_err(|source| id_file(path, source))?,
        };
        Self::new(id, rank, ranks)
    }

    /// Finds the group as the environment says.
    ///
    /// # Errors
    /// [`GroupError::Variable`], and as for [`from_file`](Self::from_file).
    pub fn from_env() -> Result<Self> {
        let number = |name| {
            let text = variable(name);
            text.and_then(|text| ordinal(text.to_str()?))
                .ok_or(Error::Group(GroupError::Variable {
                    name,
                    expected: "a number",
                }))
        };
        let (rank, ranks) = (number("GPUMAP_RANK")?, number("GPUMAP_RANKS")?);
        if let Some(path) = variable("GPUMAP_ID_FILE") {
            return Self::from_file(PathBuf::from(path), rank, ranks);
        }
        let id = variable("GPUMAP_ID").unwrap_or_default();
        Self::new(id.to_string_lossy().parse()?, rank, ranks)
    }

    /// With another limit on how long ranks wait for each other.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The id of the group.
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// Which rank this is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// How long ranks wait for each other.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

fn id_file(path: &Path, cause: io::Error) -> Error {
    Error::Group(GroupError::IdFile {
        path: path.to_owned(),
        cause: cause.into(),
    })
}

/// Makes the file, whole from the first moment.
fn publish(path: &Path, id: &GroupId) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    write!(file, "{id}")?;
    file.persist_noclobber(path)?;
    Ok(())
}

fn await_id(path: &Path, timeout: Duration) -> io::Result<GroupId> {
    let begin = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) => return parse(&text).ok_or(io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if begin.elapsed() > timeout {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_through_text_and_files() {
        let id = GroupId(std::array::from_fn(|i| (i * 37) as u8));
        assert_eq!(id.to_string().parse::<GroupId>().unwrap(), id);
        assert!("00ff".parse::<GroupId>().is_err());
        assert!("g".repeat(256).parse::<GroupId>().is_err());

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id");
        let read = thread::scope(|scope| {
            let reader = scope.spawn(|| await_id(&path, Duration::from_secs(60)));
            thread::sleep(Duration::from_millis(30));
            publish(&path, &id).unwrap();
            reader.join().unwrap().unwrap()
        });
        assert_eq!(read, id);
        // An id of an earlier run is not taken for a new one.
        let again = publish(&path, &id).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let missing = await_id(&folder.path().join("no"), Duration::ZERO).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn ranks_are_below_their_number() {
        let id = GroupId([0; ID_BYTES]);
        let last = Membership::new(id, 2, 3).unwrap();
        assert_eq!(last.timeout(), DEFAULT_TIMEOUT);
        let patient = last.with_timeout(Duration::from_secs(1_000));
        assert_eq!(patient.timeout().as_secs(), 1_000);
        let beyond = Membership::new(id, 3, 3).unwrap_err();
        assert!(matches!(
            beyond,
            Error::Group(GroupError::NoSuchRank { rank: 3, ranks: 3 })
        ));
    }
}
