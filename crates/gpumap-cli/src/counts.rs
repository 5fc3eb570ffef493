//! Where the counts of k-mers go: what the commands with such an output have in common.

use std::ops::RangeInclusive;

use rayon::prelude::*;

use crate::cli::OutputArgs;
use crate::dump::KeyStyle;
use crate::emit::{Content, stream};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::output::{Destination, Staged};
use crate::progress::Progress;
use crate::spectrum::Spectrum;
use crate::table::Table;

/// An output of counts that was asked for.
pub struct CountsOutput {
    destination: Destination,
    format: Format,
    bounds: RangeInclusive<u64>,
    is_sorted: bool,
}

impl CountsOutput {
    /// The output that a command line asks for.
    pub fn of(args: &OutputArgs) -> Result<Self> {
        let (least, most) = (args.min_count.unwrap_or(0), args.max_count);
        let most = most.unwrap_or(u64::MAX);
        if least > most {
            return Err(Error::Bounds { least, most });
        }
        let destination = Destination::new(&args.output);
        // Any name will do for counts: what says nothing else is the TSV that jellyfish writes.
        let asked = args.format;
        let format = asked.or_else(|| Format::by_extension(destination.path()));
        Ok(Self {
            destination,
            format: format.unwrap_or(Format::Tsv),
            bounds: least..=most,
            is_sorted: args.sorted,
        })
    }

    /// Where it goes.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Whether counts may be left out.
    pub fn is_bounded(&self) -> bool {
        self.bounds != (0..=u64::MAX)
    }

    /// What it holds.
    fn content(&self, style: KeyStyle) -> Content {
        Content {
            format: self.format,
            style,
            bounds: self.bounds.clone(),
        }
    }

    /// Writes the counts of a table, and tallies all of them in `spectrum`, whatever the bounds are. Returns how
    /// many were written.
    pub fn write(
        &self,
        table: &mut Table,
        style: KeyStyle,
        mut spectrum: Option<&mut Spectrum>,
        progress: &Progress,
    ) -> Result<(Staged, u64)> {
        let mut file = self.destination.stage()?;
        let content = self.content(style);
        let written = if self.is_sorted {
            let mut pairs = table.pairs()?;
            pairs.sort();
            if let Some(spectrum) = spectrum {
                spectrum.add(pairs.as_slice().par_iter().map(|&(_, count)| count));
            }
            let mut written = 0;
            file.write_with(|out| {
                written = pairs.write(out, content, progress)?;
                Ok(())
            })?;
            written
        } else {
            stream(table, &mut file, content, progress, |counts| {
                if let Some(spectrum) = &mut spectrum {
                    spectrum.add(counts.par_iter().copied());
                }
            })?
        };
        Ok((file, written))
    }
}
