//! Counts the instructions whose number must be what the source says: those that lanes do
//! together, those that lead to memory they share, and those that order accesses or make a slot's two words
//! one. A compiler that duplicates one of the first into two branches, or loses one of the last, breaks the kernel silently.

use std::fmt;

use super::module::{Entry, Module};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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
    /// A fence for threads of other blocks.
    Fence,
    /// An access that releases to threads of other blocks.
    Release,
    /// An access that acquires from threads of other blocks.
    Acquire,
    /// An atomic that does both.
    AcquireRelease,
    /// A strong load of 16 bytes, which no other access falls into.
    Load128,
    /// A strong store of 16 bytes.
    Store128,
    /// An exchange of 16 bytes.
    Exchange128,
    /// A compare-and-swap of 4 bytes of global memory.
    Cas32,
    /// One of 8.
    Cas64,
    /// One of 16.
    Cas128,
}

impl Kind {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Kind; 17] = [
        Kind::BlockBarrier,
        Kind::WarpBarrier,
        Kind::Vote,
        Kind::Shuffle,
        Kind::Match,
        Kind::Reduce,
        Kind::SharedArray,
        Kind::Fence,
        Kind::Release,
        Kind::Acquire,
        Kind::AcquireRelease,
        Kind::Load128,
        Kind::Store128,
        Kind::Exchange128,
        Kind::Cas32,
        Kind::Cas64,
        Kind::Cas128,
    ];

    /// The name in tables and in `convergence.toml`: the instruction's.
    pub fn name(self) -> &'static str {
        match self {
            Kind::BlockBarrier => "bar.sync",
            Kind::WarpBarrier => "bar.warp.sync",
            Kind::Vote => "vote",
            Kind::Shuffle => "shfl",
            Kind::Match => "match",
            Kind::Reduce => "redux",
            Kind::SharedArray => "cvta.shared",
            Kind::Fence => "fence",
            Kind::Release => "release",
            Kind::Acquire => "acquire",
            Kind::AcquireRelease => "acq_rel",
            Kind::Load128 => "ld.128",
            Kind::Store128 => "st.128",
            Kind::Exchange128 => "exch.128",
            Kind::Cas32 => "cas.32",
            Kind::Cas64 => "cas.64",
            Kind::Cas128 => "cas.128",
        }
    }

    /// Whether an instruction of these parts counts as one. It may be of two kinds, as a compare-and-swap that releases.
    fn includes(self, parts: &[&str]) -> bool {
        let second = parts.get(1).copied();
        match self {
            Kind::WarpBarrier => parts[0] == "bar" && second == Some("warp"),
            // bar.sync, bar.arrive, bar.red, barrier.sync, bar.cta.sync, barrier.cluster...
            Kind::BlockBarrier => {
                parts[0] == "barrier" || parts[0] == "bar" && second != Some("warp")
            }
            Kind::Vote => parts[0] == "vote",
            Kind::Shuffle => parts[0] == "shfl",
            Kind::Match => parts[0] == "match",
            Kind::Reduce => parts[0] == "redux",
            Kind::SharedArray => parts[0] == "cvta" && second == Some("shared"),
            Kind::Fence => match parts[0] {
                "membar" => matches!(second, Some("gl" | "sys")),
                "fence" => has(parts, &["gpu", "sys"]) && second != Some("proxy"),
                _ => false,
            },
            Kind::Release => is_access(parts) && has(parts, &["release"]),
            Kind::Acquire => is_access(parts) && has(parts, &["acquire"]),
            Kind::AcquireRelease => is_access(parts) && has(parts, &["acq_rel"]),
            Kind::Load128 => parts[0] == "ld" && is_strong(parts) && has(parts, &["b128"]),
            Kind::Store128 => parts[0] == "st" && is_strong(parts) && has(parts, &["b128"]),
            Kind::Exchange128 => is_atomic(parts, "exch", "b128"),
            Kind::Cas32 => is_atomic(parts, "cas", "b32"),
            Kind::Cas64 => is_atomic(parts, "cas", "b64"),
            Kind::Cas128 => is_atomic(parts, "cas", "b128"),
        }
    }

    /// The kinds of an instruction.
    pub fn of(opcode: &str) -> impl Iterator<Item = Self> {
        let parts: Vec<_> = opcode.split('.').collect();
        Kind::ALL
            .into_iter()
            .filter(move |kind| kind.includes(&parts))
    }
}

