//! Lookups in maps with wide keys, and updates of their values.

use gpumap_kernels::rows::{WideRef, WideValue};
use gpumap_simt::atomic::part::Update;
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// What a kernel does with each key.
pub mod verb {
    /// Looks it up.
    pub const GET: u32 = 0;
    /// Updates its value.
    pub const MERGE_PRESENT: u32 = 1;
    /// The same, and tells what it was.
    pub const GET_AND_TOUCH: u32 = 2;
}

kernel_args! {
    /// Arguments of the kernels: a lane for each key.
    pub struct WideArgs<K, V> {
        /// The map.
        pub map: WideRef<K, V>,
        /// Keys; may repeat.
        pub keys: *const K,
        /// The value of each.
        pub values: *const V,
        /// How many.
        pub len: u64,
        /// A [`verb`].
        pub verb: u32,
        /// How values are updated.
        pub update: Update,
        /// Out: the value of each key, or what it was; not of absent keys.
        pub told: *mut V,
        /// Out: 1 for each key that is present, else 0; 2 where two answers differ.
        pub found: *mut u8,
    }
}

impl<K: Copy, V: WideValue> WideArgs<K, V> {
    /// # Safety
    /// As the arguments say.
    #[inline(always)]
    unsafe fn run(&self) {
        let i = thread::index();
        if i >= self.len {
            return;
        }
        let i = i as usize;
        // SAFETY: below the length; the map was lent to this launch.
        unsafe {
            let (key, value) = (
                self.keys.wrapping_add(i).read(),
                self.values.wrapping_add(i).read(),
            );
            let mut is_found = self.map.contains(key);
            let told = match self.verb {
                verb::MERGE_PRESENT => {
                    is_found = self.map.merge_present(key, value, self.update);
                    None
                }
                verb::GET_AND_TOUCH => self.map.get_and_touch(key, value, self.update),
                _ => self.map.get(key),
            };
            if let Some(told) = told {
                self.told.wrapping_add(i).write(told);
            }
            let differs = self.verb != verb::MERGE_PRESENT && told.is_some() != is_found;
            let found = if differs { 2 } else { u8::from(is_found) };
            mem::store(self.found.wrapping_add(i), found);
        }
    }
}

kernel_args! {
    /// Arguments of [`WIDE_SET_12`]: a lane for each key.
    pub struct WideSetArgs<K> {
        /// The set.
        pub set: WideRef<K, ()>,
        /// Keys.
        pub keys: *const K,
        /// How many.
        pub len: u64,
        /// Out: 1 for each key that is present, else 0.
        pub found: *mut u8,
    }
}

kernel! {
    /// Keys of 12 bytes, values of 4.
    pub static WIDE_12_4 = fn wide_ref_12_4(args: WideArgs<[u32; 3], u32>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
    /// Keys of 16 bytes, values of 8.
    pub static WIDE_16_8 = fn wide_ref_16_8(args: WideArgs<[u64; 2], u64>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
    /// Keys of 64 bytes, values of 8.
    pub static WIDE_64_8 = fn wide_ref_64_8(args: WideArgs<[u64; 8], u64>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
    /// Keys of 12 bytes of a set.
    pub static WIDE_SET_12 = fn wide_ref_set_12(args: WideSetArgs<[u32; 3]>) by thread {
        let i = thread::index();
        if i < args.len {
            // SAFETY: below the length; the set was lent to this launch.
            unsafe {
                let key = args.keys.wrapping_add(i as usize).read();
                let found = u8::from(args.set.contains(key));
                mem::store(args.found.wrapping_add(i as usize), found);
            }
        }
    }
}
