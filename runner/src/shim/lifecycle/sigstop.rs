//! Freezes without a freezer: sends SIGSTOP to everything in the shim's pid namespace until nothing runs.
//!
//! This is weaker than a freezer, because a parent can observe that its children stopped. So parents are
//! stopped before their children and continued after them. Processes that were already stopped, by job
//! control, stay stopped.
//!
//! A parent in `vfork` waits for its child to start a program, and stops only after that. So a child is not stopped
//! while its parent waits, and goes on if it was.

use std::collections::{BTreeMap, BTreeSet};
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
            let all = processes()?;
            if all.values().all(|process| process.activity == Activity::Stopped) {
                self.0 = Some(ours);
                return Ok(());
            }
            if Instant::now() > deadline {
                self.0 = Some(ours);
                self.go_on();
                return Err("the sandbox could not be stopped within 10 seconds".to_owned());
            }
            for (&pid, process) in &all {
                let parent = all.get(&process.parent).map(|parent| parent.activity);
                if parent == Some(Activity::Waiting) {
                    if ours.remove(&pid) {
                        signal(pid, libc::SIGCONT);
                    }
                } else if process.activity != Activity::Stopped && ours.insert(pid) {
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

struct Process {
    parent: libc::pid_t,
    activity: Activity,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Activity {
    /// All threads are stopped or dead.
    Stopped,
    Running,
    /// A thread waits in the kernel and takes no signal, as in `vfork`.
    Waiting,
}

/// All processes except the shim, in ascending order.
fn processes() -> Result<BTreeMap<libc::pid_t, Process>, String> {
    let entries = fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers
        .filter(|pid: &libc::pid_t| *pid != 1)
        .filter_map(|pid| Some((pid, process(pid)?)))
        .collect())
}

/// `None`: the process is gone.
fn process(pid: libc::pid_t) -> Option<Process> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    stats
        .filter_map(|stat| read_stat(&stat))
        .reduce(|one, other| Process {
            parent: one.parent,
            activity: one.activity.max(other.activity),
        })
}

fn read_stat(stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let activity = match fields.next()? {
        "T" | "t" | "Z" | "X" => Activity::Stopped,
        "D" => Activity::Waiting,
        _ => Activity::Running,
    };
    Some(Process {
        parent: fields.next()?.parse().ok()?,
        activity,
    })
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
