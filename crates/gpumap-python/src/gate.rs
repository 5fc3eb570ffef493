//! [`Gate`]: keeps changes of a map and iterators over chunks of one moment apart.
//!
//! Such an iterator holds the map until its last chunk is taken. A change would wait for that, and a program that changes the
//! map between two chunks for ever; so it is refused instead.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What uses a map.
#[derive(Default)]
pub struct Gate {
    uses: Mutex<Uses>,
    /// A change has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Uses {
    changes: usize,
    iterators: usize,
}

impl Gate {
    /// Begins a change; none while an iterator is open.
    pub fn change(&self) -> Option<Change<'_>> {
        let mut uses = self.uses();
        (uses.iterators == 0).then(|| {
            uses.changes += 1;
            Change(self)
        })
    }

    /// Opens an iterator: changes are refused from now on.
    pub fn open(self: &Arc<Self>) -> Open {
        self.uses().iterators += 1;
        Open(Arc::clone(self))
    }

    /// Waits for the changes that had begun before an iterator was opened. Else one of them could wait for the iterator, and
    /// lookups for that change.
    pub fn wait_for_changes(&self) {
        let changes = |uses: &mut Uses| uses.changes != 0;
        let waited = self.ended.wait_while(self.uses(), changes);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change that runs.
pub struct Change<'a>(&'a Gate);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.uses().changes -= 1;
        self.0.ended.notify_all();
    }
}

/// An iterator that is open.
pub struct Open(Arc<Gate>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.uses().iterators -= 1;
    }
}
