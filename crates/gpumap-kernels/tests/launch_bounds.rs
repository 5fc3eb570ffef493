//! `launch_bounds.toml` beside what scatter kernels are launched with: without its bounds ptxas may give a thread so many
//! registers that fewer blocks fit on a multiprocessor than share its memory, and only the time shows it.

use gpumap_kernels::build::{ToBins, ToPages};
use gpumap_kernels::p2p::{Sent, Sorted};
use gpumap_kernels::primitives::partition::{Partitioned, Payload, ScatterKernel};
use gpumap_simt::kernel::KernelArgs;
use toml::{Table, Value};

/// The name of a kernel, threads of a block, and blocks on a multiprocessor.
type Launched = (&'static str, u32, u32);

fn launched<A: KernelArgs>(kernel: ScatterKernel<A>) -> Launched {
    (kernel.kernel.name(), kernel.threads, kernel.blocks)
}

/// Those of one size of key and one of value.
fn of_pair<K, V>() -> Vec<Launched>
where
    K: ToBins<V> + ToPages<V> + Partitioned<V> + Sent<V>,
    V: Payload,
{
    vec![
        launched(K::TO_BINS),
        launched(K::TO_PAGES),
        launched(K::KERNELS.scatter),
        launched(K::KERNELS.stable),
        launched(K::SEND),
    ]
}

#[test]
fn scatter_kernels_are_bounded_by_what_they_are_launched_with() {
    let table: Table = include_str!("../launch_bounds.toml").parse().unwrap();
    let all = [
        of_pair::<u32, ()>(),
        of_pair::<u32, u32>(),
        of_pair::<u32, u64>(),
        of_pair::<u64, ()>(),
        of_pair::<u64, u32>(),
        of_pair::<u64, u64>(),
        vec![
            launched(<u32 as Sorted<u32>>::SORT),
            launched(<u32 as Sorted<u64>>::SORT),
            launched(<u64 as Sorted<u32>>::SORT),
            launched(<u64 as Sorted<u64>>::SORT),
        ],
    ];
    let bound = |name: &str, what: &str| table.get(name)?.get(what).and_then(Value::as_integer);
    let unbounded: Vec<_> = all
        .into_iter()
        .flatten()
        .filter(|&(name, threads, blocks)| {
            bound(name, "max_threads") != Some(threads.into())
                || bound(name, "min_blocks") != Some(blocks.into())
        })
        .collect();
    assert!(unbounded.is_empty(), "{unbounded:?}");
}
