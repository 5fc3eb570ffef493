//! The groups that a distributed test runs on.
//!
//! | `GPUMAP_TEST_DEVICE` | groups |
//! |---|---|
//! | not set | those below |
//! | `cpu` | 1, 2, 3 and 8 ranks, each on a CPU executor of its own |
//! | `cuda` | as many on one GPU; and a rank on each of the GPUs that `GPUMAP_DEVICES` names, or else of all there are, through NCCL |
//!
//! One test program serves a laptop and a machine with several GPUs. Too few GPUs for the last kind is
//! said, once per program, and is a failure where `GPUMAP_DEVICES` asks for them.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use gpumap::executor::Config;
use gpumap::sharded::{Ranks, devices_from_env};
use gpumap::{Device, Key, Map, MapBuilder, Value};

use crate::device::{noting, say, targets};

/// How many ranks are tried.
pub const RANKS: [usize; 4] = [1, 2, 3, 8];

/// How long ranks wait for each other in tests: far more than a rank ever needs.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A group, and whether its ranks are on GPUs.
#[derive(Clone, Debug)]
pub struct Group {
    ranks: Ranks,
    name: String,
}

impl Group {
    fn new(ranks: Ranks, name: String) -> Self {
        Self { ranks, name }
    }

    /// The ranks.
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// How many ranks there are.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A size for this group: small on executors, large enough on GPUs to keep them busy.
    pub fn n(&self, cpu: usize, cuda: usize) -> usize {
        if self.ranks.devices()[0].is_cuda() {
            cuda
        } else {
            cpu
        }
    }

    /// One map with the pairs of all, to compare with.
    pub fn one<K: Key, V: Value>(&self) -> Map<K, V> {
        let builder: MapBuilder<K, V> = Map::builder(&self.ranks.devices()[0]);
        builder.build().expect("a map")
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Ranks on executors of their own.
pub fn executors(ranks: usize) -> Vec<Device> {
    let one = || {
        Device::cpu_with(Config {
            workers: 1,
            ..Config::default()
        })
    };
    (0..ranks).map(|_| one()).collect()
}

/// Ranks on executors of their own, that wait so long for each other.
pub fn on_executors(ranks: usize, timeout: Duration) -> Ranks {
    Ranks::with_timeout(&executors(ranks), timeout).expect("a group of executors")
}

/// A new group of each kind that failures may end.
pub fn fresh_groups(timeout: Duration) -> Vec<Group> {
    let mut groups = Vec::new();
    let on = |cuda| targets().iter().any(|on| on.device().is_cuda() == cuda);
    for ranks in RANKS {
        if on(false) {
            let name = format!("{ranks} executors");
            groups.push(Group::new(on_executors(ranks, timeout), name));
        }
        if on(true) {
            let device = Device::cuda(0).expect("the GPU of the targets");
            let group = Ranks::on_one(&device, ranks, timeout).expect("a group on one GPU");
            groups.push(Group::new(group, format!("{ranks} ranks on one GPU")));
        }
    }
    groups.extend(several(timeout));
    groups
}

/// A rank on each of several GPUs.
fn several(timeout: Duration) -> Option<Group> {
    let named = devices_from_env().expect("GPUMAP_DEVICES");
    let asked = named.is_some();
    if !asked && !targets().iter().any(|on| on.device().is_cuda()) {
        return None;
    }
    let devices = named.unwrap_or_else(|| {
        let all = (0..Device::cuda_count()).map(Device::cuda);
        all.map(|device| device.expect("a GPU that works"))
            .collect()
    });
    if devices.len() < 2 && !asked {
        static SAID: OnceLock<()> = OnceLock::new();
        SAID.get_or_init(|| say("one GPU: no group of several was run through NCCL"));
        return None;
    }
    let group = Ranks::with_timeout(&devices, timeout).expect("the group of GPUMAP_DEVICES");
    Some(Group::new(group, format!("{} devices", devices.len())))
}

/// Every group, made once.
pub fn groups() -> &'static [Group] {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    GROUPS.get_or_init(|| fresh_groups(PATIENCE))
}

/// Runs a test body on every group.
pub fn on_every_group(body: impl Fn(&Group)) {
    for group in groups() {
        noting(&group.to_string(), || body(group));
    }
}
