//! What PTX must not have (calls, traps, local memory, spills), what it must have
//! exactly (collectives, fences, exchanges), and what assemblers make of these.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use crate::arch::Arch;
use crate::convergence::Table;
use crate::exceptions::{Exceptions, Finding};
use crate::grid::Grid;
use crate::ptx::bounds::{self, Bounds};
use crate::ptx::count::{Counts, Kind};
use crate::ptx::module::Module;
use crate::ptx::{forbidden, torn, unread};
use crate::ptxas::{self, Gpu, Ptxas, REGISTERS, Release, Usage};
use crate::sass::{Disassembler, Executed};
use crate::spills::Spills;

/// The table of what each kernel must have.
const COUNTS: &str = "convergence.toml";
/// The table of kernels that do not keep everything in registers.
const SPILLS: &str = "spills.toml";
/// The list of findings that pass.
const EXCEPTIONS: &str = "exceptions.toml";

/// What to look at, and what to do about differences.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Rewrite the tables of counts and of spills to what the PTX has.
    #[arg(long)]
    bless: bool,
    /// Assemble for every GPU by every release of the assembler, not only for those that each change is checked for.
    #[arg(long)]
    all: bool,
    /// Print a table of all kernels: registers, memory and counts.
    #[arg(long)]
    table: bool,
}

/// PTX that is looked at.
#[derive(Debug)]
pub struct Subject {
    /// The package.
    pub name: String,
    /// Where its tables are.
    pub folder: PathBuf,
    /// For each architecture that has one.
    pub texts: Vec<(Arch, String)>,
}

/// What is wrong with the texts alone: without an assembler, and without the table of spills.
pub fn findings(subject: &Subject) -> Result<Vec<String>> {
    let parsed = Parsed::new(subject)?;
    let mut findings = of_text(&parsed);
    findings.extend(parsed.differences()?);
    Ok(findings)
}

/// A subject, its texts taken apart, and its tables.
struct Parsed<'a> {
    subject: &'a Subject,
    modules: Vec<(Arch, Module)>,
    counts: Table,
    exceptions: Exceptions,
}

/// The counts of every kernel of these texts.
fn count<'a>(modules: impl IntoIterator<Item = (Arch, &'a Module)>) -> Table {
    let mut counts = Table::default();
    for (arch, module) in modules {
        for entry in &module.entries {
            counts.set(&entry.name, arch, Counts::of(module, entry));
        }
    }
    counts
}

impl<'a> Parsed<'a> {
    fn new(subject: &'a Subject) -> Result<Self> {
        let modules = subject.texts.iter().map(|(arch, text)| {
            let module = Module::parse(text);
            let place = || format!("in the PTX of {} for {arch}", subject.name);
            Ok((*arch, module.with_context(place)?))
        });
        let modules = modules.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            subject,
            counts: count(modules.iter().map(|(arch, module)| (*arch, module))),
            modules,
            exceptions: read(&subject.folder.join(EXCEPTIONS), Exceptions::parse)?,
        })
    }

    /// How the counts differ from the table.
    fn differences(&self) -> Result<Vec<String>> {
        let arches: Vec<_> = self.modules.iter().map(|&(arch, _)| arch).collect();
        let table = read(&self.subject.folder.join(COUNTS), Table::parse)?;
        Ok(table.differences(&self.counts, &arches))
    }
}

