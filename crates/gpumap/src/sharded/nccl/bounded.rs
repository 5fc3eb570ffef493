//! Calls that may never return, waited for until their time is up.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What `call` returns, if it does so in time. Otherwise it goes on in its thread, and what it returns is dropped
/// there.
pub(super) fn bounded<R: Send + 'static>(
    limit: Duration,
    call: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let (send, receive) = mpsc::sync_channel(1);
    let named = thread::Builder::new().name("gpumap-nccl".to_owned());
    named.spawn(move || drop(send.send(call()))).ok()?;
    receive.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_call_that_does_not_return_is_left_and_its_result_dropped() {
        assert_eq!(bounded(Duration::from_secs(600), || 7), Some(7));

        let result = Arc::new(());
        let (go, held) = mpsc::channel::<()>();
        let late = Arc::clone(&result);
        let begin = Instant::now();
        let left = bounded(Duration::from_millis(50), move || {
            let _ = held.recv();
            late
        });
        assert!(left.is_none() && begin.elapsed() < Duration::from_secs(60));
        assert_eq!(Arc::strong_count(&result), 2);
        drop(go);
        while Arc::strong_count(&result) > 1 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
