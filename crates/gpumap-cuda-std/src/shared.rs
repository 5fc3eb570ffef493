//! Dynamic shared memory. What is static is [`shared_array!`](crate::shared_array).

/// The launch's dynamic shared memory, of the same address in every thread of the block. It is not initialised.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn dynamic_shared_mem<T>() -> *mut T {
    gpumap_simt::shared::dynamic_shared_mem()
}
