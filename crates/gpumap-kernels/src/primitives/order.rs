//! Where the elements of a batch came from, and back there: what a batch that was partitioned needs for
//! its answers to come in the order of the batch.
//!
//! Places are 32 bits wide, which halves what a partition moves of them.

use gpumap_simt::{kernel, kernel_args, mem, thread};

kernel_args! {
    /// Arguments of [`NUMBER`].
    pub struct NumberArgs {
        /// Where they go.
        pub places: *mut u32,
        /// How many, less than 2^32; one thread each.
        pub n: u64,
    }
}

kernel_args! {
    /// Arguments of [`RETURN`]; one thread for each answer.
    pub struct ReturnArgs {
        /// For each answer the place it belongs to: below the length of the outputs, no place twice.
        pub places: *const u32,
        /// The values of the answers.
        pub values: *const u8,
        /// Bytes of a value: 8, 4, or 0 if there are none.
        pub value_bytes: u32,
        /// Beside each value whether there is one; null if it is neither requested nor needed for defaults.
        pub found: *const u8,
        /// How many answers there are.
        pub n: u64,
        /// What is written where there is no value, as bits.
        pub default: u64,
        /// 1 if it is; 0 if values are written as they are.
        pub has_default: u32,
        /// Out: the values.
        pub out_values: *mut u8,
        /// Out, unless null: whether there is one.
        pub out_found: *mut u8,
    }
}

/// Puts one answer where it belongs.
///
/// # Safety
/// As [`ReturnArgs`] says.
#[inline(always)]
unsafe fn put_back(args: &ReturnArgs) {
    let i = thread::index();
    if i < args.n {
        // SAFETY: `i` is below the number of answers; each place is that of one of them.
        unsafe {
            let i = i as usize;
            let place = mem::load_readonly(args.places.add(i)) as usize;
            let mut found = 1;
            if !args.found.is_null() {
                found = mem::load_streaming(args.found.add(i));
            }
            let is_absent = args.has_default != 0 && found == 0;
            match args.value_bytes {
                0 => {}
                4 => move_value(args, i, place, is_absent, args.default as u32),
                _ => move_value(args, i, place, is_absent, args.default),
            }
            if !args.out_found.is_null() {
                mem::store(args.out_found.add(place), found);
            }
        }
    }
}

/// Puts the value of an answer where it belongs, or the default if it is absent.
///
/// # Safety
/// As [`ReturnArgs`] says, with values of this type; there is an answer `i`, and `place` is its place.
#[inline(always)]
unsafe fn move_value<V: mem::Vector>(
    args: &ReturnArgs,
    i: usize,
    place: usize,
    is_absent: bool,
    default: V,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut value = default;
        if !is_absent {
            value = mem::load_streaming(args.values.cast::<V>().add(i));
        }
        mem::store(args.out_values.cast::<V>().add(place), value);
    }
}

kernel! {
    /// Writes 0, 1, 2, and so on.
    pub static NUMBER = fn order_number(args: NumberArgs) by thread {
        let i = thread::index();
        if i < args.n {
            // SAFETY: there is room for `n`.
            unsafe { mem::store(args.places.add(i as usize), i as u32) };
        }
    }
    /// Puts answers back.
    pub static RETURN = fn order_return(args: ReturnArgs) by thread {
        // SAFETY: the launch is as the arguments say.
        unsafe { put_back(&args) };
    }
}
