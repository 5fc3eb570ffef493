//! [`CHECK`]: counts what came of each instance.

use super::{LitmusArgs, NONE};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// What a [`CHECK`] has of one column at most.
pub const MOST_VALUES: usize = 16;

/// A cell: where it is in an instance, how wide, and what it holds at first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cell {
    /// Bytes from the first place of the instance.
    pub offset: u64,
    /// Bytes of it: 4 or 8.
    pub width: u64,
    /// What it holds at first.
    pub first: u64,
}
gpumap_simt::layout!(Cell {
    offset,
    width,
    first
});

/// A register or a cell whose values are told apart.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Column {
    /// The register; or the number of registers, and the cell more.
    pub of: u32,
    /// How many values are known.
    pub values: u32,
    /// These.
    pub known: [u64; MOST_VALUES],
}
gpumap_simt::layout!(Column { of, values, known });

kernel_args! {
    /// Arguments of [`CHECK`]: a thread for each row.
    pub struct CheckArgs {
        /// The shape's.
        pub litmus: LitmusArgs,
        /// Rows of each instance, as a power of two.
        pub rows_log2: u32,
        /// How many cells.
        pub cells: u32,
        /// All cells of an instance.
        pub cell: *const Cell,
        /// What is counted.
        pub column: *const Column,
        /// How many columns.
        pub columns: u32,
        /// Added to: the number of a row is that of the value of each column, the last one lowest, in a system in which a
        /// column has one digit more than known values and [`NONE`]: for any other value.
        pub counts: *mut u64,
    }
}

/// Counts what came of each instance, and makes it ready for the next time.
///
/// # Safety
/// See [`CheckArgs`].
#[inline(always)]
unsafe fn check(args: &CheckArgs) {
    let litmus = &args.litmus;
    let i = thread::index();
    let instance = i >> args.rows_log2;
    if instance >= u64::from(litmus.instances) {
        return;
    }
    let places = litmus
        .memory
        .wrapping_add(instance as usize * litmus.stride as usize);
    let row = litmus
        .rows
        .wrapping_add((i * u64::from(litmus.registers)) as usize);
    // SAFETY: a row of its own, and an instance; the launch before has ended.
    unsafe {
        let mut number = 0;
        let mut c = 0;
        while c < args.columns {
            let column = args.column.wrapping_add(c as usize);
            let of = (*column).of;
            let mut value;
            if of < litmus.registers {
                value = mem::load(row.cast_const().wrapping_add(of as usize));
            } else {
                let cell = args.cell.wrapping_add((of - litmus.registers) as usize);
                let at = places.wrapping_add((*cell).offset as usize).cast_const();
                if (*cell).width == 8 {
                    value = mem::load(at.cast());
                } else {
                    let narrow: u32 = mem::load(at.cast());
                    value = narrow as i32 as u64;
                }
            }
            let values = (*column).values;
            let known = (&raw const (*column).known).cast::<u64>();
            let mut digit = 0;
            if value == NONE {
                digit = values;
            } else {
                while digit < values && mem::load(known.wrapping_add(digit as usize)) != value {
                    digit += 1;
                }
                if digit == values {
                    digit += 1;
                }
            }
            value = u64::from(digit);
            number = number * u64::from(values + 2) + value;
            c += 1;
        }
        atomic::fetch_add(args.counts.wrapping_add(number as usize), 1, Relaxed);
        let mut r = 0;
        while r < litmus.registers {
            mem::store(row.wrapping_add(r as usize), NONE);
            r += 1;
        }
        if instance << args.rows_log2 == i {
            let mut c = 0;
            while c < args.cells {
                let cell = args.cell.wrapping_add(c as usize);
                let at = places.wrapping_add((*cell).offset as usize);
                if (*cell).width == 8 {
                    mem::store(at.cast(), (*cell).first);
                } else {
                    mem::store(at.cast(), (*cell).first as u32);
                }
                c += 1;
            }
        }
    }
}

kernel! {
    /// Counts what came of a launch of a shape.
    pub static CHECK = fn litmus_check(args: CheckArgs) {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { check(&args) }
    }
}
