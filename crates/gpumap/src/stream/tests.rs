//! Launches, events and order: the same bodies on the CPU and on a GPU.

use std::time::Duration;

use gpumap_simt::layout::declaration;
use gpumap_simt::{kernel, kernel::Grid, kernel_args, thread};

use super::{Queue, Recorder, Work};
use crate::cuda::calls;
use crate::testing::on_every_device;
use crate::{Buffer, Device, Error, Event, Map, PtxError, Result, Stream};

kernel_args! {
    /// Arguments of [`INCREMENT`].
    struct IncrementArgs {
        /// The words to add one to.
        data: *mut u32,
        /// How many there are.
        n: u64,
    }
}

kernel! {
    /// Adds one to each of `n` words.
    static INCREMENT = fn test_increment(args: IncrementArgs) {
        let i = thread::index();
        if i < args.n {
            // SAFETY: `i < n`, and each thread has its own word.
            unsafe { *args.data.add(i as usize) += 1 };
        }
    }
    /// In no PTX, and panics where it runs.
    static NOWHERE = fn test_nowhere(_args: IncrementArgs) {
        panic!("on purpose");
    }
}

/// What the compiler would make of [`INCREMENT`], with no more than every device can run.
fn increment_ptx() -> String {
    let header = ".version 7.0\n.target sm_70\n.address_size 64\n";
    let layout = declaration(INCREMENT.name(), INCREMENT.signature());
    format!("{header}{layout}{INCREMENT_PTX}")
}

const INCREMENT_PTX: &str = "
.visible .entry test_increment(.param .align 8 .b8 args[16]) {
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [args];
    ld.param.u64 %rd2, [args+8];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd3, %r1, %r2;
    cvt.u64.u32 %rd4, %r3;
    add.s64 %rd3, %rd3, %rd4;
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra done;
    shl.b64 %rd4, %rd3, 2;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.u32 %r4, [%rd5];
    add.u32 %r4, %r4, 1;
    st.global.u32 [%rd5], %r4;
done:
    ret;
}
";

/// The CPU as devices that no other test registers kernels on, and the GPU, if there is one.
fn on_every_new_device(test: impl Fn(&Device)) {
    on_every_device(|device| match device {
        device if device.is_cuda() => test(device),
        // Each is new.
        device if *device == Device::cpu() => test(&Device::cpu_with_threads(2)),
        device if *device == Device::checked() => test(&Device::cpu_with(Default::default())),
        deferred => test(deferred),
    });
}

/// It was looked at on the CPU, and refused on the machine with the GPU.
#[test]
fn ptx_older_than_the_source_is_refused_on_every_device() {
    let right = increment_ptx();
    let signature = INCREMENT.signature();
    let of = |name, signature| declaration(name, signature);
    let other_arguments = right.replace(
        &of("test_increment", signature),
        &of("test_increment", !signature),
    );
    let renamed = right.replace("test_increment", "test_old_increment");
    assert!(other_arguments != right);
    let run = |device: &Device| {
        let stream = Stream::new(device).unwrap();
        let mut data = Buffer::<u32>::zeroed(&stream, 10).unwrap();
        let launched = increment(&stream, &mut data, Grid::covering(10, 32));
        let data = data.to_vec().unwrap();
        assert_eq!(data, [u32::from(launched.is_ok()); 10]);
        launched
    };
    let is_layout = |error: Error| match error {
        Error::Ptx {
            cause: PtxError::Layout { kernel, .. },
            ..
        } => kernel == "test_increment",
        _ => false,
    };
    on_every_new_device(|device| {
        // Of a pair, one that is older is found as it comes.
        for (sm_70, sm_90) in [(&right, &other_arguments), (&other_arguments, &right)] {
            assert!(is_layout(
                device.register_ptx_pair(sm_70, sm_90).unwrap_err()
            ));
        }
        if !device.is_cuda() {
            run(device).unwrap(); // Nothing is registered yet.
            device.register_ptx(&renamed).unwrap();
            let missing = run(device).unwrap_err();
            let kernel = "test_increment";
            assert!(
                matches!(missing, Error::KernelMissing { kernel: it } if it == kernel),
                "{missing}"
            );
            // The library's own kernels are as they were.
            let map = Map::<u32, u32>::from_pairs(device, [(1, 2)]).unwrap();
            assert_eq!(map.get(&[1]).unwrap(), [Some(2)]);
        }
    });
    on_every_new_device(|device| {
        if !device.is_cuda() {
            device
                .register_ptx_pair(&other_arguments, &other_arguments)
                .unwrap();
            assert!(is_layout(run(device).unwrap_err()));
        }
    });
    on_every_new_device(|device| {
        device.register_ptx_pair(&right, &right).unwrap();
        run(device).unwrap();
    });
}