fn has(parts: &[&str], any: &[&str]) -> bool {
    parts.iter().any(|part| any.contains(part))
}

/// An access that threads of other blocks may see. Without a scope an atomic is one for the whole GPU.
fn is_access(parts: &[&str]) -> bool {
    let within = |part: &&str| matches!(*part, "cta" | "cluster") || part.starts_with("shared");
    matches!(parts[0], "ld" | "st" | "atom" | "red") && !parts.iter().any(within)
}

/// One that is atomic for them.
pub fn is_strong(parts: &[&str]) -> bool {
    is_access(parts) && has(parts, &["relaxed", "acquire", "release", "acq_rel"])
}

fn is_atomic(parts: &[&str], operation: &str, width: &str) -> bool {
    parts[0] == "atom" && is_access(parts) && has(parts, &[operation]) && has(parts, &[width])
}

/// How many of each kind a kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u32; Kind::ALL.len()]);

impl Counts {
    /// Counts the instructions of `entry`.
    pub fn of(module: &Module, entry: &Entry) -> Self {
        let mut counts = Counts::default();
        for instruction in module.instructions(entry) {
            for kind in Kind::of(instruction.opcode) {
                counts.0[kind as usize] += 1;
            }
        }
        counts
    }

    /// The number of one kind.
    pub fn get(&self, kind: Kind) -> u32 {
        self.0[kind as usize]
    }

    /// Sets the number of one kind.
    pub fn set(&mut self, kind: Kind, count: u32) {
        self.0[kind as usize] = count;
    }
}

impl fmt::Display for Counts {
    /// An inline TOML table of what is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<_> = Kind::ALL
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
        use Kind::*;
        for (opcode, kinds) in [
            ("bar.sync", &[BlockBarrier][..]),
            ("barrier.sync.aligned", &[BlockBarrier]),
            ("barrier.cta.sync", &[BlockBarrier]),
            ("bar.warp.sync", &[WarpBarrier]),
            ("vote.sync.ballot.b32", &[Vote]),
            ("shfl.sync.idx.b32", &[Shuffle]),
            ("match.any.sync.b64", &[Match]),
            ("redux.sync.add.u32", &[Reduce]),
            ("bra", &[]),
            ("bra.uni", &[]),
            ("fence.acq_rel.gpu", &[Fence]),
            ("fence.sc.sys", &[Fence]),
            ("membar.gl", &[Fence]),
            ("membar.cta", &[]),
            ("fence.acq_rel.cta", &[]),
            ("fence.proxy.async", &[]),
            ("st.release.gpu.global.b64", &[Release]),
            ("red.release.gpu.global.add.u32", &[Release]),
            ("ld.acquire.gpu.global.b128", &[Acquire, Load128]),
            ("ld.acquire.cta.global.b32", &[]),
            ("ld.relaxed.gpu.global.b128", &[Load128]),
            ("ld.global.v2.u64", &[]),
            ("st.relaxed.gpu.global.b128", &[Store128]),
            (
                "atom.acq_rel.gpu.global.cas.b128",
                &[AcquireRelease, Cas128],
            ),
            ("atom.relaxed.gpu.global.exch.b128", &[Exchange128]),
            ("atom.relaxed.gpu.global.exch.b64", &[]),
            ("atom.relaxed.gpu.global.cas.b64", &[Cas64]),
            ("atom.global.cas.b32", &[Cas32]),
            ("atom.relaxed.cta.shared.cas.b32", &[]),
            ("atom.shared::cta.cas.b32", &[]),
        ] {
            assert_eq!(Kind::of(opcode).collect::<Vec<_>>(), kinds, "{opcode}");
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
