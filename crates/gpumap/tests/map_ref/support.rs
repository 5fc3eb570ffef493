//! The devices, and running a script.

use std::collections::HashMap;
use std::sync::OnceLock;

use gpumap::executor::Config;
use gpumap::map_ref::MapRef;
use gpumap::multi::MultiMapBuilder;
use gpumap::simt::kernel::{Grid, Kernel};
use gpumap::{
    Buffer, Device, Error, Key, Map, MapBuilder, MultiMap, Numeric, Result, Stream, Tally, Word,
    WordKey,
};
use gpumap_kernels::kernels::{Encoding, KeyBits};
use gpumap_kernels::slot::Bits;
use gpumap_map_test_kernels::chained::{
    ChainedScriptArgs, SCRIPT_4_4, SCRIPT_8_8, SPREAD_4_4, SPREAD_8_8, SpreadArgs,
};
use gpumap_map_test_kernels::script::{
    LANES_4_0, LANES_4_4, LANES_4_8, LANES_8_0, LANES_8_4, LANES_8_8, ScriptArgs, TILES_4_0,
    TILES_4_4, TILES_4_8, TILES_8_0, TILES_8_4, TILES_8_8,
};

pub const SM_70: &[u8] = include_bytes!("../../../../tests/ptx/gpumap_map_test_sm_70.ptx.br");
pub const SM_90: &[u8] = include_bytes!("../../../../tests/ptx/gpumap_map_test_sm_90.ptx.br");

/// Orders of deferred streams that a test runs in.
const SEEDS: u64 = 2;

/// Lanes per tile.
const TILE: usize = 4;

/// A device, and on the CPU how it claims 16-byte slots.
#[derive(Clone, Debug)]
pub struct Target {
    pub device: Device,
    encoding: Option<Encoding>,
}

impl Target {
    pub fn builder<K: Key, V: Numeric>(&self) -> MapBuilder<K, V> {
        let builder = Map::builder(&self.device);
        match self.encoding {
            Some(encoding) => builder.encoding(encoding),
            None => builder,
        }
    }

    pub fn multi<P: SamePair>(&self) -> MultiMapBuilder<P, P> {
        let builder = MultiMap::builder(&self.device);
        match self.encoding {
            Some(encoding) => builder.encoding(encoding),
            None => builder,
        }
    }

    pub fn stream(&self) -> Stream {
        Stream::new(&self.device).unwrap()
    }

    /// A size for this target: small on the CPU.
    pub fn n(&self, cpu: usize, cuda: usize) -> usize {
        if self.device.is_cuda() { cuda } else { cpu }
    }
}

fn with_every_encoding(device: &Device) -> [Target; 2] {
    [Encoding::Wide, Encoding::Split].map(|encoding| Target {
        device: device.clone(),
        encoding: Some(encoding),
    })
}

/// The CPU, natively on more threads than it may have cores, and the checked executor, at once and with deferred streams, each with
/// both encodings, unless `GPUMAP_TEST_DEVICE` is `cuda`; and the first CUDA device unless there is none or it is `cpu`; the kernels
/// are known there.
pub fn on_every_target(test: impl Fn(&Target)) {
    let wish = gpumap_test_skips::wished_device();
    if wish != "cuda" {
        for device in [Device::checked(), Device::cpu_with_threads(4)] {
            with_every_encoding(&device).iter().for_each(&test);
        }
        for seed in 0..SEEDS {
            let device = Device::cpu_deferred(seed);
            with_every_encoding(&device).iter().for_each(&test);
        }
    }
    if wish == "cpu" {
        return;
    }
    match cuda() {
        Some(target) => test(target),
        None if wish == "cuda" => panic!("there is no CUDA device"),
        None => gpumap_test_skips::skip("no CUDA device: ran on the CPU only"),
    }
}