fn increment(stream: &Stream, data: &mut Buffer<u32>, grid: Grid) -> Result<()> {
    let args = IncrementArgs {
        data: data.as_mut_ptr(),
        n: data.len() as u64,
    };
    // SAFETY: `data` has `n` words, and every test waits before it drops it.
    unsafe { INCREMENT.launch(stream, grid, args) }
}

#[test]
fn launches_find_their_kernel() {
    on_every_device(|device| {
        device.register_ptx(increment_ptx()).unwrap();
        let stream = Stream::new(device).unwrap();
        let mut data = Buffer::<u32>::zeroed(&stream, 1000).unwrap();
        for _ in 0..3 {
            increment(&stream, &mut data, Grid::covering(1000, 128)).unwrap();
        }
        // More dynamic shared memory than there is without asking.
        let shared_bytes = 64 << 10;
        let grid = Grid {
            shared_bytes,
            ..Grid::covering(1000, 128)
        };
        increment(&stream, &mut data, grid).unwrap();
        assert_eq!(data.to_vec().unwrap(), [4; 1000]);
    });
}

#[test]
fn shapes_are_checked() {
    on_every_device(|device| {
        device.register_ptx(increment_ptx()).unwrap();
        let stream = Stream::new(device).unwrap();
        let mut data = Buffer::<u32>::zeroed(&stream, 10).unwrap();
        increment(&stream, &mut data, Grid::new(0, 128)).unwrap();
        for (blocks, threads) in [(1, 0), (1, 1025), (u32::MAX, 32)] {
            let error = increment(&stream, &mut data, Grid::new(blocks, threads)).unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::LaunchShape {
                        kernel: "test_increment",
                        ..
                    }
                ),
                "{error}"
            );
        }
        assert_eq!(data.to_vec().unwrap(), [0; 10]);
    });
}

#[test]
fn kernels_that_fail_or_are_missing_are_errors() {
    on_every_new_device(|device| {
        let stream = Stream::new(device).unwrap();
        let args = IncrementArgs {
            data: std::ptr::null_mut(),
            n: 0,
        };
        // SAFETY: the kernel uses no pointer.
        let launched = unsafe { NOWHERE.launch(&stream, Grid::new(1, 32), args) };
        let error = launched.and_then(|()| stream.synchronize()).unwrap_err();
        if device.is_cuda() {
            assert!(
                matches!(
                    error,
                    Error::KernelMissing {
                        kernel: "test_nowhere"
                    }
                ),
                "{error}"
            );
        } else {
            assert!(matches!(error, Error::Kernel(_)), "{error}");
        }
    });
}

#[test]
fn streams_wait_for_each_other() {
    on_every_device(|device| {
        device.register_ptx(increment_ptx()).unwrap();
        let (first, second) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let mut data = Buffer::<u32>::zeroed(&first, 1 << 16).unwrap();
        for _ in 0..10 {
            for (next, before) in [(&second, &first), (&first, &second)] {
                next.wait_stream(before).unwrap();
                increment(next, &mut data, Grid::covering(1 << 16, 256)).unwrap();
            }
        }
        assert!(data.to_vec().unwrap().iter().all(|&x| x == 20));
        assert!(first.is_idle().unwrap() && second.is_idle().unwrap());
        first.wait_stream(&first.clone()).unwrap();
        first.wait_event(&Event::new(device).unwrap()).unwrap();
    });
}

