//! The commands of `gpumap-bench`: one job each, with options of its own. Without a command the program runs suites
//! ([`crate::options`]).

mod callers;
mod cpu;
mod kmers;
mod ladder;
mod latency;
mod output;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use gpumap::{Device, DeviceChoice, PtxChoice};
use gpumap_benches::callers as of_callers;
use gpumap_benches::cpu as of_cpu;
use gpumap_benches::ladder::{Ladder, Options as LadderOptions};
use gpumap_benches::latency as of_latency;

pub use kmers::KmersArgs;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Filter, retrieve_all and scan from the naive kernel up to the library's own, each verified
    /// and measured beside a copy.
    Ladder(LadderArgs),
    /// Batches on the CPU, beside hashbrown, dashmap, papaya and scc.
    Cpu(CpuArgs),
    /// Threads that call one map with a few keys each, on the CPU and on a GPU, beside dashmap, papaya and scc, and beside empty
    /// kernels.
    Callers(CallersArgs),
    /// How long lookups of a few keys take while other calls change the map, on the CPU.
    Latency(LatencyArgs),
    /// Count k-mers of an input of any size by the program gpumap, step by step beside what the machine does at best, and
    /// beside KMC if that is on the PATH.
    Kmers(KmersArgs),
}

impl Command {
    /// Runs it.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::Ladder(args) => ladder::run(args),
            Self::Cpu(args) => cpu::run(args),
            Self::Callers(args) => callers::run(args),
            Self::Latency(args) => latency::run(args),
            Self::Kmers(args) => kmers::run(args),
        }
    }
}

/// Where a command runs.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// What to run on: auto, cpu, checked, cuda or cuda:N [default: GPUMAP_DEVICE, or else auto].
    #[arg(long, value_parser = device)]
    device: Option<DeviceChoice>,

    /// The device code for a CUDA device: auto, sm_70, sm_90 or the path of a PTX file
    /// [default: GPUMAP_PTX, or else auto].
    #[arg(long)]
    ptx: Option<PtxChoice>,
}

impl DeviceArgs {
    /// The device, and its name with the reason why it is the CPU where that was not requested.
    fn open(&self) -> Result<(Device, String)> {
        let choice = self.device.map_or_else(DeviceChoice::from_env, Ok)?;
        let ptx = self.ptx.clone().map_or_else(PtxChoice::from_env, Ok)?;
        let (device, no_cuda) = Device::choose(choice, &ptx).context("cannot use the device")?;
        let name = match no_cuda {
            Some(reason) => format!("{device}, no GPU: {reason}"),
            None => device.to_string(),
        };
        Ok((device, name))
    }

    /// The options by which another program opens the same device.
    fn arguments(&self) -> impl Iterator<Item = String> {
        let device = self.device.map(|it| format!("--device={it}"));
        let ptx = self.ptx.as_ref().map(|it| format!("--ptx={it}"));
        device.into_iter().chain(ptx)
    }
}

/// Where the figures go.
#[derive(Debug, Args)]
pub struct FigureArgs {
    /// The figures as one JSON object on standard output, instead of the table.
    #[arg(long)]
    json: bool,

    /// Where the figures go as JSON, .json; - is standard output, instead of the table, as with --json.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What `ladder` takes.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// Elements of filter and scan, and twice the slots of retrieve_all [default: 400 million, or
    /// 131,072 on the CPU].
    #[arg(long, short = 'n', value_name = "N", value_parser = at_least_one)]
    size: Option<usize>,

    /// Runs of each kernel; the median counts.
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    repeat: usize,

    /// Measure these ladders only.
    #[arg(long, value_name = "LADDER", value_enum, value_delimiter = ',')]
    only: Vec<Ladder>,

    /// Draw the ladders as an SVG file, .svg.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    #[command(flatten)]
    figures: FigureArgs,

    #[command(flatten)]
    device: DeviceArgs,
}

impl LadderArgs {
    fn options(&self) -> LadderOptions {
        let wanted = Ladder::value_variants().iter().copied();
        LadderOptions {
            size: self.size,
            runs: self.repeat,
            ladders: wanted
                .filter(|ladder| self.only.is_empty() || self.only.contains(ladder))
                .collect(),
        }
    }
}

/// What `cpu` takes.
#[derive(Debug, Args)]
pub struct CpuArgs {
    /// Pairs of a map, in turn.
    #[arg(long, short = 'n', value_name = "N", value_delimiter = ',', value_parser = at_least_one,
        default_value = "1000000,20000000")]
    size: Vec<usize>,

    /// Load factors of this map, in turn.
    #[arg(long, value_name = "L", value_delimiter = ',', value_parser = load_factor,
        default_value = "0.5,0.8,0.9")]
    load: Vec<f64>,

    /// Threads, in turn [default: 1, and as many as the CPU runs].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = at_least_one)]
    threads: Vec<usize>,

    /// Runs of each verb; the median counts.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    repeat: usize,

    #[command(flatten)]
    figures: FigureArgs,
}

