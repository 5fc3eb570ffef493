//! `gpumap info`: the device that the other commands would run on, its driver and its code.

use serde_json::{Value, json};

use crate::cli::Session;
use crate::console::print_line;
use crate::error::{Result, printable};
use crate::words;

/// Runs the command.
pub fn run(session: &Session) -> Result<()> {
    let engine = session.open()?;
    let info = engine.info()?;
    let reason = engine
        .no_cuda()
        .map(|error| printable(&words::of_library(error)));
    let version = env!("CARGO_PKG_VERSION");

    if session.json {
        let text = |value: Option<String>| value.map_or(Value::Null, Value::from);
        let object = json!({
            "version": version,
            "device": info.name,
            "cuda": info.ordinal.is_some(),
            "ordinal": info.ordinal,
            "compute_capability": text(info.compute_capability.map(|it| it.to_string())),
            "driver": text(info.driver_version.map(|it| it.to_string())),
            "ptx": text(info.ptx.map(|it| it.to_string())),
            "multiprocessors": info.multiprocessors,
            "memory_bytes": info.total_memory,
            "free_memory_bytes": info.free_memory,
            "l2_bytes": info.l2_bytes,
            "no_cuda": reason,
        });
        return print_line(object.to_string());
    }

    let mut rows = vec![("gpumap", version.to_owned())];
    match info.ordinal {
        Some(ordinal) => rows.push(("device", format!("{} (cuda:{ordinal})", info.name))),
        None => rows.push(("device", info.name)),
    }
    if let Some(capability) = info.compute_capability {
        rows.push(("capability", capability.to_string()));
    }
    rows.push(match (info.driver_version, reason) {
        (Some(version), _) => ("driver", format!("CUDA {version}")),
        (None, Some(reason)) => ("driver", format!("not used: {reason}")),
        (None, None) => ("driver", "not used, as --device says".to_owned()),
    });
    rows.push(match info.ptx {
        Some(ptx) => ("PTX", ptx.to_string()),
        None => (
            "PTX",
            "none: the CPU runs the kernels as Rust code".to_owned(),
        ),
    });
    let unit = if info.ordinal.is_some() {
        "multiprocessors"
    } else {
        "threads"
    };
    rows.push(("runs", format!("{} {unit}", info.multiprocessors)));
    if let Some(total) = info.total_memory {
        let free = info
            .free_memory
            .map(|free| format!(", {} free", gibibytes(free)));
        rows.push(("memory", gibibytes(total) + &free.unwrap_or_default()));
    }
    if let Some(bytes) = info.l2_bytes {
        rows.push(("L2 cache", format!("{} MiB", bytes >> 20)));
    }
    for (name, value) in rows {
        print_line(format!("{name:<11} {value}"))?;
    }
    Ok(())
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
