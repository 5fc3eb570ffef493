//! Choosing devices, with and without a driver.

use std::process::Command;

use cudarc::driver::sys::CUresult;

use super::*;
use crate::error::{DriverCode, PtxError};
use crate::sharded::Ranks;

/// What `Device::best` selects with these variables.
fn best_with(variables: &[(&str, &str)]) -> String {
    run_with("device::tests::child", variables)
}

/// What `Ranks::best` selects with these variables.
fn group_with(variables: &[(&str, &str)]) -> String {
    run_with("device::tests::child_of_a_group", variables)
}

/// Runs an ignored test in a process of its own, with these variables, and returns what it
/// printed: variables of this process belong to all of its tests.
fn run_with(child: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--ignored", "--nocapture"])
        .env_remove("GPUMAP_DEVICE")
        .env_remove("GPUMAP_DEVICES")
        .env_remove("GPUMAP_PTX")
        .env_remove("GPUMAP_THREADS")
        .envs([("GPUMAP_RANK", ""), ("GPUMAP_RANKS", ""), ("GPUMAP_ID", "")])
        .env("GPUMAP_ID_FILE", "")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

/// Prints events, one a line.
struct Printer;

impl tracing::Subscriber for Printer {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut said = format!("{}:", event.metadata().level());
        event.record(
            &mut |field: &tracing::field::Field, value: &dyn fmt::Debug| {
                said += &format!(" {}={value:?}", field.name());
            },
        );
        println!("{said}");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
#[ignore = "run by the others in a process of its own"]
fn child_that_needs_a_gpu() {
    match Device::best_gpu() {
        Ok(device) => println!("chosen: {device}"),
        Err(error) => println!("error: {error:?}: {error}"),
    }
}

/// What `Device::best_gpu` selects with these variables.
fn gpu_with(variables: &[(&str, &str)]) -> String {
    run_with("device::tests::child_that_needs_a_gpu", variables)
}

/// It said so in an event of level `INFO`, which few programs show.
#[test]
fn falling_back_to_the_cpu_is_a_warning() {
    for free in [&[][..], &[("GPUMAP_DEVICE", "auto")]] {
        let said = best_with(free);
        let warned = said.lines().find(|line| line.contains("WARN: "));
        match Device::cuda_with(0, &PtxChoice::Auto) {
            Ok(_) => assert_eq!(warned, None),
            Err(reason) => {
                let warned = warned.expect("a warning");
                assert!(warned.contains("taking the CPU"), "{warned}");
                // For no device at all it names the first.
                let reason = reason.to_string();
                assert!(warned.contains(&reason), "{warned}, not: {reason}");
            }
        }
        let group = group_with(free);
        assert_eq!(group.contains("WARN: "), warned.is_some(), "{group}");
    }
    // An explicit choice of the CPU gives no warning.
    for said in [
        best_with(&[("GPUMAP_DEVICE", "cpu")]),
        group_with(&[("GPUMAP_DEVICE", "cpu")]),
        group_with(&[("GPUMAP_DEVICES", "cpu,cpu")]),
    ] {
        assert!(said.contains("chosen: "), "{said}");
        assert!(!said.contains("WARN: "), "{said}");
    }
}

#[test]
fn a_gpu_or_what_the_driver_says() {
    for choice in ["", "auto", "cuda", "cuda:0"] {
        let said = gpu_with(&[("GPUMAP_DEVICE", choice)]);
        match Device::cuda_with(0, &PtxChoice::Auto) {
            Ok(device) => assert!(said.contains(&format!("chosen: {device}")), "{said}"),
            Err(reason) => assert!(said.contains(&format!("error: {reason:?}: ")), "{said}"),
        }
        assert!(
            !said.contains("chosen: CPU") && !said.contains("WARN: "),
            "{said}"
        );
    }
    let cpu = gpu_with(&[("GPUMAP_DEVICE", "cpu")]);
    assert!(
        cpu.contains("error: CpuChosen: GPUMAP_DEVICE is cpu"),
        "{cpu}"
    );
    let bad = gpu_with(&[("GPUMAP_DEVICE", "gpu7")]);
    assert!(bad.contains("error: DeviceChoice"), "{bad}");
    let missing = gpu_with(&[("GPUMAP_PTX", "/no/such.ptx")]);
    assert!(missing.contains("error: Ptx"), "{missing}");
}

#[test]
#[ignore = "run by the others in a process of its own"]
fn child() {
    let _ = tracing::subscriber::set_global_default(Printer);
    match Device::best() {
        Ok(device) => println!("chosen: {device}"),
        Err(error) => println!("error: {error:?}: {error}"),
    }
}

#[test]
#[ignore = "run by the others in a process of its own"]
fn child_of_a_group() {
    let _ = tracing::subscriber::set_global_default(Printer);
    match Ranks::best() {
        Ok(ranks) => println!("chosen: {:?}", ranks.devices()),
        Err(error) => println!("error: {error:?}: {error}"),
    }
}

#[test]
fn the_environment_chooses() {
    let cpu = best_with(&[("GPUMAP_DEVICE", "cpu")]);
    assert!(cpu.contains("chosen: CPU"), "{cpu}");
    let bad = best_with(&[("GPUMAP_DEVICE", "gpu7")]);
    assert!(
        bad.contains("error: DeviceChoice")
            && bad.contains("`gpu7` is not a device: use auto, cpu"),
        "{bad}"
    );
    let far = best_with(&[("GPUMAP_DEVICE", "cuda:4096")]);
    let expected = if Device::cuda_count() > 0 {
        "NoDevice { ordinal: 4096"
    } else {
        "No"
    };
    assert!(far.contains("error: ") && far.contains(expected), "{far}");
    // Empty is not set.
    assert!(best_with(&[("GPUMAP_DEVICE", ""), ("GPUMAP_PTX", "")]).contains("chosen: "));
    // Beside how long the test took.
    let chosen = |said: String| {
        said.lines()
            .find(|line| line.contains("chosen: "))
            .map(str::to_owned)
    };
    let free = chosen(best_with(&[]));
    assert!(free.is_some() && chosen(best_with(&[("GPUMAP_DEVICE", "auto")])) == free);
}

#[test]
fn the_cpu_stands_in_where_nothing_was_asked_for() {
    let (device, no_cuda) = Device::choose(DeviceChoice::Auto, &PtxChoice::Auto).unwrap();
    assert_eq!(device.is_cuda(), no_cuda.is_none());
    let (device, no_cuda) = Device::choose(DeviceChoice::Cpu, &PtxChoice::Sm90).unwrap();
    assert!(!device.is_cuda() && no_cuda.is_none());
    let missing = PtxChoice::File("/no/such.ptx".into());
    for choice in [DeviceChoice::Auto, DeviceChoice::Cpu, DeviceChoice::AnyCuda] {
        let error = Device::choose(choice, &missing).unwrap_err();
        assert!(matches!(error, Error::Ptx { .. }), "{error}");
    }

    let (ordinal, count) = (0, 0);
    let log = String::new();
    let code = DriverCode(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    let cause = PtxError::Rejected { code, log };
    let rejected = Error::Ptx { path: None, cause };
    for (ptx, of_rejected) in [(PtxChoice::Auto, true), (PtxChoice::Sm90, false)] {
        assert!(may_be_passed_over(&Error::NoDriver, &ptx));
        assert!(may_be_passed_over(
            &Error::NoDevice { ordinal, count },
            &ptx
        ));
        assert_eq!(may_be_passed_over(&rejected, &ptx), of_rejected);
    }
}

#[test]
fn the_environment_chooses_groups() {
    let one = "chosen: [Device(CPU)]";
    let said = group_with(&[("GPUMAP_DEVICE", "cpu")]);
    assert!(said.contains(one), "{said}");
    let said = group_with(&[("GPUMAP_DEVICE", "gpu7")]);
    assert!(said.contains("error: DeviceChoice"), "{said}");
    let said = group_with(&[("GPUMAP_DEVICE", "cpu"), ("GPUMAP_PTX", "/no/such.ptx")]);
    assert!(said.contains("error: Ptx"), "{said}");
    // The list counts more, unless it is empty.
    let said = group_with(&[("GPUMAP_DEVICE", "gpu7"), ("GPUMAP_DEVICES", "cpu,cpu")]);
    let two = "chosen: [Device(CPU), Device(CPU)]";
    assert!(said.contains(two), "{said}");
    let said = group_with(&[("GPUMAP_DEVICE", "cpu"), ("GPUMAP_DEVICES", "")]);
    assert!(said.contains(one), "{said}");
    for free in [&[][..], &[("GPUMAP_DEVICE", "auto")]] {
        let said = group_with(free);
        match Device::cuda_count() {
            0 => assert!(said.contains(one), "{said}"),
            count => {
                let chosen = said.lines().find(|line| line.starts_with("chosen:"));
                let of_cuda = |line: &str| line.matches("(cuda:").count();
                assert_eq!(chosen.map(of_cuda), Some(count), "{said}");
            }
        }
    }
}

#[test]
fn a_broken_ptx_path_is_an_error_everywhere() {
    for device in ["", "cpu", "cuda"] {
        let missing = best_with(&[("GPUMAP_DEVICE", device), ("GPUMAP_PTX", "/no/such.ptx")]);
        assert!(
            missing.contains("error: Ptx") && missing.contains("/no/such.ptx"),
            "{missing}"
        );
    }
    let folder = std::env::temp_dir();
    let file = |name: &str, text: &str| {
        let path = folder.join(format!("gpumap-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let not_ptx = file("not.ptx", "int main() {}");
    let said = best_with(&[("GPUMAP_DEVICE", "cpu"), ("GPUMAP_PTX", &not_ptx)]);
    assert!(
        said.contains("error: Ptx") && said.contains("NotPtx"),
        "{said}"
    );
    let good = file(
        "good.ptx",
        ".version 7.0\n.target sm_70\n.address_size 64\n",
    );
    for ptx in [&*good, "auto", "sm_70", "sm_90"] {
        let fine = best_with(&[("GPUMAP_DEVICE", "cpu"), ("GPUMAP_PTX", ptx)]);
        assert!(fine.contains("chosen: CPU"), "{fine}");
    }
    std::fs::remove_file(not_ptx).unwrap();
    std::fs::remove_file(good).unwrap();
}

#[test]
fn without_a_driver_the_cpu_is_best() {
    match Device::cuda_with(0, &PtxChoice::Auto) {
        Ok(device) => {
            eprintln!("there is a GPU here, so the case without a driver is not run");
            assert!(device.is_cuda());
            assert!(best_with(&[]).contains(device.name()));
        }
        Err(error) => {
            // Here by far the most frequent; a driver without devices is another.
            assert!(
                matches!(error, Error::NoDriver | Error::NoDevice { .. }),
                "{error}"
            );
            assert!(best_with(&[]).contains("chosen: CPU"));
            assert_eq!(Device::cuda_count(), 0);
        }
    }
}

#[test]
#[ignore = "run by the others in a process of its own"]
fn child_that_needs_the_cpu() {
    match crate::Stream::new(&Device::cpu()) {
        Ok(_) => println!("chosen: {}", Device::cpu()),
        Err(error) => println!("error: {error:?}: {error}"),
    }
}

#[test]
#[ignore = "run by the others in a process of its own"]
fn child_of_a_membership() {
    match crate::sharded::Membership::from_env() {
        Ok(mine) => println!("chosen: {} of {}", mine.rank(), mine.ranks()),
        Err(error) => println!("error: {error:?}: {error}"),
    }
}

/// `GPUMAP_THREADS` of `abc`, `-1` and `0` was ignored.
#[test]
fn no_variable_with_a_wrong_value_is_ignored() {
    let id = "0f".repeat(128);
    let rank_of = |name, value| {
        let all = [
            ("GPUMAP_RANK", "0"),
            ("GPUMAP_RANKS", "2"),
            ("GPUMAP_ID", &*id),
        ];
        let others = all.into_iter().filter(move |&(other, _)| other != name);
        others.chain([(name, value)]).collect::<Vec<_>>()
    };
    let cpu = "device::tests::child_that_needs_the_cpu";
    let (best, group) = ("device::tests::child", "device::tests::child_of_a_group");
    let gpu = "device::tests::child_that_needs_a_gpu";
    let membership = "device::tests::child_of_a_membership";
    let no_numbers = ["abc", "-1", "+1", "1.5", " 2", "99999999999999999999999"];
    let no_devices = ["foo", "CPU", "cuda:", "cuda:-1", "cpu,cpu", " "];
    let no_lists = ["foo", "auto", "0,", "cpu cpu", "-1"];
    for (name, values, children) in [
        (
            "GPUMAP_THREADS",
            &no_numbers[..],
            &[cpu, best, group, gpu][..],
        ),
        ("GPUMAP_THREADS", &["0"], &[cpu, best, group, gpu]),
        ("GPUMAP_DEVICE", &no_devices, &[best, group, gpu]),
        ("GPUMAP_DEVICES", &no_lists, &[group]),
        (
            "GPUMAP_PTX",
            &["sm_80", "/no/such.ptx"],
            &[best, group, gpu],
        ),
        ("GPUMAP_RANK", &no_numbers, &[membership]),
        ("GPUMAP_RANK", &["2", ""], &[membership]),
        ("GPUMAP_RANKS", &no_numbers, &[membership]),
        ("GPUMAP_RANKS", &["0", ""], &[membership]),
        ("GPUMAP_ID", &["abc", "", &id[1..]], &[membership]),
        ("GPUMAP_ID_FILE", &["/no/such/folder/id"], &[membership]),
    ] {
        for (value, child) in values
            .iter()
            .flat_map(|v| children.iter().map(move |c| (v, c)))
        {
            let variables = match *child == membership {
                true => rank_of(name, value),
                false => vec![(name, *value)],
            };
            let said = run_with(child, &variables);
            assert!(said.contains("error: "), "{name}={value}, {child}: {said}");
        }
    }
    // Empty is not set, and right values are right.
    for (child, variables) in [
        (cpu, vec![("GPUMAP_THREADS", "")]),
        (cpu, vec![("GPUMAP_THREADS", "3")]),
        (membership, rank_of("GPUMAP_RANK", "1")),
        (membership, rank_of("GPUMAP_ID_FILE", "")),
    ] {
        let said = run_with(child, &variables);
        assert!(said.contains("chosen: "), "{variables:?}: {said}");
    }
    let said = run_with(cpu, &[("GPUMAP_THREADS", "abc")]);
    assert!(
        said.contains("GPUMAP_THREADS is `abc`: set it to a number of threads, 1 or more"),
        "{said}"
    );
}

#[test]
fn threads_have_a_bound() {
    let said = best_with(&[("GPUMAP_DEVICE", "cpu"), ("GPUMAP_THREADS", "1025")]);
    assert!(
        said.contains("WARN:") && said.contains("taking 1024"),
        "{said}"
    );
    assert_eq!(Device::cpu_with_threads(u32::MAX).multiprocessors(), 1024);
    assert_eq!(Device::cpu_with_threads(0).multiprocessors(), 1);
}

#[test]
fn equality_is_about_memory() {
    assert_eq!(Device::cpu(), Device::cpu());
    assert_eq!(Device::cpu(), Device::cpu().with_memory_budget(1));
    assert_ne!(Device::cpu(), Device::cpu_with_threads(1));
    assert_eq!(Device::checked(), Device::checked());
    assert_ne!(Device::checked(), Device::cpu());
    assert_ne!(Device::checked(), Device::cpu_with(Default::default()));
    if let Ok(device) = Device::cuda(0) {
        assert_eq!(device, Device::cuda(0).unwrap());
        assert_eq!(device, Device::cuda_with(0, &PtxChoice::Sm70).unwrap());
        assert_ne!(device, Device::cpu());
    }
}

#[test]
fn infos() {
    crate::testing::on_every_device(|device| {
        let info = device.info().unwrap();
        assert_eq!(info.name, device.name());
        assert_eq!(info.backend == Backend::Cuda, device.is_cuda());
        assert_eq!(info.compute_capability.is_some(), device.is_cuda());
        assert!(info.multiprocessors > 0);
        assert!(info.ptx.is_none_or(|ptx| ptx != PtxChoice::Auto));
        assert!(info.free_memory <= info.total_memory);
        device.synchronize().unwrap();
        assert!(format!("{device:?}").contains(device.name()));
    });
}

#[test]
fn others_kernels_are_looked_at() {
    crate::testing::on_every_device(|device| {
        let error = device.register_ptx("int main() {}").unwrap_err();
        assert!(
            matches!(
                error,
                Error::Ptx {
                    path: None,
                    cause: PtxError::NotPtx
                }
            ),
            "{error}"
        );
        let header = ".version 7.0\n.target sm_70\n.address_size 64\n";
        device.register_ptx(header).unwrap();
        if device.is_cuda() {
            let error = device
                .register_ptx(format!("{header} nonsense"))
                .unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::Ptx {
                        cause: PtxError::Rejected { .. },
                        ..
                    }
                ),
                "{error}"
            );
        }
    });
}

#[test]
fn a_borrowed_context_is_the_same_device() {
    let Ok(device) = Device::cuda(0) else {
        gpumap_test_skips::skip("no GPU: raw contexts are not tested");
        assert_eq!(Device::cpu().as_raw_context(), None);
        return;
    };
    let raw = device.as_raw_context().unwrap();
    // SAFETY: `device` keeps the context alive until the end.
    let borrowed = unsafe { Device::from_raw_context(raw) }.unwrap();
    assert_eq!(borrowed, device);
    assert_eq!(borrowed.info().unwrap().ordinal, Some(0));
}
