//! Ends a command of a shell without ending the shell.

use crate::process::start_time::StartTime;
use crate::process::task::Exit;
use crate::serve::server::Server;
use crate::serve::timers::Alarm;
use crate::shell::script::ABORT_SIGNAL;
use crate::sys::kill;
use crate::wire::error::{OpError, OpResult};
use std::time::Duration;

/// Time after each step of an interrupt: SIGINT, SIGTERM, then SIGKILL repeatedly, because a command line
/// may start further programs. The last step kills the shell.
const AFTER_INT: Duration = Duration::from_millis(200);
const AFTER_TERM: Duration = Duration::from_millis(300);
const AFTER_KILL: Duration = Duration::from_millis(20);
const LAST_STEP: u32 = 50;
/// How long a shell may take between fork and wait on a busy machine.
const FORK_TO_WAIT: Duration = Duration::from_millis(100);

impl Server {
    /// Signals the running command. SIGKILL ends the command, not its shell.
    pub fn signal_command(&mut self, shell: u32, task: u32, signal: i32) -> OpResult<()> {
        let gone = || OpError::new("not_found", "the command is not running");
        if signal == libc::SIGKILL {
            self.interrupt_command(shell, task, 0);
            return Ok(());
        }
        let found = self.shells.map.get_mut(&shell).ok_or_else(gone)?;
        let (Some(live), Some(current)) = (
            &found.live,
            found.current.as_mut().filter(|current| current.task == task),
        ) else {
            return Err(gone());
        };
        match live.job(found.mark, Some(current)) {
            Some(group) => kill(-group, signal),
            None => {
                if signal == libc::SIGINT {
                    let shortly_before = StartTime::now().minus(FORK_TO_WAIT);
                    current.interrupted_since = current.begun.map(|begun| begun.later(shortly_before));
                }
                kill(live.pid, signal);
            }
        }
        Ok(())
    }

    /// Runs one step of ending a command.
    pub fn interrupt_command(&mut self, shell_key: u32, task: u32, step: u32) {
        let Some(shell) = self.shells.map.get_mut(&shell_key) else {
            return;
        };
        let Some(current) = shell.current.as_mut().filter(|current| current.task == task) else {
            return self.remove_queued(shell_key, task);
        };
        if step == 0 && std::mem::replace(&mut current.interrupting, true) {
            return;
        }
        if let Some(check) = current.check {
            // The command is still in its syntax check. `shell_checked` ends it.
            return kill(check, libc::SIGKILL);
        }
        let Some(live) = &mut shell.live else { return };
        let foreground = live.job(shell.mark, Some(current));
        let delay = match step {
            0 => AFTER_INT,
            1 => AFTER_TERM,
            _ => AFTER_KILL,
        };
        match (foreground, step) {
            (_, LAST_STEP..) => return kill(live.pid, libc::SIGKILL),
            // The shell itself is looping. Only SIGINT ends the loop and keeps the shell.
            (None, _) => kill(live.pid, libc::SIGINT),
            (Some(group), 0) => kill(-group, libc::SIGINT),
            (Some(group), step) => {
                kill(live.pid, ABORT_SIGNAL);
                kill(-group, if step == 1 { libc::SIGTERM } else { libc::SIGKILL });
                // A stopped group handles SIGTERM only after SIGCONT.
                kill(-group, libc::SIGCONT);
            }
        }
        // The shell may wait for a process that left the group.
        if step > 1 {
            current.kill_started_processes(shell.mark, Some(live.pid));
        }
        if live.flavour == crate::shell::script::Flavour::Sh
            && step > 0
            && live.control.queued() == 0
            && step % 10 == 1
        {
            live.control.push(&live.flavour.report(&current.nonce));
            live.control.flush();
        }
        self.timers.after(delay, Alarm::Kill { task, step: step + 1 });
    }

    /// Removes a command that is still queued.
    fn remove_queued(&mut self, shell_key: u32, task: u32) {
        let Some(shell) = self.shells.map.get_mut(&shell_key) else {
            return;
        };
        if let Some(index) = shell.queue.iter().position(|queued| *queued == task) {
            shell.queue.remove(index);
            self.end_task(
                task,
                Exit::Failed(OpError::new(
                    "cancelled",
                    "the command was ended before it started",
                )),
            );
        }
    }
}
