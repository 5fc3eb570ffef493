//! [`Ranks`]: a group of devices that one process drives.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::direct::Direct;
use super::error::GroupError;
use super::rank::Rank;
use super::rendezvous::{End, Rendezvous};
use super::within::{self, Turn};
use crate::device::{Device, DeviceChoice, threads};
use crate::error::{Error, Result};

/// How long ranks wait for each other, unless said otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// A group of devices that one process drives: one rank on each.
///
/// Cheap to clone: clones are the same group. Work runs in a thread for each rank ([`run`](Self::run)),
/// and one after the other.
///
/// ```
/// use gpumap::sharded::{Ranks, devices};
///
/// let ranks = Ranks::new(&devices("cpu,cpu,cpu")?)?;
/// let sums = ranks.run(|rank| {
///     let all = rank.gather(&[10 + rank.index() as u64])?;
///     Ok(all.iter().sum::<u64>())
/// })?;
/// assert_eq!(sums, [33, 33, 33]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Failures
/// If the work of a rank ends while others wait for it, or panics, or does not come for the
/// [timeout](Self::with_timeout), every rank that waits returns an error. After a panic or a timeout
/// the group is given up: all calls are [`GroupError::Ended`]. The devices can be used.
///
/// # Several groups
/// There may be any number of groups over the same devices, made, used and dropped by any threads at the same
/// time. None waits for another one on a device.
#[derive(Clone)]
pub struct Ranks {
    inner: Arc<Inner>,
}

struct Inner {
    rendezvous: Arc<Rendezvous>,
    seats: Mutex<Vec<Rank>>,
    devices: Vec<Device>,
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranks")
            .field("devices", &self.inner.devices)
            .finish_non_exhaustive()
    }
}

impl Ranks {
    /// A group with a rank on each of these devices: GPUs, each its own, which copy from each other's memory; or
    /// CPU devices.
    ///
    /// # Errors
    /// [`Error::Group`] for a list of devices that cannot be a group; [`Error::Driver`].
    pub fn new(devices: &[Device]) -> Result<Self> {
        Self::with_timeout(devices, DEFAULT_TIMEOUT)
    }

