//! Which thread runs what.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake};
use std::thread;
use std::time::Duration;

use gpumap::{Buffer, Device, Map, Stream};

use crate::case;

/// Says which thread wakes it.
struct Named(Sender<Option<String>>);

impl Wake for Named {
    fn wake(self: Arc<Self>) {
        let name = thread::current().name().map(str::to_owned);
        self.0.send(name).unwrap();
    }
}

case! {
    /// A thread that waits for a stream may run its kernels; it runs no code of the caller, which may take locks that it has.
    wakers_are_called_by_no_thread_that_waits within 30: || {
    let device = Device::cpu();
    let map = Map::<u64, u64>::with_capacity(&device, 100).unwrap();
    let stream = Stream::new(&device).unwrap();
    let keys = Buffer::from_slice(&stream, &[1, 2]).unwrap();
    let mut woken = 0;
    for _ in 0..200 {
        let (told, names) = channel();
        let waker = Arc::new(Named(told)).into();
        let mut call = map.on(&stream).upsert(&keys, &keys).unwrap();
        let poll = std::pin::Pin::new(&mut call).poll(&mut Context::from_waker(&waker));
        device.synchronize().unwrap();
        stream.synchronize().unwrap();
        if poll.is_pending() {
            let name = names.recv_timeout(Duration::from_secs(10)).unwrap();
            assert_eq!(name.as_deref(), Some("gpumap-wakers"));
            woken += 1;
        } else {
            assert!(matches!(poll, Poll::Ready(Ok(_))));
        }
    }
    println!("{woken} calls were waited for");
} }
