//! Row maps: lookups of kernels beside those of the host.

use gpumap::bytemuck::Pod;
use gpumap::rows::NO_ROW;
use gpumap::simt::kernel::{Grid, Kernel};
use gpumap::simt::layout::Layout;
use gpumap::{Buffer, Device, Error, RowMap, Stream};
use gpumap_map_test_kernels::rows::{ROWS_4, ROWS_8, ROWS_12, ROWS_64, RowsArgs};

use crate::support::{Target, on_every_target};

/// Threads of a block.
const BLOCK: u32 = 64;

fn looks_up<K: Pod + Layout>(
    on: &Target,
    kernel: &'static Kernel<RowsArgs<K>>,
    key: impl Fn(u32) -> K,
) {
    let (n, stream) = (on.n(1_000, 200_000) as u32, on.stream());
    let map = RowMap::<K>::new(&on.device).unwrap();
    map.insert(&(0..n).map(&key).collect::<Vec<_>>()).unwrap();
    // A third has no row any more, and half as many keys never had one.
    let removed: Vec<K> = (0..n).step_by(3).map(&key).collect();
    map.remove(&removed).unwrap();
    let asked: Vec<K> = (0..n + n / 2).chain(0..n).map(&key).collect();
    let expected: Vec<u32> = map
        .get(&asked)
        .unwrap()
        .into_iter()
        .map(|row| row.unwrap_or(NO_ROW))
        .collect();

    let keys = Buffer::from_slice(&stream, &asked).unwrap();
    let mut rows = Buffer::zeroed(&stream, asked.len()).unwrap();
    let mut counts = Buffer::zeroed(&stream, map.row_bound()).unwrap();
    let launched = map.launch_with(&stream, |map| {
        assert_eq!(map.row_bound(), u64::from(n));
        let args = RowsArgs {
            map,
            keys: keys.as_ptr(),
            len: asked.len() as u64,
            rows: rows.as_mut_ptr(),
            counts: counts.as_mut_ptr(),
        };
        // SAFETY: on the stream that the map was lent for; buffers of as many keys and rows.
        unsafe { kernel.launch(&stream, Grid::covering(args.len, BLOCK), args) }
    });
    launched.unwrap();
    assert!(
        rows.to_vec().unwrap() == expected,
        "the same as of the host"
    );
    for (row, count) in (0u32..).zip(counts.to_vec().unwrap()) {
        assert_eq!(count, if row % 3 == 0 { 0 } else { 2 }, "row {row}");
    }
}

#[test]
fn kernels_find_the_rows_that_the_host_finds() {
    on_every_target(|on| {
        looks_up(on, &ROWS_4, |i| i);
        looks_up(on, &ROWS_8, |i| u64::from(i) << 32 | 7);
        // Keys that differ in one word each.
        looks_up(on, &ROWS_12, |i| {
            [[i, 0, 1], [0, i, 2], [3, 0, i]][i as usize % 3]
        });
        looks_up(on, &ROWS_64, |i| {
            let mut key = [u64::MAX; 8];
            key[i as usize % 8] = i.into();
            key
        });
    });
}

#[test]
fn a_refused_or_panicking_launch_leaves_the_map_as_it_was() {
    on_every_target(|on| {
        let map = RowMap::<u64>::new(&on.device).unwrap();
        map.insert(&[5, 6]).unwrap();
        let refused = map.launch_with(&on.stream(), |_| Err(Error::NoDriver));
        assert!(matches!(refused, Err(Error::NoDriver)));
        let panics = std::panic::AssertUnwindSafe(|| {
            let _ = map.launch_with(&on.stream(), |_| panic!("in the launch"));
        });
        std::panic::catch_unwind(panics).unwrap_err();
        assert_eq!(map.insert(&[7, 5]).unwrap(), [2, 0]);
        map.clear().unwrap();

        let other = Device::cpu_deferred(99);
        let foreign = map.launch_with(&Stream::new(&other).unwrap(), |_| Ok(()));
        assert!(
            matches!(foreign, Err(Error::WrongDevice { .. })),
            "{foreign:?}"
        );
    });
}