/// The first CUDA device, if there is one. The kernels are compiled once.
fn cuda() -> Option<&'static Target> {
    static CUDA: OnceLock<Option<Target>> = OnceLock::new();
    let open = || match Device::cuda(0) {
        Ok(device) => {
            device.register_ptx_pair(SM_70, SM_90).unwrap();
            let encoding = None;
            Some(Target { device, encoding })
        }
        Err(Error::NoDriver | Error::NoDevice { .. }) => None,
        Err(error) => panic!("the CUDA device cannot be used: {error}"),
    };
    CUDA.get_or_init(open).as_ref()
}

/// The executor with both encodings under random schedules.
pub fn on_interleavings(seeds: u64, test: impl Fn(&Target)) {
    for seed in 0..seeds {
        let device = Device::cpu_with(Config::random(seed));
        with_every_encoding(&device).iter().for_each(&test);
    }
}

/// A pair of types with kernels of its own.
pub trait Pair: Sized {
    type K: WordKey<Bits = Self::K> + KeyBits + Bits;
    type V: Numeric + Word<Bits = Self::V> + Bits;
    fn kernel(form: Form) -> &'static Kernel<ScriptArgs<Self::K, Self::V>>;
}

macro_rules! pairs {
    ($($k:ty, $v:ty: $lanes:ident $tiles:ident;)*) => {$(
        impl Pair for ($k, $v) {
            type K = $k;
            type V = $v;
            fn kernel(form: Form) -> &'static Kernel<ScriptArgs<$k, $v>> {
                match form {
                    Form::Lanes => &$lanes,
                    Form::Tiles => &$tiles,
                }
            }
        }
    )*};
}
pairs! {
    u32, (): LANES_4_0 TILES_4_0;
    u64, (): LANES_8_0 TILES_8_0;
    u32, u32: LANES_4_4 TILES_4_4;
    u32, u64: LANES_4_8 TILES_4_8;
    u64, u32: LANES_8_4 TILES_8_4;
    u64, u64: LANES_8_8 TILES_8_8;
}

/// What keys and values of a multimap are both, with kernels of its own.
pub trait SamePair: WordKey<Bits = Self> + Numeric + Bits {
    const SCRIPT: &'static Kernel<ChainedScriptArgs<Self, Self>>;
    const SPREAD: &'static Kernel<SpreadArgs<Self, Self>>;
}

impl SamePair for u32 {
    const SCRIPT: &'static Kernel<ChainedScriptArgs<Self, Self>> = &SCRIPT_4_4;
    const SPREAD: &'static Kernel<SpreadArgs<Self, Self>> = &SPREAD_4_4;
}

impl SamePair for u64 {
    const SCRIPT: &'static Kernel<ChainedScriptArgs<Self, Self>> = &SCRIPT_8_8;
    const SPREAD: &'static Kernel<SpreadArgs<Self, Self>> = &SPREAD_8_8;
}

/// Calls a body that is generic over the [`Pair`] for each of them.
macro_rules! for_every_pair {
    ($body:ident($($argument:expr),*)) => {
        $body::<(u32, u32)>($($argument),*);
        $body::<(u32, u64)>($($argument),*);
        $body::<(u64, u32)>($($argument),*);
        $body::<(u64, u64)>($($argument),*);
        $body::<(u32, ())>($($argument),*);
        $body::<(u64, ())>($($argument),*);
    };
}
pub(crate) use for_every_pair;

/// The callers of an operation: single lanes, or tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Lanes,
    Tiles,
}

impl Form {
    pub const BOTH: [Self; 2] = [Self::Lanes, Self::Tiles];

    fn lanes(self) -> usize {
        match self {
            Self::Lanes => 1,
            Self::Tiles => TILE,
        }
    }
}

/// An operation, by the bits of key and value.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub op: u8,
    pub key: u64,
    pub value: u64,
}

/// What came of it, and the value that was found if one was.
pub type Answer = (u8, u64);

/// A script on the device.
pub struct Loaded<P: Pair> {
    stream: Stream,
    form: Form,
    len: usize,
    ops: Buffer<u8>,
    keys: Buffer<P::K>,
    values: Buffer<P::V>,
    outcomes: Buffer<u8>,
    held: Buffer<P::V>,
}

