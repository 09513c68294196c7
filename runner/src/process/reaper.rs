//! Signals and ends of children: PID 1's duty to whoever it started, and to whoever was left to it.

use crate::process::marked_processes;
use crate::process::signals::{HUNT_AGAIN, HUNTS};
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
            // Asked twice: whoever has not gone by now goes without being asked.
            self.end_all();
        }
        if matches!(stop, Some(libc::SIGTERM | libc::SIGINT)) {
            self.stopping = true;
            self.close_idle_shells();
        }
    }

    /// Passes a signal on to everything below us.
    fn forward(&mut self, signal: i32) {
        if is_init() {
            return kill(-1, signal);
        }
        marked_processes::signal_all(None, &HashSet::from([std::process::id()]), None, signal);
    }

    /// KILL to everything below us, until nobody is left: who forked meanwhile is found by the next look.
    pub fn end_all(&mut self) {
        if is_init() {
            return kill(-1, libc::SIGKILL);
        }
        marked_processes::kill_all(None, HashSet::from([std::process::id()]));
        if has_children() {
            self.timers.after(HUNT_AGAIN, Alarm::EndAll);
        }
    }

    /// Takes away every dead child: ours, and those that we inherited from a parent that died.
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
            // It has ended, so its start is over; those who wait for that hear it first.
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
        // From here on whatever it left behind lives its own life, unless its time was over.
        if let Some(mark) = task.mark.take().filter(|_| task.timed_out) {
            self.hunt(Some(mark), HashSet::new(), HUNTS);
        }
        self.end_task(key, Exit::Facts(facts));
    }
}

/// A signal mask as a descriptor: signals become ordinary readable events.
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

/// Where we are PID 1, everything in this pid namespace is below us, and one call reaches all of it.
fn is_init() -> bool {
    std::process::id() == 1
}

/// Is there any child at all, adopted ones included?
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
