//! [`Keys`]: a batch of keys on the device, and how kernels may load them ([`KeyForm`]).

use gpumap_kernels::count::Counters;
use gpumap_kernels::rows::{
    MOST_KEYS, ROW_FLOATS, RowFloatsArgs, RowKernels, STRING_REFS, StringRef, StringRefsArgs,
};
use gpumap_simt::kernel::Launcher;

use super::claims::grid;
use super::table::expect_at_most;
use crate::array::Array;
use crate::error::{Error, Result};
use crate::floats::FloatWords;
use crate::map::{KEY_ALIGN, StringLayout};
use crate::scratch::{ScratchRole, Workspace};

/// Bytes of a key: a multiple of 4, up to 64.
pub(crate) const fn key_bytes<K>() -> usize {
    const {
        assert!(
            size_of::<K>().is_multiple_of(4) && size_of::<K>() >= 4 && size_of::<K>() <= 64,
            "keys of a row map have 4 to 64 bytes, a multiple of 4: pad the type"
        );
    }
    size_of::<K>()
}

/// What an array of keys has for each of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyForm {
    /// The key itself, of so many bytes.
    Data(usize),
    /// A [`StringRef`].
    Strings,
}

impl KeyForm {
    /// Bytes for each key.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Data(bytes) => bytes,
            Self::Strings => StringRef::BYTES,
        }
    }

    /// The kernels for keys at addresses that have these bits, of which the lowest two are none.
    pub fn kernels_at(self, addresses: usize) -> &'static RowKernels {
        /// The largest alignment that a kernel makes use of.
        const UNIT: usize = 16;
        match self {
            Self::Data(bytes) => {
                let common = addresses | bytes | UNIT;
                RowKernels::for_multiples_of(1 << common.trailing_zeros())
            }
            Self::Strings => RowKernels::for_strings(),
        }
    }
}

/// Keys on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// The first, at a multiple of 4.
    pub at: *const u8,
    /// How many.
    pub n: usize,
    form: KeyForm,
}

impl Keys {
    /// Has keys of so many bytes brought to where kernels can load them, with one zero and one NaN in their
    /// [floats](Array::floats). Memory of the caller stays as it is.
    ///
    /// # Safety
    /// As for [`Workspace::stage`].
    pub unsafe fn stage(scratch: &mut Workspace, keys: Array<'_>, bytes: usize) -> Result<Self> {
        let n = keys.len();
        expect_at_most(n, MOST_KEYS, bytes)?;
        // SAFETY: passed on.
        let mut at = unsafe { scratch.stage(ScratchRole::Keys, keys.bytes()) }?;
        if !at.addr().is_multiple_of(KEY_ALIGN) {
            // Of a type like `[u8; 16]`, which may lie anywhere.
            let aligned = scratch.reserve::<u8>(ScratchRole::Keys, n * bytes)?;
            // SAFETY: reserved just now. What was staged to a scratch buffer is aligned: so it lies elsewhere.
            unsafe { scratch.stream().copy(aligned, at, n * bytes) }?;
            at = aligned;
        }
        if keys.floats() != FloatWords::NONE {
            // What lies in this scratch buffer stays there, and what is the caller's is copied to it.
            let to = scratch.reserve::<u8>(ScratchRole::Keys, n * bytes)?;
            // SAFETY: reserved with room for the keys, of so many bytes.
            unsafe { one_zero_and_nan(scratch.stream(), (at, to), (n, bytes), keys.floats()) }?;
            at = to;
        }
        Self::at(at, n, KeyForm::Data(bytes))
    }

    /// Keys that are on the device, at a multiple of 4.
    pub fn at(at: *const u8, n: usize, form: KeyForm) -> Result<Self> {
        expect_at_most(n, MOST_KEYS, form.bytes())?;
        Ok(Self { at, n, form })
    }

    /// Has references of strings made, for the keys of a row map of strings. Of wrong offsets the string is empty, and the
    /// counters [say so](StringRefsArgs::counters).
    ///
    /// # Safety
    /// There are so many offsets and one more, bytes as the layout says, and room for so many references, on the device until
    /// what is launched has ended.
    pub unsafe fn of_strings(
        on: &impl Launcher<Error = Error>,
        [offsets, bytes]: [*const u8; 2],
        layout: StringLayout,
        (refs, n): (*mut StringRef, usize),
        seed: u64,
        counters: Counters,
    ) -> Result<Self> {
        let args = StringRefsArgs {
            offsets,
            bytes: bytes.wrapping_sub(layout.from),
            from: layout.from as u64,
            len: layout.end as u64,
            n: n as u64,
            seed,
            refs,
            counters,
            are_wide: u32::from(layout.are_wide),
        };
        let keys = Self::at(refs.cast(), n, KeyForm::Strings)?;
        // SAFETY: passed on.
        unsafe { STRING_REFS.launch(on, grid(n), args) }?;
        Ok(keys)
    }

    /// The kernels for keys of this size at this address.
    pub fn kernels(&self) -> &'static RowKernels {
        self.kernels_with(self.at)
    }

    /// The kernels for keys of this size at this address and another one, which is a multiple of 4 as well.
    pub fn kernels_with(&self, other: *const u8) -> &'static RowKernels {
        self.form.kernels_at(self.at.addr() | other.addr())
    }
}

/// Queues copying `n` keys of so many bytes, with one zero and one NaN in these floats.
///
/// # Safety
/// Both places are on the device, at multiples of 4, with so many keys and room for as many; they are one, or do not overlap.
pub(crate) unsafe fn one_zero_and_nan(
    on: &impl Launcher<Error = Error>,
    (from, to): (*const u8, *mut u8),
    (n, bytes): (usize, usize),
    floats: FloatWords,
) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    let args = RowFloatsArgs {
        from: from.cast(),
        to: to.cast(),
        n: n as u64,
        words: (bytes / size_of::<u32>()) as u32,
        narrow: floats.narrow.into(),
        wide: floats.wide.into(),
    };
    // SAFETY: passed on; floats lie in the key, as the type of it or the one who named them says.
    unsafe { ROW_FLOATS.launch(on, grid(n), args) }
}
