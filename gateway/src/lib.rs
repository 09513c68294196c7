pub mod control;
pub mod dns;
pub mod events;
pub mod gateway;
pub mod host;
pub mod policy;
pub mod process;
pub mod refused;
pub mod sandbox;
pub mod tcp;
pub mod transform;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// No state is left half-changed by a panic, so a poisoned lock stays usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