/// Checks PTX of some crates, and fails with a list of all findings. The assemblers are installed in the folder `tools`.
pub fn lint(tools: &Path, subjects: &[Subject], options: &Options) -> Result<()> {
    let parsed = subjects
        .iter()
        .map(Parsed::new)
        .collect::<Result<Vec<_>>>()?;
    let assembled = assemble_all(tools, subjects, options.all)?;
    let mut problems = Vec::new();
    let mut grid = Grid::new([
        "kernel",
        "PTX",
        "SASS",
        "by",
        "registers",
        "shared",
        "stack",
        "spills",
        "counts",
    ]);
    for (number, parsed) in parsed.iter().enumerate() {
        let mut spills = Spills::default();
        for assembled in assembled.iter().filter(|it| it.subject == number) {
            problems.extend(of_assembly(parsed, assembled, &mut spills, &mut grid)?);
        }
        problems.extend(of_text(parsed));
        problems.extend(of_tables(parsed, spills, options)?);
        if options.all {
            problems.extend(parsed.exceptions.unused());
        }
    }
    if options.table {
        println!("\n{grid}");
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{} findings:\n  {}", problems.len(), problems.join("\n  "))
}

/// What is wrong with what an assembler has made of a text.
fn of_assembly(
    Parsed {
        modules,
        counts,
        exceptions,
        ..
    }: &Parsed<'_>,
    assembled: &Assembled,
    spills: &mut Spills,
    grid: &mut Grid,
) -> Result<Vec<String>> {
    let Assembled {
        text, gpu, release, ..
    } = assembled;
    let (arch, module) = &modules[*text];
    let place = format!("{arch} on {} by {}", gpu.name, release.name);
    let of_gpu = |warning: &String| format!("{place}: {warning}");
    let mut problems: Vec<_> = assembled.warnings.iter().map(of_gpu).collect();
    for entry in &module.entries {
        let kernel = &entry.name;
        let (Some(usage), Some(executed)) =
            (assembled.usages.get(kernel), assembled.executed.get(kernel))
        else {
            bail!("ptxas says nothing about the kernel {kernel} ({place})");
        };
        let counts = counts.get(kernel, *arch).context("it was counted")?;
        let numbers = [usage.registers, usage.shared, usage.stack, usage.spills];
        grid.row(
            [kernel, arch.name(), gpu.name, release.name]
                .map(str::to_owned)
                .into_iter()
                .chain(numbers.map(|number| number.to_string()))
                .chain([counts.to_string()]),
        );
        spills.record(kernel, gpu.name, usage.outside());
        let bounds = bounds::of(module, entry);
        let mut found = crowded(bounds, usage.registers, gpu);
        found.extend(lost(counts, executed));
        let copied = copied(counts, executed);
        if !copied.is_empty() && !exceptions.has(kernel, Finding::CopiedOrder) {
            found.extend(copied);
        }
        let torn = match executed.pairs.is_empty() {
            true => 0,
            false => executed.pairs.beyond(&torn::pairs(module, entry)),
        };
        if torn > 0 && !exceptions.has(kernel, Finding::TornLoad) {
            found.push(format!(
                "{torn} times two strong loads of one unit of 16 bytes, which the PTX loads at once: the two words \
                 may be of two moments. If they belong together, use both halves of what is loaded; if not, except \
                 the kernel in {EXCEPTIONS}"
            ));
        }
        problems.extend(
            found
                .iter()
                .map(|found| format!("{kernel} ({place}): {found}")),
        );
    }
    Ok(problems)
}

/// Whether fewer blocks fit a multiprocessor than the kernel's bounds ask for and its threads have room for.
fn crowded(bounds: Bounds, registers: u32, gpu: &Gpu) -> Vec<String> {
    let (Some(threads), Some(blocks)) = (bounds.max_threads, bounds.min_blocks) else {
        return Vec::new();
    };
    let blocks = blocks.min(gpu.threads / threads).max(1);
    // They are handed out to warps, 8 per thread at a time.
    let needed = registers.next_multiple_of(8) * threads.next_multiple_of(32) * blocks;
    if needed <= REGISTERS {
        return Vec::new();
    }
    vec![format!(
        "{blocks} blocks of {threads} threads need {needed} registers, and a multiprocessor has {REGISTERS}: the \
         launch bounds do not fit"
    )]
}

/// A name of machine code, how many there are, how many the PTX asks for, and by what.
type Rule = (&'static str, u32, u32, &'static str);

/// What orders accesses: there must be neither fewer nor more.
fn orders(counts: &Counts, executed: &Executed) -> [Rule; 2] {
    let both = counts.get(Kind::Fence) + counts.get(Kind::AcquireRelease);
    let (barriers, invalidations) = (
        both + counts.get(Kind::Release),
        both + counts.get(Kind::Acquire),
    );
    [
        (
            "MEMBAR.GPU",
            executed.barriers,
            barriers,
            "fences and releases",
        ),
        (
            "CCTL.IVALL",
            executed.invalidations,
            invalidations,
            "fences and acquires",
        ),
    ]
}

/// What accesses memory: there must not be fewer.
fn accesses(counts: &Counts, executed: &Executed) -> [Rule; 6] {
    let [cas_32, cas_64, cas_128] = executed.cas;
    let rule = |name, found, kind, what| (name, found, counts.get(kind), what);
    [
        rule("CAS", cas_32, Kind::Cas32, "of 32 bits"),
        rule("CAS.64", cas_64, Kind::Cas64, "of 64 bits"),
        rule("CAS.128", cas_128, Kind::Cas128, "of 128 bits"),
        rule(
            "EXCH.128",
            executed.exchanges_128,
            Kind::Exchange128,
            "exchanges of 128 bits",
        ),
        rule(
            "ST.128.STRONG",
            executed.stores_128,
            Kind::Store128,
            "strong stores of 128 bits",
        ),
        // Half of one may be all that is used, so that fewer bytes are loaded, but not none.
        (
            "LD.STRONG",
            executed.loads,
            counts.get(Kind::Load128).min(1),
            "strong loads of 128 bits",
        ),
    ]
}

/// What an assembler has dropped or weakened.
fn lost(counts: &Counts, executed: &Executed) -> Vec<String> {
    let rules = orders(counts, executed).into_iter();
    let rules = rules.chain(accesses(counts, executed));
    let lost = rules.filter(|(_, found, least, _)| found < least);
    lost.map(|(name, found, least, what)| {
        format!("{found} {name}, the PTX has {least} {what}: the assembler dropped or split one")
    })
    .collect()
}

/// What an assembler has more of than the PTX.
fn copied(counts: &Counts, executed: &Executed) -> Vec<String> {
    let more = orders(counts, executed).into_iter();
    let more = more.filter(|(_, found, most, _)| found > most);
    more.map(|(name, found, most, what)| {
        format!("{found} {name}, the PTX has {most} {what}: the assembler copied one")
    })
    .collect()
}

/// What is wrong with the texts themselves.
fn of_text(parsed: &Parsed<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for (arch, module) in &parsed.modules {
        let entries = module.entries.iter();
        let of_entries = entries.flat_map(|entry| forbidden::in_entry(module, entry));
        let forbidden = forbidden::in_module(module).into_iter().chain(of_entries);
        problems.extend(forbidden.map(|finding| {
            let (place, what, reason) = (finding.place, finding.what, finding.reason);
            format!("{place} ({arch}): {what}: {reason}")
        }));
        for entry in &module.entries {
            let unread = unread::acquires(module, entry);
            if !unread.is_empty() && !parsed.exceptions.has(&entry.name, Finding::UnreadAcquire) {
                problems.push(format!(
                    "{} ({arch}): nothing reads the result of {}: the assembler of CUDA 12.3 and 12.4 drops the \
                     acquire then, on sm_90. Read it, or use a relaxed or releasing atomic and a fence",
                    entry.name,
                    unread.join(", ")
                ));
            }
        }
    }
    problems
}

/// How the tables differ; or writes them.
fn of_tables(parsed: &Parsed<'_>, mut spills: Spills, options: &Options) -> Result<Vec<String>> {
    let folder = &parsed.subject.folder;
    let modules = parsed.modules.iter();
    let names = modules.flat_map(|(_, module)| module.entries.iter().map(|entry| &*entry.name));
    let names: BTreeSet<&str> = names.collect();
    let (counts_path, spills_path) = (folder.join(COUNTS), folder.join(SPILLS));
    let allowed = read(&spills_path, Spills::parse)?;
    if options.bless {
        if !options.all {
            spills.record_all(&allowed, |kernel| names.contains(kernel));
        }
        write(&counts_path, &parsed.counts.render())?;
        if spills_path.exists() || spills != Spills::default() {
            write(&spills_path, &spills.render())?;
        }
        return Ok(Vec::new());
    }
    let mut problems = parsed.differences()?;
    if !problems.is_empty() {
        println!(
            "where counts differ from {}: if the source was changed to have that many, run it with `--bless`; \
             if not, the compiler duplicated or lost one\n",
            counts_path.display()
        );
    }
    problems.extend(allowed.excess(&spills));
    Ok(problems)
}

fn write(path: &Path, text: &str) -> Result<()> {
    println!("wrote {}", path.display());
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// A table beside the kernels; without the file, one that is empty.
pub(crate) fn read<T: Default>(path: &Path, parse: impl Fn(&str) -> Result<T>) -> Result<T> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).with_context(|| format!("in {}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// A PTX text as it was assembled for one GPU.
struct Assembled {
    /// Which subject's, and which of its texts.
    subject: usize,
    text: usize,
    gpu: &'static Gpu,
    release: &'static Release,
    usages: BTreeMap<String, Usage>,
    executed: BTreeMap<String, Executed>,
    warnings: Vec<String>,
}

/// Assembles each text for each of its [targets](ptxas::targets), as many at a time as there are processors.
fn assemble_all(tools: &Path, subjects: &[Subject], all: bool) -> Result<Vec<Assembled>> {
    let mut jobs = Vec::new();
    let mut releases = BTreeMap::new();
    for (number, subject) in subjects.iter().enumerate() {
        let arches: Vec<_> = subject.texts.iter().map(|&(arch, _)| arch).collect();
        for (text, &arch) in arches.iter().enumerate() {
            for (release, gpu) in ptxas::targets(arch, &arches, all) {
                if !releases.contains_key(release.name) {
                    let ptxas = Ptxas::find(tools, release)?;
                    println!("CUDA {}: {}", release.name, ptxas.version);
                    releases.insert(release.name, ptxas);
                }
                jobs.push((number, text, release, gpu));
            }
        }
    }
    let disassembler = Disassembler::find(tools)?;
    // Long texts first, so that no thread has one of them left when all others have ended.
    let length = |&(number, text, ..): &(usize, usize, _, _)| subjects[number].texts[text].1.len();
    jobs.sort_by_key(length);
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().ok()?.pop();
    let work = || -> Result<Vec<Assembled>> {
        let mut assembled = Vec::new();
        while let Some((number, text, release, gpu)) = next() {
            let begin = Instant::now();
            let subject = &subjects[number];
            let (arch, ptx) = &subject.texts[text];
            let name = format!(
                "{}_{arch}_on_{}_by_{}",
                subject.name, gpu.name, release.name
            );
            let one = Scratch::new(tools, &name)?.assemble(
                ptx,
                &releases[release.name],
                gpu,
                &disassembler,
            );
            let (usages, warnings, executed) = one.with_context(|| name.clone())?;
            println!(
                "{name}: {} kernels, {:.1} s",
                usages.len(),
                begin.elapsed().as_secs_f64()
            );
            assembled.push(Assembled {
                subject: number,
                text,
                gpu,
                release,
                usages,
                executed,
                warnings,
            });
        }
        Ok(assembled)
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let ended = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|thread| thread.map_err(|_| anyhow!("an assembly panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    let mut assembled: Vec<_> = ended.into_iter().flatten().collect();
    let capability = |it: &Assembled| ptxas::GPUS.iter().position(|gpu| gpu == it.gpu);
    assembled.sort_by_key(|it| (it.subject, it.text, capability(it), it.release.name));
    Ok(assembled)
}

/// Files that the assembler and the disassembler read and write. They stay: the same text is not assembled again by the same
/// release, which takes minutes for all texts.
struct Scratch {
    ptx: PathBuf,
    cubin: PathBuf,
    /// The release, as it names itself, and under it what it said.
    report: PathBuf,
}

type Parts = (
    BTreeMap<String, Usage>,
    Vec<String>,
    BTreeMap<String, Executed>,
);

impl Scratch {
    fn new(tools: &Path, name: &str) -> Result<Self> {
        let folder = tools.join("ptx").join("lint").join(name);
        fs::create_dir_all(&folder)?;
        Ok(Self {
            ptx: folder.join("text.ptx"),
            cubin: folder.join("text.cubin"),
            report: folder.join("report.txt"),
        })
    }

    /// By way of a file: the text may not be the one that is shipped.
    fn assemble(
        &self,
        text: &str,
        ptxas: &Ptxas,
        gpu: &Gpu,
        disassembler: &Disassembler,
    ) -> Result<Parts> {
        let report = match self.assembled(text, &ptxas.version) {
            Some(report) => report,
            None => {
                // Without a report no file of this folder is taken for the result.
                if self.report.exists() {
                    fs::remove_file(&self.report)?;
                }
                fs::write(&self.ptx, text)?;
                let report = ptxas.assemble(&self.ptx, gpu.name, &self.cubin)?;
                fs::write(&self.report, format!("{}\n{report}", ptxas.version))?;
                report
            }
        };
        let executed = disassembler.executed(&self.cubin, gpu.name)?;
        Ok((ptxas::usages(&report)?, ptxas::warnings(&report), executed))
    }

    /// What this release said when it assembled this text, if it has.
    fn assembled(&self, text: &str, version: &str) -> Option<String> {
        let report = fs::read_to_string(&self.report).ok()?;
        let (by, report) = report.split_once('\n')?;
        let is_same = by == version
            && self.cubin.is_file()
            && fs::read(&self.ptx).is_ok_and(|ptx| ptx == text.as_bytes());
        is_same.then(|| report.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kinds: &[(Kind, u32)]) -> Counts {
        let mut counts = Counts::default();
        for &(kind, count) in kinds {
            counts.set(kind, count);
        }
        counts
    }

    #[test]
    fn what_an_assembler_drops_or_copies_is_found() {
        let counts = asked(&[
            (Kind::Fence, 1),
            (Kind::Release, 1),
            (Kind::Acquire, 2),
            (Kind::AcquireRelease, 1),
            (Kind::Load128, 3),
            (Kind::Store128, 1),
            (Kind::Exchange128, 1),
            (Kind::Cas64, 1),
            (Kind::Cas128, 1),
        ]);
        let all = Executed {
            barriers: 3,
            invalidations: 4,
            loads: 1,
            stores_128: 1,
            exchanges_128: 1,
            cas: [0, 2, 1],
            ..Executed::default()
        };
        assert_eq!(lost(&counts, &all), [""; 0]);
        assert_eq!(copied(&counts, &all), [""; 0]);
        for worse in [
            Executed {
                barriers: 2,
                ..all.clone()
            },
            Executed {
                invalidations: 3,
                ..all.clone()
            },
            Executed {
                loads: 0,
                ..all.clone()
            },
            Executed {
                stores_128: 0,
                ..all.clone()
            },
            Executed {
                exchanges_128: 0,
                ..all.clone()
            },
            Executed {
                cas: [0, 0, 1],
                ..all.clone()
            },
            Executed {
                cas: [0, 2, 0],
                ..all.clone()
            },
        ] {
            assert_eq!(lost(&counts, &worse).len(), 1, "{worse:?}");
        }
        let more = Executed { barriers: 4, ..all };
        assert_eq!(copied(&counts, &more).len(), 1);
    }

    #[test]
    fn bounds_fit_as_many_threads_as_a_multiprocessor_has() {
        let of = |name: &str| ptxas::GPUS.iter().find(|gpu| gpu.name == name).unwrap();
        let bounds = |max_threads, min_blocks| Bounds {
            max_threads,
            min_blocks,
        };
        // Four blocks of 512 threads are more than an SM of sm_120 takes: three of them have to fit.
        let four = bounds(Some(512), Some(4));
        assert!(crowded(four, 32, of("sm_90")).is_empty());
        assert_eq!(crowded(four, 33, of("sm_90")).len(), 1);
        assert!(crowded(four, 40, of("sm_120")).is_empty());
        assert_eq!(crowded(four, 41, of("sm_120")).len(), 1);
        assert!(crowded(bounds(Some(512), None), 128, of("sm_75")).is_empty());
    }

    #[test]
    fn a_text_is_not_assembled_twice_by_one_release() {
        let folder = std::env::temp_dir().join(format!("gpumap-lint-{}", std::process::id()));
        let scratch = Scratch::new(&folder, "a").unwrap();
        let write = |file: &Path, text: &str| fs::write(file, text).unwrap();
        write(&scratch.ptx, "ret;");
        write(&scratch.report, "ptxas 1\nUsed 8\nregisters\n");
        // A cubin is part of it.
        assert_eq!(scratch.assembled("ret;", "ptxas 1"), None);
        write(&scratch.cubin, "");
        let found = scratch.assembled("ret;", "ptxas 1");
        assert_eq!(found.as_deref(), Some("Used 8\nregisters\n"));
        assert_eq!(scratch.assembled("nop;", "ptxas 1"), None);
        assert_eq!(scratch.assembled("ret;", "ptxas 2"), None);
        fs::remove_file(&scratch.report).unwrap();
        assert_eq!(scratch.assembled("ret;", "ptxas 1"), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
