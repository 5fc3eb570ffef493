//! [`Link`]: arrays of the host to a device and back, through stages where that pays, else by one copy of the driver.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::pipeline::{Arrays, StagePool, StagingPipeline};
use crate::error::Result;
use crate::stream::Stream;

/// A stream, and what takes large arrays in its order; none where there are only small ones.
#[derive(Clone, Copy)]
pub(crate) struct Link<'a> {
    pub stream: &'a Stream,
    pub stages: Option<&'a Arc<StagePool>>,
}

impl<'a> Link<'a> {
    /// That of the buffers of a stream.
    pub fn of(stream: &'a Stream) -> Self {
        Self {
            stream,
            stages: Some(stream.stages()),
        }
    }

    /// Copies bytes to the device, or queues that.
    ///
    /// # Safety
    /// As for [`Stream::upload`].
    pub unsafe fn upload(self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        if let Some(mut pipeline) = self.pipeline([bytes]) {
            // Its stages have streams of their own.
            self.stream.synchronize()?;
            // SAFETY: the caller's promise, and nothing is queued any more.
            return unsafe { pipeline.upload(to, bytes) };
        }
        // SAFETY: passed on.
        unsafe { self.stream.upload(to, bytes.as_ptr(), bytes.len()) }
    }

    /// Waits for everything queued, and copies arrays of the device to the host.
    ///
    /// # Safety
    /// Each leads to as many bytes of the device as there are places.
    pub unsafe fn download<'p>(
        self,
        host: Arrays,
        arrays: impl IntoIterator<Item = (&'p mut [MaybeUninit<u8>], *const u8)>,
    ) -> Result<()> {
        let arrays: Vec<_> = arrays.into_iter().collect();
        if let Some(mut pipeline) = self.pipeline(arrays.iter().map(|(to, _)| &**to)) {
            self.stream.synchronize()?;
            // SAFETY: the caller's promise, and nothing is queued any more.
            return unsafe { pipeline.download(host, arrays) };
        }
        let mut queued = 0;
        let outcome = arrays.into_iter().try_for_each(|(to, from)| {
            // SAFETY: the caller's promise; the places are not used until the wait is over.
            unsafe { self.stream.download(to.as_mut_ptr().cast(), from, to.len()) }?;
            queued += 1;
            Ok(())
        });
        match outcome {
            // Nothing of this call is waited for: the stream may be one that this thread captures.
            Err(error) if queued == 0 => Err(error),
            outcome => outcome.and(self.stream.finish()),
        }
    }

    /// Stages for arrays of the host; none if it is not worth it for those that the device does not reach by itself.
    fn pipeline<'b, T: 'b>(
        self,
        arrays: impl IntoIterator<Item = &'b [T]>,
    ) -> Option<StagingPipeline> {
        let device = self.stream.device();
        let far = arrays.into_iter().filter(|array| !device.reaches(array));
        self.stages?.pipeline(far.map(size_of_val).sum())
    }
}
