//! The entry points that only maps of ids have: values of 4 bytes, keys of 4 or 8.

#[cfg(not(target_arch = "nvptx64"))]
use super::Encoding;
use super::batch::{RemoveArgs, StoreArgs, store};
use crate::probe::serve_batch;
use crate::slot::Packed;
#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::slot::ids::IdFormat;
use crate::verbs::ids::{Exchange, Withdraw};
use gpumap_simt::kernel;
use pastey::paste;

/// # Safety
/// See [`StoreArgs`]; beside no removals.
#[inline(always)]
unsafe fn exchange<F: IdFormat>(args: &StoreArgs<F::Key, u32>) {
    let present = Exchange {
        replaced: args.values,
    };
    // SAFETY: the caller's promise.
    unsafe { store::<F, _, _>(&args.view, &args.batch, &args.account, present) };
}

/// # Safety
/// See [`RemoveArgs`]; beside no exchanges.
#[inline(always)]
unsafe fn withdraw<F: IdFormat>(args: &RemoveArgs<F::Key, u32>) {
    let mut verb = Withdraw {
        answers: args.answers,
        removed: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb);
        args.removed.add_from_block(verb.removed);
    }
}

/// What a map of ids has beside its [`KernelSet`](super::KernelSet).
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct IdKernels {
    /// Stores, or replaces ids and reports them; beside no removals.
    pub exchange: &'static gpumap_simt::kernel::Kernel<StoreArgs<u8, u8>>,
    /// Removes, and reports ids; beside no exchanges.
    pub withdraw: &'static gpumap_simt::kernel::Kernel<RemoveArgs<u8, u8>>,
}

/// Declares the kernels of a format, and their set.
macro_rules! id_kernels {
    ($($(#[$cfg:meta])* $suffix:ident: $format:ty, $k:ty;)*) => {$(
        paste! {
            kernel! {
                /// Replaces ids and reports them; stores pairs whose key is absent.
                $(#[$cfg])*
                pub static [<EXCHANGE $suffix:upper>] = fn [<exchange $suffix>](args: StoreArgs<$k, u32>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { exchange::<$format>(&args) }
                }
                /// Removes pairs and reports their ids.
                $(#[$cfg])*
                pub static [<WITHDRAW $suffix:upper>] = fn [<withdraw $suffix>](args: RemoveArgs<$k, u32>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { withdraw::<$format>(&args) }
                }
            }
            /// The kernels of this format.
            #[cfg(not(target_arch = "nvptx64"))]
            pub static [<IDS $suffix:upper>]: IdKernels = IdKernels {
                exchange: erased!([<EXCHANGE $suffix:upper>]),
                withdraw: erased!([<WITHDRAW $suffix:upper>]),
            };
        }
    )*};
}

id_kernels! {
    _4: Packed, u32;
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    _8_wide: Wide<u64, u32>, u64;
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    _8_split: Split<u64, u32>, u64;
}

/// The kernels for keys of so many bytes, 4 or 8, and an encoding.
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub const fn id_kernels(key_bytes: u32, encoding: Encoding) -> &'static IdKernels {
    match (key_bytes, encoding) {
        (4, _) => &IDS_4,
        (_, Encoding::Wide) => &IDS_8_WIDE,
        (_, Encoding::Split) => &IDS_8_SPLIT,
    }
}
