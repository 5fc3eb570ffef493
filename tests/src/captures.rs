//! Another library in the process: a thread that captures CUDA graphs in the default mode.
//!
//! While it captures, the driver refuses many calls of all other threads, and each of those calls destroys
//! the capture. The library's own calls must neither be refused nor destroy it.

use std::ptr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use cudarc::driver::sys::{
    self, CUcontext, CUdeviceptr, CUgraph, CUgraphExec, CUresult, CUstream, CUstreamCaptureMode,
};
use gpumap::{Device, Stream};

/// A thread that captures on command. On the CPU there is nothing to capture.
#[derive(Debug)]
pub struct Captures {
    /// Two threads that capture would destroy each other's captures: tests take turns.
    _alone: MutexGuard<'static, ()>,
    thread: Option<Thread>,
}

/// The thread, what lets it take a turn, and what the driver returned to it.
type Thread = (Sender<()>, Receiver<Vec<CUresult>>, JoinHandle<()>);

/// A driver handle for another thread.
struct Handle(CUcontext);

// SAFETY: a context is a handle that the driver lets any thread use.
unsafe impl Send for Handle {}

impl Captures {
    /// A thread on this device.
    pub fn on(device: &Device) -> Self {
        let _alone = alone();
        let thread = device.as_raw_context().map(|context| {
            let (context, device) = (Handle(context), device.clone());
            let (next, turns) = channel();
            let (tells, told) = channel();
            let capture = move || {
                let context = context;
                // The context lives as long as the device.
                let _device = device;
                // SAFETY: the context is alive, and this thread has all else to itself.
                unsafe { serve(context.0, &turns, &tells) };
            };
            (next, told, thread::spawn(capture))
        });
        Self { _alone, thread }
    }

    /// Does something while the thread captures. Panics if the capture has not survived it.
    pub fn during<R>(&self, what: &str, work: impl FnOnce() -> R) -> R {
        let Some((next, told, _)) = &self.thread else {
            return work();
        };
        let turn = |when| {
            next.send(()).expect("the thread that captures");
            let codes = told.recv().expect("the thread that captures");
            let all_well = codes.iter().all(|code| *code == CUresult::CUDA_SUCCESS);
            assert!(all_well, "{what}: {when} the capture: {codes:?}");
        };
        turn("at the begin of");
        let answer = work();
        turn("at the end of");
        answer
    }
}

/// The turn of the one that captures.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream of another library, which the thread that uses it captures.
#[derive(Debug)]
pub struct CapturedStream {
    stream: Stream,
    raw: CUstream,
    _alone: MutexGuard<'static, ()>,
}

impl CapturedStream {
    /// A stream that is not captured yet. None on the CPU.
    pub fn on(device: &Device) -> Option<Self> {
        let context = device.as_raw_context()?;
        let _alone = alone();
        let mut raw: CUstream = ptr::null_mut();
        // SAFETY: the context lives as long as the device; the place is valid.
        let codes = unsafe {
            [
                sys::cuCtxSetCurrent(context),
                sys::cuStreamCreate(&mut raw, 1),
            ]
        };
        assert_eq!(codes, [CUresult::CUDA_SUCCESS; 2]);
        // SAFETY: it is destroyed after this one has been dropped, or never.
        let stream = unsafe { Stream::from_raw(device, raw) }.expect("a stream of this context");
        Some(Self {
            stream,
            raw,
            _alone,
        })
    }

    /// The same stream, for the library.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Captures it in the default mode while something is done. Returns what that does, and how many nodes the graph got.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> (R, usize) {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: the stream is alive.
        let begun = unsafe { sys::cuStreamBeginCapture_v2(self.raw, mode) };
        assert_eq!(begun, CUresult::CUDA_SUCCESS);
        let answer = work();
        let (mut graph, mut nodes): (CUgraph, usize) = (ptr::null_mut(), 0);
        // SAFETY: this thread has begun the capture; all places are valid, and a null list asks for the number alone.
        let codes = unsafe {
            [
                sys::cuStreamEndCapture(self.raw, &mut graph),
                sys::cuGraphGetNodes(graph, ptr::null_mut(), &mut nodes),
                sys::cuGraphDestroy(graph),
            ]
        };
        assert_eq!(codes, [CUresult::CUDA_SUCCESS; 3], "the capture survived");
        (answer, nodes)
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        if let Some((next, _, thread)) = self.thread.take() {
            drop(next);
            // A panic there has been seen as a missing answer.
            let _ = thread.join();
        }
    }
}

/// Begins a capture at one turn and ends it at the next, and returns what the driver returned.
///
/// # Safety
/// The context is alive until this returns.
unsafe fn serve(context: CUcontext, turns: &Receiver<()>, tells: &Sender<Vec<CUresult>>) {
    const BYTES: usize = 1 << 20;
    let (mut stream, mut memory): (CUstream, CUdeviceptr) = (ptr::null_mut(), 0);
    // SAFETY: the caller's promise; all places are valid; the memory has as many bytes as are set, and is
    // freed when the last graph has run.
    unsafe {
        let mut ready = vec![
            sys::cuCtxSetCurrent(context),
            sys::cuStreamCreate(&mut stream, 1),
            sys::cuMemAlloc_v2(&mut memory, BYTES),
        ];
        while turns.recv().is_ok() {
            let mut begun = std::mem::take(&mut ready);
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            begun.push(sys::cuStreamBeginCapture_v2(stream, mode));
            begun.push(sys::cuMemsetD8Async(memory, 1, BYTES, stream));
            if tells.send(begun).is_err() || turns.recv().is_err() {
                break;
            }
            let (mut graph, mut launched): (CUgraph, CUgraphExec) =
                (ptr::null_mut(), ptr::null_mut());
            let mut ended = vec![
                sys::cuMemsetD8Async(memory, 2, BYTES, stream),
                sys::cuStreamEndCapture(stream, &mut graph),
            ];
            if ended.iter().all(|code| *code == CUresult::CUDA_SUCCESS) {
                ended.push(sys::cuGraphInstantiateWithFlags(&mut launched, graph, 0));
                ended.push(sys::cuGraphLaunch(launched, stream));
                ended.push(sys::cuStreamSynchronize(stream));
                ended.push(sys::cuGraphExecDestroy(launched));
                ended.push(sys::cuGraphDestroy(graph));
            }
            if tells.send(ended).is_err() {
                break;
            }
        }
        let _ = sys::cuMemFree_v2(memory);
        let _ = sys::cuStreamDestroy_v2(stream);
    }
}
