//! Signals to the runner, and the reaping of children and adopted orphans.

use crate::process::marked_processes;
use crate::process::signals::{KILL_RETRIES, KILL_RETRY_DELAY};
use crate::process::task::Exit;
use crate::serve::server::{Owner, Server};
use crate::serve::timers::Alarm;
use crate::sys::{check, kill, own};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

impl Server {
    pub fn signalled(&mut self) {
        let mut stop = None;
        // SAFETY: signalfd_siginfo is plain data, valid for any bytes.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = std::mem::size_of_val(&info);
        loop {
            // SAFETY: reads at most `size` bytes into `info`.
            let count = unsafe { libc::read(self.signals.as_raw_fd(), (&raw mut info).cast(), size) };
            if count != size as isize {
                break;
            }
            if info.ssi_signo as i32 != libc::SIGCHLD {
                stop = Some(info.ssi_signo as i32);
                self.forward(info.ssi_signo as i32);
            }
        }
        self.reap();
        if matches!(stop, Some(libc::SIGTERM | libc::SIGINT)) && self.stopping {
            // Second stop signal: kill everything.
            self.end_all();
        }
        if matches!(stop, Some(libc::SIGTERM | libc::SIGINT)) {
            self.stopping = true;
            self.close_idle_shells();
        }
    }

    /// Forwards a signal to everything below the runner.
    fn forward(&mut self, signal: i32) {
        if is_init() {
            return kill(-1, signal);
        }
        marked_processes::signal_all(None, &HashSet::from([std::process::id()]), None, signal);
    }

    /// Kills everything below the runner. A timer repeats it for processes that forked meanwhile.
    pub fn end_all(&mut self) {
        if is_init() {
            return kill(-1, libc::SIGKILL);
        }
        marked_processes::kill_all(None, HashSet::from([std::process::id()]));
        if has_children() {
            self.timers.after(KILL_RETRY_DELAY, Alarm::EndAll);
        }
    }

    fn reap(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: both out-parameters are valid; rusage is plain data.
            let (pid, usage) = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                (libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage), usage)
            };
            if pid <= 0 {
                return;
            }
            // Report the result of the start before the exit.
            self.start_is_over(pid);
            match self.pids.remove(&pid) {
                Some(Owner::Task(key)) => self.task_exited(key, status, &usage),
                Some(Owner::Shell(key)) => self.shell_exited(key, pid, status),
                Some(Owner::Check(key)) => self.shell_checked(key, status),
                None => {}
            }
        }
    }

    fn task_exited(&mut self, key: u32, status: i32, usage: &libc::rusage) {
        let Some(task) = self.tasks.map.get_mut(&key) else {
            return;
        };
        let facts = crate::process::task::exit_facts(status, usage, task);
        // Background processes of the task live on, unless it timed out.
        if let Some(mark) = task.mark.take().filter(|_| task.timed_out) {
            self.kill_marked(Some(mark), HashSet::new(), KILL_RETRIES);
        }
        self.end_task(key, Exit::Facts(facts));
    }
}

/// Blocks these signals and returns a descriptor that reads them.
pub fn signal_descriptor() -> io::Result<OwnedFd> {
    let signals = [
        libc::SIGCHLD,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGWINCH,
    ];
    // SAFETY: sigset_t is plain data that sigemptyset initialises; SIGPIPE is ignored so that a write to a
    // departed reader is an error value and not our death.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut mask);
        for signal in signals {
            libc::sigaddset(&mut mask, signal);
        }
        check(libc::pthread_sigmask(
            libc::SIG_BLOCK,
            &mask,
            std::ptr::null_mut(),
        ))?;
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        own(libc::signalfd(-1, &mask, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))
    }
}

/// PID 1 reaches everything in its pid namespace with one kill(2).
fn is_init() -> bool {
    std::process::id() == 1
}

/// Whether any child exists, including adopted ones.
pub fn has_children() -> bool {
    // SAFETY: siginfo is plain data; WNOWAIT leaves the child as it is.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(
            libc::P_ALL,
            0,
            &mut info,
            libc::WEXITED | libc::WNOHANG | libc::WNOWAIT,
        ) == 0
    }
}
