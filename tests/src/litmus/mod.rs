//! Litmus tests on a device: the shapes of `gpumap_test_kernels::litmus`, millions of times, with a count of each outcome.
//!
//! What is allowed is decided where the protocols are: each shape is a protocol of `gpumap-axioms`, and an outcome is allowed if
//! one of its executions has it. The map relies on the reading in which an access is one operation, so that is the one that is
//! tested here. `gpumap-litmus` runs it for seconds or minutes.

mod judge;
mod shapes;

use std::fmt;
use std::time::{Duration, Instant};

use gpumap::{Buffer, PtxChoice, Result, Stream};
use gpumap_simt::kernel::Grid;
use gpumap_test_kernels::litmus::{CHECK, CheckArgs, LANES, LitmusArgs, NONE};

use crate::Target;
pub use judge::{Judge, Verdict};
pub use shapes::{SHAPES, Shape};

/// How long, and how wide.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long all shapes together run, controls included.
    pub time: Duration,
    /// Launches of each shape between two looks at the clock, and at least.
    pub launches: u32,
    /// Instances of each launch, a power of two.
    pub instances: u32,
    /// What decides how threads and places are matched.
    pub seed: u64,
}

/// Words that additions go to which keep the memory busy, a power of two.
const ELSEWHERE: u32 = 1 << 14;

/// The largest distance of two instances, in bytes.
const MOST_STRIDE: u32 = 256;

/// What was seen of a shape or of its control.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How many instances ran.
    pub instances: u64,
    /// Each outcome, how often it came, and what the model says of it.
    pub outcomes: Vec<(String, u64, Verdict)>,
}

impl Seen {
    /// How many instances came to something of which the model says this.
    pub fn count(&self, verdict: Verdict) -> u64 {
        let of = |&&(_, _, its): &&(String, u64, Verdict)| its == verdict;
        self.outcomes
            .iter()
            .filter(of)
            .map(|&(_, count, _)| count)
            .sum()
    }
}

/// What was seen of all.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By shape: its name, what was seen of it and of its control.
    pub shapes: Vec<(&'static str, Seen, Seen)>,
    /// Shapes that the device has no instructions for.
    pub left_out: Vec<&'static str>,
}

impl Report {
    /// How many instances came to something that is forbidden.
    pub fn forbidden(&self) -> u64 {
        let both = self
            .shapes
            .iter()
            .flat_map(|(_, shape, control)| [shape, control]);
        both.map(|seen| seen.count(Verdict::Forbidden)).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, shape, control) in &self.shapes {
            writeln!(f, "{name}: {} instances", shape.instances)?;
            for (outcome, count, verdict) in &shape.outcomes {
                writeln!(f, "  {count:>14} {verdict:9} {outcome}")?;
            }
            let weak = control.count(Verdict::Weak);
            writeln!(
                f,
                "  control, {} instances: {weak} came to what the shape must not",
                control.instances
            )?;
            for (outcome, count, verdict) in &control.outcomes {
                if *verdict != Verdict::Allowed {
                    writeln!(f, "  {count:>14} {verdict:9} {outcome}")?;
                }
            }
            if weak == 0 {
                writeln!(f, "  so the shape's count says little here")?;
            }
        }
        for name in &self.left_out {
            writeln!(f, "{name}: left out, for it has a CAS of 128 bits")?;
        }
        let instances: u64 = self
            .shapes
            .iter()
            .map(|(_, shape, _)| shape.instances)
            .sum();
        write!(
            f,
            "{instances} instances of shapes: {} forbidden outcomes",
            self.forbidden()
        )
    }
}

/// Runs each shape and its control, for equal times.
///
/// # Errors
/// Those of the device.
pub fn run(on: &Target, options: &Options) -> Result<Report> {
    let device = on.device();
    let ptx = device.info()?.ptx;
    if device.is_cuda() {
        device.register_ptx(match ptx {
            Some(PtxChoice::Sm90) => &include_bytes!("../../ptx/gpumap_test_sm_90.ptx.br")[..],
            _ => include_bytes!("../../ptx/gpumap_test_sm_70.ptx.br"),
        })?;
    }
    let runs_here = |shape: &&Shape| !shape.needs_cas_128 || ptx != Some(PtxChoice::Sm70);
    let slice = options.time / (2 * SHAPES.len() as u32);
    let mut report = Report::default();
    for shape in &SHAPES {
        if !runs_here(&shape) {
            report.left_out.push(shape.protocol);
            continue;
        }
        let [seen, control] = [false, true]
            .map(|control| Bench::new(on, options, shape, control)?.run(options, slice));
        report.shapes.push((shape.protocol, seen?, control?));
    }
    Ok(report)
}

