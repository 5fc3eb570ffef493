//! Counters, tickets, and words that publish a value.

use super::{Protocol, Source, needed, not_needed};

const COUNT: &str = "crates/gpumap-kernels/src/count.rs";
const REDUCE: &str = "crates/gpumap-kernels/src/primitives/reduce.rs";
const LOOK_BACK: &str = "crates/gpumap-kernels/src/primitives/look_back.rs";
const HISTOGRAM: &str = "crates/gpumap-kernels/src/primitives/histogram.rs";

const PUBLISH: Source = (
    LOOK_BACK,
    "publish",
    "unsafe { atomic::store(self.state(tile), C::Status::pack(aggregate), Relaxed) };",
);
const WAIT: Source = (
    LOOK_BACK,
    "look_back",
    "words[w] = atomic::load(self.state(at), Relaxed);",
);

const DONE: Source = (
    COUNT,
    "is_last_block",
    "let before = unsafe { atomic::fetch_add(self.reports(), 1, AcqRel) };",
);
const UNPLACED: &[Source] = &[
    (
        COUNT,
        "count_unplaced",
        "let before = atomic::fetch_add(self.unplaced(), u64::from(pairs), Relaxed);",
    ),
    (
        COUNT,
        "count_unplaced",
        "atomic::fetch_add(self.reports(), first, Release);",
    ),
    (
        COUNT,
        "report",
        "let all = Report(atomic::fetch_add(self.reports(), mine, Relaxed) + mine);",
    ),
    (COUNT, "report", "atomic::fence();"),
    (
        COUNT,
        "report",
        "unplaced = atomic::load(self.unplaced(), Relaxed);",
    ),
];

