//! Signals to a task, and to everything it started.

use crate::process::marked_processes;
use crate::process::marks;
use crate::process::task::What;
use crate::serve::server::{Owner, Server};
use crate::serve::timers::Alarm;
use crate::sys::user::User;
use crate::sys::{self, kill};
use std::collections::HashSet;
use std::time::Duration;

/// A hunt that did not finish goes on after this, so many times.
pub const HUNT_AGAIN: Duration = Duration::from_millis(10);
pub const HUNTS: u32 = 100;

impl Server {
    /// Signals a process, or everything that it started: its group at one blow, and then who has left the group. Sound against recycled pids: see the head of this file; for a group whose leader
    /// was reaped, the kernel keeps the number for as long as a member lives, so a process with that number means that the
    /// group is gone.
    pub fn signal_process(&mut self, key: u32, signal: i32, group: bool) -> Result<(), i32> {
        let Some((What::Process { pid, .. }, mark)) =
            self.tasks.map.get(&key).map(|task| (&task.what, task.mark))
        else {
            return Err(libc::ESRCH);
        };
        let pid = *pid;
        let ours = self.pids.get(&pid) == Some(&Owner::Task(key));
        let recycled = || std::path::Path::new(&format!("/proc/{pid}")).exists();
        if !ours && (!group || recycled()) {
            return Err(libc::ESRCH);
        }
        // Before its leader ends: afterwards it cannot be told any more who was below it.
        let known = if group && ours && marks::may_be_lost(mark) {
            marked_processes::below(pid as u32)
        } else {
            HashSet::new()
        };
        // SAFETY: takes integers.
        let result = match unsafe { libc::kill(if group { -pid } else { pid }, signal) } {
            0 => Ok(()),
            // It may not lead a group yet.
            _ if group && ours && self.starts.contains_key(&pid) => {
                kill(pid, signal);
                Ok(())
            }
            _ => Err(sys::errno()),
        };
        if group && signal == libc::SIGKILL {
            self.hunt(mark, known, HUNTS);
        } else if group {
            marked_processes::signal_all(mark, &known, Some(pid as u32), signal);
        }
        result
    }

    /// KILL to everything with this mark, and to who is known or below one of these. Somebody who forks faster than we look is looked for again later.
    pub fn hunt(&mut self, mark: Option<u32>, known: HashSet<u32>, left: u32) {
        if mark.is_none() && known.is_empty() {
            return;
        }
        if !marked_processes::kill_all(mark, known)
            && left > 0
            && let Some(mark) = mark
        {
            self.timers
                .after(HUNT_AGAIN, Alarm::Hunt { mark, left: left - 1 });
        }
    }

    /// A mark for a new process or shell; none when every one is in use.
    pub fn new_mark(&mut self, user: Option<&User>) -> Option<u32> {
        let groups = user.map_or(&[][..], |user| &user.groups);
        self.marks.reserve(groups);
        let held = self.tasks.map.values().filter_map(|task| task.mark);
        let held = held.chain(self.shells.map.values().filter_map(|shell| shell.mark));
        self.marks.take(|| {
            let mut set = marked_processes::in_use();
            held.for_each(|mark| set.insert(mark));
            set
        })
    }
}