#[test]
fn all_that_is_queued_is_known() {
    on_every_device(|device| {
        if !device.has_own_memory() {
            return; // All that was called has ended.
        }
        device.register_ptx(increment_ptx()).unwrap();
        let stream = Stream::new(device).unwrap();
        let mut data = Buffer::<u32>::zeroed(&stream, 64).unwrap();
        let (to, mut host) = (data.as_mut_ptr().cast::<u8>(), [0u8; 64]);
        let at = host.as_mut_ptr();
        let (event, mut spare) = (Event::new(device).unwrap(), None);
        let launches = Recorder::new(device).unwrap();
        let args = IncrementArgs {
            data: data.as_mut_ptr(),
            n: 64,
        };
        // SAFETY: the buffer has as many words.
        unsafe { INCREMENT.launch(&launches, Grid::new(1, 64), args) }.unwrap();
        let recorded = launches.finish().unwrap();
        // SAFETY: the places have as many bytes, and live until the stream has been waited for.
        let calls: &mut [(&str, &mut dyn FnMut() -> Result<()>)] = unsafe {
            &mut [
                ("fill", &mut || stream.fill(to, 1, 64)),
                ("upload", &mut || stream.upload(to, at, 64)),
                ("download", &mut || stream.download(at, to, 64)),
                ("copy", &mut || stream.copy(to, to.add(64), 64)),
                ("rows", &mut || stream.copy_rows(to, to.add(64), 8, 16, 4)),
                ("launch", &mut || {
                    INCREMENT.launch(&stream, Grid::new(1, 64), args)
                }),
                ("graph", &mut || stream.launch_recorded(&recorded)),
                ("call", &mut || stream.call_host(Box::new(|| ()))),
                ("record", &mut || event.record(&stream)),
                ("wait", &mut || stream.wait_event(&event)),
                ("allocate", &mut || {
                    spare = Some(Buffer::<u8>::unwritten(&stream, 1)?);
                    Ok(())
                }),
            ]
        };
        for (name, call) in calls {
            stream.synchronize().unwrap();
            assert!(stream.inner.work.has_ended(), "before {name}");
            call().unwrap();
            assert!(!stream.inner.work.has_ended(), "{name} is not known");
        }
        stream.synchronize().unwrap();
        drop(spare);
        assert!(!stream.inner.work.has_ended(), "freeing is not known");
        stream.synchronize().unwrap();
        // Others may queue something now.
        let Some(raw) = stream.as_raw() else {
            assert!(!device.is_cuda());
            return;
        };
        assert!(!stream.inner.work.has_ended());
        // SAFETY: the stream outlives it.
        let same = unsafe { Stream::from_raw(device, raw) }.unwrap();
        same.synchronize().unwrap();
        assert!(!same.inner.work.has_ended());
    });
}

#[test]
fn a_small_call_asks_the_driver_to_launch_and_to_wait() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let map = Map::<u64, u64>::with_capacity(device, 1000).unwrap();
        let keys = Buffer::from_slice(&stream, &[1, 2, 3]).unwrap();
        let mut values = Buffer::<u64>::zeroed(&stream, 3).unwrap();
        let mut steady = || {
            calls::take();
            map.insert(&keys, &keys).unwrap();
            map.get_or_into(&keys, 0, &mut values).unwrap();
            let is_of_thread =
                |call: &&str| call.starts_with("cuCtx") || call.starts_with("cuThread");
            let mut calls = calls::take();
            calls.retain(|call| !is_of_thread(call));
            calls
        };
        // The first call compiles kernels, and waits for the keys.
        steady();
        let calls = steady();
        let call = ["cuLaunchKernel", "cuStreamSynchronize"];
        match device.is_cuda() {
            true => assert_eq!(calls, [call, call].concat()),
            false => assert!(calls.is_empty()),
        }
    });
}

#[test]
fn default_streams_of_two_devices_are_two() {
    let legacy = |device: &Device| {
        let queue = Queue::Cuda {
            handle: std::ptr::null_mut(),
            owned: false,
        };
        Stream::of(device, queue, Work::shared())
    };
    let (one, other) = (Device::cpu(), Device::cpu_with(Default::default()));
    assert!(legacy(&one).is_same_as(&legacy(&one)));
    assert!(!legacy(&one).is_same_as(&legacy(&other)));
}

