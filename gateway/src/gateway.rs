//! All sandboxes, and what they share.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::events::Events;
use crate::host::Host;
use crate::lock;
use crate::sandbox::Sandbox;

#[derive(Default)]
pub struct Gateway {
    pub host: Host,
    pub events: Events,
    /// Open connections to the control socket.
    pub controllers: AtomicUsize,
    sandboxes: Mutex<HashMap<Arc<str>, Arc<Sandbox>>>,
}

impl Gateway {
    pub fn sandbox(&self, name: &str) -> Option<Arc<Sandbox>> {
        lock(&self.sandboxes).get(name).cloned()
    }

    pub fn sandboxes(&self) -> Vec<Arc<Sandbox>> {
        lock(&self.sandboxes).values().cloned().collect()
    }

    /// A sandbox that was added before under this name is removed.
    pub fn insert(&self, sandbox: Arc<Sandbox>) {
        self.events.add_sandbox(&sandbox.name);
        let before = lock(&self.sandboxes).insert(sandbox.name.clone(), sandbox);
        if let Some(before) = before {
            before.end();
        }
    }

    pub fn remove(&self, name: &str) -> bool {
        let removed = lock(&self.sandboxes).remove(name);
        removed.map(|sandbox| self.finish(&sandbox)).is_some()
    }

    /// Removes this sandbox, but not a later one of the same name.
    pub fn remove_same(&self, sandbox: &Arc<Sandbox>) {
        let mut sandboxes = lock(&self.sandboxes);
        if sandboxes
            .get(&sandbox.name)
            .is_some_and(|current| Arc::ptr_eq(current, sandbox))
        {
            sandboxes.remove(&sandbox.name);
            drop(sandboxes);
            self.finish(sandbox);
        }
    }

    pub fn is_idle(&self) -> bool {
        self.controllers.load(std::sync::atomic::Ordering::Relaxed) == 0 && lock(&self.sandboxes).is_empty()
    }

    fn finish(&self, sandbox: &Sandbox) {
        sandbox.end();
        self.events.remove_sandbox(&sandbox.name);
    }
}
