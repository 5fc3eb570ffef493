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
pub struct IdKernels<K: crate::slot::Bits> {
    /// Stores, or replaces ids and reports them; beside no removals.
    pub exchange: &'static gpumap_simt::kernel::Kernel<StoreArgs<K, u32>>,
    /// Removes, and reports ids; beside no exchanges.
    pub withdraw: &'static gpumap_simt::kernel::Kernel<RemoveArgs<K, u32>>,
}

/// Declares the kernels of a format, and their set.
macro_rules! id_kernels {
    ($($(#[$cfg:meta])* $suffix:ident: $format:ty, $k:ty;)*) => {$(
        paste! {
            kernel! {
                /// Replaces ids and reports them; stores pairs whose key is absent.
                $(#[$cfg])*
                pub static [<EXCHANGE $suffix:upper>] = fn [<exchange $suffix>](args: StoreArgs<$k, u32>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { exchange::<$format>(&args) }
                }
                /// Removes pairs and reports their ids.
                $(#[$cfg])*
                pub static [<WITHDRAW $suffix:upper>] = fn [<withdraw $suffix>](args: RemoveArgs<$k, u32>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { withdraw::<$format>(&args) }
                }
            }
            /// The kernels of this format.
            #[cfg(not(target_arch = "nvptx64"))]
            pub static [<IDS $suffix:upper>]: IdKernels<$k> = IdKernels {
                exchange: &[<EXCHANGE $suffix:upper>],
                withdraw: &[<WITHDRAW $suffix:upper>],
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

/// Choosing a set: implemented by the bits of keys.
#[cfg(not(target_arch = "nvptx64"))]
pub trait IdKeyBits: crate::slot::Bits {
    /// The kernels for these keys and an encoding.
    fn id_kernels(encoding: Encoding) -> &'static IdKernels<Self>;
}

#[cfg(not(target_arch = "nvptx64"))]
impl IdKeyBits for u32 {
    fn id_kernels(_: Encoding) -> &'static IdKernels<Self> {
        &IDS_4
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl IdKeyBits for u64 {
    fn id_kernels(encoding: Encoding) -> &'static IdKernels<Self> {
        match encoding {
            Encoding::Wide => &IDS_8_WIDE,
            Encoding::Split => &IDS_8_SPLIT,
        }
    }
}
