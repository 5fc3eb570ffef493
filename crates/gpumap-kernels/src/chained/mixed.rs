//! Batches in which each key says what is done with it. The operations of one batch run at the same
//! time, in no order.

use super::answer::Report;
use super::queue::{Job, Next, Seen, Verb};
use super::verbs::{Count, Get, Remove, Store, Tally};
use crate::slot::Format;
use gpumap_simt::mem;

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// See [`Get`].
    Get = 0,
    /// See [`Store`].
    Append = 1,
    /// See [`Store`], `UNIQUE`.
    Insert = 2,
    /// See [`Remove`].
    Remove = 3,
    /// See [`Count`].
    Count = 4,
}

impl Operation {
    /// The operation with this code, if there is one.
    #[inline(always)]
    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Get),
            1 => Some(Self::Append),
            2 => Some(Self::Insert),
            3 => Some(Self::Remove),
            4 => Some(Self::Count),
            _ => None,
        }
    }
}

/// Does with each key what its operation says.
#[derive(Clone, Copy, Debug)]
pub struct Mixed<V> {
    /// One [`Operation`] per key. Of a key with any other code nothing is done nor reported.
    operations: *const u8,
    /// What is done with the key at hand.
    operation: Operation,
    report: Report<V>,
    /// This lane's pairs.
    pub tally: Tally,
    /// See [`Count`].
    pairs: u32,
}

impl<V: Copy> Mixed<V> {
    /// For a batch with these operations.
    #[inline(always)]
    pub fn new(operations: *const u8, report: Report<V>) -> Self {
        Self {
            operations,
            operation: Operation::Get,
            report,
            tally: Tally::default(),
            pairs: 0,
        }
    }

    #[inline(always)]
    fn get(&self) -> Get<Report<V>> {
        let report = self.report;
        Get { report }
    }

    #[inline(always)]
    fn store<const UNIQUE: bool>(&self) -> Store<Report<V>, UNIQUE> {
        let Self { report, tally, .. } = *self;
        Store { report, tally }
    }

    #[inline(always)]
    fn remove(&self) -> Remove<Report<V>> {
        let Self { report, tally, .. } = *self;
        Remove { report, tally }
    }

    #[inline(always)]
    fn count(&self) -> Count<Report<V>> {
        let Self { report, pairs, .. } = *self;
        Count { report, pairs }
    }
}

/// Calls a method of the verb at hand, and takes back what it keeps account of.
macro_rules! hand_on {
    ($self:ident, $method:ident($($argument:expr),*)) => {
        match $self.operation {
            Operation::Get => Verb::<F>::$method(&mut $self.get(), $($argument),*),
            Operation::Append => {
                let mut verb = $self.store::<false>();
                let answer = Verb::<F>::$method(&mut verb, $($argument),*);
                $self.tally = verb.tally;
                answer
            }
            Operation::Insert => {
                let mut verb = $self.store::<true>();
                let answer = Verb::<F>::$method(&mut verb, $($argument),*);
                $self.tally = verb.tally;
                answer
            }
            Operation::Remove => {
                let mut verb = $self.remove();
                let answer = Verb::<F>::$method(&mut verb, $($argument),*);
                $self.tally = verb.tally;
                answer
            }
            Operation::Count => {
                let mut verb = $self.count();
                let answer = Verb::<F>::$method(&mut verb, $($argument),*);
                $self.pairs = verb.pairs;
                answer
            }
        }
    };
}

impl<F: Format> Verb<F> for Mixed<F::Value> {
    const STORES: bool = true;
    const READS: bool = true;

    #[inline(always)]
    unsafe fn begin(&mut self, index: u64) -> bool {
        // SAFETY: one byte per key of the batch, not written during this launch.
        let code = unsafe { mem::load(self.operations.add(index as usize)) };
        match Operation::from_code(code) {
            Some(operation) => {
                self.operation = operation;
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    fn grows(&self) -> bool {
        matches!(self.operation, Operation::Append | Operation::Insert)
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: passed on.
        unsafe { hand_on!(self, serve(job, seen)) }
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>) {
        // SAFETY: passed on.
        unsafe { hand_on!(self, walked_off(job)) }
    }
}
