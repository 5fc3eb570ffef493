//! A library that another program loads, as PyTorch's would load an extension: a soak beside that program's graph
//! captures. `beside_torch.py` calls it; `run.sh torch` in a bundle runs both.

use std::time::Duration;

use gpumap::Device;
use gpumap_tests::Target;
use gpumap_tests::soak::{self, Options, Report};

/// Soaks maps on the first GPU for so many seconds. Returns how many calls were made, or -1 if something was wrong,
/// which is printed.
#[unsafe(no_mangle)]
pub extern "C" fn gpumap_soak(seconds: u32, seed: u64) -> i64 {
    let soaked = std::panic::catch_unwind(|| soak_gpu(seconds, seed));
    match soaked {
        Ok(Ok(report)) if report.difference.is_none() => {
            println!("gpumap: {report}");
            i64::try_from(report.operations).unwrap_or(i64::MAX)
        }
        Ok(Ok(report)) => {
            eprintln!("gpumap: {report}");
            -1
        }
        Ok(Err(error)) => {
            eprintln!("gpumap: {error}");
            -1
        }
        // The panic has been printed.
        Err(_) => -1,
    }
}

fn soak_gpu(seconds: u32, seed: u64) -> gpumap::Result<Report> {
    let on = Target::new(Device::cuda(0)?, None);
    let options = Options {
        time: Duration::from_secs(seconds.into()),
        streams: 4,
        seed,
        keys: 1 << 14,
        batch: 1 << 12,
    };
    Ok(soak::run::<u64, u64>(&on, &options, |_| ()))
}
