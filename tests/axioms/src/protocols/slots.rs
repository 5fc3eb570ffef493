//! Slots: claims, lookups, updates, removals, ids.
//!
//! `E` is an empty key word, `T` a tombstone, `B` busy, `K` and `J` keys; values are numbers. A slot of 16 bytes has two cells, a
//! slot of 4 + 4 bytes too.

use super::{Protocol, Source, needed, not_needed};

const SIXTEEN: &str = "crates/gpumap-kernels/src/slot/sixteen.rs";
const PACKED: &str = "crates/gpumap-kernels/src/slot/packed.rs";
const KEYS: &str = "crates/gpumap-kernels/src/slot/keys.rs";
const IDS: &str = "crates/gpumap-kernels/src/slot/ids.rs";
const PROBE: &str = "crates/gpumap-kernels/src/probe.rs";
const STORE: &str = "crates/gpumap-kernels/src/verbs/store.rs";

const WIDE_CLAIM: Source = (
    SIXTEEN,
    "claim",
    "atomic::compare_exchange(slot.cast(), EMPTY_PAIR, pair, Relaxed)",
);
const WIDE_REVIVE: Source = (
    SIXTEEN,
    "revive",
    "let old = unsafe { atomic::compare_exchange(slot.cast(), seen, pair, Relaxed) };",
);
const SPLIT_CLAIM: Source = (
    SIXTEEN,
    "take",
    "match unsafe { part::compare_exchange_part(whole, 0, free, u64::BUSY) } {",
);
const SPLIT_STORE: Source = (
    SIXTEEN,
    "take",
    "unsafe { atomic::store(whole, pair, Relaxed) };",
);
const UPDATE: Source = (
    SIXTEEN,
    "update",
    "unsafe { part::update_part(slot.cast::<U64x2>(), 8, update, value) };",
);
const BURY: Source = (
    SIXTEEN,
    "bury",
    "part::compare_exchange_part(whole, 0, word, u64::TOMBSTONE) == word",
);
const READ: Source = (
    PROBE,
    "read_slabs",
    "vectors[r] = atomic::load(slab.wrapping_add(tile.rank() as usize), Relaxed);",
);

