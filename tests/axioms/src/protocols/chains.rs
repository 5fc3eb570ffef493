//! Chains: links, the slab allocator, slabs that are given back.

use super::{Protocol, Source, needed};

const SLAB: &str = "crates/gpumap-kernels/src/chained/slab.rs";
const ALLOCATOR: &str = "crates/gpumap-kernels/src/chained/allocator.rs";
const QUEUE: &str = "crates/gpumap-kernels/src/chained/queue.rs";
const COMPACT: &str = "crates/gpumap-kernels/src/chained/compact.rs";

const LINK: Source = (
    SLAB,
    "link",
    "SlabIndex(unsafe { atomic::compare_exchange(self.link_word(), none, new.0, Relaxed) })",
);

pub(super) const ALL: &[Protocol] = &[
    Protocol {
        name: "links",
        source: &[
            LINK,
            (
                SLAB,
                "load",
                "unsafe { atomic::load(self.vector(rank), Relaxed) }",
            ),
            (
                SLAB,
                "next",
                "SlabIndex(unsafe { atomic::load(self.link_word(), Relaxed) })",
            ),
        ],
        promise: "one slab is linked; a lane that follows the link finds empty slots or whole pairs",
        program: "
            link: N
            one: E E
            == inserter, block 0
            atom.relaxed.gpu.cas.b64 a, [link], N, 1
            @a=N atom.relaxed.gpu.cas.b128 (k v), [one], (E E), (K 7)
            == inserter, block 1
            atom.relaxed.gpu.cas.b64 b, [link], N, 2
            @b=1 ld.relaxed.gpu.b128 (l w), [one]",
        forbidden: "a=N b=N; a!=N b!=N; l=K w!=7; l=E w!=E; l!=K l!=E; b=N link!=2",
        holds_in_halves: false,
        has_mixed_sizes: false,
        weakened: &[
            needed("gpu scope of the link", &[("gpu.cas.b64", "cta.cas.b64")]),
            needed(
                "a CAS of the link, not a load and a store",
                &[(
                    "atom.relaxed.gpu.cas.b64 b, [link], N, 2",
                    "ld.relaxed.gpu.b64 b, [link]; @b=N st.relaxed.gpu.b64 [link], 2",
                )],
            ),
            needed(
                "slabs that an earlier launch made empty, not the lane that links them",
                &[
                    ("one: E E", "one: G G"),
                    (
                        "atom.relaxed.gpu.cas.b64 a",
                        "st.relaxed.gpu.b128 [one], (E E); atom.relaxed.gpu.cas.b64 a",
                    ),
                ],
            ),
        ],
    },
    Protocol {
        name: "the pool's last unit",
        source: &[
            LINK,
            (
                QUEUE,
                "serve",
                "warp::sync_warp(LaneMask::FULL);\n                    if grows {",
            ),
            (QUEUE, "serve", "link = slab.next();"),
        ],
        promise: "a lane without a unit finds what its warp has linked",
        program: "
            link: N
            == lane with a unit, block 0
            atom.relaxed.gpu.cas.b64 a, [link], N, 1
            bar.sync
            == lane without, block 0
            bar.sync
            ld.relaxed.gpu.b64 b, [link]",
        forbidden: "b=N",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[needed("the barrier of the warp", &[("bar.sync", "")])],
    },
    Protocol {
        name: "units",
        source: &[
            (
                ALLOCATOR,
                "mark",
                "atomic::fetch_or(word, 1 << bit, Relaxed)",
            ),
            (ALLOCATOR, "free", "atomic::fetch_and(word, !bit, Relaxed);"),
        ],
        promise: "a unit has one owner; a bit of another unit stays",
        program: "
            bits: 2
            == warp, block 0
            atom.relaxed.gpu.or.b32 a, [bits], 1
            == warp, block 1
            atom.relaxed.gpu.or.b32 b, [bits], 1
            == warp that gives back, block 2
            atom.relaxed.gpu.and.b32 _, [bits], 1",
        forbidden: "a=0 b=0; a=2 b=2; a=0 b=2; a=2 b=0; bits!=1",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed("gpu scope", &[("relaxed.gpu", "relaxed.cta")]),
            needed(
                "an atomic, not a load and a store",
                &[(
                    "atom.relaxed.gpu.or.b32 b, [bits], 1",
                    "ld.relaxed.gpu.b32 b, [bits]; st.relaxed.gpu.b32 [bits], 3",
                )],
            ),
        ],
    },
    Protocol {
        name: "slabs given back",
        source: &[(
            COMPACT,
            "give_back",
            "let next = slab.next();\n            tile.sync();\n            mem::store(slab.vector(tile.rank()), U64x2::new(!0, !0));\n            tile.sync();",
        )],
        promise: "each lane reads the link before it is taken away; the slab is empty when its bit is cleared",
        program: "
            link: 5
            slot: K
            == last lane, block 0
            ld.relaxed.gpu.b64 a, [link]
            bar.sync
            st.b64 [link], N
            bar.sync
            == first lane, block 0
            ld.relaxed.gpu.b64 b, [link]
            bar.sync
            st.b64 [slot], E
            bar.sync
            ld.b64 c, [link]",
        forbidden: "a!=5; b!=5; c!=N",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[needed("the barriers of the tile", &[("bar.sync", "")])],
    },
];
