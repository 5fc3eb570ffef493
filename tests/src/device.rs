//! The devices that a test body runs on.
//!
//! | `GPUMAP_TEST_DEVICE` | targets |
//! |---|---|
//! | not set | the CPU, and the first CUDA device if there is one |
//! | `cpu` | the CPU |
//! | `checked` | the checked executor |
//! | `deferred:N` | the checked executor, with streams whose work runs later, in the order of this seed |
//! | `cuda` | the first CUDA device; a panic if there is none |
//!
//! On the CPU every slot encoding is a target of its own. On CUDA the PTX has one, and
//! `GPUMAP_PTX`, which the library reads, chooses it. Nothing is skipped silently: a run that
//! was free to take a CUDA device and found none says so, once per program.

use std::any::type_name;
use std::fmt;
use std::io::{Write, stderr};
use std::sync::OnceLock;
use std::thread;

use gpumap::multi::MultiMapBuilder;
use gpumap::{
    Backend, Device, Error, Faults, Growth, Key, Map, MapBuilder, MultiMap, PtxChoice, Stream,
    Value, Word, WordKey,
};
use gpumap_kernels::kernels::Encoding;
use gpumap_test_skips::{skip, wished_device};

use crate::pairs::slot_bytes;

/// A device, and on the CPU how it claims 16-byte slots.
#[derive(Clone, Debug)]
pub struct Target {
    device: Device,
    encoding: Option<Encoding>,
}

impl Target {
    /// A device of a test's own making, with an encoding if that can be chosen.
    pub fn new(device: Device, encoding: Option<Encoding>) -> Self {
        Self { device, encoding }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether kernels run natively there, where they can.
    pub fn is_native(&self) -> bool {
        let info = self.device.info().expect("device info");
        info.backend == Backend::Cpu
    }

    /// How it claims 16-byte slots, if that was chosen.
    pub fn encoding(&self) -> Option<Encoding> {
        self.encoding
    }

    /// A new stream on the device.
    pub fn stream(&self) -> Stream {
        Stream::new(&self.device).expect("a stream")
    }

    /// A size for this target: small on the CPU, also for the checked executor, which does a million keys a second;
    /// large enough on CUDA to keep the device busy.
    pub fn n(&self, cpu: usize, cuda: usize) -> usize {
        if self.device.is_cuda() { cuda } else { cpu }
    }

    /// Of many cases every one, or the `n`-th ones on the checked executor: it takes a hundred times as long, and
    /// checks kernels, which the cases share.
    pub fn stride(&self, n: usize) -> usize {
        stride(&self.device, n)
    }

    /// The same target with a limit on what may be allocated.
    #[must_use]
    pub fn with_memory_budget(&self, bytes: u64) -> Self {
        Self {
            device: self.device.with_memory_budget(bytes),
            encoding: self.encoding,
        }
    }

    /// The same target, with calls that fail as planned.
    #[must_use]
    pub fn with_faults(&self, faults: &Faults) -> Self {
        Self {
            device: self.device.with_faults(faults),
            encoding: self.encoding,
        }
    }

    /// A builder for maps here.
    pub fn builder<K: Key, V: Value>(&self) -> MapBuilder<K, V> {
        let builder = Map::builder(&self.device);
        match self.encoding {
            Some(encoding) => builder.encoding(encoding),
            None => builder,
        }
    }

    /// A builder for multimaps here.
    pub fn multi<K: WordKey, V: Word<Bits = K::Bits>>(&self) -> MultiMapBuilder<K, V> {
        let builder = MultiMap::builder(&self.device);
        match self.encoding {
            Some(encoding) => builder.encoding(encoding),
            None => builder,
        }
    }

    /// A map with room for `capacity` pairs.
    pub fn map<K: Key, V: Value>(&self, capacity: usize) -> Map<K, V> {
        self.builder()
            .capacity(capacity)
            .build()
            .expect("a map of this capacity")
    }

    /// A map with room for `capacity` pairs that does not grow.
    pub fn fixed<K: Key, V: Value>(&self, capacity: usize) -> Map<K, V> {
        self.builder()
            .capacity(capacity)
            .growth(Growth::Fixed)
            .build()
            .expect("a map of this capacity")
    }

    /// Empty maps for batches of up to `batch` pairs with `distinct` keys, which take them in each
    /// of the ways there are: beside other calls, growing, and alone with undo.
    pub fn maps<K: Key, V: Value>(
        &self,
        batch: usize,
        distinct: usize,
    ) -> [(&'static str, Map<K, V>); 3] {
        [
            ("with room", self.map(batch + distinct)),
            ("growing", self.map(0)),
            ("fixed", self.fixed(distinct)),
        ]
    }

    /// A map that does not grow, whose submaps have these slots (rounded up to whole slabs and
    /// pages).
    pub fn map_of<K: Key, V: Value>(&self, submap_slots: &[usize]) -> Map<K, V> {
        self.builder()
            .growth(Growth::Fixed)
            .submap_slots(submap_slots)
            .build()
            .expect("a map of these slots")
    }
}

/// `n` on the checked executor, else 1.
pub(crate) fn stride(device: &Device, n: usize) -> usize {
    if is_checked(device) { n } else { 1 }
}

/// Whether it is the executor that checks kernels.
fn is_checked(device: &Device) -> bool {
    let info = device.info().expect("device info");
    info.backend == Backend::Checked
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)?;
        match self.encoding {
            Some(encoding) => write!(f, ", {encoding:?} slots"),
            None => Ok(()),
        }
    }
}