pub(super) const ALL: &[Protocol] = &[
    Protocol {
        name: "the last block",
        source: &[
            DONE,
            (
                COUNT,
                "block_is_done",
                "let pairs = atomic::load(self.words, Relaxed);",
            ),
            (
                COUNT,
                "hand_over",
                "atomic::store(self.words.add(i), 0, Relaxed);",
            ),
        ],
        promise: "it sees what all blocks have counted; the zero that it leaves stays",
        program: "
            count: 0
            done: 0
            == a thread, block 0
            atom.relaxed.gpu.add.b64 _, [count], 5
            bar.sync
            == the first of its block, block 0
            bar.sync
            atom.acq_rel.gpu.add.b64 before, [done], 1
            == another block, block 1
            atom.relaxed.gpu.add.b64 _, [count], 3
            atom.acq_rel.gpu.add.b64 last, [done], 1
            @last=1 ld.relaxed.gpu.b64 sum, [count]
            @last=1 st.relaxed.gpu.b64 [count], 0",
        forbidden: "last=1 sum!=8; last=1 count!=0; last=before",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "the release",
                &[(
                    "atom.acq_rel.gpu.add.b64 before",
                    "atom.acquire.gpu.add.b64 before",
                )],
            ),
            needed(
                "the acquire",
                &[(
                    "atom.acq_rel.gpu.add.b64 last",
                    "atom.release.gpu.add.b64 last",
                )],
            ),
            needed(
                "gpu scope of the release",
                &[(
                    "atom.acq_rel.gpu.add.b64 before",
                    "atom.acq_rel.cta.add.b64 before",
                )],
            ),
            needed(
                "of the acquire",
                &[(
                    "atom.acq_rel.gpu.add.b64 last",
                    "atom.acq_rel.cta.add.b64 last",
                )],
            ),
            needed(
                "of the additions",
                &[("atom.relaxed.gpu", "atom.relaxed.cta")],
            ),
            needed("the barrier", &[("bar.sync", "")]),
            not_needed(
                "a relaxed load of the sum: a plain one sees the same",
                &[("ld.relaxed.gpu", "ld")],
            ),
            not_needed(
                "a relaxed store of the zero: a plain one does",
                &[("st.relaxed.gpu", "st")],
            ),
        ],
    },
    Protocol {
        name: "the last of three blocks",
        source: &[DONE],
        promise: "one is the last; it sees what each of the others has counted",
        program: "
            count: 0
            done: 0
            == block, block 0
            atom.relaxed.gpu.add.b64 _, [count], 1
            atom.acq_rel.gpu.add.b64 first, [done], 1
            == block, block 1
            atom.relaxed.gpu.add.b64 _, [count], 2
            atom.acq_rel.gpu.add.b64 before, [done], 1
            == last, block 2
            atom.acq_rel.gpu.add.b64 last, [done], 1
            @last=2 ld.relaxed.gpu.b64 sum, [count]",
        forbidden: "last=2 sum!=3; first!=2 before!=2 last!=2",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "the release of each",
                &[(
                    "atom.acq_rel.gpu.add.b64 before",
                    "atom.acquire.gpu.add.b64 before",
                )],
            ),
            needed(
                "the acquire",
                &[(
                    "atom.acq_rel.gpu.add.b64 last",
                    "atom.release.gpu.add.b64 last",
                )],
            ),
            needed("all of it", &[("atom.acq_rel", "atom.relaxed")]),
            needed(
                "atomics, not loads and stores",
                &[(
                    "atom.acq_rel.gpu.add.b64 before, [done], 1",
                    "ld.acquire.gpu.b64 before, [done]; st.release.gpu.b64 [done], before+1",
                )],
            ),
        ],
    },
    Protocol {
        name: "pairs without a slot, of two blocks",
        source: UNPLACED,
        promise: "the last block sees all of them, if the word of reports says that there are any",
        program: "
            unplaced: 0
            reports: 0
            == block, block 0
            atom.relaxed.gpu.add.b64 u, [unplaced], 1
            @u=0 atom.release.gpu.add.b64 _, [reports], 1000
            @u!=0 atom.release.gpu.add.b64 _, [reports], 0
            atom.relaxed.gpu.add.b64 _, [reports], 103
            == block, block 1
            atom.relaxed.gpu.add.b64 w, [unplaced], 1
            @w=0 atom.release.gpu.add.b64 _, [reports], 1000
            @w!=0 atom.release.gpu.add.b64 _, [reports], 0
            atom.relaxed.gpu.add.b64 _, [reports], 104
            == last, block 2
            atom.relaxed.gpu.add.b64 all, [reports], 105
            @all=1207 fence.acq_rel.gpu
            @all=1207 ld.relaxed.gpu.b64 n, [unplaced]",
        forbidden: "all=207; all=1207 n!=2",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "the release that adds nothing",
                &[
                    ("@u!=0 atom.release", "@u!=0 atom.relaxed"),
                    ("@w!=0 atom.release", "@w!=0 atom.relaxed"),
                ],
            ),
            needed(
                "that addition, though it adds nothing",
                &[
                    ("@u!=0 atom.release.gpu.add.b64 _, [reports], 0", ""),
                    ("@w!=0 atom.release.gpu.add.b64 _, [reports], 0", ""),
                ],
            ),
            needed(
                "releases and fence together",
                &[
                    ("atom.release", "atom.relaxed"),
                    ("@all=1207 fence.acq_rel.gpu", ""),
                ],
            ),
            needed("the fence", &[("@all=1207 fence.acq_rel.gpu", "")]),
            needed(
                "gpu scope of the fence",
                &[("fence.acq_rel.gpu", "fence.acq_rel.cta")],
            ),
            needed(
                "of the releases",
                &[("atom.release.gpu", "atom.release.cta")],
            ),
        ],
    },
    Protocol {
        name: "pairs without a slot, of a thread",
        source: UNPLACED,
        promise: "the last block sees them, though another thread of the block reports",
        program: "
            unplaced: 0
            reports: 0
            == a thread, block 0
            atom.relaxed.gpu.add.b64 _, [unplaced], 1
            atom.release.gpu.add.b64 _, [reports], 1000
            bar.sync
            == the first of its block, block 0
            bar.sync
            atom.relaxed.gpu.add.b64 _, [reports], 103
            == last, block 1
            atom.relaxed.gpu.add.b64 all, [reports], 105
            @all=1103 fence.acq_rel.gpu
            @all=1103 ld.relaxed.gpu.b64 n, [unplaced]",
        forbidden: "all=103; all=1103 n!=1",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed("the release", &[("atom.release", "atom.relaxed")]),
            needed("the fence", &[("@all=1103 fence.acq_rel.gpu", "")]),
            needed("the barrier", &[("bar.sync", "")]),
            not_needed(
                "a relaxed load behind the fence: a plain one sees the same",
                &[("ld.relaxed.gpu", "ld")],
            ),
        ],
    },
    Protocol {
        name: "releases by several lanes",
        source: UNPLACED,
        promise: "a reader that acquires the sum of all lanes sees what each has written",
        program: "
            done: 0
            data: 0 0
            == lane, block 0
            st.relaxed.gpu.b64 [data], 1
            atom.release.gpu.add.b64 _, [done], 1
            == lane, block 0
            st.relaxed.gpu.b64 [data.1], 1
            atom.release.gpu.add.b64 _, [done], 1
            == reader, block 1
            ld.acquire.gpu.b64 n, [done]
            ld.relaxed.gpu.b64 a, [data]
            ld.relaxed.gpu.b64 b, [data.1]",
        forbidden: "n=2 a!=1; n=2 b!=1",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed("the releases", &[("atom.release", "atom.relaxed")]),
            needed("the acquire", &[("ld.acquire", "ld.relaxed")]),
            needed(
                "gpu scope of the releases",
                &[("atom.release.gpu", "atom.release.cta")],
            ),
            needed(
                "atomics, not stores",
                &[(
                    "atom.release.gpu.add.b64 _, [done], 1",
                    "st.release.gpu.b64 [done], 2",
                )],
            ),
        ],
    },
    Protocol {
        name: "the last ticket of a reduction",
        source: &[
            (
                REDUCE,
                "reduce",
                "atomic::store(args.partials.add(block as usize), of_block, Relaxed);",
            ),
            (
                REDUCE,
                "reduce",
                "let ticket = atomic::fetch_add(args.tickets, 1, AcqRel);",
            ),
            (
                REDUCE,
                "reduce",
                "let partial = atomic::load(args.partials.add(k as usize), Relaxed);",
            ),
        ],
        promise: "every thread of the last block sees every partial result",
        program: "
            partials: 0 0
            tickets: 0
            last: 0
            == first of a block, block 0
            st.relaxed.gpu.b64 [partials], 5
            atom.acq_rel.gpu.add.b64 t, [tickets], 1
            == first of the last, block 1
            st.relaxed.gpu.b64 [partials.1], 6
            atom.acq_rel.gpu.add.b64 u, [tickets], 1
            @u=1 st.b32 [last], 1
            bar.sync
            == another of it, block 1
            bar.sync
            ld.b32 l, [last]
            @l=1 ld.relaxed.gpu.b64 a, [partials]
            @l=1 ld.relaxed.gpu.b64 b, [partials.1]",
        forbidden: "u=1 l!=1; l=1 a!=5; l=1 b!=6",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "the release",
                &[("atom.acq_rel.gpu.add.b64 t", "atom.acquire.gpu.add.b64 t")],
            ),
            needed(
                "the acquire",
                &[("atom.acq_rel.gpu.add.b64 u", "atom.release.gpu.add.b64 u")],
            ),
            needed(
                "gpu scope of the ticket",
                &[("atom.acq_rel.gpu", "atom.acq_rel.cta")],
            ),
            needed("the barrier", &[("bar.sync", "")]),
            not_needed(
                "relaxed stores of the partial results: plain ones are seen as well",
                &[("st.relaxed.gpu", "st")],
            ),
            not_needed("relaxed loads of them", &[("ld.relaxed.gpu", "ld")]),
        ],
    },
    Protocol {
        name: "look-back, 8 bytes",
        source: &[PUBLISH, WAIT],
        promise: "a reader that sees a word published has its value",
        program: "
            state: 0 0
            == publisher, block 0
            st.relaxed.gpu.b64 [state], (5 1)
            == follower, block 1
            ld.relaxed.gpu.b64 (v f), [state]",
        forbidden: "f=1 v!=5",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "one store, not two",
                &[(
                    "st.relaxed.gpu.b64 [state], (5 1)",
                    "st.relaxed.gpu.b32 [state], 5; st.relaxed.gpu.b32 [state.1], 1",
                )],
            ),
            needed(
                "a relaxed load, not a weak one",
                &[("ld.relaxed.gpu", "ld")],
            ),
        ],
    },
    Protocol {
        name: "look-back, 16 bytes",
        source: &[PUBLISH, WAIT],
        promise: "the same",
        program: "
            state: 0 0
            == publisher, block 0
            st.relaxed.gpu.b128 [state], (5 1)
            == follower, block 1
            ld.relaxed.gpu.b128 (v f), [state]",
        forbidden: "f=1 v!=5",
        holds_in_halves: false,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "one store, not two",
                &[(
                    "st.relaxed.gpu.b128 [state], (5 1)",
                    "st.relaxed.gpu.b64 [state], 5; st.relaxed.gpu.b64 [state.1], 1",
                )],
            ),
            needed(
                "one load, not two",
                &[(
                    "ld.relaxed.gpu.b128 (v f), [state]",
                    "ld.relaxed.gpu.b64 v, [state]; ld.relaxed.gpu.b64 f, [state.1]",
                )],
            ),
            needed(
                "a relaxed store, not a weak one",
                &[("st.relaxed.gpu", "st")],
            ),
            needed(
                "a relaxed load, not a weak one",
                &[("ld.relaxed.gpu", "ld")],
            ),
            needed("gpu scope", &[("relaxed.gpu", "relaxed.cta")]),
        ],
    },
    Protocol {
        name: "tiles from a counter",
        source: &[(
            LOOK_BACK,
            "take_tile",
            "unsafe { atomic::fetch_add(header.cast::<u32>(), 1, Relaxed) }",
        )],
        promise: "each tile is taken by one block, and none is left out",
        program: "
            taken: 0
            == block, block 0
            atom.relaxed.gpu.add.b32 a, [taken], 1
            == block, block 1
            atom.relaxed.gpu.add.b32 b, [taken], 1
            == block, block 2
            atom.relaxed.gpu.add.b32 c, [taken], 1",
        forbidden: "a=b; a=c; b=c; taken!=3",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed("gpu scope", &[("relaxed.gpu", "relaxed.cta")]),
            needed(
                "an atomic, not a load and a store",
                &[(
                    "atom.relaxed.gpu.add.b32 c, [taken], 1",
                    "ld.relaxed.gpu.b32 c, [taken]; st.relaxed.gpu.b32 [taken], c+1",
                )],
            ),
        ],
    },
    Protocol {
        name: "counters of several devices",
        source: &[(
            HISTOGRAM,
            "add_where_it_lies",
            "atomic::system_add(counters.wrapping_add(at as usize), u64::from(words));",
        )],
        promise: "no addition is lost",
        program: "
            count: 0
            == here, block 0 gpu 0
            red.relaxed.sys.add.b64 [count], 1
            == there, block 0 gpu 1
            red.relaxed.sys.add.b64 [count], 2",
        forbidden: "count!=3",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[needed("sys scope", &[("relaxed.sys", "relaxed.gpu")])],
    },
];