/// The memory of one shape or control.
struct Bench {
    judge: Judge,
    shape: &'static Shape,
    is_control: bool,
    threads: u32,
    stream: Stream,
    memory: Buffer<[u64; 2]>,
    rows: Buffer<u64>,
    elsewhere: Buffer<u64>,
    cells: Buffer<u64>,
    columns: Buffer<u64>,
    counts: Buffer<u64>,
    /// Of what comes before the first launch.
    ignored: Buffer<u64>,
}

impl Bench {
    fn new(
        on: &Target,
        options: &Options,
        shape: &'static Shape,
        is_control: bool,
    ) -> Result<Self> {
        let stream = on.stream();
        let judge = shape.judge(is_control);
        let instances = options.instances as usize;
        let bytes = instances * MOST_STRIDE as usize * judge.places();
        let rows = instances * shape.rows() as usize * judge.registers();
        let region = u64::from(options.instances) * u64::from(MOST_STRIDE);
        Ok(Self {
            threads: if shape.by_warp {
                LANES
            } else {
                on.n(64, 256) as u32
            },
            memory: Buffer::zeroed(&stream, bytes / 16)?,
            rows: Buffer::from_slice(&stream, &vec![NONE; rows])?,
            elsewhere: Buffer::zeroed(&stream, ELSEWHERE as usize)?,
            cells: Buffer::from_slice(&stream, &judge.cells(region, shape.by_warp))?,
            columns: Buffer::from_slice(&stream, &judge.columns())?,
            counts: Buffer::zeroed(&stream, judge.outcomes())?,
            ignored: Buffer::zeroed(&stream, judge.outcomes())?,
            stream,
            shape,
            is_control,
            judge,
        })
    }

    fn run(mut self, options: &Options, time: Duration) -> Result<Seen> {
        let until = Instant::now() + time;
        // SplitMix64.
        let mut state = options.seed ^ (self.shape.protocol.len() as u64) << 32;
        let mut draw = |below: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = state;
            word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (word ^ word >> 31) % below
        };
        let mut launches = 0u32;
        while launches == 0 || Instant::now() < until {
            let strides: &[u32] = if self.shape.by_warp {
                &[256]
            } else {
                &[16, 32, 64, 128]
            };
            let mut litmus = LitmusArgs {
                memory: self.memory.as_mut_ptr().cast(),
                stride: strides[draw(strides.len() as u64) as usize],
                instances: options.instances,
                region: u64::from(options.instances) * u64::from(MOST_STRIDE),
                rows: self.rows.as_mut_ptr(),
                registers: self.judge.registers() as u32,
                scatter: 1,
                shift: 0,
                noise: 0,
                elsewhere: self.elsewhere.as_mut_ptr(),
                elsewhere_mask: ELSEWHERE - 1,
            };
            self.check(litmus, true)?;
            for _ in 0..options.launches.max(1) {
                // Instances of a warp side by side, or apart.
                litmus.scatter = [1, 1, 5, 33, 1025][draw(5) as usize];
                // Another block takes the next role.
                litmus.shift = draw(1 << 31) as u32 | self.threads;
                litmus.noise = [0, 0, 1, 4][draw(4) as usize];
                let kernel = self.shape.kernel(self.is_control);
                let blocks = match self.shape.by_warp {
                    true => options.instances,
                    false => options.instances / self.threads,
                };
                let grid = Grid::new(blocks, self.threads);
                // SAFETY: memory, rows and words are as large as the arguments say, and live until the counts are read.
                unsafe { kernel.launch(&self.stream, grid, litmus) }?;
                self.check(litmus, false)?;
                launches += 1;
            }
            self.stream.synchronize()?;
        }
        let instances =
            u64::from(launches) * u64::from(options.instances) * u64::from(self.shape.rows());
        let counts = self.counts.to_vec()?;
        Ok(Seen {
            instances,
            outcomes: self.judge.seen(&counts),
        })
    }

    fn check(&mut self, litmus: LitmusArgs, is_first: bool) -> Result<()> {
        let counts = if is_first {
            &mut self.ignored
        } else {
            &mut self.counts
        };
        let args = CheckArgs {
            litmus,
            rows_log2: self.shape.rows().ilog2(),
            cells: (self.cells.len() / 3) as u32,
            cell: self.cells.as_ptr().cast(),
            column: self.columns.as_ptr().cast(),
            columns: self.judge.width() as u32,
            counts: counts.as_mut_ptr(),
        };
        let rows = u64::from(litmus.instances) * u64::from(self.shape.rows());
        // SAFETY: as for the shape; there is a count for each number of a row.
        unsafe { CHECK.launch(&self.stream, Grid::covering(rows, self.threads), args) }
    }
}