impl<P: Pair> Loaded<P> {
    pub fn new(stream: &Stream, form: Form, ops: &[Op]) -> Self {
        let bytes: Vec<u8> = ops.iter().map(|op| op.op).collect();
        let keys: Vec<P::K> = ops.iter().map(|op| P::K::from_u64(op.key)).collect();
        let values: Vec<P::V> = ops.iter().map(|op| P::V::from_u64(op.value)).collect();
        let lanes = ops.len() * form.lanes();
        Self {
            stream: stream.clone(),
            form,
            len: ops.len(),
            ops: Buffer::from_slice(stream, &bytes).unwrap(),
            keys: Buffer::from_slice(stream, &keys).unwrap(),
            values: Buffer::from_slice(stream, &values).unwrap(),
            outcomes: Buffer::zeroed(stream, lanes).unwrap(),
            held: Buffer::zeroed(stream, lanes).unwrap(),
        }
    }

    /// Launches it, for the closure that a map is lent to.
    pub fn launch(&mut self, map: MapRef<P::K, P::V>) -> Result<()> {
        self.launch_as(P::kernel(self.form), map)
    }

    /// As [`launch`](Self::launch), with a kernel that does the same.
    pub fn launch_as(
        &mut self,
        kernel: &'static Kernel<ScriptArgs<P::K, P::V>>,
        map: MapRef<P::K, P::V>,
    ) -> Result<()> {
        let args = ScriptArgs {
            map,
            ops: self.ops.as_ptr(),
            keys: self.keys.as_ptr(),
            values: self.values.as_ptr(),
            len: self.len as u64,
            outcomes: self.outcomes.as_mut_ptr(),
            held: self.held.as_mut_ptr(),
        };
        let grid = Grid::covering((self.len * self.form.lanes()) as u64, 128);
        // SAFETY: a place per operation, and per lane; the buffers live in `self`, which is read in
        // the order of their stream, the one that the map is lent for.
        unsafe { kernel.launch(&self.stream, grid, args) }
    }

    /// The answers, the same from all lanes of a tile.
    pub fn answers(&self) -> Vec<Answer> {
        let outcomes = self.outcomes.to_vec().unwrap();
        let held = self.held.to_vec().unwrap();
        let of_lanes: Vec<Answer> = outcomes
            .into_iter()
            .zip(held.into_iter().map(Bits::to_u64))
            .collect();
        let of_op = |lanes: &[Answer]| {
            assert!(lanes.iter().all(|answer| *answer == lanes[0]), "{lanes:?}");
            lanes[0]
        };
        of_lanes.chunks(self.form.lanes()).map(of_op).collect()
    }
}

/// Runs a script on a map that has room for whatever it inserts.
pub fn run<P: Pair>(
    map: &Map<P::K, P::V>,
    stream: &Stream,
    form: Form,
    ops: &[Op],
) -> (Tally, Vec<Answer>) {
    let mut script = Loaded::<P>::new(stream, form, ops);
    let tally = map
        .launch_with(stream, ops.len(), |map| script.launch(map))
        .unwrap();
    (tally, script.answers())
}

/// What a map holds, by bits; a panic if a key is there twice.
pub fn contents<P: Pair>(map: &Map<P::K, P::V>) -> HashMap<u64, u64> {
    let (keys, values) = map.retrieve_all().unwrap();
    let mut pairs = HashMap::new();
    for (key, value) in keys.iter().zip(values) {
        let before = pairs.insert(key.to_u64(), value.to_u64());
        assert_eq!(before, None, "key {:#x} is there twice", key.to_u64());
    }
    assert_eq!(pairs.len(), map.len(), "len() against retrieve_all()");
    pairs
}

/// All bits of a type.
pub fn mask<T>() -> u64 {
    match size_of::<T>() {
        0 => 0,
        bytes => !0 >> (64 - 8 * bytes),
    }
}

/// Keys that are few, and among them those whose bits mean a state of a slot, and their aliases.
pub fn key_bits<K>(i: u64) -> u64 {
    let bits = match i {
        0..4 => i,
        4..8 => !0 - (i - 4),
        _ => i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    };
    bits & mask::<K>()
}

/// A sequence of numbers that looks random.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}
