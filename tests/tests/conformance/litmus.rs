//! The protocols as litmus tests, for a moment: `gpumap-litmus` runs them for minutes.

use std::time::Duration;

use gpumap::Device;
use gpumap::executor::{Config, Schedule};
use gpumap_tests::litmus::{self, Options, SHAPES, Verdict};
use gpumap_tests::{Target, on_every_target};

fn options(on: &Target) -> Options {
    Options {
        time: Duration::ZERO,
        launches: on.n(4, 64) as u32,
        instances: on.n(256, 1 << 16) as u32,
        seed: 3,
    }
}

#[test]
fn no_protocol_comes_to_what_the_model_forbids() {
    on_every_target(|on| {
        let report = litmus::run(on, &options(on)).unwrap();
        assert_eq!(report.forbidden(), 0, "{report}");
        assert_eq!(report.shapes.len() + report.left_out.len(), SHAPES.len());
        for (name, shape, control) in &report.shapes {
            for seen in [shape, control] {
                let counted: u64 = seen.outcomes.iter().map(|&(_, count, _)| count).sum();
                assert_eq!(counted, seen.instances, "{name}");
            }
            assert_eq!(shape.count(Verdict::Weak), 0, "{name}");
        }
    });
}

#[test]
fn controls_in_two_parts_are_seen_apart() {
    // Lanes in a random order: atomics of the executor have one order each, so that only what has two parts shows.
    let schedule = Schedule::Random { seed: 11 };
    let device = Device::cpu_with(Config {
        schedule,
        ..Config::default()
    });
    let on = Target::new(device, None);
    let report = litmus::run(&on, &options(&on)).unwrap();
    assert_eq!(report.forbidden(), 0, "{report}");
    for ((name, _, control), shape) in report.shapes.iter().zip(&SHAPES) {
        let has_parts = shape.control.contains("not");
        assert_eq!(
            control.count(Verdict::Weak) != 0,
            has_parts,
            "{name}\n{report}"
        );
    }
}
