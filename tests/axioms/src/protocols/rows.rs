//! Row maps, and pages in shared memory.
//!
//! `C0` and `C1` are claims by the places 0 and 1 of a batch, `R` is a row.

use super::{Protocol, Source, needed, not_needed};

const CLAIM: &str = "crates/gpumap-kernels/src/rows/claim.rs";
const VIEW: &str = "crates/gpumap-kernels/src/rows/view.rs";
const COMMIT: &str = "crates/gpumap-kernels/src/rows/commit.rs";
const REMOVE: &str = "crates/gpumap-kernels/src/rows/remove.rs";
const PAGE: &str = "crates/gpumap-kernels/src/build/page/claim.rs";

const EXCHANGE: Source = (
    VIEW,
    "exchange",
    "unsafe { atomic::compare_exchange(self.slot(i), known.bits(), new.bits(), Relaxed) };",
);

pub(super) const ALL: &[Protocol] = &[
    Protocol {
        name: "rows: owners",
        source: &[
            EXCHANGE,
            (
                CLAIM,
                "claim",
                "held = view.exchange(at, held, RowSlot::claim_of(tag, i));",
            ),
            (
                CLAIM,
                "settle",
                "let there = self.view.exchange(at, held, mine);",
            ),
            (
                CLAIM,
                "turn",
                "unsafe { atomic::fetch_xor(self.owners.wrapping_add(word as usize), bits, Relaxed) };",
            ),
        ],
        promise: "the first place of a key owns its slot, and has its bit alone",
        program: "
            slot: E
            owners: 0
            == place 1, block 0
            atom.relaxed.gpu.cas.b64 a, [slot], E, C1
            @a=E atom.relaxed.gpu.xor.b32 _, [owners], 2
            == place 0, block 1
            atom.relaxed.gpu.cas.b64 b, [slot], E, C0
            @b=E atom.relaxed.gpu.xor.b32 _, [owners], 1
            @b=C1 atom.relaxed.gpu.cas.b64 c, [slot], C1, C0
            @b=C1 atom.relaxed.gpu.xor.b32 _, [owners], 3",
        forbidden: "owners!=1; slot!=C0",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "exclusive or, not a bit set and a bit cleared",
                &[
                    ("xor.b32 _, [owners], 2", "or.b32 _, [owners], 2"),
                    (
                        "@b=C1 atom.relaxed.gpu.xor.b32 _, [owners], 3",
                        "@b=C1 atom.relaxed.gpu.and.b32 _, [owners], 1; @b=C1 atom.relaxed.gpu.or.b32 _, [owners], 1",
                    ),
                ],
            ),
            needed("gpu scope of the slot", &[("gpu.cas", "cta.cas")]),
            needed("of the bits", &[("gpu.xor", "cta.xor")]),
            needed(
                "a CAS, not a load and a store",
                &[(
                    "atom.relaxed.gpu.cas.b64 b, [slot], E, C0",
                    "ld.relaxed.gpu.b64 b, [slot]; @b=E st.relaxed.gpu.b64 [slot], C0",
                )],
            ),
        ],
    },
    Protocol {
        name: "rows: commit",
        source: &[
            (
                COMMIT,
                "place",
                "atomic::store(view.slot(at), slot.bits(), Relaxed);",
            ),
            (COMMIT, "place", "let held = view.load(at);"),
        ],
        promise: "another place of the key finds the claim or the row",
        program: "
            slot: C0 5
            == owner, block 0
            st.relaxed.gpu.b64 [slot], (R 6)
            == another place, block 1
            ld.relaxed.gpu.b64 (a x), [slot]",
        forbidden: "a=C0 x!=5; a=R x!=6",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "a relaxed store, not a weak one",
                &[("st.relaxed.gpu", "st")],
            ),
            needed(
                "a relaxed load, not a weak one",
                &[("ld.relaxed.gpu", "ld")],
            ),
            needed("gpu scope", &[("ld.relaxed.gpu", "ld.relaxed.cta")]),
        ],
    },
    Protocol {
        name: "rows: removal",
        source: &[
            EXCHANGE,
            (
                REMOVE,
                "remove",
                "let there = view.exchange(found.at, held, RowSlot::TOMBSTONE);",
            ),
            (
                REMOVE,
                "remove",
                "atomic::fetch_or(args.removed.wrapping_add(word as usize), 1 << bit, Relaxed);",
            ),
        ],
        promise: "a key that is given twice is removed once; bits of other rows stay",
        program: "
            slot: R
            bits: 0
            == thread, block 0
            atom.relaxed.gpu.cas.b64 a, [slot], R, T
            @a=R atom.relaxed.gpu.or.b32 _, [bits], 1
            == thread, block 1
            atom.relaxed.gpu.cas.b64 b, [slot], R, T
            @b=R atom.relaxed.gpu.or.b32 _, [bits], 1
            == another row, block 2
            atom.relaxed.gpu.or.b32 _, [bits], 2",
        forbidden: "a=R b=R; a!=R b!=R; bits!=3",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed("gpu scope of the slot", &[("gpu.cas", "cta.cas")]),
            needed("of the bits", &[("gpu.or", "cta.or")]),
        ],
    },
    Protocol {
        name: "pages: claims",
        source: &[(
            PAGE,
            "claim_from_own",
            "there = slot.compare_exchange(FREE, word);",
        )],
        promise: "one thread has the slot; the others see the key that was staged for it",
        program: "
            slot: F
            keys: 0 0
            == thread, block 0
            st.b64 [keys], 7
            bar.sync
            atom.relaxed.cta.cas.b32 a, [slot], F, 1
            == thread, block 0
            st.b64 [keys.1], 8
            bar.sync
            atom.relaxed.cta.cas.b32 b, [slot], F, 2
            @b=1 ld.b64 k, [keys]",
        forbidden: "a=F b=F; a!=F b!=F; b=1 k!=7",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed("the barrier", &[("bar.sync", "")]),
            needed(
                "a CAS, not a load and a store",
                &[(
                    "atom.relaxed.cta.cas.b32 b, [slot], F, 2",
                    "ld.relaxed.cta.b32 b, [slot]; @b=F st.relaxed.cta.b32 [slot], 2",
                )],
            ),
        ],
    },
    Protocol {
        name: "pages: a look before the claim",
        source: &[(PAGE, "claim_from_own", "let mut there = slot.peek();")],
        promise: "the same, if the slot is looked at first",
        program: "
            slot: F
            == thread, block 0
            atom.relaxed.cta.cas.b32 a, [slot], F, 1
            == thread, block 0
            ld.relaxed.cta.b32 p, [slot]
            @p=F atom.relaxed.cta.cas.b32 b, [slot], F, 2",
        forbidden: "a=F b=F; a!=F p=F b!=F; a!=F p!=F; p!=F p!=1",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "the CAS after the look",
                &[(
                    "@p=F atom.relaxed.cta.cas.b32 b, [slot], F, 2",
                    "@p=F ld.weak.b32 b, [slot]; @p=F st.relaxed.cta.b32 [slot], 2",
                )],
            ),
            not_needed(
                "a relaxed look: a plain one may only see the slot free for longer",
                &[("ld.relaxed.cta", "ld")],
            ),
        ],
    },
];
