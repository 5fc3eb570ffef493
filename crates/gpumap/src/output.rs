//! [`Output`]: where the results of a batch may go.

use bytemuck::Pod;

use crate::buffer::{Buffer, BufferViewMut, PinnedBuffer};

/// Places for the results of a batch, on the host or on the device.
///
/// The device writes to a [`Buffer`] or a part of one, which must be of the map's device, where it is;
/// results for slices, vectors and pinned buffers of the host are copied there. Memory of the host that
/// has been written to before is quicker than new memory, whose pages the system has yet to find.
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, Map};
/// let map = Map::<u32, u32>::new(&Device::cpu())?;
/// map.get_or_into(&[7], 0, &mut 0u32)?; // a single place is &mut [0]
/// # Ok::<(), gpumap::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no places for results of type `{T}`",
    label = "not an output of `{T}`",
    note = "pass a mutable reference to a slice, array, Vec or Buffer of `{T}` that is as long as the batch"
)]
pub trait Output<T: Pod> {
    /// Where the places are.
    fn sink(&mut self) -> Sink<'_, T>;
}

/// The places of an [`Output`].
#[derive(Debug)]
pub enum Sink<'a, T> {
    /// In the host's memory.
    Host(&'a mut [T]),
    /// In a device's memory.
    Device(BufferViewMut<'a, T>),
}

impl<T: Pod> Sink<'_, T> {
    /// How many places there are.
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

impl<T: Pod> Output<T> for Sink<'_, T> {
    fn sink(&mut self) -> Sink<'_, T> {
        match self {
            Self::Host(slice) => Sink::Host(slice),
            Self::Device(view) => Sink::Device(view.reborrow()),
        }
    }
}

impl<T: Pod> Output<T> for [T] {
    fn sink(&mut self) -> Sink<'_, T> {
        Sink::Host(self)
    }
}

impl<T: Pod, const N: usize> Output<T> for [T; N] {
    fn sink(&mut self) -> Sink<'_, T> {
        Sink::Host(self)
    }
}

impl<T: Pod> Output<T> for Vec<T> {
    fn sink(&mut self) -> Sink<'_, T> {
        Sink::Host(self)
    }
}

impl<T: Pod> Output<T> for Box<[T]> {
    fn sink(&mut self) -> Sink<'_, T> {
        Sink::Host(self)
    }
}

impl<T: Pod> Output<T> for PinnedBuffer<T> {
    fn sink(&mut self) -> Sink<'_, T> {
        Sink::Host(self)
    }
}

impl<T: Pod> Output<T> for Buffer<T> {
    fn sink(&mut self) -> Sink<'_, T> {
        Sink::Device(self.as_view_mut())
    }
}

impl<T: Pod> Output<T> for BufferViewMut<'_, T> {
    fn sink(&mut self) -> Sink<'_, T> {
        Sink::Device(self.reborrow())
    }
}

impl<T: Pod, O: Output<T> + ?Sized> Output<T> for &mut O {
    fn sink(&mut self) -> Sink<'_, T> {
        (**self).sink()
    }
}
