//! The names of `cuda_std` 0.2.2 that `gpumap-cuda-std` has, each with its signature: one list, which is compiled with both crates. It
//! fails to compile if one of them has another signature.

#![allow(
    unexpected_cfgs,
    reason = "the published macros ask for targets that are gone"
)]

use core::sync::atomic::Ordering;

/// Of a crate, what is listed.
macro_rules! names {
    ($($of:ident)*) => {$({
        use $of::ptr::{self, AddressSpace};
        use $of::{shared, thread, warp};

        let indices: [fn() -> u32; 15] = [
            thread::thread_idx_x,
            thread::thread_idx_y,
            thread::thread_idx_z,
            thread::block_idx_x,
            thread::block_idx_y,
            thread::block_idx_z,
            thread::block_dim_x,
            thread::block_dim_y,
            thread::block_dim_z,
            thread::grid_dim_x,
            thread::grid_dim_y,
            thread::grid_dim_z,
            thread::index,
            thread::index_1d,
            thread::warp_size,
        ];
        let fields: [fn() -> [u32; 3]; 5] = [
            || { let it = thread::thread_idx(); [it.x, it.y, it.z] },
            || { let it = thread::block_idx(); [it.x, it.y, it.z] },
            || { let it = thread::block_dim(); [it.x, it.y, it.z] },
            || { let it = thread::grid_dim(); [it.x, it.y, it.z] },
            || { let it = thread::index_3d(); [it.x, it.y, it.z] },
        ];
        let _: fn() -> [u32; 2] = || { let it = thread::index_2d(); [it.x, it.y] };
        let _: fn() -> bool = thread::first;
        let fences: [fn(); 4] = [
            thread::sync_threads,
            thread::grid_fence,
            thread::device_fence,
            thread::system_fence,
        ];
        let counts: [fn(u32) -> u32; 3] = [
            thread::sync_threads_count,
            thread::sync_threads_and,
            thread::sync_threads_or,
        ];
        let _: fn(u32) = thread::nanosleep;
        let _: unsafe fn(u32) = warp::sync_warp;
        let _: fn() -> u32 = warp::lane_id;
        let _: fn() -> *mut u64 = shared::dynamic_shared_mem;
        let _: fn() -> *mut u32 = || $of::shared_array![u32; 4];
        let _: unsafe fn(*const u8, AddressSpace) -> bool = ptr::is_in_address_space;
        let pointers: [unsafe fn(*const u8, AddressSpace) -> *const u8; 2] = [
            ptr::convert_generic_to_specific_address_space,
            ptr::convert_specific_address_space_to_generic,
        ];
        let _ = [AddressSpace::Global, AddressSpace::Shared, AddressSpace::Constant, AddressSpace::Local];
        let listed = indices.len() + fields.len() + fences.len() + counts.len() + pointers.len() + 9;

        mod kernels {
            #![allow(dead_code, unused_imports, improper_ctypes_definitions, reason = "only compiled")]
            use $of::prelude::{kernel, thread};
            #[kernel]
            pub unsafe fn of_every_kind(a: &[f32], b: *const u8, c: *mut u64, d: &u32, e: f64) {
                let _ = (a, b, c, d, e);
            }
        }

        println!("{}: {} signatures", stringify!($of), listed + floats!($of) + mid!($of));
    })*};
}

/// Of the atomic types: each, its float, and what its methods are.
macro_rules! floats {
    ($of:ident) => {
        floats!($of: AtomicF32 f32 (fn), AtomicF64 f64 (fn), BlockAtomicF32 f32 (unsafe fn), BlockAtomicF64 f64 (unsafe fn),
            SystemAtomicF32 f32 (fn), SystemAtomicF64 f64 (fn))
    };
    ($of:ident: $($name:ident $t:ident ($($kind:tt)+)),*) => {{
        let mut listed = 0;
        $({
            use $of::atomic::$name;
            let fetches: [$($kind)+(&$name, $t, Ordering) -> $t; 5] = [
                $name::fetch_add,
                $name::fetch_sub,
                $name::fetch_and,
                $name::fetch_or,
                $name::fetch_xor,
            ];
            let _: fn($t) -> $name = $name::new;
            let _: fn($name) -> $t = $name::into_inner;
            let _: $($kind)+(&$name, Ordering) -> $t = $name::load;
            let _: $($kind)+(&$name, $t, Ordering) = $name::store;
            listed += fetches.len() + 4;
        })*
        listed
    }};
}

/// Of `atomic::mid`: in each scope fences, accesses, and all operations on all types.
macro_rules! mid {
    ($of:ident) => {
        mid!($of: block) + mid!($of: device) + mid!($of: system)
    };
    ($of:ident: $scope:ident) => {
        mid!($of $scope: and or xor add sub exch; u32) + mid!($of $scope: and or xor add sub exch; u64)
            + mid!($of $scope: and or xor add sub exch; i32) + mid!($of $scope: and or xor add sub exch; i64)
            + mid!($of $scope: and or xor add sub exch; f32) + mid!($of $scope: and or xor add sub exch; f64)
            + mid!($of $scope: min max; u32) + mid!($of $scope: min max; u64)
            + mid!($of $scope: min max; i32) + mid!($of $scope: min max; i64)
            + pastey::paste! {{
                use $of::atomic::mid;
                let _: fn(Ordering) = mid::[<$scope _thread_fence>];
                let _: unsafe fn(*mut u32, Ordering) -> u32 = mid::[<atomic_load_32_ $scope>];
                let _: unsafe fn(*mut u64, Ordering) -> u64 = mid::[<atomic_load_64_ $scope>];
                let _: unsafe fn(*mut u32, Ordering, u32) = mid::[<atomic_store_32_ $scope>];
                let _: unsafe fn(*mut u64, Ordering, u64) = mid::[<atomic_store_64_ $scope>];
                5
            }}
    };
    ($of:ident $scope:ident: $($op:ident)*; $t:ident) => {
        pastey::paste! {{
            let all: &[unsafe fn(*mut $t, Ordering, $t) -> $t] =
                &[$($of::atomic::mid::[<atomic_fetch_ $op _ $t _ $scope>]),*];
            all.len()
        }}
    };
}

fn main() {
    names!(published cuda_std);
}
