//! What the system does to a map: signals, a full disk, limits of memory and files, empty files, readers that stop.

use std::fs::{self, File};
use std::io::{self, Read, Write, pipe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gpumap::file::FileError;
use gpumap::{Device, Error, Map, MultiMap, RowMap};

use crate::case;

/// A map whose file has some megabytes.
fn large() -> Map<u64, u64> {
    let keys: Vec<u64> = (0..300_000).collect();
    let map = Map::new(&Device::cpu()).unwrap();
    map.insert(&keys, &keys).unwrap();
    map
}

fn io_error(error: &Error) -> Option<i32> {
    match error {
        Error::File {
            cause: FileError::Io(cause),
            ..
        } => cause.raw_os_error(),
        _ => None,
    }
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// A signal every so many microseconds, which interrupts calls of the system.
fn interrupt_every(microseconds: libc::suseconds_t) {
    // SAFETY: the handler changes an atomic, and both structures are filled as the system wants them.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
        assert_eq!(
            libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()),
            0
        );
        let time = libc::timeval {
            tv_sec: 0,
            tv_usec: microseconds,
        };
        let timer = libc::itimerval {
            it_interval: time,
            it_value: time,
        };
        assert_eq!(
            libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()),
            0
        );
    }
}

case! { signals_interrupt_no_save_and_no_load within 60: || {
    let map = large();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    interrupt_every(500);
    for _ in 0..3 {
        assert_eq!(map.save(&path).unwrap(), 300_000);
        assert_eq!(Map::<u64, u64>::load(&Device::cpu(), &path).unwrap().len(), 300_000);
    }
    // A pipe is full most of the time, so that writes and reads are interrupted in the middle.
    let (mut from, to) = pipe().unwrap();
    let mut bytes = Vec::new();
    thread::scope(|scope| {
        let saved = scope.spawn(|| map.save_to(to).unwrap());
        let mut part = [0; 50_000];
        loop {
            match from.read(&mut part) {
                Ok(0) => break,
                Ok(len) => bytes.extend_from_slice(&part[..len]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::Interrupted),
            }
        }
        assert_eq!(saved.join().unwrap(), 300_000);
    });
    assert_eq!(Map::<u64, u64>::builder(&Device::cpu()).load_from(&bytes[..]).unwrap().len(), 300_000);
    assert!(SIGNALS.load(Ordering::Relaxed) > 3, "nothing was interrupted");
} }

case! { a_full_disk_is_an_error_and_the_map_goes_on within 30: || {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        println!("skipped: no /dev/full");
        return;
    };
    let map = large();
    let error = map.save_to(&full).unwrap_err();
    assert_eq!(io_error(&error), Some(libc::ENOSPC), "{error}");
    let rows = RowMap::<u64>::new(&Device::cpu()).unwrap();
    rows.insert(&[1, 2]).unwrap();
    assert_eq!(io_error(&rows.save_to(&full).unwrap_err()), Some(libc::ENOSPC));
    assert_eq!(rows.insert(&[3]).unwrap(), [2]);
    let strings = RowMap::<str>::new(&Device::cpu()).unwrap();
    strings.insert(&["a"]).unwrap();
    assert_eq!(io_error(&strings.save_to(&full).unwrap_err()), Some(libc::ENOSPC));
    let wide = Map::<u128, u64>::new(&Device::cpu()).unwrap();
    wide.insert(&[1], &[1]).unwrap();
    assert_eq!(io_error(&wide.save_to(&full).unwrap_err()), Some(libc::ENOSPC));
    assert_eq!(map.insert(&[1 << 40], &[1]).unwrap(), 1);
} }

fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let most = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: a structure that is filled.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const most) }, 0);
}

