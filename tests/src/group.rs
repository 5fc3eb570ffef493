//! The groups that a distributed test runs on.
//!
//! | `GPUMAP_TEST_DEVICE` | groups |
//! |---|---|
//! | not set | those below |
//! | `cpu` | 1, 2, 3 and 8 ranks, each on a CPU device of its own with one thread |
//! | `checked` | 3 ranks, each on a checked executor of its own |
//! | `cuda` | as many on one GPU; and a rank on each of the GPUs that `GPUMAP_DEVICES` names, or else of all there are |
//!
//! Maps over some of them [send](Group::set_up) batches of any size straight into each other's memory, as
//! large ones are.
//!
//! One test program serves a laptop and a machine with several GPUs. Too few GPUs for the last kind is
//! said, once per program, and is a failure where `GPUMAP_DEVICES` selects them.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use gpumap::executor::Config;
use gpumap::sharded::{Ranks, devices_from_env};
use gpumap::{Backend, Device, Key, Map, MapBuilder, Numeric, Place};
use gpumap_test_skips::skip;

use crate::device::{noting, stride, targets};

/// How many ranks are tried.
const RANKS: [usize; 4] = [1, 2, 3, 8];

/// How many are tried on the checked executor: it checks kernels, which are the same for any number.
const CHECKED_RANKS: [usize; 1] = [3];

/// How many ranks a group has that is tried once more with maps that send.
const SENDING: [usize; 3] = [2, 3, 4];

/// How long ranks wait for each other in tests: far more than a rank ever needs.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A group, and how its maps are set up.
#[derive(Clone, Debug)]
pub struct Group {
    ranks: Ranks,
    name: String,
    /// Whether batches of any size go straight into the memory of the ranks that own their keys.
    sends: bool,
}

impl Group {
    fn new(ranks: Ranks, name: String) -> Self {
        let sends = false;
        Self { ranks, name, sends }
    }

    /// The same group, for maps that send their batches.
    fn sending(self) -> Self {
        let name = format!("{}, sending", self.name);
        let sends = true;
        Self {
            name,
            sends,
            ..self
        }
    }

    /// A new group over the same devices.
    pub fn another(&self, timeout: Duration) -> Self {
        let devices = self.ranks.devices();
        let ranks = match devices {
            [first, second, ..] if first == second => Ranks::on_one(first, devices.len(), timeout),
            _ => Ranks::with_timeout(devices, timeout),
        };
        Self {
            ranks: ranks.expect("a group on devices that have one"),
            name: format!("another on {}", self.name),
            sends: self.sends,
        }
    }

    /// The settings of a map over this group.
    pub fn set_up<K: Key, V: Numeric, P: Place>(
        &self,
        builder: MapBuilder<K, V, P>,
        share: &dyn Fn(usize) -> usize,
    ) -> MapBuilder<K, V, P> {
        let builder = builder.hash_seed(6);
        match self.sends {
            false => builder,
            // Only where there is room for sure.
            true => {
                let pairs = self.n(8_000, 4_000_000);
                builder.bulk_from([1; 3]).capacity(share(pairs))
            }
        }
    }

    /// The ranks.
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// Whether kernels run natively there, where they can.
    pub fn is_native(&self) -> bool {
        let info = self.ranks.devices()[0].info().expect("device info");
        info.backend == Backend::Cpu
    }

    /// How many ranks there are.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A size for this group: small on the CPU, large enough on GPUs to keep them busy.
    pub fn n(&self, cpu: usize, cuda: usize) -> usize {
        if self.ranks.devices()[0].is_cuda() {
            cuda
        } else {
            cpu
        }
    }

    /// As [`Target::stride`](crate::Target::stride).
    pub fn stride(&self, n: usize) -> usize {
        stride(&self.ranks.devices()[0], n)
    }

    /// One map with the pairs of all, to compare with.
    pub fn one<K: Key, V: Numeric>(&self) -> Map<K, V> {
        let builder: MapBuilder<K, V> = Map::builder(&self.ranks.devices()[0]);
        builder.build().expect("a map")
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// CPU devices of their own with one thread each; checked executors if that is what is tested.
pub fn cpu_devices(ranks: usize) -> Vec<Device> {
    let is_checked = is_checked();
    let one = |_| match is_checked {
        false => Device::cpu_with_threads(1),
        true => Device::cpu_with(Config {
            workers: 1,
            ..Config::default()
        }),
    };
    (0..ranks).map(one).collect()
}

fn is_checked() -> bool {
    targets().iter().any(|on| *on.device() == Device::checked())
}

/// Ranks on CPU devices of their own, that wait so long for each other.
pub fn on_cpu_devices(ranks: usize, timeout: Duration) -> Ranks {
    Ranks::with_timeout(&cpu_devices(ranks), timeout).expect("a group of CPU devices")
}

/// A new group of each kind that failures may end. None of their maps send.
pub fn fresh_groups(timeout: Duration) -> Vec<Group> {
    let on = |cuda| targets().iter().any(|on| on.device().is_cuda() == cuda);
    let on_cpu = |ranks| {
        let group = on_cpu_devices(ranks, timeout);
        Group::new(group, format!("{ranks} CPU devices"))
    };
    let on_one = |ranks| {
        let device = Device::cuda(0).expect("the GPU of the targets");
        let group = Ranks::on_one(&device, ranks, timeout).expect("a group on one GPU");
        Group::new(group, format!("{ranks} ranks on one GPU"))
    };
    let mut groups = Vec::new();
    let numbers: &[usize] = match is_checked() {
        false => &RANKS,
        true => &CHECKED_RANKS,
    };
    for &ranks in numbers {
        if on(false) {
            groups.push(on_cpu(ranks));
        }
        if on(true) {
            groups.push(on_one(ranks));
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
        skip("one GPU: no group of several GPUs was run");
        return None;
    }
    let group = Ranks::with_timeout(&devices, timeout).expect("the group of GPUMAP_DEVICES");
    Some(Group::new(group, format!("{} devices", devices.len())))
}

/// Every group, made once.
pub fn groups() -> &'static [Group] {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let mut groups = fresh_groups(PATIENCE);
        let sending = groups.iter().filter(|group| SENDING.contains(&group.len()));
        let sending: Vec<Group> = sending.cloned().map(Group::sending).collect();
        groups.extend(sending);
        groups
    })
}

/// Runs a test body on every group.
pub fn on_every_group(body: impl Fn(&Group)) {
    for group in groups() {
        noting(&group.to_string(), || body(group));
    }
}
