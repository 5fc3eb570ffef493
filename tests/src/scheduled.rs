//! CPU targets of a test's own: with a random schedule, and with few steps to take.

use gpumap::executor::{Config, Schedule};
use gpumap::{Device, Growth, Map};
use gpumap_kernels::kernels::Encoding;

use crate::Target;
use crate::device::noting;

/// Runs `body::<K, V>(&Target)` for these pairs of types, or for one per slot format, under so many
/// seeds of a random schedule: whole maps, the host's side of them too. For scenarios of device
/// code alone there is [`on_every_interleaving!`](crate::on_every_interleaving).
#[macro_export]
macro_rules! on_random_schedules {
    ($seeds:expr, $body:ident) => {
        $crate::on_random_schedules!($seeds, $body:
            u32 => u32, u32 => u64, u64 => u32, u64 => u64, u32 => (), u64 => ())
    };
    ($seeds:expr, $body:ident: $($k:ty => $v:ty),*) => {
        $crate::scheduled::on_random_schedules($seeds, |on| {
            $($crate::device::run_pair_on::<$k, $v>(on, $body::<$k, $v>);)*
        })
    };
}

/// Runs a body on a device of its own for each seed and encoding.
pub fn on_random_schedules(seeds: u64, body: impl Fn(&Target)) {
    for seed in 0..seeds {
        let config = Config {
            workers: 1,
            schedule: Schedule::Random { seed },
            step_budget: 1 << 26,
            ..Config::default()
        };
        on_every_encoding(&config, |on| noting(&format!("seed {seed}"), || body(on)));
    }
}

/// Runs a body on devices whose kernels fail after a while, and leave the device usable: only the
/// executor has that. They have the steps for small batches.
pub fn on_limited_steps(body: impl Fn(&Target)) {
    let config = Config {
        step_budget: 200_000,
        ..Config::default()
    };
    on_every_encoding(&config, body);
}

/// A map that promises room that it does not have, so that a batch on a stream is on its way at
/// once.
///
/// # Panics
/// If it cannot be built.
pub fn overcommitted_map(on: &Target) -> Map<u64, u64> {
    let builder = on.builder().growth(Growth::Fixed).submap_slots(&[200, 200]);
    builder.capacity(10_000).build().expect("a small map")
}

fn on_every_encoding(config: &Config, body: impl Fn(&Target)) {
    for encoding in [Encoding::Wide, Encoding::Split] {
        let device = Device::cpu_with(config.clone());
        body(&Target::new(device, Some(encoding)));
    }
}
