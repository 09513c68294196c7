//! Freezes without a freezer: sends SIGSTOP to everything in the shim's pid namespace until nothing runs.
//!
//! This is weaker than a freezer, because a parent can observe that its children stopped. So parents are
//! stopped before their children and continued after them. Processes that were already stopped, by job
//! control, stay stopped.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(10);

/// The processes that the shim stopped; `None` when not frozen.
#[derive(Default)]
pub struct Stopped(Option<BTreeSet<libc::pid_t>>);

impl Stopped {
    pub fn is(&self) -> bool {
        self.0.is_some()
    }

    /// Returns when no thread runs any more.
    pub fn stop(&mut self) -> Result<(), String> {
        if self.is() {
            return Ok(());
        }
        let mut ours = BTreeSet::new();
        let deadline = Instant::now() + TIME;
        loop {
            let running = running()?;
            if running.is_empty() {
                self.0 = Some(ours);
                return Ok(());
            }
            if Instant::now() > deadline {
                self.0 = Some(ours);
                self.go_on();
                return Err("the sandbox could not be stopped within 10 seconds".to_owned());
            }
            for pid in running {
                if ours.insert(pid) {
                    signal(pid, libc::SIGSTOP);
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub fn go_on(&mut self) {
        for pid in self.0.take().into_iter().flatten().rev() {
            signal(pid, libc::SIGCONT);
        }
    }
}

/// All processes except the shim with a thread that is neither stopped nor dead, in ascending order.
fn running() -> Result<Vec<libc::pid_t>, String> {
    let mut found = Vec::new();
    let entries = fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    for pid in numbers.filter(|pid: &libc::pid_t| *pid != 1) {
        // The process is gone.
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        let still = |stat: String| {
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            !matches!(state, Some('T' | 't' | 'Z' | 'X') | None)
        };
        let mut threads =
            threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
        if threads.any(still) {
            found.push(pid);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The pid namespace contains only processes of this sandbox, so a reused pid is harmless.
fn signal(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: takes integers. We are PID 1 of a namespace, so no number in it means a process of the host.
    unsafe {
        if libc::getpid() == 1 {
            libc::kill(pid, signal);
        }
    }
}
