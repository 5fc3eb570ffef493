//! Counts the instructions whose number must be what the source says: those that lanes do
//! together, and those that lead to memory they share. A compiler that duplicates one into two branches breaks the kernel silently.

use std::fmt;

use super::module::{Entry, Module};

/// An operation that several lanes must reach together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Collective {
    /// A barrier of the block.
    BlockBarrier,
    /// A barrier of the warp.
    WarpBarrier,
    /// ballot, any, all, uni.
    Vote,
    /// A shuffle.
    Shuffle,
    /// match.any, match.all.
    Match,
    /// A warp-wide reduction.
    Reduce,
    /// Not an operation but as easily broken: taking the address of a shared array. A second
    /// copy of the expression is a second array, which half of the threads would use.
    SharedArray,
}

impl Collective {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Collective; 7] = [
        Collective::BlockBarrier,
        Collective::WarpBarrier,
        Collective::Vote,
        Collective::Shuffle,
        Collective::Match,
        Collective::Reduce,
        Collective::SharedArray,
    ];

    /// The name in tables and in `convergence.toml`: the instruction's.
    pub fn name(self) -> &'static str {
        match self {
            Collective::BlockBarrier => "bar.sync",
            Collective::WarpBarrier => "bar.warp.sync",
            Collective::Vote => "vote",
            Collective::Shuffle => "shfl",
            Collective::Match => "match",
            Collective::Reduce => "redux",
            Collective::SharedArray => "cvta.shared",
        }
    }

    /// What kind of collective an instruction is, if it is one.
    pub fn of(opcode: &str) -> Option<Self> {
        let mut parts = opcode.split('.');
        match (parts.next()?, parts.next()) {
            ("bar", Some("warp")) => Some(Collective::WarpBarrier),
            // bar.sync, bar.arrive, bar.red, barrier.sync, bar.cta.sync, barrier.cluster...
            ("bar" | "barrier", _) => Some(Collective::BlockBarrier),
            ("vote", _) => Some(Collective::Vote),
            ("shfl", _) => Some(Collective::Shuffle),
            ("match", _) => Some(Collective::Match),
            ("redux", _) => Some(Collective::Reduce),
            ("cvta", Some("shared")) => Some(Collective::SharedArray),
            _ => None,
        }
    }
}

/// How many of each collective a kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u32; Collective::ALL.len()]);

impl Counts {
    /// Counts the instructions of `entry`.
    pub fn of(module: &Module, entry: &Entry) -> Self {
        let mut counts = Counts::default();
        for instruction in module.instructions(entry) {
            if let Some(kind) = Collective::of(instruction.opcode) {
                counts.0[kind as usize] += 1;
            }
        }
        counts
    }

    /// The number of one kind.
    pub fn get(&self, kind: Collective) -> u32 {
        self.0[kind as usize]
    }

    /// Sets the number of one kind.
    pub fn set(&mut self, kind: Collective, count: u32) {
        self.0[kind as usize] = count;
    }
}

impl fmt::Display for Counts {
    /// An inline TOML table of what is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<_> = Collective::ALL
            .into_iter()
            .filter(|&kind| self.get(kind) > 0)
            .map(|kind| format!("\"{}\" = {}", kind.name(), self.get(kind)))
            .collect();
        if fields.is_empty() {
            return f.write_str("{}");
        }
        write!(f, "{{ {} }}", fields.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes() {
        use Collective::*;
        for (opcode, kind) in [
            ("bar.sync", Some(BlockBarrier)),
            ("barrier.sync.aligned", Some(BlockBarrier)),
            ("barrier.cta.sync", Some(BlockBarrier)),
            ("bar.warp.sync", Some(WarpBarrier)),
            ("vote.sync.ballot.b32", Some(Vote)),
            ("shfl.sync.idx.b32", Some(Shuffle)),
            ("match.any.sync.b64", Some(Match)),
            ("redux.sync.add.u32", Some(Reduce)),
            ("bra", None),
            ("bra.uni", None),
        ] {
            assert_eq!(Collective::of(opcode), kind, "{opcode}");
        }
    }

    #[test]
    fn counts_of_a_captured_kernel() {
        let module = Module::parse(include_str!("../../samples/collect.ptx")).unwrap();
        let counts: Vec<_> = module
            .entries
            .iter()
            .map(|entry| Counts::of(&module, entry).to_string())
            .collect();
        assert_eq!(
            counts,
            [
                "{ \"bar.sync\" = 2, \"bar.warp.sync\" = 1, \"vote\" = 1, \"shfl\" = 1, \
                 \"match\" = 1 }",
                "{}"
            ]
        );
    }
}