    /// As [`new`](Self::new), with another limit on how long ranks wait for each other.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_timeout(devices: &[Device], timeout: Duration) -> Result<Self> {
        check(devices)?;
        Self::of(devices.to_vec(), timeout)
    }

    /// A group of so many ranks on one device, each with a part of it. For tests: what they exchange
    /// is copied from place to place.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn on_one(device: &Device, ranks: usize, timeout: Duration) -> Result<Self> {
        match ranks {
            0 => Err(Error::Group(GroupError::Empty)),
            _ => Self::of(vec![device.clone(); ranks], timeout),
        }
    }

    /// A group on the devices that the environment names, or else on all CUDA devices there are, or
    /// else on the CPU alone.
    ///
    /// `GPUMAP_DEVICES` is a list as [`devices`](super::devices) takes it. If it is not set, `GPUMAP_DEVICE`
    /// counts as for [`Device::best`]: the group is that one device, unless it says `auto`. Empty variables are
    /// not set. Where it is the CPU though neither variable requested it, a [`tracing`] event of level
    /// `WARN` says why.
    ///
    /// ```
    /// # // SAFETY: no other thread runs yet.
    /// # unsafe { std::env::set_var("GPUMAP_DEVICES", "cpu,cpu") };
    /// use gpumap::sharded::Ranks;
    ///
    /// let ranks = Ranks::best()?;
    /// for device in ranks.devices() {
    ///     println!("running on {device}");
    /// }
    /// # assert_eq!(ranks.len(), 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`new`](Self::new), [`devices`](super::devices), [`Device::best`] and [`Device::cuda`]. A GPU that does not work
    /// is an error, and not left out: name the others in `GPUMAP_DEVICES`.
    pub fn best() -> Result<Self> {
        threads()?;
        let devices = match super::devices_from_env()? {
            Some(devices) => devices,
            None if DeviceChoice::from_env()? != DeviceChoice::Auto => vec![Device::best()?],
            None => match Device::cuda_count() {
                // The CPU, unless the requested kernels cannot be used.
                0 => vec![Device::best()?],
                count => (0..count).map(Device::cuda).collect::<Result<_>>()?,
            },
        };
        Self::new(&devices)
    }

    fn of(devices: Vec<Device>, timeout: Duration) -> Result<Self> {
        let rendezvous = Arc::new(Rendezvous::new(devices.len(), timeout));
        let links = Direct::all_of(&devices, &rendezvous)?;
        let seats = devices.iter().zip(links);
        let seats = seats.map(|(device, link)| Rank::new(device, Box::new(link)));
        let seats = Mutex::new(seats.collect::<Result<_>>()?);
        Ok(Self {
            inner: Arc::new(Inner {
                rendezvous,
                seats,
                devices,
            }),
        })
    }

    /// How many ranks there are.
    pub fn len(&self) -> usize {
        self.inner.devices.len()
    }

    /// Never: a group has one rank at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The device of each rank.
    pub fn devices(&self) -> &[Device] {
        &self.inner.devices
    }

    /// Runs work on every rank, each in a thread of its own, and returns the result of each.
    ///
    /// # Errors
    /// The error of the rank that failed first of its own, rather than for the others' sake.
    /// [`GroupError::Nested`] in the work of the same group, which would wait for itself; in that of another group
    /// it may be called, unless that one's work waits for this group. Threads that the work starts itself are not known to belong to it.
    pub fn run<R: Send>(&self, work: impl Fn(&mut Rank) -> Result<R> + Sync) -> Result<Vec<R>> {
        let mut results = Vec::with_capacity(self.len());
        let mut of_others = None;
        for result in self.run_each(work) {
            match result {
                Ok(result) => results.push(result),
                Err(Error::Group(error @ GroupError::Failed { .. })) => {
                    of_others.get_or_insert(Error::Group(error));
                }
                // Of a rank that has no error at all: nothing says more.
                Err(Error::Group(error @ GroupError::Left { .. })) => {
                    of_others = Some(Error::Group(error));
                }
                Err(error) => return Err(error),
            }
        }
        match of_others {
            Some(error) => Err(error),
            None => Ok(results),
        }
    }

    /// As [`run`](Self::run), with the error of each rank.
    pub fn run_each<R: Send>(
        &self,
        work: impl Fn(&mut Rank) -> Result<R> + Sync,
    ) -> Vec<Result<R>> {
        let Ok(turn) = self.turn() else {
            let nested = |_| Err(Error::Group(GroupError::Nested));
            return (0..self.len()).map(nested).collect();
        };
        let within = within::with(self.number());
        let mut seats = self.inner.seats.lock();
        drop(turn);
        let rendezvous = &*self.inner.rendezvous;
        let in_seat = |index: usize, rank: &mut Rank| {
            // What it leaves half done is the group's, which is given up.
            let result = catch_unwind(AssertUnwindSafe(|| work(rank))).unwrap_or_else(|_| {
                rendezvous.end(End::Panicked(index));
                Err(Error::Group(GroupError::Panicked { rank: index }))
            });
            rendezvous.leave(index, result.is_ok());
            result
        };
        if rendezvous.open().is_err() {
            let ended = |_| Err(Error::Group(GroupError::Ended));
            return seats.iter().map(ended).collect();
        }
        thread::scope(|scope| {
            let threads: Vec<_> = seats
                .iter_mut()
                .enumerate()
                .map(|(index, rank)| {
                    let within = within.clone();
                    let work = move || {
                        within::enter(within);
                        in_seat(index, rank)
                    };
                    let named = thread::Builder::new().name(format!("gpumap-rank-{index}"));
                    // The others need not wait for a rank that has no thread.
                    let started = named.spawn_scoped(scope, work);
                    started.inspect_err(|_| rendezvous.leave(index, false))
                })
                .collect();
            let joined = threads.into_iter().enumerate().map(|(index, thread)| {
                let panicked = Error::Group(GroupError::Panicked { rank: index });
                let thread = thread.map_err(GroupError::no_thread)?;
                thread.join().unwrap_or(Err(panicked))
            });
            joined.collect()
        })
    }
}

impl Ranks {
    /// Held while a thread waits for its turn with the group, or for a lock of one that does. An error where it would
    /// never have one.
    pub(super) fn turn(&self) -> Result<Turn> {
        within::wait_for(self.number()).ok_or(Error::Group(GroupError::Nested))
    }

    /// That of no other group that there is.
    fn number(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }
}

/// Whether these can be a group.
fn check(devices: &[Device]) -> Result<()> {
    let Some(first) = devices.first() else {
        return Err(Error::Group(GroupError::Empty));
    };
    if let Some(rank) = devices.iter().position(|d| d.is_cuda() != first.is_cuda()) {
        return Err(Error::Group(GroupError::Mixed { rank }));
    }
    for (second, device) in devices.iter().enumerate() {
        let before = devices[..second].iter().position(|other| other == device);
        if let (true, Some(first)) = (device.is_cuda(), before) {
            return Err(Error::Group(GroupError::SameDevice { first, second }));
        }
    }
    Ok(())
}
