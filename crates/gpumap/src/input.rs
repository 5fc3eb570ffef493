//! [`Input`]: where the keys and values of a batch may come from.

use bytemuck::Pod;

use crate::buffer::{Buffer, BufferView, BufferViewMut, PinnedBuffer};
use crate::floats::Floats;

/// A batch of elements, on the host or on the device.
///
/// Slices, arrays, vectors and pinned buffers of the host are copied to the device by the verb
/// they are passed to; a [`Buffer`] or a view of one, which must be of the map's device, is used
/// where it is.
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::new(&Device::cpu())?;
/// map.get(&7)?; // a single key is a batch of one: &[7]
/// # Ok::<(), gpumap::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch of `{T}`",
    label = "not a batch of `{T}`",
    note = "pass a reference to a slice, array, Vec or Buffer of `{T}`: `&[x]` for a single one"
)]
pub trait Input<T: Pod> {
    /// Where the elements are.
    fn source(&self) -> Source<'_, T>;

    /// Which fields of an element are floats, where elements are keys of groups, of joins or of unique keys. Maps compare keys by
    /// their bits.
    fn floats(&self) -> Floats<T> {
        Floats::of_type()
    }
}

/// The elements of an [`Input`].
#[derive(Clone, Copy, Debug)]
pub enum Source<'a, T> {
    /// In the host's memory.
    Host(&'a [T]),
    /// In a device's memory.
    Device(BufferView<'a, T>),
}

impl<T: Pod> Source<'_, T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(slice) => slice.len(),
            Self::Device(view) => view.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Pod> Input<T> for [T] {
    fn source(&self) -> Source<'_, T> {
        Source::Host(self)
    }
}

impl<T: Pod, const N: usize> Input<T> for [T; N] {
    fn source(&self) -> Source<'_, T> {
        Source::Host(self)
    }
}

impl<T: Pod> Input<T> for Vec<T> {
    fn source(&self) -> Source<'_, T> {
        Source::Host(self)
    }
}

impl<T: Pod> Input<T> for Box<[T]> {
    fn source(&self) -> Source<'_, T> {
        Source::Host(self)
    }
}

impl<T: Pod> Input<T> for PinnedBuffer<T> {
    fn source(&self) -> Source<'_, T> {
        Source::Host(self)
    }
}

impl<T: Pod> Input<T> for Buffer<T> {
    fn source(&self) -> Source<'_, T> {
        Source::Device(self.as_view())
    }
}

impl<T: Pod> Input<T> for BufferView<'_, T> {
    fn source(&self) -> Source<'_, T> {
        Source::Device(*self)
    }
}

impl<T: Pod> Input<T> for BufferViewMut<'_, T> {
    fn source(&self) -> Source<'_, T> {
        Source::Device(self.as_view())
    }
}

impl<T: Pod, I: Input<T> + ?Sized> Input<T> for &I {
    fn source(&self) -> Source<'_, T> {
        (**self).source()
    }

    fn floats(&self) -> Floats<T> {
        (**self).floats()
    }
}