/// Where tests run; see the [module](self).
pub fn targets() -> &'static [Target] {
    static TARGETS: OnceLock<Vec<Target>> = OnceLock::new();
    let wish = wished_device();
    let targets = TARGETS.get_or_init(|| match wish.as_str() {
        "" => {
            let mut targets = cpu();
            targets.extend(cuda_if_any());
            targets
        }
        "cpu" => cpu(),
        "checked" => of_cpu(Device::checked),
        "cuda" => match Device::cuda(0) {
            Ok(device) => vec![Target::new(device, None)],
            Err(error) => panic!("GPUMAP_TEST_DEVICE=cuda, but: {error}"),
        },
        other => {
            let seed = deferred_seed(other).expect("`wished_device` knows no others");
            of_cpu(|| Device::cpu_deferred(seed))
        }
    });
    if wish.is_empty() && !targets.iter().any(|target| target.device.is_cuda()) {
        skip("no CUDA device: ran on the CPU only");
    }
    targets
}

/// As [`targets`], with the checked executor beside the CPU, and with each of the built-in PTX texts that the CUDA
/// device can run, so that every kernel is among them.
pub fn targets_of_all_kernels() -> Vec<Target> {
    let mut all = targets().to_vec();
    if all.iter().any(|target| *target.device() == Device::cpu()) {
        all.extend(of_cpu(Device::checked));
    }
    if all.iter().any(|target| target.device.is_cuda()) {
        all.retain(|target| !target.device.is_cuda());
        for ptx in [PtxChoice::Sm70, PtxChoice::Sm90] {
            match Device::cuda_with(0, &ptx) {
                Ok(device) => all.push(Target::new(device, None)),
                Err(error) => skip(&format!("kernels {ptx} were not run: {error}")),
            }
        }
    }
    all
}

/// The seed of a device with deferred streams, if that was selected.
fn deferred_seed(wish: &str) -> Option<u64> {
    wish.strip_prefix("deferred:")?.parse().ok()
}

fn cpu() -> Vec<Target> {
    of_cpu(Device::cpu)
}

fn of_cpu(device: impl Fn() -> Device) -> Vec<Target> {
    [Encoding::Wide, Encoding::Split]
        .map(|encoding| Target::new(device(), Some(encoding)))
        .to_vec()
}

fn cuda_if_any() -> Option<Target> {
    match Device::cuda(0) {
        Ok(device) => Some(Target::new(device, None)),
        Err(Error::NoDriver | Error::NoDevice { .. }) => None,
        // There is one, and it does not work: that is a failure, not a reason to leave it out.
        Err(error) => panic!("the CUDA device cannot be used: {error}"),
    }
}

/// Past the test harness, which keeps what passing tests print to itself.
pub fn say(line: &str) {
    // A closed stderr is no reason to fail.
    let _ = writeln!(stderr(), "{line}");
}

/// Runs a test body on every target, for one pair of types.
pub fn run_pair<K: Key, V: Value>(body: fn(&Target)) {
    for target in targets() {
        run_pair_on::<K, V>(target, body);
    }
}

/// As [`run_pair`], but not on the checked executor.
pub fn run_mixed<K: Key, V: Value>(body: fn(&Target)) {
    for target in targets()
        .iter()
        .filter(|target| !is_checked(&target.device))
    {
        run_pair_on::<K, V>(target, body);
    }
}

/// Runs a test body on one target, for one pair of types, unless another target of the same
/// device has the same kernels: 8-byte slots have one encoding.
pub fn run_pair_on<K: Key, V: Value>(target: &Target, body: fn(&Target)) {
    if slot_bytes::<K, V>() == 8 && target.encoding == Some(Encoding::Split) {
        return;
    }
    let pair = format!("{} -> {}", type_name::<K>(), type_name::<V>());
    noting(&format!("{pair}, {target}"), || body(target));
}

/// Runs a test body that is not generic on every target.
pub fn on_every_target(body: impl Fn(&Target)) {
    for target in targets() {
        noting(&target.to_string(), || body(target));
    }
}

/// Runs something, and if it panics says in which case it was.
pub fn noting<R>(case: &str, run: impl FnOnce() -> R) -> R {
    struct Note<'a>(&'a str);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            if thread::panicking() {
                eprintln!("the case that failed: {}", self.0);
            }
        }
    }
    let _note = Note(case);
    run()
}
