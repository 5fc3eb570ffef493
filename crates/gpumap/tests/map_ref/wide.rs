//! Maps with wide keys: what kernels find and change, beside the verbs of the host.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpumap::bytemuck::Pod;
use gpumap::op::{self, Execute};
use gpumap::rows::WideValue;
use gpumap::simt::atomic::part::Update;
use gpumap::simt::kernel::{Grid, Kernel};
use gpumap::simt::layout::Layout;
use gpumap::{Buffer, Device, Error, Key, Map, Merge, Numeric, Stream, Word};
use gpumap_map_test_kernels::wide::{
    WIDE_12_4, WIDE_16_8, WIDE_64_8, WIDE_SET_12, WideArgs, WideSetArgs, verb,
};

use crate::support::{Target, on_every_target};

/// Threads of a block.
const BLOCK: u32 = 64;

/// Keys and values of a batch, and what a kernel answers.
struct Batch<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    told: Vec<V>,
    found: Vec<u8>,
}

impl<K: Key + Layout, V: Numeric + Word<Bits = B> + PartialEq, B: WideValue + Layout + Pod>
    Batch<K, V>
{
    /// Runs a kernel on a map that is lent to it. What it does not write is zero.
    fn run(
        &mut self,
        on: &Target,
        map: &Map<K, V>,
        kernel: &'static Kernel<WideArgs<K, B>>,
        (verb, update): (u32, Update),
    ) {
        let stream = on.stream();
        let keys = Buffer::from_slice(&stream, &self.keys).unwrap();
        let values = Buffer::from_slice(&stream, &self.values).unwrap();
        let mut told = Buffer::<V>::zeroed(&stream, keys.len()).unwrap();
        let mut found = Buffer::<u8>::zeroed(&stream, keys.len()).unwrap();
        let launched = map.launch_with_rows(&stream, |map| {
            let args = WideArgs {
                map,
                keys: keys.as_ptr(),
                values: values.as_ptr().cast(),
                len: keys.len() as u64,
                verb,
                update,
                told: told.as_mut_ptr().cast(),
                found: found.as_mut_ptr(),
            };
            // SAFETY: on the stream that the map was lent for; buffers of as many keys, values of these bits and answers.
            unsafe { kernel.launch(&stream, Grid::covering(args.len, BLOCK), args) }
        });
        launched.unwrap();
        (self.told, self.found) = (told.to_vec().unwrap(), found.to_vec().unwrap());
    }
}

/// Every verb of kernels on one map, and the same of the host on another one.
fn works<K, V, B>(
    on: &Target,
    kernel: &'static Kernel<WideArgs<K, B>>,
    key: impl Fn(u32) -> K,
    value: impl Fn(u32) -> V,
    merges: &[(Merge, Update)],
) where
    K: Key + Layout + PartialEq,
    V: Numeric + Word<Bits = B> + PartialEq,
    B: WideValue + Layout + Pod,
{
    let n = on.n(600, 200_000) as u32;
    let make = || {
        let map = Map::<K, V>::new(&on.device).unwrap();
        let keys: Vec<K> = (0..n).map(&key).collect();
        map.insert(&keys, &(0..n).map(&value).collect::<Vec<_>>())
            .unwrap();
        // A third is gone.
        map.remove(&keys.iter().copied().step_by(3).collect::<Vec<_>>())
            .unwrap();
        map
    };
    let (lent, host) = (make(), make());
    let zero = V::zeroed();
    // Some never were there, and each comes twice.
    let keys: Vec<K> = (0..n + n / 2).chain(0..n).map(&key).collect();
    let values: Vec<V> = (0..keys.len() as u32).map(|i| value(i % 13)).collect();
    let (told, found) = (Vec::new(), Vec::new());
    let mut batch = Batch {
        keys,
        values,
        told,
        found,
    };
    let present = |host: &Map<K, V>, keys: &[K]| -> Vec<u8> {
        host.contains(keys)
            .unwrap()
            .into_iter()
            .map(u8::from)
            .collect()
    };

    batch.run(on, &lent, kernel, (verb::GET, Update::Replace));
    assert!(batch.told == host.get_or(&batch.keys, zero).unwrap());
    assert_eq!(batch.found, present(&host, &batch.keys));
    for &(merge, update) in merges {
        batch.run(on, &lent, kernel, (verb::MERGE_PRESENT, update));
        host.update_with(&batch.keys, &batch.values, merge).unwrap();
        assert_eq!(batch.found, present(&host, &batch.keys));
        assert!(
            lent.retrieve_all().unwrap() == host.retrieve_all().unwrap(),
            "{update:?}"
        );
        // Each key once: so what was there is known.
        let once = batch.keys.split_off(n as usize);
        let values = batch.values.split_off(n as usize);
        batch.run(on, &lent, kernel, (verb::GET_AND_TOUCH, update));
        let before = host
            .execute(op::get_and_touch(&batch.keys, &batch.values, merge))
            .unwrap();
        assert_eq!(batch.found, present(&host, &batch.keys));
        assert!(
            batch.told
                == before
                    .into_iter()
                    .map(|value| value.unwrap_or(zero))
                    .collect::<Vec<_>>()
        );
        assert!(
            lent.retrieve_all().unwrap() == host.retrieve_all().unwrap(),
            "{update:?}"
        );
        batch.keys.extend(once);
        batch.values.extend(values);
    }
    // The map goes on.
    assert_eq!(
        lent.insert(&batch.keys, &batch.values).unwrap(),
        host.insert(&batch.keys, &batch.values).unwrap()
    );
    assert!(lent.retrieve_all().unwrap() == host.retrieve_all().unwrap());
}

