//! Every phase ends, whatever NCCL does not come back from (audit finding 16): with a library that
//! hangs where a test sets it, on the CPU, whose streams are always idle.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::AtomicUsize;

use cudarc::nccl::sys::{ncclConfig_t, ncclUniqueId};

use super::*;
use crate::sharded::nccl::library::IN_PROGRESS;

/// What a communicator hangs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Hangs {
    Nowhere,
    Init,
    Joining,
    Queueing,
    Abort,
    Leaving,
    Destroy,
}

const ALL: [Hangs; 7] = [
    Hangs::Nowhere,
    Hangs::Init,
    Hangs::Joining,
    Hangs::Queueing,
    Hangs::Abort,
    Hangs::Leaving,
    Hangs::Destroy,
];

/// A communicator of the library below.
struct Fake {
    hangs: Hangs,
    /// Its last call goes on for ever.
    goes_on: AtomicBool,
    /// How often it was freed, by `abort` or by `destroy`.
    freed: &'static AtomicUsize,
}

/// How often communicators of the library were freed, for each test.
static FREED: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];

fn fake(comm: ncclComm_t) -> &'static Fake {
    // SAFETY: made by `init`, and never freed.
    unsafe { &*comm.cast::<Fake>() }
}

fn hang() -> ! {
    loop {
        thread::park();
    }
}

unsafe extern "C" fn init(
    comm: *mut ncclComm_t,
    _ranks: c_int,
    id: ncclUniqueId,
    _rank: c_int,
    _config: *mut ncclConfig_t,
) -> Code {
    let hangs = ALL[id.internal[0] as usize];
    if hangs == Hangs::Init {
        hang();
    }
    let made = Box::leak(Box::new(Fake {
        hangs,
        goes_on: AtomicBool::new(hangs == Hangs::Joining),
        freed: &FREED[id.internal[1] as u8 as usize],
    }));
    // SAFETY: the place is the caller's.
    unsafe { *comm = ptr::from_mut(made).cast() };
    IN_PROGRESS
}

unsafe extern "C" fn async_error(comm: ncclComm_t, state: *mut Code) -> Code {
    let goes_on = fake(comm).goes_on.load(Ordering::Relaxed);
    // SAFETY: the place is the caller's.
    unsafe { *state = if goes_on { IN_PROGRESS } else { 0 } };
    0
}

unsafe extern "C" fn finalize(comm: ncclComm_t) -> Code {
    let fake = fake(comm);
    let leaving = fake.hangs == Hangs::Leaving;
    fake.goes_on.store(leaving, Ordering::Relaxed);
    IN_PROGRESS
}

unsafe extern "C" fn destroy(comm: ncclComm_t) -> Code {
    if fake(comm).hangs == Hangs::Destroy {
        hang();
    }
    fake(comm).freed.fetch_add(1, Ordering::Relaxed);
    0
}

unsafe extern "C" fn abort(comm: ncclComm_t) -> Code {
    if fake(comm).hangs == Hangs::Abort {
        hang();
    }
    fake(comm).freed.fetch_add(1, Ordering::Relaxed);
    0
}

unsafe extern "C" fn all_reduce(
    _from: *const c_void,
    _to: *mut c_void,
    _len: usize,
    _kind: c_int,
    _operation: c_int,
    comm: ncclComm_t,
    _stream: CUstream,
) -> Code {
    let queueing = matches!(fake(comm).hangs, Hangs::Queueing | Hangs::Abort);
    fake(comm).goes_on.store(queueing, Ordering::Relaxed);
    0
}

unsafe extern "C" fn unique_id(_: *mut ncclUniqueId) -> Code {
    0
}
unsafe extern "C" fn group() -> Code {
    IN_PROGRESS
}
unsafe extern "C" fn send(
    _: *const c_void,
    _: usize,
    _: c_int,
    _: c_int,
    _: ncclComm_t,
    _: CUstream,
) -> Code {
    0
}
unsafe extern "C" fn receive(
    _: *mut c_void,
    _: usize,
    _: c_int,
    _: c_int,
    _: ncclComm_t,
    _: CUstream,
) -> Code {
    0
}
unsafe extern "C" fn all_gather(
    _: *const c_void,
    _: *mut c_void,
    _: usize,
    _: c_int,
    _: ncclComm_t,
    _: CUstream,
) -> Code {
    0
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library {
    get_unique_id: unique_id,
    init,
    async_error,
    finalize,
    destroy,
    abort,
    group_start: group,
    group_end: group,
    send,
    receive,
    all_reduce,
    all_gather,
    _library: None,
});

/// Far more than all limits together.
const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(600);