impl CpuArgs {
    fn options(&self) -> of_cpu::Options {
        let mut threads = self.threads.clone();
        if threads.is_empty() {
            let all = std::thread::available_parallelism().map_or(1, Into::into);
            threads = vec![1, all];
            threads.dedup();
        }
        of_cpu::Options {
            sizes: self.size.clone(),
            loads: self.load.clone(),
            threads,
            runs: self.repeat,
        }
    }
}

/// What `callers` takes.
#[derive(Debug, Args)]
pub struct CallersArgs {
    /// Pairs of a map, in turn.
    #[arg(long, short = 'n', value_name = "N", value_delimiter = ',', value_parser = at_least_one,
        default_value = "1000000,20000000")]
    size: Vec<usize>,

    /// Threads that call, in turn [default: 1, 2, 4, 8 and 16, and no more than the CPU runs].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = at_least_one)]
    threads: Vec<usize>,

    /// Keys of a call, in turn.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = at_least_one,
        default_value = "1,8,64,1000,16384")]
    keys: Vec<usize>,

    /// Measure these maps only; cpu and gpu are gpumap [default: all, and gpu if there is one].
    #[arg(long, value_name = "MAP", value_enum, value_delimiter = ',')]
    maps: Vec<of_callers::Which>,

    /// The load factor of gpumap.
    #[arg(long, value_name = "L", value_parser = load_factor, default_value = "0.8")]
    load: f64,

    /// How long the threads of a cell call, in milliseconds.
    #[arg(long, value_name = "MS", value_parser = at_least_one, default_value = "20")]
    time: usize,

    /// Runs of each cell; the median counts.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    repeat: usize,

    #[command(flatten)]
    figures: FigureArgs,

    #[command(flatten)]
    device: DeviceArgs,
}

impl CallersArgs {
    fn options(&self) -> Result<of_callers::Options> {
        use of_callers::Which;
        let (device, _) = self.device.open()?;
        let gpu = device.is_cuda().then_some(device);
        let mut threads = self.threads.clone();
        if threads.is_empty() {
            let all = of_callers::processors();
            let up_to_all = [1, 2, 4, 8, 16].into_iter();
            threads = up_to_all.filter(|&threads| threads <= all).collect();
        }
        let mut maps = self.maps.clone();
        if maps.is_empty() {
            let all = Which::value_variants().iter().copied();
            maps = all
                .filter(|&map| map != Which::Gpu || gpu.is_some())
                .collect();
        }
        Ok(of_callers::Options {
            sizes: self.size.clone(),
            threads,
            keys: self.keys.clone(),
            maps,
            load: self.load,
            time: Duration::from_millis(self.time as u64),
            runs: self.repeat,
            gpu,
        })
    }
}

/// What `latency` takes.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// Pairs of a map, in turn.
    #[arg(long, short = 'n', value_name = "N", value_delimiter = ',', value_parser = at_least_one,
        default_value = "1000000,20000000")]
    size: Vec<usize>,

    /// Keys of a lookup.
    #[arg(long, value_name = "N", value_parser = at_least_one, default_value = "64")]
    keys: usize,

    /// Keys of the large batches beside it.
    #[arg(long, value_name = "N", value_parser = at_least_one, default_value = "1000000")]
    batch: usize,

    /// What runs beside the lookups [default: all].
    #[arg(long, value_name = "CALLS", value_enum, value_delimiter = ',')]
    beside: Vec<of_latency::Beside>,

    /// How long lookups go on beside each, in milliseconds.
    #[arg(long, value_name = "MS", value_parser = at_least_one, default_value = "5000")]
    time: usize,

    #[command(flatten)]
    figures: FigureArgs,
}

impl LatencyArgs {
    fn options(&self) -> of_latency::Options {
        let mut beside = self.beside.clone();
        if beside.is_empty() {
            beside = of_latency::Beside::value_variants().to_vec();
        }
        of_latency::Options {
            sizes: self.size.clone(),
            keys: self.keys,
            batch: self.batch,
            beside,
            time: Duration::from_millis(self.time as u64),
        }
    }
}

/// The library's error would name a variable, and this is an option.
fn device(text: &str) -> Result<DeviceChoice, &'static str> {
    text.parse()
        .map_err(|_| "unknown device, use auto, cpu, checked, cuda or cuda:N")
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 at least".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// A share of slots that may be taken.
fn load_factor(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok();
    let number = number.filter(|number| (0.1..=0.95).contains(number));
    number.ok_or("must be 0.1 to 0.95")
}