case! { a_limit_of_file_sizes_leaves_the_earlier_file within 30: || {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    let small = Map::<u64, u64>::new(&Device::cpu()).unwrap();
    small.insert(&[1], &[10]).unwrap();
    small.save(&path).unwrap();
    let map = large();
    // SAFETY: ignored signals run nothing. Else the system ends the process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    limit(libc::RLIMIT_FSIZE, 1 << 20);
    let error = map.save(&path).unwrap_err();
    assert_eq!(io_error(&error), Some(libc::EFBIG), "{error}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|name| name.unwrap().file_name()).collect();
    assert_eq!(names, ["map"]);
    let back = Map::<u64, u64>::load(&Device::cpu(), &path).unwrap();
    assert_eq!(back.get(&[1]).unwrap(), [Some(10)]);
    assert_eq!(map.len(), 300_000);
} }

/// Bytes of the address space that are in use.
fn address_space() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: no more than a question.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

case! { a_limit_of_memory_is_an_error_and_the_map_goes_on within 60: || {
    let map = Map::<u64, u64>::new(&Device::cpu()).unwrap();
    map.insert(&[1, 2], &[10, 20]).unwrap();
    let keys: Vec<u64> = (0..8_000_000).collect();
    let folder = tempfile::tempdir().unwrap();
    limit(libc::RLIMIT_AS, address_space() + (64 << 20));
    let is_memory = |error: &Error| matches!(error, Error::OutOfMemory { .. });
    assert!(is_memory(&map.insert(&keys, &keys).unwrap_err()));
    assert!(is_memory(&map.reserve(1 << 27).unwrap_err()));
    assert!(is_memory(&Map::<u64, u64>::with_capacity(&Device::cpu(), 1 << 27).unwrap_err()));
    assert!(is_memory(&RowMap::<u64>::with_capacity(&Device::cpu(), 1 << 27).unwrap_err()));
    assert!(is_memory(&Map::<u128, u64>::with_capacity(&Device::cpu(), 1 << 27).unwrap_err()));
    assert_eq!(map.get(&[1, 2, 3]).unwrap(), [Some(10), Some(20), None]);
    assert_eq!(map.insert(&[3], &[30]).unwrap(), 1);
    // As many threads as there is memory for.
    assert_eq!(map.save(folder.path().join("map")).unwrap(), 3);
} }

case! { no_memory_for_a_thread_is_no_end within 60: || {
    let map = large();
    let folder = tempfile::tempdir().unwrap();
    limit(libc::RLIMIT_AS, address_space() + (1 << 20));
    match map.save(folder.path().join("map")) {
        Ok(pairs) => assert_eq!(pairs, 300_000),
        Err(error) => assert!(matches!(error, Error::OutOfMemory { .. } | Error::File { .. }), "{error}"),
    }
    assert_eq!(map.get(&[7]).unwrap(), [Some(7)]);
} }

case! { empty_files_and_batches within 30: || {
    let device = Device::cpu();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    fs::write(&path, "").unwrap();
    let is_file = |error: Error| matches!(error, Error::File { .. });
    assert!(is_file(Map::<u64, u64>::load(&device, &path).unwrap_err()));
    assert!(is_file(Map::<u64, u64>::builder(&device).load_from(io::empty()).unwrap_err()));
    assert!(is_file(Map::<u64, [u8; 20]>::load(&device, &path).unwrap_err()));
    assert!(is_file(MultiMap::<u64, u64>::load(&device, &path).unwrap_err()));
    assert!(is_file(Map::<u128, u64>::load(&device, &path).unwrap_err()));
    assert!(is_file(RowMap::<u64>::load(&device, &path).unwrap_err()));
    assert!(is_file(RowMap::<str>::load(&device, &path).unwrap_err()));

    let map = Map::<u64, u64>::new(&device).unwrap();
    assert_eq!(map.insert(&[], &[]).unwrap(), 0);
    assert_eq!(map.get(&[]).unwrap(), []);
    assert_eq!(map.save(&path).unwrap(), 0);
    assert!(Map::<u64, u64>::load(&device, &path).unwrap().is_empty());
    let strings = RowMap::<str>::new(&device).unwrap();
    assert_eq!(strings.insert(&[""; 0]).unwrap(), []);
    assert_eq!(strings.insert(&["", ""]).unwrap(), [0, 0]);
    assert_eq!(strings.save(&path).unwrap(), 1);
    assert_eq!(RowMap::<str>::load(&device, &path).unwrap().get(&[""]).unwrap(), [Some(0)]);
} }

case! { a_reader_that_stops_is_an_error_and_the_map_goes_on within 30: || {
    let map = large();
    let (mut from, to) = pipe().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut some = [0; 1_000];
            from.read_exact(&mut some).unwrap();
            thread::sleep(Duration::from_millis(50));
        });
        let error = map.save_to(to).unwrap_err();
        assert_eq!(io_error(&error), Some(libc::EPIPE), "{error}");
    });
    assert_eq!(map.insert(&[1 << 40], &[1]).unwrap(), 1);
    let rows = RowMap::<u64>::new(&Device::cpu()).unwrap();
    rows.insert(&(0..100_000).collect::<Vec<u64>>()).unwrap();
    let (from, mut to) = pipe().unwrap();
    drop(from);
    assert_eq!(io_error(&rows.save_to(&mut to).unwrap_err()), Some(libc::EPIPE));
    to.flush().unwrap();
    assert_eq!(rows.insert(&[1 << 40]).unwrap(), [100_000]);
} }
