//! [`OwnState`]: the state of a map as the map itself has it.

use std::ops::Deref;
use std::sync::Arc;

use super::MapState;
use crate::device::Device;

/// The state as its map has it: a field before those whose memory calls in flight use, since its drop waits for them.
#[derive(Debug)]
pub struct OwnState(Arc<MapState>);

impl OwnState {
    /// See [`MapState::new`].
    pub fn new(device: &Device, capacity: usize, slots: usize) -> Self {
        Self(Arc::new(MapState::new(device, capacity, slots)))
    }
}

impl Deref for OwnState {
    type Target = Arc<MapState>;

    fn deref(&self) -> &Arc<MapState> {
        &self.0
    }
}

impl Drop for OwnState {
    fn drop(&mut self) {
        self.0.in_flight.wait();
    }
}