pub(super) const ALL: &[Protocol] = &[
    Protocol {
        name: "wide claim, lookup",
        source: &[WIDE_CLAIM, READ],
        promise: "no torn pair; a pair that was seen stays",
        program: "
            slot: E E
            == inserter, block 0
            atom.relaxed.gpu.cas.b128 (k v), [slot], (E E), (K 7)
            == reader, block 1
            ld.relaxed.gpu.b128 (a x), [slot]
            ld.relaxed.gpu.b128 (b y), [slot]",
        forbidden: "a=K x!=7; a=E x!=E; b=K y!=7; b=E y!=E; a=K b=E",
        holds_in_halves: false,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "one CAS, not a CAS and a store",
                &[(
                    "atom.relaxed.gpu.cas.b128 (k v), [slot], (E E), (K 7)",
                    "atom.relaxed.gpu.cas.b64 k, [slot], E, K; @k=E st.relaxed.gpu.b64 [slot.1], 7",
                )],
            ),
            needed(
                "one load, not two",
                &[(
                    "ld.relaxed.gpu.b128 (a x), [slot]",
                    "ld.relaxed.gpu.b64 a, [slot]; ld.relaxed.gpu.b64 x, [slot.1]",
                )],
            ),
            needed("relaxed loads, not weak ones", &[("ld.relaxed.gpu", "ld")]),
            needed(
                "gpu scope of the CAS",
                &[("atom.relaxed.gpu", "atom.relaxed.cta")],
            ),
            needed("of the loads", &[("ld.relaxed.gpu", "ld.relaxed.cta")]),
        ],
    },
    Protocol {
        name: "wide claim, claim",
        source: &[WIDE_CLAIM],
        promise: "one inserter wins, and its pair is there",
        program: "
            slot: E E
            == inserter, block 0
            atom.relaxed.gpu.cas.b128 (a x), [slot], (E E), (K 1)
            == inserter, block 1
            atom.relaxed.gpu.cas.b128 (b y), [slot], (E E), (K 2)",
        forbidden: "a=E b=E; a!=E b!=E; a=E slot.1!=1; b=E slot.1!=2; a=E y!=1; b=E x!=2",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed("gpu scope", &[("atom.relaxed.gpu", "atom.relaxed.cta")]),
            needed(
                "a CAS, not a load and a store",
                &[(
                    "atom.relaxed.gpu.cas.b128 (b y), [slot], (E E), (K 2)",
                    "ld.relaxed.gpu.b128 (b y), [slot]; @b=E st.relaxed.gpu.b128 [slot], (K 2)",
                )],
            ),
        ],
    },
    Protocol {
        name: "wide claim, update",
        source: &[
            WIDE_CLAIM,
            UPDATE,
            (STORE, "met", "F::update(slot, self.0, job.value)"),
        ],
        promise: "an update of a pair that was met in the claim is not lost",
        program: "
            slot: E E
            == inserter, block 0
            atom.relaxed.gpu.cas.b128 (k v), [slot], (E E), (K 7)
            == merger, block 1
            atom.relaxed.gpu.cas.b128 (a x), [slot], (E E), (K 1)
            @a=K atom.relaxed.gpu.add.b64 o, [slot.1], 1",
        forbidden: "a=K o!=7; a=K slot.1!=8; a=E k=E",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "gpu scope of the claims",
                &[("atom.relaxed.gpu.cas", "atom.relaxed.cta.cas")],
            ),
            needed(
                "one CAS, not a CAS and a store",
                &[(
                    "atom.relaxed.gpu.cas.b128 (k v), [slot], (E E), (K 7)",
                    "atom.relaxed.gpu.cas.b64 k, [slot], E, K; @k=E st.relaxed.gpu.b64 [slot.1], 7",
                )],
            ),
        ],
    },
    Protocol {
        name: "updates, lookup",
        source: &[UPDATE, READ],
        promise: "no update is lost; values do not go back; the key stays",
        program: "
            slot: K 0
            == merger, block 0
            atom.relaxed.gpu.add.b64 _, [slot.1], 1
            == merger, block 1
            atom.relaxed.gpu.add.b64 _, [slot.1], 2
            == reader, block 2
            ld.relaxed.gpu.b128 (a x), [slot]
            ld.relaxed.gpu.b128 (b y), [slot]",
        forbidden: "slot.1!=3; a!=K; b!=K; x=3 y!=3; x=1 y=0; x=2 y=0; x=1 y=2; x=2 y=1",
        holds_in_halves: true,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "an atomic, not a load and a store",
                &[(
                    "atom.relaxed.gpu.add.b64 _, [slot.1], 2",
                    "ld.relaxed.gpu.b64 o, [slot.1]; st.relaxed.gpu.b64 [slot.1], o+2",
                )],
            ),
            needed(
                "gpu scope of the updates",
                &[("atom.relaxed.gpu", "atom.relaxed.cta")],
            ),
            needed("relaxed loads, not weak ones", &[("ld.relaxed.gpu", "ld")]),
            needed(
                "gpu scope of the loads",
                &[("ld.relaxed.gpu", "ld.relaxed.cta")],
            ),
        ],
    },
    Protocol {
        name: "removals, update",
        source: &[BURY, UPDATE, READ],
        promise: "one of two removals has the pair; the tombstone stays",
        program: "
            slot: K 7
            == remover, block 0
            atom.relaxed.gpu.cas.b64 r, [slot], K, T
            == remover, block 1
            atom.relaxed.gpu.cas.b64 s, [slot], K, T
            == merger, block 2
            ld.relaxed.gpu.b128 (a x), [slot]
            @a=K atom.relaxed.gpu.add.b64 o, [slot.1], 1",
        forbidden: "r=K s=K; r!=K s!=K; slot.0!=T; a=K slot.1!=8; x!=7",
        holds_in_halves: true,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "gpu scope of the CAS",
                &[("atom.relaxed.gpu.cas", "atom.relaxed.cta.cas")],
            ),
            needed(
                "a CAS, not a load and a store",
                &[(
                    "atom.relaxed.gpu.cas.b64 s, [slot], K, T",
                    "ld.relaxed.gpu.b64 s, [slot]; @s=K st.relaxed.gpu.b64 [slot], T",
                )],
            ),
        ],
    },
    Protocol {
        name: "wide slot reused, late update",
        source: &[WIDE_REVIVE, UPDATE, READ],
        promise: "the new pair has its value, or that and the update; no update of it is lost",
        program: "
            slot: T 7
            == inserter, block 0
            ld.relaxed.gpu.b128 (s x), [slot]
            @s=T atom.relaxed.gpu.cas.b128 (a y), [slot], (T x), (K 1)
            == late merger, block 1
            atom.relaxed.gpu.add.b64 o, [slot.1], 10
            == reader, block 2
            ld.relaxed.gpu.b128 (k v), [slot]",
        forbidden: "k=K v!=1 v!=11; a=T y=x slot.0!=K; a=T y=x slot.1!=1 slot.1!=11; o=1 slot.1!=11",
        holds_in_halves: false,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "one CAS, not a CAS and a store",
                &[(
                    "@s=T atom.relaxed.gpu.cas.b128 (a y), [slot], (T x), (K 1)",
                    "@s=T atom.relaxed.gpu.cas.b64 a, [slot], T, K; @a=T ld.weak.b64 y, [slot.1]; @a=T st.relaxed.gpu.b64 [slot.1], 1",
                )],
            ),
            needed(
                "gpu scope of the CAS",
                &[("atom.relaxed.gpu.cas", "atom.relaxed.cta.cas")],
            ),
            needed(
                "a relaxed load of the reader, not a weak one",
                &[("ld.relaxed.gpu.b128 (k v)", "ld.b128 (k v)")],
            ),
            not_needed(
                "a relaxed load of the inserter, before the CAS",
                &[("ld.relaxed.gpu.b128 (s x)", "ld.b128 (s x)")],
            ),
        ],
    },
    Protocol {
        name: "split claims, lookup",
        source: &[SPLIT_CLAIM, SPLIT_STORE, READ],
        promise: "one inserter wins, and its pair is there; no torn pair",
        program: "
            slot: E E
            == inserter, block 0
            atom.relaxed.gpu.cas.b64 a, [slot], E, B
            @a=E st.relaxed.gpu.b128 [slot], (K 7)
            == inserter, block 1
            atom.relaxed.gpu.cas.b64 b, [slot], E, B
            @b=E st.relaxed.gpu.b128 [slot], (K 9)
            == reader, block 2
            ld.relaxed.gpu.b128 (k v), [slot]",
        forbidden: "a=E b=E; a!=E b!=E; slot.0!=K; a=E slot.1!=7; b=E slot.1!=9; k=K a=E v!=7; k=K b=E v!=9; k=E v!=E",
        holds_in_halves: false,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "one store of the pair, not two",
                &[(
                    "st.relaxed.gpu.b128 [slot], (K 7)",
                    "st.relaxed.gpu.b64 [slot], K; @a=E st.relaxed.gpu.b64 [slot.1], 7",
                )],
            ),
            needed(
                "not even with the key last",
                &[(
                    "st.relaxed.gpu.b128 [slot], (K 7)",
                    "st.relaxed.gpu.b64 [slot.1], 7; @a=E st.relaxed.gpu.b64 [slot], K",
                )],
            ),
            needed(
                "a relaxed store, not a weak one",
                &[("st.relaxed.gpu", "st")],
            ),
            needed(
                "gpu scope of the store",
                &[("st.relaxed.gpu", "st.relaxed.cta")],
            ),
            needed("of the CAS", &[("atom.relaxed.gpu", "atom.relaxed.cta")]),
            needed(
                "a CAS, not a load and a store",
                &[(
                    "atom.relaxed.gpu.cas.b64 b, [slot], E, B",
                    "ld.relaxed.gpu.b64 b, [slot]; @b=E st.relaxed.gpu.b64 [slot], B",
                )],
            ),
            needed(
                "a relaxed load, not a weak one",
                &[("ld.relaxed.gpu", "ld")],
            ),
        ],
    },
    Protocol {
        name: "split claim, update",
        source: &[SPLIT_CLAIM, SPLIT_STORE, UPDATE, READ],
        promise: "an update of a pair that was seen is not lost",
        program: "
            slot: E E
            == inserter, block 0
            atom.relaxed.gpu.cas.b64 a, [slot], E, B
            @a=E st.relaxed.gpu.b128 [slot], (K 7)
            == merger, block 1
            ld.relaxed.gpu.b128 (k v), [slot]
            @k=K atom.relaxed.gpu.add.b64 o, [slot.1], 1",
        forbidden: "k=K o!=7; k=K slot.1!=8",
        holds_in_halves: false,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "one store of the pair, not two",
                &[(
                    "st.relaxed.gpu.b128 [slot], (K 7)",
                    "st.relaxed.gpu.b64 [slot], K; @a=E st.relaxed.gpu.b64 [slot.1], 7",
                )],
            ),
            needed(
                "gpu scope of the store",
                &[("st.relaxed.gpu", "st.relaxed.cta")],
            ),
            needed("of the load", &[("ld.relaxed.gpu", "ld.relaxed.cta")]),
        ],
    },
    Protocol {
        name: "split slot reused, late update",
        source: &[SPLIT_CLAIM, SPLIT_STORE, UPDATE, READ],
        promise: "the new pair has its value, or that and the update; no update of it is lost",
        program: "
            slot: T 7
            == inserter, block 0
            atom.relaxed.gpu.cas.b64 a, [slot], T, B
            @a=T st.relaxed.gpu.b128 [slot], (K 1)
            == late merger, block 1
            atom.relaxed.gpu.add.b64 o, [slot.1], 10
            == reader, block 2
            ld.relaxed.gpu.b128 (k v), [slot]",
        forbidden: "k=K v!=1 v!=11; slot.0!=K; slot.1!=1 slot.1!=11; o=1 slot.1!=11; v=11 o!=1",
        holds_in_halves: false,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "one store of the pair, not two",
                &[(
                    "st.relaxed.gpu.b128 [slot], (K 1)",
                    "st.relaxed.gpu.b64 [slot], K; @a=T st.relaxed.gpu.b64 [slot.1], 1",
                )],
            ),
            needed(
                "gpu scope of the store",
                &[("st.relaxed.gpu", "st.relaxed.cta")],
            ),
            needed("of the load", &[("ld.relaxed.gpu", "ld.relaxed.cta")]),
        ],
    },
    Protocol {
        name: "ids, exchanged",
        source: &[(
            IDS,
            "exchange",
            "unsafe { part::exchange_part(whole, Self::ID_AT, id) }",
        )],
        promise: "each id leaves the slot to one thread",
        program: "
            slot: K 7
            == upserter, block 0
            atom.relaxed.gpu.exch.b64 a, [slot.1], 1
            == upserter, block 1
            atom.relaxed.gpu.exch.b64 b, [slot.1], 2",
        forbidden: "a=b; a=slot.1; b=slot.1; a!=7 b!=7; slot.0!=K",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed("gpu scope", &[("relaxed.gpu", "relaxed.cta")]),
            needed(
                "an exchange, not a load and a store",
                &[(
                    "atom.relaxed.gpu.exch.b64 b, [slot.1], 2",
                    "ld.relaxed.gpu.b64 b, [slot.1]; st.relaxed.gpu.b64 [slot.1], 2",
                )],
            ),
        ],
    },
    Protocol {
        name: "ids, withdrawn from wide slots",
        source: &[
            (
                IDS,
                "withdraw",
                "unsafe { atomic::compare_exchange(slot.cast(), pair, tombstone, Relaxed) == pair }",
            ),
            WIDE_REVIVE,
        ],
        promise: "one remover has the id; the next pair of the key stays",
        program: "
            slot: K 7
            == remover, block 0
            atom.relaxed.gpu.cas.b128 (a x), [slot], (K 7), (T 7)
            == remover, block 1
            atom.relaxed.gpu.cas.b128 (b y), [slot], (K 7), (T 7)
            == inserter, block 2
            ld.relaxed.gpu.b128 (s z), [slot]
            @s=T atom.relaxed.gpu.cas.b128 (c w), [slot], (T z), (K 9)",
        forbidden: "a=K x=7 b=K y=7; c=T w=z slot.0!=K; c=T w=z slot.1!=9",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "a CAS of the pair, not of the key word",
                &[(
                    "atom.relaxed.gpu.cas.b128 (b y), [slot], (K 7), (T 7)",
                    "ld.relaxed.gpu.b64 y, [slot.1]; atom.relaxed.gpu.cas.b64 b, [slot], K, T",
                )],
            ),
            needed("gpu scope", &[("atom.relaxed.gpu", "atom.relaxed.cta")]),
        ],
    },
    Protocol {
        name: "ids, withdrawn from split slots",
        source: &[
            (
                IDS,
                "withdraw",
                "part::compare_exchange_part(pair, Self::ID_AT, id, id | LEAVING) == id",
            ),
            (IDS, "withdraw", "&& Self::bury(slot, word)"),
            BURY,
            SPLIT_CLAIM,
            SPLIT_STORE,
        ],
        promise: "one remover has the id and makes the tombstone; the next pair of the key stays",
        program: "
            slot: K 7
            == remover, block 0
            atom.relaxed.gpu.cas.b64 a, [slot.1], 7, L
            @a=7 atom.relaxed.gpu.cas.b64 p, [slot], K, T
            == remover, block 1
            atom.relaxed.gpu.cas.b64 b, [slot.1], 7, L
            @b=7 atom.relaxed.gpu.cas.b64 q, [slot], K, T
            == inserter, block 2
            atom.relaxed.gpu.cas.b64 c, [slot], T, B
            @c=T st.relaxed.gpu.b128 [slot], (K 9)",
        forbidden: "a=7 b=7; a!=7 b!=7 c!=T; a=7 p!=K; b=7 q!=K; c=T slot.0!=K; c=T slot.1!=9",
        holds_in_halves: true,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "the mark in the value word, by an atomic",
                &[(
                    "atom.relaxed.gpu.cas.b64 b, [slot.1], 7, L",
                    "ld.relaxed.gpu.b64 b, [slot.1]",
                )],
            ),
            needed(
                "gpu scope of the mark",
                &[
                    ("atom.relaxed.gpu.cas.b64 a", "atom.relaxed.cta.cas.b64 a"),
                    ("atom.relaxed.gpu.cas.b64 b", "atom.relaxed.cta.cas.b64 b"),
                ],
            ),
            needed(
                "of the tombstone",
                &[
                    ("atom.relaxed.gpu.cas.b64 p", "atom.relaxed.cta.cas.b64 p"),
                    ("atom.relaxed.gpu.cas.b64 q", "atom.relaxed.cta.cas.b64 q"),
                ],
            ),
        ],
    },
    Protocol {
        name: "packed claims, update, lookup",
        source: &[
            (
                PACKED,
                "claim",
                "let old = unsafe { atomic::compare_exchange(slot.cast(), !0u64, pair, Relaxed) };",
            ),
            (
                PACKED,
                "update",
                "unsafe { part::update_part(slot.cast::<u64>(), 4, update, value) };",
            ),
            READ,
        ],
        promise: "one inserter wins; no torn pair; no update is lost",
        program: "
            vector: E E E E
            == inserter, block 0
            atom.relaxed.gpu.cas.b64 (a x), [vector], (E E), (K 7)
            == merger, block 1
            atom.relaxed.gpu.cas.b64 (b y), [vector], (E E), (K 9)
            @b=K atom.relaxed.gpu.add.b32 o, [vector.1], 1
            == reader, block 2
            ld.relaxed.gpu.b128 (k v l w), [vector]",
        forbidden: "a=E b=E; a!=E b!=E; k=K a=E v!=7 v!=8; k=K b=E v!=9; k=E v!=E; l!=E; b=K vector.1!=8; b=K o!=7",
        holds_in_halves: true,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "one CAS, not a CAS and a store",
                &[(
                    "atom.relaxed.gpu.cas.b64 (a x), [vector], (E E), (K 7)",
                    "atom.relaxed.gpu.cas.b32 a, [vector], E, K; @a=E st.relaxed.gpu.b32 [vector.1], 7",
                )],
            ),
            needed(
                "gpu scope of the claims",
                &[("atom.relaxed.gpu.cas", "atom.relaxed.cta.cas")],
            ),
            needed(
                "a relaxed load, not a weak one",
                &[("ld.relaxed.gpu", "ld")],
            ),
            needed(
                "gpu scope of the load",
                &[("ld.relaxed.gpu", "ld.relaxed.cta")],
            ),
        ],
    },
    Protocol {
        name: "sets: claims, lookup",
        source: &[
            (
                KEYS,
                "take",
                "match unsafe { atomic::compare_exchange(slot.cast(), free, word, Relaxed) } {",
            ),
            READ,
        ],
        promise: "one inserter wins; a key that was seen stays",
        program: "
            vector: E E
            == inserter, block 0
            atom.relaxed.gpu.cas.b64 a, [vector], E, K
            == inserter, block 1
            atom.relaxed.gpu.cas.b64 b, [vector], E, K
            == reader, block 2
            ld.relaxed.gpu.b128 (k l), [vector]
            ld.relaxed.gpu.b128 (m n), [vector]",
        forbidden: "a=E b=E; a!=E b!=E; vector.0!=K; k=K m=E; l!=E; n!=E",
        holds_in_halves: true,
        has_mixed_sizes: true,
        weakened: &[
            needed(
                "gpu scope of the CAS",
                &[("atom.relaxed.gpu", "atom.relaxed.cta")],
            ),
            needed("of the loads", &[("ld.relaxed.gpu", "ld.relaxed.cta")]),
            needed("relaxed loads, not weak ones", &[("ld.relaxed.gpu", "ld")]),
        ],
    },
    Protocol {
        name: "one key in one slot",
        source: &[
            WIDE_CLAIM,
            READ,
            (
                STORE,
                "store_in_slab",
                "match F::claim(slot, job.word, job.value) {",
            ),
            (
                STORE,
                "store_in_slab",
                "Claim::OtherKey => empty &= empty - 1,",
            ),
        ],
        promise: "a key is stored once, though a slot before it is taken meanwhile",
        program: "
            slots: E E
            == stranger, block 0
            atom.relaxed.gpu.cas.b64 s, [slots], E, J
            == inserter, block 1
            ld.relaxed.gpu.b64 a, [slots]
            @a=E atom.relaxed.gpu.cas.b64 c, [slots], E, K
            @a=E&c=J atom.relaxed.gpu.cas.b64 d, [slots.1], E, K
            @a=J atom.relaxed.gpu.cas.b64 _, [slots.1], E, K
            == inserter, block 2
            atom.relaxed.gpu.cas.b64 e, [slots], E, K
            @e=J atom.relaxed.gpu.cas.b64 f, [slots.1], E, K",
        forbidden: "slots.0=K slots.1=K; slots.0!=K slots.1!=K",
        holds_in_halves: true,
        has_mixed_sizes: false,
        weakened: &[
            needed(
                "gpu scope of the CAS",
                &[("atom.relaxed.gpu", "atom.relaxed.cta")],
            ),
            needed(
                "a CAS of each slot that is passed, not a look",
                &[(
                    "atom.relaxed.gpu.cas.b64 e, [slots], E, K",
                    "ld.relaxed.gpu.b64 e, [slots]; @e=E st.relaxed.gpu.b64 [slots], K",
                )],
            ),
            not_needed(
                "a relaxed load before the CAS, for one key in one slot",
                &[("ld.relaxed.gpu", "ld")],
            ),
        ],
    },
];