#[test]
fn events_take_the_time() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let (start, end) = (Event::new(device).unwrap(), Event::new(device).unwrap());
        assert!(matches!(
            end.elapsed_since(&start),
            Err(Error::EventNotRecorded)
        ));
        start.record(&stream).unwrap();
        let _buffer = Buffer::<u8>::zeroed(&stream, 16 << 20).unwrap();
        end.record(&stream).unwrap();
        let took = end.elapsed_since(&start).unwrap();
        assert!(took < Duration::from_secs(60), "{took:?}");
        assert_eq!(start.elapsed_since(&start).unwrap(), Duration::ZERO);
        assert_eq!(start.elapsed_since(&end).unwrap(), Duration::ZERO);
        assert!(end.is_done().unwrap());
        end.synchronize().unwrap();
        let other = Stream::new(&Device::cpu_with(Default::default())).unwrap();
        assert!(matches!(end.record(&other), Err(Error::WrongDevice { .. })));
        assert!(matches!(
            other.wait_event(&end),
            Err(Error::WrongDevice { .. })
        ));
        assert!(matches!(
            stream.wait_stream(&other),
            Err(Error::WrongDevice { .. })
        ));
    });
}

#[test]
fn threads_share_a_stream() {
    on_every_device(|device| {
        device.register_ptx(increment_ptx()).unwrap();
        let stream = Stream::new(device).unwrap();
        let mut data = Buffer::<u32>::zeroed(&stream, 100).unwrap();
        let args = IncrementArgs {
            data: data.as_mut_ptr(),
            n: 100,
        };
        // Lets the threads copy the arguments; one stream keeps their launches apart.
        struct Shared(IncrementArgs);
        // SAFETY: plain words; see above.
        unsafe impl Sync for Shared {}
        let shared = &Shared(args);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let stream = stream.clone();
                scope.spawn(move || {
                    let Shared(args) = shared;
                    for _ in 0..25 {
                        // SAFETY: `data` outlives the scope and is read after a wait.
                        unsafe { INCREMENT.launch(&stream, Grid::new(1, 128), *args) }.unwrap();
                    }
                });
            }
        });
        assert_eq!(data.to_vec().unwrap(), [100; 100]);
    });
}

#[test]
fn raw_streams_are_used_and_not_destroyed() {
    on_every_device(|device| {
        let Some(raw) = Stream::new(device).unwrap().as_raw() else {
            // SAFETY: refused.
            let refused = unsafe { Stream::from_raw(device, std::ptr::null_mut()) };
            assert!(matches!(refused, Err(Error::WrongDevice { .. })));
            return;
        };
        assert!(!raw.is_null());
        // SAFETY: null is the legacy default stream, which always is.
        let legacy = unsafe { Stream::from_raw(device, std::ptr::null_mut()) }.unwrap();
        let buffer = Buffer::from_slice(&legacy, &[1u8, 2]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2]);
    });
}

#[test]
fn debug_is_a_short_line() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    let buffer = Buffer::from_slice(&stream, &[1u32, 2, 3]).unwrap();
    assert_eq!(
        format!("{stream:?}"),
        "Stream { device: Device(CPU), queue: deferred }"
    );
    assert_eq!(
        format!("{buffer:?}"),
        "Buffer { elements: 3 x u32, bytes: 12, device: Device(CPU) }"
    );
    let map = crate::Map::<u32, u32>::new(stream.device()).unwrap();
    let on = map.on(&stream);
    let event = crate::Event::new(stream.device()).unwrap();
    let pending = on.insert(&buffer, &buffer).unwrap();
    for shown in [
        format!("{:?}", buffer.as_view()),
        format!("{on:?}"),
        format!("{map:?}"),
        format!("{event:?}"),
        format!("{pending:?}"),
    ] {
        assert!(shown.len() < 120, "{shown}");
    }
}
