//! The enumeration, on litmus tests whose answers are known: those of the PTX ISA's chapter and of the literature.
//!
//! Threads run in blocks of their own, and every place holds 0, where nothing else is said.

use gpumap_axioms::{Program, Reading, outcomes};

/// Whether the outcome may be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Allowed,
    Forbidden,
}
use Answer::{Allowed, Forbidden};

/// A program of threads between bars, each in a block of its own.
fn program(places: &str, threads: &str) -> Program {
    let mut text = String::new();
    for place in places.split_whitespace() {
        text += &format!("{place}: 0\n");
    }
    for (block, thread) in threads.split('|').enumerate() {
        text += &format!("== t, block {block}\n{thread}\n");
    }
    Program::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn check(all: &[(&str, &str, &str, &str, Answer)]) {
    for &(name, places, threads, outcome, answer) in all {
        let program = program(places, threads);
        assert!(program.has_distinct_names(), "{name}");
        let condition = program
            .condition(outcome)
            .unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        // Accesses of one size mean the same in all readings.
        for reading in [Reading::Whole, Reading::Halves, Reading::Strict] {
            let all = outcomes(&program, reading);
            assert!(!all.mixed_size_race, "{name}");
            let seen: Vec<_> = all
                .all
                .iter()
                .map(|outcome| program.show(outcome))
                .collect();
            let reached = if all.reach(&condition) {
                Allowed
            } else {
                Forbidden
            };
            assert_eq!(reached, answer, "{name}, {outcome}, {reading:?}: {seen:#?}");
        }
    }
}

#[test]
fn message_passing() {
    let stale = "f=1 d=0";
    check(&[
        (
            "MP",
            "x y",
            "st.relaxed.gpu [x], 1; st.relaxed.gpu [y], 1 | ld.relaxed.gpu f, [y]; ld.relaxed.gpu d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, weak",
            "x y",
            "st [x], 1; st [y], 1 | ld f, [y]; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, release and acquire",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, release",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | ld.relaxed.gpu f, [y]; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, acquire",
            "x y",
            "st [x], 1; st.relaxed.gpu [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, fences, of the PTX ISA",
            "x y",
            "st [x], 1; fence.acq_rel.sys; st.relaxed.sys [y], 1 | ld.relaxed.sys f, [y]; fence.acq_rel.sys; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, fence of the writer",
            "x y",
            "st [x], 1; fence.acq_rel.gpu; st.relaxed.gpu [y], 1 | ld.relaxed.gpu f, [y]; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, fence of the reader",
            "x y",
            "st [x], 1; st.relaxed.gpu [y], 1 | ld.relaxed.gpu f, [y]; fence.acq_rel.gpu; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, fence and acquire",
            "x y",
            "st [x], 1; fence.acq_rel.gpu; st.relaxed.gpu [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, release and fence",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | ld.relaxed.gpu f, [y]; fence.sc.gpu; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, one-way fences",
            "x y",
            "st [x], 1; fence.release.gpu; st.relaxed.gpu [y], 1 | ld.relaxed.gpu f, [y]; fence.acquire.gpu; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, one-way fences the wrong way round",
            "x y",
            "st [x], 1; fence.acquire.gpu; st.relaxed.gpu [y], 1 | ld.relaxed.gpu f, [y]; fence.release.gpu; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, fences around a weak flag",
            "x y",
            "st [x], 1; fence.acq_rel.gpu; st [y], 1 | ld f, [y]; fence.acq_rel.gpu; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, scope of the release",
            "x y",
            "st [x], 1; st.release.cta [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, scope of the acquire",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | ld.acquire.cta f, [y]; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, scope of a fence",
            "x y",
            "st [x], 1; fence.acq_rel.cta; st.relaxed.gpu [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, scope of the flag between fences",
            "x y",
            "st [x], 1; fence.acq_rel.gpu; st.relaxed.cta [y], 1 | ld.relaxed.gpu f, [y]; fence.acq_rel.gpu; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, a release and a write after it",
            "x y",
            "st [x], 1; st.release.gpu [y], 2; st.relaxed.gpu [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, a read and an acquire after it",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | ld.relaxed.gpu f, [y]; ld.acquire.gpu g, [y]; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, an atomic",
            "x y",
            "st [x], 1; atom.release.gpu.add.b32 _, [y], 1 | atom.acquire.gpu.add.b32 f, [y], 1; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, a red is no acquire",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | red.relaxed.gpu.add.b32 [y], 1; fence.acq_rel.gpu; ld d, [x]",
            "y=2 d=0",
            Allowed,
        ),
        (
            "MP, an atom is",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | atom.relaxed.gpu.add.b32 f, [y], 1; fence.acq_rel.gpu; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, an exchange that fails acquires",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | atom.acquire.gpu.cas.b32 f, [y], 5, 6; ld d, [x]",
            stale,
            Forbidden,
        ),
        (
            "MP, an exchange that fails releases nothing",
            "x y",
            "st [x], 1; atom.release.gpu.cas.b32 g, [y], 5, 1; st.relaxed.gpu [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            stale,
            Allowed,
        ),
        (
            "MP, an atomic of a third between",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | atom.relaxed.gpu.add.b32 e, [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            "f=2 d=0 e=1",
            Forbidden,
        ),
        (
            "MP, a write of a third between",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | ld.relaxed.gpu e, [y]; st.relaxed.gpu [y], 2 | ld.acquire.gpu f, [y]; ld d, [x]",
            "f=2 d=0 e=1",
            Allowed,
        ),
        (
            "MP, an atomic between of a block's scope",
            "x y",
            "st [x], 1; st.release.gpu [y], 1 | atom.relaxed.cta.add.b32 e, [y], 1 | ld.acquire.gpu f, [y]; ld d, [x]",
            "f=2 d=0 e=1",
            Allowed,
        ),
    ]);
}

#[test]
fn message_passing_in_a_block() {
    let check = |text: &str, answer| {
        let program = Program::parse(text).unwrap();
        let stale = program.condition("f=1 d=0").unwrap();
        assert_eq!(
            outcomes(&program, Reading::Strict).reach(&stale),
            answer == Allowed,
            "{text}"
        );
    };
    let two = |a: &str, b: &str| format!("x: 0; y: 0\n== a, block 3\n{a}\n== b, block 3\n{b}");
    check(
        &two(
            "st [x], 1; st.release.cta [y], 1",
            "ld.acquire.cta f, [y]; ld d, [x]",
        ),
        Forbidden,
    );
    check(
        &two(
            "st [x], 1; bar.sync",
            "st [y], 1; bar.sync; ld f, [y]; ld d, [x]",
        ),
        Forbidden,
    );
    check(
        &two("st [x], 1", "st [y], 1; ld f, [y]; ld d, [x]"),
        Allowed,
    );
    // The first barrier of one meets the first of the other.
    check(
        &two(
            "bar.sync; st [x], 1; bar.sync",
            "st [y], 1; bar.sync; ld f, [y]; ld d, [x]; bar.sync",
        ),
        Allowed,
    );
    // A block has barriers of its own.
    let apart = two(
        "st [x], 1; bar.sync",
        "st [y], 1; bar.sync; ld f, [y]; ld d, [x]",
    );
    check(&apart.replacen("block 3", "block 4", 1), Allowed);
    check(&apart.replacen("block 3", "block 3 gpu 1", 1), Allowed);
}

#[test]
fn scopes_of_devices() {
    for (scope, answer) in [("gpu", Allowed), ("sys", Forbidden)] {
        let text = "x: 0; y: 0\n== a, block 0 gpu 0\nst [x], 1; st.release.gpu [y], 1\n== b, block 0 gpu 1\nld.acquire.gpu f, [y]; ld d, [x]";
        let program = Program::parse(
            &text
                .replace("gpu [y]", &format!("{scope} [y]"))
                .replace("gpu f", &format!("{scope} f")),
        )
        .unwrap();
        let stale = program.condition("f=1 d=0").unwrap();
        assert_eq!(
            outcomes(&program, Reading::Strict).reach(&stale),
            answer == Allowed,
            "{scope}"
        );
    }
}

#[test]
fn store_buffering() {
    let both = "a=0 b=0";
    check(&[
        (
            "SB",
            "x y",
            "st.relaxed.gpu [x], 1; ld.relaxed.gpu a, [y] | st.relaxed.gpu [y], 1; ld.relaxed.gpu b, [x]",
            both,
            Allowed,
        ),
        (
            "SB, release and acquire",
            "x y",
            "st.release.gpu [x], 1; ld.acquire.gpu a, [y] | st.release.gpu [y], 1; ld.acquire.gpu b, [x]",
            both,
            Allowed,
        ),
        (
            "SB, fence.acq_rel",
            "x y",
            "st [x], 1; fence.acq_rel.gpu; ld a, [y] | st [y], 1; fence.acq_rel.gpu; ld b, [x]",
            both,
            Allowed,
        ),
        (
            "SB, fence.sc, of the PTX ISA",
            "x y",
            "st [x], 1; fence.sc.sys; ld a, [y] | st [y], 1; fence.sc.sys; ld b, [x]",
            both,
            Forbidden,
        ),
        (
            "SB, fence.sc of a block",
            "x y",
            "st [x], 1; fence.sc.cta; ld a, [y] | st [y], 1; fence.sc.gpu; ld b, [x]",
            both,
            Allowed,
        ),
        (
            "SB, one fence.sc",
            "x y",
            "st [x], 1; fence.sc.gpu; ld a, [y] | st [y], 1; fence.acq_rel.gpu; ld b, [x]",
            both,
            Allowed,
        ),
        (
            "SB, atomics on a third place",
            "x y z",
            "st [x], 1; atom.acq_rel.gpu.add.b32 _, [z], 1; ld a, [y] | st [y], 1; atom.acq_rel.gpu.add.b32 _, [z], 1; ld b, [x]",
            both,
            Forbidden,
        ),
    ]);
}

#[test]
fn the_order_of_fences_follows_causality() {
    let count = |a: &str, b: &str| {
        let text = format!("y: 0\n== a, block 0\n{a}\n== b, block 0\n{b}");
        outcomes(&Program::parse(&text).unwrap(), Reading::Strict).executions
    };
    assert_eq!(count("fence.sc.gpu", "fence.sc.gpu"), 2);
    assert_eq!(count("fence.sc.gpu; bar.sync", "bar.sync; fence.sc.gpu"), 1);
    // Either order if the write is not seen, and one if it is.
    assert_eq!(
        count(
            "fence.sc.gpu; st.release.gpu [y], 1",
            "ld.acquire.gpu f, [y]; fence.sc.gpu"
        ),
        3
    );
}

#[test]
fn load_buffering() {
    check(&[
        (
            "LB, of the PTX ISA",
            "x y",
            "ld a, [x]; st [y], 1 | ld b, [y]; st [x], 1",
            "a=1 b=1",
            Allowed,
        ),
        (
            "LB, relaxed",
            "x y",
            "ld.relaxed.gpu a, [x]; st.relaxed.gpu [y], 1 | ld.relaxed.gpu b, [y]; st.relaxed.gpu [x], 1",
            "a=1 b=1",
            Allowed,
        ),
        (
            "LB, values that depend, of the PTX ISA",
            "x y",
            "ld a, [x]; st [y], a | ld b, [y]; st [x], b",
            "a!=0; b!=0",
            Forbidden,
        ),
        (
            "LB, one value that depends",
            "x y",
            "ld a, [x]; st [y], a | ld b, [y]; st [x], 1",
            "a=1 b=1",
            Allowed,
        ),
        (
            "LB, a branch that depends",
            "x y",
            "ld a, [x]; @a=1 st [y], 1 | ld b, [y]; st [x], b",
            "a=1 b=1",
            Forbidden,
        ),
        (
            "LB, release",
            "x y",
            "ld.relaxed.gpu a, [x]; st.release.gpu [y], 1 | ld.relaxed.gpu b, [y]; st.release.gpu [x], 1",
            "a=1 b=1",
            Allowed,
        ),
        (
            "LB, release and acquire",
            "x y",
            "ld.acquire.gpu a, [x]; st.release.gpu [y], 1 | ld.acquire.gpu b, [y]; st.release.gpu [x], 1",
            "a=1 b=1",
            Forbidden,
        ),
        (
            "LB, weak, release and acquire",
            "x y",
            "ld a, [x]; st.release.gpu [y], 1 | ld.acquire.gpu b, [y]; st [x], 1",
            "a=1 b=1",
            Forbidden,
        ),
        (
            "LB, fences",
            "x y",
            "ld.relaxed.gpu a, [x]; fence.acq_rel.gpu; st.relaxed.gpu [y], 1 | ld.relaxed.gpu b, [y]; fence.acq_rel.gpu; st.relaxed.gpu [x], 1",
            "a=1 b=1",
            Forbidden,
        ),
    ]);
}

#[test]
fn one_place() {
    check(&[
        (
            "CoRR, of the PTX ISA",
            "x",
            "st.relaxed.sys [x], 1 | ld.relaxed.sys a, [x]; ld.relaxed.sys b, [x]",
            "a=1 b=0",
            Forbidden,
        ),
        (
            "CoRR, weak reads",
            "x",
            "st.relaxed.gpu [x], 1 | ld a, [x]; ld b, [x]",
            "a=1 b=0",
            Allowed,
        ),
        (
            "CoRR, one weak read",
            "x",
            "st.relaxed.gpu [x], 1 | ld.relaxed.gpu a, [x]; ld b, [x]",
            "a=1 b=0",
            Forbidden,
        ),
        (
            "CoRR, the other",
            "x",
            "st.relaxed.gpu [x], 1 | ld a, [x]; ld.relaxed.gpu b, [x]",
            "a=1 b=0",
            Allowed,
        ),
        (
            "CoRR, scope",
            "x",
            "st.relaxed.cta [x], 1 | ld.relaxed.gpu a, [x]; ld.relaxed.gpu b, [x]",
            "a=1 b=0",
            Allowed,
        ),
        (
            "CoRR2",
            "x",
            "st.relaxed.gpu [x], 1 | st.relaxed.gpu [x], 2 | ld.relaxed.gpu a, [x]; ld.relaxed.gpu b, [x] | ld.relaxed.gpu c, [x]; ld.relaxed.gpu d, [x]",
            "a=1 b=2 c=2 d=1",
            Forbidden,
        ),
        ("CoWW", "x", "st [x], 1; st [x], 2", "x=1", Forbidden),
        ("CoWR", "x", "st [x], 1; ld a, [x]", "a=0", Forbidden),
        ("CoRW", "x", "ld a, [x]; st [x], 1", "a=1", Forbidden),
        (
            "CoRW2",
            "x",
            "ld.relaxed.gpu a, [x]; st.relaxed.gpu [x], 2 | st.relaxed.gpu [x], 1",
            "a=1 x=1",
            Forbidden,
        ),
        (
            "two atomics, of the PTX ISA",
            "x",
            "atom.relaxed.sys.add.b32 _, [x], 1 | atom.relaxed.sys.add.b32 _, [x], 1",
            "x!=2",
            Forbidden,
        ),
        (
            "two atomics, one of a block, of the PTX ISA",
            "x",
            "atom.relaxed.cta.add.b32 _, [x], 1 | atom.relaxed.gpu.add.b32 _, [x], 1",
            "x=1",
            Allowed,
        ),
        (
            "an atomic and a store",
            "x",
            "atom.relaxed.gpu.add.b32 a, [x], 1 | st.relaxed.gpu [x], 5",
            "a=0 x=1; a=5 x!=6",
            Forbidden,
        ),
        (
            "an atomic and a weak store",
            "x",
            "atom.relaxed.gpu.add.b32 a, [x], 1 | st [x], 5",
            "a=0 x=1",
            Allowed,
        ),
        (
            "a load and a store in between",
            "x",
            "ld.relaxed.gpu a, [x]; st.relaxed.gpu [x], a+1 | atom.relaxed.gpu.add.b32 _, [x], 1",
            "x=1",
            Allowed,
        ),
        (
            "three exchanges",
            "x",
            "atom.relaxed.gpu.exch.b32 a, [x], 1 | atom.relaxed.gpu.exch.b32 b, [x], 2 | atom.relaxed.gpu.exch.b32 c, [x], 3",
            "a=b; a=c; b=c; a=1",
            Forbidden,
        ),
        (
            "or, and, xor, max",
            "x",
            "atom.relaxed.gpu.or.b32 a, [x], 6; atom.relaxed.gpu.and.b32 b, [x], 3; atom.relaxed.gpu.xor.b32 c, [x], 7; atom.relaxed.gpu.max.b32 d, [x], 9",
            "a!=0; b!=6; c!=2; d!=5; x!=9",
            Forbidden,
        ),
    ]);
}

#[test]
fn two_writes_to_two_places() {
    let crossed = "x=1 y=1";
    check(&[
        (
            "2+2W",
            "x y",
            "st.relaxed.gpu [x], 1; st.relaxed.gpu [y], 2 | st.relaxed.gpu [y], 1; st.relaxed.gpu [x], 2",
            crossed,
            Allowed,
        ),
        (
            "2+2W, releases",
            "x y",
            "st.release.gpu [x], 1; st.release.gpu [y], 2 | st.release.gpu [y], 1; st.release.gpu [x], 2",
            crossed,
            Allowed,
        ),
        (
            "2+2W, fence.acq_rel",
            "x y",
            "st.relaxed.gpu [x], 1; fence.acq_rel.gpu; st.relaxed.gpu [y], 2 | st.relaxed.gpu [y], 1; fence.acq_rel.gpu; st.relaxed.gpu [x], 2",
            crossed,
            Allowed,
        ),
        (
            "2+2W, fence.sc",
            "x y",
            "st.relaxed.gpu [x], 1; fence.sc.gpu; st.relaxed.gpu [y], 2 | st.relaxed.gpu [y], 1; fence.sc.gpu; st.relaxed.gpu [x], 2",
            crossed,
            Forbidden,
        ),
        (
            "R, fence.sc",
            "x y",
            "st.relaxed.gpu [x], 1; fence.sc.gpu; st.relaxed.gpu [y], 1 | st.relaxed.gpu [y], 2; fence.sc.gpu; ld.relaxed.gpu a, [x]",
            "y=2 a=0",
            Forbidden,
        ),
        (
            "R, fence.acq_rel",
            "x y",
            "st.relaxed.gpu [x], 1; fence.acq_rel.gpu; st.relaxed.gpu [y], 1 | st.relaxed.gpu [y], 2; fence.acq_rel.gpu; ld.relaxed.gpu a, [x]",
            "y=2 a=0",
            Allowed,
        ),
        (
            "S, release and acquire",
            "x y",
            "st.relaxed.gpu [x], 2; st.release.gpu [y], 1 | ld.acquire.gpu a, [y]; st.relaxed.gpu [x], 1",
            "a=1 x=2",
            Forbidden,
        ),
        (
            "S, relaxed",
            "x y",
            "st.relaxed.gpu [x], 2; st.relaxed.gpu [y], 1 | ld.relaxed.gpu a, [y]; st.relaxed.gpu [x], 1",
            "a=1 x=2",
            Allowed,
        ),
    ]);
}

#[test]
fn more_than_two_threads() {
    let split = "a=1 b=0 c=1 d=0";
    check(&[
        (
            "IRIW",
            "x y",
            "st.relaxed.gpu [x], 1 | st.relaxed.gpu [y], 1 | ld.relaxed.gpu a, [x]; ld.relaxed.gpu b, [y] | ld.relaxed.gpu c, [y]; ld.relaxed.gpu d, [x]",
            split,
            Allowed,
        ),
        (
            "IRIW, acquires",
            "x y",
            "st.release.gpu [x], 1 | st.release.gpu [y], 1 | ld.acquire.gpu a, [x]; ld.acquire.gpu b, [y] | ld.acquire.gpu c, [y]; ld.acquire.gpu d, [x]",
            split,
            Allowed,
        ),
        (
            "IRIW, fence.acq_rel",
            "x y",
            "st.relaxed.gpu [x], 1 | st.relaxed.gpu [y], 1 | ld.relaxed.gpu a, [x]; fence.acq_rel.gpu; ld.relaxed.gpu b, [y] | ld.relaxed.gpu c, [y]; fence.acq_rel.gpu; ld.relaxed.gpu d, [x]",
            split,
            Allowed,
        ),
        (
            "IRIW, fence.sc",
            "x y",
            "st.relaxed.gpu [x], 1 | st.relaxed.gpu [y], 1 | ld.relaxed.gpu a, [x]; fence.sc.gpu; ld.relaxed.gpu b, [y] | ld.relaxed.gpu c, [y]; fence.sc.gpu; ld.relaxed.gpu d, [x]",
            split,
            Forbidden,
        ),
        (
            "WRC",
            "x y",
            "st.relaxed.gpu [x], 1 | ld.relaxed.gpu a, [x]; st.relaxed.gpu [y], 1 | ld.relaxed.gpu b, [y]; ld.relaxed.gpu c, [x]",
            "a=1 b=1 c=0",
            Allowed,
        ),
        (
            "WRC, release and acquire",
            "x y",
            "st.relaxed.gpu [x], 1 | ld.relaxed.gpu a, [x]; st.release.gpu [y], 1 | ld.acquire.gpu b, [y]; ld.relaxed.gpu c, [x]",
            "a=1 b=1 c=0",
            Forbidden,
        ),
        (
            "WRC, a weak write first",
            "x y",
            "st [x], 1 | ld.relaxed.gpu a, [x]; st.release.gpu [y], 1 | ld.acquire.gpu b, [y]; ld.relaxed.gpu c, [x]",
            "a=1 b=1 c=0",
            Allowed,
        ),
        (
            "WRC, no acquire",
            "x y",
            "st.relaxed.gpu [x], 1 | ld.relaxed.gpu a, [x]; st.release.gpu [y], 1 | ld.relaxed.gpu b, [y]; ld.relaxed.gpu c, [x]",
            "a=1 b=1 c=0",
            Allowed,
        ),
        (
            "ISA2, relaxed in the middle",
            "x y z",
            "st [x], 1; st.release.gpu [y], 1 | ld.relaxed.gpu a, [y]; st.relaxed.gpu [z], 1 | ld.acquire.gpu b, [z]; ld c, [x]",
            "a=1 b=1 c=0",
            Allowed,
        ),
        (
            "ISA2",
            "x y z",
            "st [x], 1; st.release.gpu [y], 1 | ld.acquire.gpu a, [y]; st.release.gpu [z], 1 | ld.acquire.gpu b, [z]; ld c, [x]",
            "a=1 b=1 c=0",
            Forbidden,
        ),
    ]);
}

#[test]
fn causality_passes_through_a_block() {
    // A release by one thread of a block, for what another one wrote before a barrier.
    let text = "x: 0; y: 0\n== a, block 0\nst [x], 1; bar.sync\n== b, block 0\nbar.sync; st.release.gpu [y], 1\n== c, block 1\nld.acquire.gpu f, [y]; ld d, [x]";
    for (text, answer) in [
        (text.to_owned(), Forbidden),
        (
            text.replace("bar.sync; st", "st").replace("; bar.sync", ""),
            Allowed,
        ),
        (text.replace("release.gpu", "release.cta"), Allowed),
    ] {
        let program = Program::parse(&text).unwrap();
        let stale = program.condition("f=1 d=0").unwrap();
        assert_eq!(
            outcomes(&program, Reading::Strict).reach(&stale),
            answer == Allowed,
            "{text}"
        );
    }
}

#[test]
fn accesses_of_several_sizes() {
    let check = |text: &str, outcome: &str, answers: [Answer; 2], is_race| {
        let program = Program::parse(text).unwrap_or_else(|wrong| panic!("{wrong}"));
        let condition = program.condition(outcome).unwrap();
        for (reading, answer) in [Reading::Whole, Reading::Halves].into_iter().zip(answers) {
            let reached = outcomes(&program, reading).reach(&condition);
            assert_eq!(reached, answer == Allowed, "{text}: {outcome}, {reading:?}");
        }
        assert_eq!(
            outcomes(&program, Reading::Strict).mixed_size_race,
            is_race,
            "{text}"
        );
    };
    let pair = |a: &str, b: &str| format!("x: 0 0\n== a, block 0\n{a}\n== b, block 1\n{b}");
    let torn = "p=1 q=0; p=0 q=1";
    // A load and a store of 128 bits: one operation each, or two.
    let same = pair(
        "st.relaxed.gpu.b128 [x], (1 1)",
        "ld.relaxed.gpu.b128 (p q), [x]",
    );
    check(&same, torn, [Forbidden, Allowed], false);
    // Weak ones are torn.
    let weak = pair("st.relaxed.gpu.b128 [x], (1 1)", "ld.b128 (p q), [x]");
    check(&weak, torn, [Allowed, Allowed], false);
    // Two stores beside one load.
    let two = pair(
        "st.relaxed.gpu [x], 1; st.relaxed.gpu [x.1], 1",
        "ld.relaxed.gpu.b128 (p q), [x]",
    );
    check(&two, torn, [Allowed, Allowed], true);
    // A vector of two words is as good as two loads of these.
    let vector = pair(
        "st.relaxed.gpu [x], 1",
        "ld.relaxed.gpu.b128 (p q), [x]; ld.relaxed.gpu.b128 (r s), [x]",
    );
    check(&vector, "p=1 r=0; q!=0", [Forbidden, Forbidden], true);
    // Atomics exclude each other, whatever their sizes.
    let atomics = pair(
        "atom.relaxed.gpu.cas.b128 (p q), [x], (0 0), (1 1)",
        "atom.relaxed.gpu.add.b64 r, [x.1], 5",
    );
    check(
        &atomics,
        "x.1=1; p=0 q=0 x.1!=6; q=5 x.1!=5",
        [Forbidden, Forbidden],
        true,
    );
    // What an exchange in order made cannot be overtaken.
    let ordered = "x: 0 0; f: 0\n== a, block 0\nst.b128 [x], (1 1); st.release.gpu [f], 1\n== b, block 1\nld.acquire.gpu g, [f]; @g=1 ld q, [x.1]";
    check(ordered, "q=0", [Forbidden, Forbidden], false);
}
