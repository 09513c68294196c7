//! The tasks of one connection. All end with it, also when the caller drops `serve`.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::task::JoinSet;

#[derive(Clone, Default)]
pub(super) struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.lock();
        while set.try_join_next().is_some() {}
        set.spawn(task);
    }

    /// Ends all tasks when it is dropped. Tasks may own their set, so dropping the set alone does not end them.
    pub fn guard(&self) -> Guard {
        Guard(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

pub(super) struct Guard(Tasks);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.lock().abort_all();
    }
}
