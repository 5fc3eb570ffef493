//! Where the elements of a batch came from, and back there: what a batch that was partitioned needs for
//! its answers to come in the order in which was asked.
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
    /// Arguments of the kernels that put answers back; one thread for each.
    pub struct ReturnArgs<V> {
        /// For each answer the place it belongs to: below the length of the outputs, no place twice.
        pub places: *const u32,
        /// The values of the answers.
        pub values: *const V,
        /// Beside each value whether there is one; null if that is not asked for.
        pub found: *const u8,
        /// How many answers there are.
        pub n: u64,
        /// Out: the values.
        pub out_values: *mut V,
        /// Out: whether there is one; not used where `found` is null.
        pub out_found: *mut u8,
    }
}

impl<V: Copy + 'static> ReturnArgs<V> {
    /// The same for values of another type.
    pub fn of<W: Copy + 'static>(self) -> ReturnArgs<W> {
        ReturnArgs {
            places: self.places,
            values: self.values.cast(),
            found: self.found,
            n: self.n,
            out_values: self.out_values.cast(),
            out_found: self.out_found,
        }
    }
}

/// Puts one answer where it belongs.
///
/// # Safety
/// As [`ReturnArgs`] says.
#[inline(always)]
unsafe fn put_back<V: mem::Vector + 'static>(args: &ReturnArgs<V>) {
    let i = thread::index();
    if i < args.n {
        // SAFETY: `i` is below the number of answers; each place is that of one of them.
        unsafe {
            let i = i as usize;
            let place = mem::load_readonly(args.places.add(i)) as usize;
            if size_of::<V>() != 0 {
                let value = mem::load_streaming(args.values.add(i));
                mem::store(args.out_values.add(place), value);
            }
            if !args.found.is_null() {
                let found = mem::load_streaming(args.found.add(i));
                mem::store(args.out_found.add(place), found);
            }
        }
    }
}

kernel! {
    /// Writes 0, 1, 2, and so on.
    pub static NUMBER = fn order_number(args: NumberArgs) {
        let i = thread::index();
        if i < args.n {
            // SAFETY: there is room for `n`.
            unsafe { mem::store(args.places.add(i as usize), i as u32) };
        }
    }
    /// Puts back whether there are values, and no values.
    pub static RETURN_0 = fn order_return_0(args: ReturnArgs<()>) {
        // SAFETY: the launch is as the arguments say.
        unsafe { put_back(&args) };
    }
    /// Puts back values of 4 bytes.
    pub static RETURN_4 = fn order_return_4(args: ReturnArgs<u32>) {
        // SAFETY: the launch is as the arguments say.
        unsafe { put_back(&args) };
    }
    /// Puts back values of 8 bytes.
    pub static RETURN_8 = fn order_return_8(args: ReturnArgs<u64>) {
        // SAFETY: the launch is as the arguments say.
        unsafe { put_back(&args) };
    }
}