fn join(hangs: Hangs, timeout: Duration, test: u8) -> Result<Communicator> {
    let mut id = GroupId([0; 128]);
    (id.0[0], id.0[1]) = (hangs as u8, test);
    let limits = Limits {
        timeout,
        joining: SHORT,
        farewell: SHORT,
    };
    Communicator::join(&LIBRARY, &Device::cpu(), &id, [0, 2], limits)
}

fn queue(communicator: &mut Communicator, stream: &Stream) -> Result<()> {
    // SAFETY: nothing is used.
    unsafe {
        communicator.queue(stream, "ncclAllReduce", |nccl, comm, stream| {
            (nccl.all_reduce)(ptr::null(), ptr::null_mut(), 0, 0, 0, comm, stream)
        })
    }
}

fn is_silent<R>(result: Result<R>) -> bool {
    matches!(result, Err(Error::Group(GroupError::Silent { .. })))
}

fn is_ended<R>(result: Result<R>) -> bool {
    matches!(result, Err(Error::Group(GroupError::Ended)))
}

fn freed(test: u8) -> usize {
    FREED[test as usize].load(Ordering::Relaxed)
}

#[test]
fn what_does_not_hang_is_left_in_order() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    let mut member = join(Hangs::Nowhere, LONG, 1).unwrap();
    for _ in 0..3 {
        queue(&mut member, &stream).unwrap();
        member.wait(&stream).unwrap();
    }
    drop(member);
    assert_eq!(freed(1), 1);
}

#[test]
fn ranks_that_do_not_join_are_waited_for_until_the_time_is_up() {
    for (test, hangs) in [(2, Hangs::Init), (3, Hangs::Joining)] {
        let begin = Instant::now();
        assert!(is_silent(join(hangs, LONG, test)), "{hangs:?}");
        assert!(begin.elapsed() < SOON);
    }
    // What hangs in the call itself has made nothing yet.
    assert_eq!((freed(2), freed(3)), (0, 1));
}

#[test]
fn a_call_that_is_never_queued_ends_though_it_cannot_be_aborted() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    for (test, hangs) in [(4, Hangs::Queueing), (5, Hangs::Abort)] {
        let begin = Instant::now();
        let mut member = join(hangs, SHORT, test).unwrap();
        assert!(is_silent(queue(&mut member, &stream)), "{hangs:?}");
        assert!(is_ended(queue(&mut member, &stream)) && is_ended(member.wait(&stream)));
        drop(member);
        assert!(begin.elapsed() < SOON);
    }
    assert_eq!((freed(4), freed(5)), (1, 0));
}

#[test]
fn work_that_never_ends_is_given_up_by_the_rank_that_waits() {
    let member = join(Hangs::Nowhere, SHORT, 6).unwrap();
    member.begin(|| false);
    assert!(is_silent(member.finish(|| Ok(false))));
    member.give_up();
    assert!(is_ended(member.finish(|| Ok(false))));
    // Once; by the watch if that was first, which may be at it still.
    let begin = Instant::now();
    while freed(6) == 0 {
        assert!(begin.elapsed() < SOON);
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(freed(6), 1);
}

#[test]
fn work_that_never_ends_is_given_up_while_its_rank_is_elsewhere() {
    let member = join(Hangs::Nowhere, SHORT, 7).unwrap();
    let begin = Instant::now();
    member.begin(|| false);
    while freed(7) == 0 {
        assert!(begin.elapsed() < SOON);
        thread::sleep(Duration::from_millis(1));
    }
    // The rank gets that error at its next call, and after it that the group is lost.
    assert!(is_silent(member.finish(|| Ok(false))));
    assert!(is_ended(member.finish(|| Ok(false))));
}

#[test]
fn neither_the_rank_nor_the_watch_waits_for_a_question_that_is_not_answered() {
    // As where the driver's lock is held by a call that waits for the device.
    let member = join(Hangs::Nowhere, SHORT, 8).unwrap();
    member.begin(|| hang());
    let given_up = || freed(8) == 1;
    let begin = Instant::now();
    let answer = member.finish(|| {
        while !given_up() {
            assert!(begin.elapsed() < SOON, "nothing has given it up");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    });
    assert!(is_silent(answer) && given_up());
}

#[test]
fn work_that_is_over_is_not_given_up_though_its_rank_comes_late() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    let mut member = join(Hangs::Nowhere, SHORT, 9).unwrap();
    queue(&mut member, &stream).unwrap();
    thread::sleep(4 * SHORT);
    member.wait(&stream).unwrap();
    queue(&mut member, &stream).unwrap();
    assert_eq!(freed(9), 0);
}

#[test]
fn leaving_ends() {
    for (test, hangs, aborted) in [(10, Hangs::Leaving, 1), (11, Hangs::Destroy, 0)] {
        let begin = Instant::now();
        drop(join(hangs, LONG, test).unwrap());
        assert!(begin.elapsed() < SOON);
        assert_eq!(freed(test), aborted, "{hangs:?}");
    }
}