#[test]
fn kernels_find_and_change_what_the_host_does() {
    on_every_target(|on| {
        let unsigned = [
            (Merge::Add, Update::Add),
            (Merge::Min, Update::MinUnsigned),
            (Merge::Max, Update::MaxUnsigned),
            (Merge::Xor, Update::Xor),
        ];
        // Keys that differ in one word each.
        let short = |i: u32| [[i, 0, 1], [0, i, 2], [3, 0, i]][i as usize % 3];
        works::<_, u32, _>(
            on,
            &WIDE_12_4,
            short,
            |i| i.wrapping_mul(0x9e37_79b9),
            &unsigned,
        );
        let signed = [
            (Merge::Min, Update::MinSigned),
            (Merge::Max, Update::MaxSigned),
        ];
        works::<_, i64, _>(
            on,
            &WIDE_16_8,
            |i| [i.into(), 5],
            |i| i64::from(i) - 300,
            &signed,
        );
        let long = |i: u32| {
            let mut key = [u64::MAX; 8];
            key[i as usize % 8] = i.into();
            key
        };
        // Whole numbers, whose sums are exact in any order.
        let float = [
            (Merge::Add, Update::AddFloat),
            (Merge::Max, Update::MaxFloat),
        ];
        works::<_, f64, _>(on, &WIDE_64_8, long, |i| f64::from(i) - 20.0, &float);
    });
}

#[test]
fn kernels_look_into_sets() {
    on_every_target(|on| {
        let stream = on.stream();
        let set = Map::<[u32; 3], ()>::new(&on.device).unwrap();
        let keys: Vec<[u32; 3]> = (0..100).map(|i| [1, i, 2]).collect();
        set.insert(&keys[..60], &[(); 60]).unwrap();
        let there = Buffer::from_slice(&stream, &keys).unwrap();
        let mut found = Buffer::<u8>::zeroed(&stream, 100).unwrap();
        let launched = set.launch_with_rows(&stream, |set| {
            let args = WideSetArgs {
                set,
                keys: there.as_ptr(),
                len: 100,
                found: found.as_mut_ptr(),
            };
            // SAFETY: on the stream that the set was lent for; buffers of as many keys.
            unsafe { WIDE_SET_12.launch(&stream, Grid::covering(100, BLOCK), args) }
        });
        launched.unwrap();
        let expected: Vec<u8> = (0..100).map(|i| u8::from(i < 60)).collect();
        assert_eq!(found.to_vec().unwrap(), expected);
    });
}

#[test]
fn a_refused_launch_leaves_the_map_as_it_was_and_a_panic_does_not() {
    on_every_target(|on| {
        let map = Map::<u128, u64>::new(&on.device).unwrap();
        map.insert(&[5, 6], &[50, 60]).unwrap();
        let refused = map.launch_with_rows(&on.stream(), |_| Err(Error::NoDriver));
        assert!(matches!(refused, Err(Error::NoDriver)));
        assert_eq!(map.get(&[5, 7]).unwrap(), [Some(50), None]);
        let panics = AssertUnwindSafe(|| {
            let _ = map.launch_with_rows(&on.stream(), |_| panic!("in the launch"));
        });
        catch_unwind(panics).unwrap_err();
        // What was launched before is not known.
        assert!(matches!(map.get(&[5]), Err(Error::Poisoned)));
        let poisoned = map.launch_with_rows(&on.stream(), |_| Ok(()));
        assert!(matches!(poisoned, Err(Error::Poisoned)));
        map.clear().unwrap();
        assert_eq!(map.insert(&[7], &[70]).unwrap(), 1);

        let other = Device::cpu_deferred(99);
        let foreign = map.launch_with_rows(&Stream::new(&other).unwrap(), |_| Ok(()));
        assert!(
            matches!(foreign, Err(Error::WrongDevice { .. })),
            "{foreign:?}"
        );
    });
}
