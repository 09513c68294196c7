//! Login shells: a shell that reads the user's profile first, and what happens when the profile does not let it work.
//!
//! A profile may do anything: end the shell, wait for ever, replace it by another program, read the lines that were meant for the shell, lock
//! the variables that we need. So a login shell gets its first command only when it has answered a question in the way that commands are run.
//! One that does not answer in time, or wrongly, is killed with all that it started, and a plain shell takes its place. The first command that
//! runs there says why (`loginSkipped`).

use crate::process::marked_processes;
use crate::process::start_time::StartTime;
use crate::serve::server::{Owner, Server};
use crate::serve::timers::Alarm;
use crate::shell::script::{Flavour, READY, Report};
use crate::sys::kill;
use std::time::Duration;

pub const LOGIN_MS: u64 = 5000;
pub const MAX_LOGIN_MS: u64 = 60_000;

/// A shell that has not answered yet.
pub struct Login {
    pub nonce: String,
    begun: StartTime,
    /// Why it is being ended.
    failed: Option<&'static str>,
}

impl Login {
    pub fn new(nonce: String, begun: StartTime) -> Login {
        Login {
            nonce,
            begun,
            failed: None,
        }
    }
}

impl Server {
    /// Sets the clock of a login shell that was just started.
    pub fn expect_login(&mut self, shell: u32, pid: libc::pid_t, patience_ms: u64) {
        self.timers.after(
            Duration::from_millis(patience_ms),
            Alarm::ShellLogin { shell, pid },
        );
    }

    /// A report of a shell that is still busy with its profile. True when the report was meant for us.
    pub fn login_reported(&mut self, key: u32, report: &Report) -> bool {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return false;
        };
        let Some(live) = &mut shell.live else { return false };
        let Some(login) = live
            .login
            .as_ref()
            .filter(|login| login.nonce.as_bytes() == report.nonce)
        else {
            return false;
        };
        if login.failed.is_none() && report.status == Some(READY) {
            live.login = None;
            shell.started_before = true;
            self.shell_next(key);
        } else {
            let pid = live.pid;
            self.give_up_login(key, pid, "replaced");
        }
        true
    }

    /// The shell's process is ended; `shell_exited` then starts a plain one.
    pub fn give_up_login(&mut self, key: u32, pid: libc::pid_t, why: &'static str) {
        // Only while that very process is still unreaped, hence still ours.
        if self.pids.get(&pid) != Some(&Owner::Shell(key)) {
            return;
        }
        let Some(live) = self
            .shells
            .map
            .get_mut(&key)
            .and_then(|shell| shell.live.as_mut())
        else {
            return;
        };
        if let Some(login) = live
            .login
            .as_mut()
            .filter(|login| live.pid == pid && login.failed.is_none())
        {
            login.failed = Some(why);
            kill(pid, libc::SIGKILL);
        }
    }
}

/// What a login shell that has ended before it was ready leaves behind, and why it ended.
pub fn ended(login: &Login, mark: Option<u32>) -> &'static str {
    if let Some(mark) = mark {
        marked_processes::kill_since(mark, login.begun, None);
    }
    login.failed.unwrap_or("exited")
}

/// What is said to a login shell after its profile: see `Flavour::settle`.
pub fn question(
    flavour: Flavour,
    nonce: &str,
    pid: libc::pid_t,
    env: &[(Vec<u8>, Vec<u8>)],
    cwd: Option<&std::ffi::CStr>,
) -> Vec<u8> {
    let path = env
        .iter()
        .find(|(name, _)| name == b"PATH")
        .map(|(_, value)| value.as_slice());
    flavour.settle(
        nonce,
        pid,
        path.unwrap_or_default(),
        cwd.map(std::ffi::CStr::to_bytes),
    )
}
