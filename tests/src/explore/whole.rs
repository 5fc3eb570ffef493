//! Cases of whole maps under the calls of several threads: one of each kind of slots.

use gpumap::executor::{Config, Trace};
use gpumap::{Numeric, Word, WordKey};
use gpumap_kernels::kernels::Encoding;

use super::{Case, Run};

/// A configuration of a whole map.
pub trait WholeMap {
    /// What meets in it.
    const CONFIGURATION: &'static str;
    /// What its slots are called: keys and values of 4 bytes, and keys of 8 bytes that are claimed in
    /// one step and in two.
    const FORMATS: [&'static str; 3] = [
        "4 + 4 bytes",
        "8 + 8 bytes, one step",
        "8 + 8 bytes, two steps",
    ];

    /// Runs it once, and says what was wrong. The trace is that of the calls.
    ///
    /// # Errors
    /// What was wrong.
    fn check<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
        encoding: Encoding,
        seed: u64,
        config: Config,
        trace: &mut Trace,
    ) -> Result<(), String>;
}

/// The cases of a configuration.
pub fn cases<M: WholeMap>() -> Vec<Case> {
    let runs: [fn(u64, Config) -> Run; 3] = [
        |seed, config| play::<M, u32>(Encoding::Wide, seed, config),
        |seed, config| play::<M, u64>(Encoding::Wide, seed, config),
        |seed, config| play::<M, u64>(Encoding::Split, seed, config),
    ];
    let case = |(format, run)| Case {
        configuration: M::CONFIGURATION,
        format,
        run,
    };
    M::FORMATS.into_iter().zip(runs).map(case).collect()
}

fn play<M: WholeMap, T: WordKey + Numeric>(encoding: Encoding, seed: u64, config: Config) -> Run {
    let mut trace = Trace::default();
    let outcome = M::check::<T, T>(encoding, seed, config, &mut trace);
    Run { trace, outcome }
}
