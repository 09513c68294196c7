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

/// Delay and number of retries for processes that fork faster than the runner kills.
pub const KILL_RETRY_DELAY: Duration = Duration::from_millis(10);
pub const KILL_RETRIES: u32 = 100;

impl Server {
    /// Signals a process, or its process group and then all processes that left the group.
    ///
    /// Safe against recycled pids: only the event loop reaps. The kernel keeps the number of a group while
    /// it has members, so a *process* with the number of a reaped leader means that the group is gone.
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
        // After the leader has ended, its descendants cannot be found any more.
        let known = if group && ours && marks::can_be_evaded(mark) {
            marked_processes::descendants(pid as u32)
        } else {
            HashSet::new()
        };
        // SAFETY: takes integers.
        let result = match unsafe { libc::kill(if group { -pid } else { pid }, signal) } {
            0 => Ok(()),
            // The child may not lead a group yet.
            _ if group && ours && self.starts.contains_key(&pid) => {
                kill(pid, signal);
                Ok(())
            }
            _ => Err(sys::errno()),
        };
        if group && signal == libc::SIGKILL {
            self.kill_marked(mark, known, KILL_RETRIES);
        } else if group {
            marked_processes::signal_all(mark, &known, Some(pid as u32), signal);
        }
        result
    }

    /// Kills all processes with this mark, all `known` ones and their descendants. Retries later if some may
    /// be left.
    pub fn kill_marked(&mut self, mark: Option<u32>, known: HashSet<u32>, retries: u32) {
        if mark.is_none() && known.is_empty() {
            return;
        }
        if !marked_processes::kill_all(mark, known)
            && retries > 0
            && let Some(mark) = mark
        {
            self.timers.after(
                KILL_RETRY_DELAY,
                Alarm::KillMarked {
                    mark,
                    retries: retries - 1,
                },
            );
        }
    }

    /// A mark for a new process or shell; `None` if all are in use.
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
