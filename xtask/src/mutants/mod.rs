//! `cargo xtask mutants`: plants one bug after the other and checks that the tests fail.
//!
//! The bugs are in `xtask/mutants.toml`, as changes of the source's text. All of them are woven into a
//! copy of the checkout, each behind a number that the environment chooses; so the copy is built
//! once, and the code that is shipped knows nothing of it. A bug whose place is not found any more
//! is an error: the list cannot become stale. Bugs in what only a GPU runs are planted by themselves, and found by what
//! `cargo xtask lint` counts in the PTX.

mod device;
mod functions;
mod hunt;
mod list;
mod tree;

use std::time::Instant;

use anyhow::{Result, bail};

use crate::grid::Grid;
use crate::workspace::Workspace;
use hunt::{Outcome, Programs};
use list::Mutant;

/// Which ones.
#[derive(clap::Args)]
pub struct Options {
    /// Only those whose names contain one of these.
    names: Vec<String>,
    /// Print the list, see that the places are there, and plant nothing.
    #[arg(long)]
    list: bool,
    /// Compile the code with all bugs in it, and run nothing.
    #[arg(long, conflicts_with = "list")]
    check: bool,
    /// Run no other tests than those that the list names for a bug: a bug that these do not notice has wrong ones.
    #[arg(long, conflicts_with_all = ["list", "check"])]
    named: bool,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mutants = list::read(workspace)?;
    let chosen: Vec<_> = mutants
        .iter()
        .enumerate()
        .filter(|(_, mutant)| is_chosen(mutant, &options.names))
        // 0 is the code as it is.
        .map(|(i, mutant)| (i + 1, mutant))
        .collect();
    if options.list {
        tree::weave_all(workspace, &mutants)?;
        for mutant in mutants.iter().filter(|mutant| device::is_of_device(mutant)) {
            device::plant(workspace, mutant)?;
        }
        for (_, mutant) in &chosen {
            println!("{}: {}", mutant.name, mutant.fault);
        }
        return Ok(());
    }
    if options.check {
        return check(workspace);
    }
    if chosen.is_empty() {
        bail!("no bug has such a name: see `cargo xtask mutants --list`");
    }
    let (of_device, woven): (Vec<_>, Vec<_>) = chosen
        .iter()
        .copied()
        .partition(|(_, mutant)| device::is_of_device(mutant));
    let programs = match woven.is_empty() {
        true => None,
        false => {
            let copy = tree::copy(workspace, &mutants)?;
            Some(Programs::build(workspace, &copy, &woven, options.named)?)
        }
    };
    let mut grid = Grid::new(["bug", "killed by", "schedule", "seconds"]);
    let mut survivors = Vec::new();
    for (number, mutant) in woven.iter().chain(&of_device) {
        let begin = Instant::now();
        let outcome = match &programs {
            Some(programs) if !device::is_of_device(mutant) => programs.hunt(*number, mutant)?,
            _ => device::hunt(workspace, mutant)?,
        };
        let seconds = format!("{:.1}", begin.elapsed().as_secs_f64());
        let (killer, schedule) = match outcome {
            Outcome::Killed { by, schedule } => (by, schedule),
            Outcome::Survived => {
                survivors.push(mutant.name.as_str());
                ("NO TEST".to_owned(), None)
            }
        };
        println!("{}: {killer} ({seconds} s)", mutant.name);
        let schedule = schedule.map_or("-".to_owned(), |n| n.to_string());
        grid.row([&mutant.name, &killer, &schedule, &seconds]);
    }
    println!("\n{grid}");
    if !survivors.is_empty() {
        bail!("no test notices: {}", survivors.join(", "));
    }
    println!("{} bugs planted, every one found", chosen.len());
    Ok(())
}

/// Compiles the copy: a bug can have its place and be no Rust any more.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mutants = list::read(workspace)?;
    let copy = tree::copy(workspace, &mutants)?;
    hunt::compile(workspace, &copy)?;
    println!("{} bugs compile", mutants.len());
    Ok(())
}

fn is_chosen(mutant: &Mutant, names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| mutant.name.contains(name))
}
