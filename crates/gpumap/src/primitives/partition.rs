//! The radix partition: keys, or pairs, sorted by one digit.

mod digit;
mod run;

use std::ptr;

use super::Primitives;
use crate::buffer::BufferViewMut;
use crate::error::{Error, Result, expect_room, expect_same_len};
use crate::input::Input;
use crate::map::{Key, Value, has_words, is_word};
use crate::scratch::{ScratchRole, Workspace};
pub use digit::{Digit, MAX_PARTS};
pub(crate) use run::scatter_tile;
use run::{Form, Job};

/// An error for pairs that the kernels cannot move.
pub(super) fn expect_words<K, V>() -> Result<()> {
    match is_word::<K>() && has_words::<V>() {
        true => Ok(()),
        false => Err(Error::PairSize {
            key: size_of::<K>(),
            value: size_of::<V>(),
        }),
    }
}

impl Primitives {
    /// Sorts pairs by a digit of their key. Returns `parts + 1` offsets: the pairs of part `p`
    /// are at `offsets[p]..offsets[p + 1]` of the outputs, in no order.
    ///
    /// Keys have 4 or 8 bytes and values 0, 4 or 8, aligned as `u32` or `u64`.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, primitives::{Digit, Primitives}};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let primitives = Primitives::new(stream.device());
    /// let (keys, values) = ([3u32, 0, 2, 1, 7], [30u64, 0, 20, 10, 70]);
    /// let mut out_keys = Buffer::zeroed(&stream, 5)?;
    /// let mut out_values = Buffer::zeroed(&stream, 5)?;
    /// let odd_even = Digit::of_bits(0..1);
    /// let offsets = primitives.partition_into(&keys, &values, odd_even, &mut out_keys, &mut out_values)?;
    /// assert_eq!(offsets, [0, 2, 5]);
    /// assert!(out_keys.to_vec()?[..2].iter().all(|key| key % 2 == 0));
    /// assert!(out_keys.to_vec()?.iter().zip(out_values.to_vec()?).all(|(&k, v)| v == 10 * u64::from(k)));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::OutputTooSmall`]; [`Error::PairSize`]; [`Error::Setting`] for a digit that
    /// has no bits, more than [`MAX_PARTS`] values, or bits beyond the key's; outputs stay as they
    /// were. [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn partition_into<'a, K: Key, V: Value>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        digit: Digit,
        out_keys: impl Into<BufferViewMut<'a, K>>,
        out_values: impl Into<BufferViewMut<'a, V>>,
    ) -> Result<Vec<u64>> {
        let form = Form::Exact { stable: false };
        let outputs = (out_keys.into(), out_values.into());
        self.pairs(keys, values, digit, form, outputs)
    }

    /// As [`partition_into`](Self::partition_into), with the pairs of each part in input order:
    /// one pass of a radix sort.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, primitives::{Digit, Primitives}};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let primitives = Primitives::new(stream.device());
    /// let mut keys = Buffer::zeroed(&stream, 5)?;
    /// let mut values = Buffer::zeroed(&stream, 5)?;
    /// let digit = Digit::of_bits(0..1);
    /// primitives.stable_partition_into(
    ///     &[3u32, 0, 2, 1, 7], &[0u32, 1, 2, 3, 4], digit, &mut keys, &mut values)?;
    /// assert_eq!(keys.to_vec()?, [0, 2, 3, 1, 7]);
    /// assert_eq!(values.to_vec()?, [1, 2, 0, 3, 4]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`partition_into`](Self::partition_into).
    pub fn stable_partition_into<'a, K: Key, V: Value>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        digit: Digit,
        out_keys: impl Into<BufferViewMut<'a, K>>,
        out_values: impl Into<BufferViewMut<'a, V>>,
    ) -> Result<Vec<u64>> {
        let form = Form::Exact { stable: true };
        let outputs = (out_keys.into(), out_values.into());
        self.pairs(keys, values, digit, form, outputs)
    }

    /// As [`partition_into`](Self::partition_into), for keys alone.
    ///
    /// # Errors
    /// As for [`partition_into`](Self::partition_into).
    pub fn partition_keys_into<'a, K: Key>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        digit: Digit,
        out: impl Into<BufferViewMut<'a, K>>,
    ) -> Result<Vec<u64>> {
        self.keys_alone(keys, digit, false, out.into())
    }

    /// As [`stable_partition_into`](Self::stable_partition_into), for keys alone.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, primitives::{Digit, Primitives}};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let primitives = Primitives::new(stream.device());
    /// let mut out = Buffer::zeroed(&stream, 4)?;
    /// let by_high_bit = Digit::of_bits(31..32);
    /// let offsets = primitives.stable_partition_keys_into(&[5, -1, 3, -9], by_high_bit, &mut out)?;
    /// assert_eq!(out.to_vec()?, [5, 3, -1, -9]);
    /// assert_eq!(offsets, [0, 2, 4]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`partition_into`](Self::partition_into).
    pub fn stable_partition_keys_into<'a, K: Key>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        digit: Digit,
        out: impl Into<BufferViewMut<'a, K>>,
    ) -> Result<Vec<u64>> {
        self.keys_alone(keys, digit, true, out.into())
    }

    /// A partition in one pass, without counting first: part `p` goes to the outputs from
    /// `p * capacity` on, in any order. The outputs have `capacity` places for each part. A quarter
    /// faster than [`partition_into`](Self::partition_into), for parts whose sizes are known about,
    /// such as those of a hash.
    ///
    /// Returns how many pairs each part has. Where that is more than `capacity`, the part did not
    /// fit, and some of its pairs are not in the outputs: enlarge them and call again.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, primitives::{Digit, Primitives}};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let primitives = Primitives::new(stream.device());
    /// let (mut keys, mut values) = (Buffer::zeroed(&stream, 6)?, Buffer::zeroed(&stream, 6)?);
    /// let parity = Digit::of_bits(0..1);
    /// let counts = primitives.partition_into_capacity(
    ///     &[4, 8, 3], &[0.4, 0.8, 0.3], parity, 3, &mut keys, &mut values)?;
    /// assert_eq!(counts, [2, 1]);
    /// let even = keys.slice(..2)?.to_vec()?;
    /// assert!(even == [4, 8] || even == [8, 4]);
    /// assert_eq!(keys.slice(3..4)?.to_vec()?, [3]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`partition_into`](Self::partition_into).
    pub fn partition_into_capacity<'a, K: Key, V: Value>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        digit: Digit,
        capacity: usize,
        out_keys: impl Into<BufferViewMut<'a, K>>,
        out_values: impl Into<BufferViewMut<'a, V>>,
    ) -> Result<Vec<u64>> {
        let form = Form::Fixed { capacity };
        let outputs = (out_keys.into(), out_values.into());
        self.pairs(keys, values, digit, form, outputs)
    }

    fn pairs<K: Key, V: Value>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        digit: Digit,
        form: Form,
        (out_keys, out_values): (BufferViewMut<'_, K>, BufferViewMut<'_, V>),
    ) -> Result<Vec<u64>> {
        expect_words::<K, V>()?;
        let (keys, values) = (keys.source(), values.source());
        let len = keys.len();
        expect_same_len(len, values.len())?;
        let kernel_digit = digit.checked(size_of::<K>())?;
        let needed = match form {
            Form::Exact { .. } => len,
            Form::Fixed { capacity } => capacity.saturating_mul(digit.parts()),
        };
        expect_room(needed, out_keys.len().min(out_values.len()))?;
        let mut scratch = self.scratch.take()?;
        let job = Job {
            // SAFETY: the workspace waits for its stream before this call returns.
            keys: unsafe { scratch.stage(ScratchRole::Keys, keys) }?,
            // SAFETY: as above.
            values: unsafe { scratch.stage(ScratchRole::Values, values) }?,
            len,
            digit: kernel_digit,
            parts: digit.parts() as u32,
            out_keys: scratch.target(out_keys)?,
            out_values: scratch.target(out_values)?,
        };
        // SAFETY: the lengths were checked.
        unsafe { self.run_sized(&mut scratch, job, form, (size_of::<K>(), size_of::<V>())) }
    }

    /// Runs a job on keys and values of such sizes.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn run_sized<K, V>(
        &self,
        scratch: &mut Workspace,
        job: Job<K, V>,
        form: Form,
        sizes: (usize, usize),
    ) -> Result<Vec<u64>> {
        // SAFETY: passed on; the words have the sizes of the keys and values.
        unsafe {
            match sizes {
                (4, 0) => self.run::<u32, ()>(scratch, job.cast(), form),
                (_, 0) => self.run::<u64, ()>(scratch, job.cast(), form),
                (4, 4) => self.run::<u32, u32>(scratch, job.cast(), form),
                (4, _) => self.run::<u32, u64>(scratch, job.cast(), form),
                (_, 4) => self.run::<u64, u32>(scratch, job.cast(), form),
                (_, _) => self.run::<u64, u64>(scratch, job.cast(), form),
            }
        }
    }

    /// A pass of a sort: a stable partition by a byte of the keys, the lowest being number 0. Keys and values have such sizes.
    ///
    /// # Safety
    /// There are `len` of each on the device, and room for as many.
    pub(super) unsafe fn stable_pass(
        &self,
        scratch: &mut Workspace,
        byte: u32,
        (keys, values): (*const u8, *const u8),
        (out_keys, out_values): (*mut u8, *mut u8),
        len: usize,
        sizes: (usize, usize),
    ) -> Result<()> {
        let digit = Digit::of_bits(8 * byte..8 * (byte + 1));
        let job = Job {
            keys,
            values,
            len,
            digit: digit.kernel(),
            parts: digit.parts() as u32,
            out_keys,
            out_values,
        };
        // SAFETY: passed on.
        unsafe { self.run_sized(scratch, job, Form::Exact { stable: true }, sizes) }.map(drop)
    }

    fn keys_alone<K: Key>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        digit: Digit,
        stable: bool,
        out: BufferViewMut<'_, K>,
    ) -> Result<Vec<u64>> {
        expect_words::<K, ()>()?;
        let keys = keys.source();
        let len = keys.len();
        let kernel_digit = digit.checked(size_of::<K>())?;
        expect_room(len, out.len())?;
        let mut scratch = self.scratch.take()?;
        let job = Job {
            // SAFETY: the workspace waits for its stream before this call returns.
            keys: unsafe { scratch.stage(ScratchRole::Keys, keys) }?,
            values: ptr::null::<()>(),
            len,
            digit: kernel_digit,
            parts: digit.parts() as u32,
            out_keys: scratch.target(out)?,
            out_values: ptr::null_mut(),
        };
        let form = Form::Exact { stable };
        // SAFETY: the length was checked.
        unsafe { self.run_sized(&mut scratch, job, form, (size_of::<K>(), 0)) }
    }
}
