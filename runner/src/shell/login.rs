//! Login shells, which read the user's profile first.
//!
//! A profile can exit, block, replace the shell, read the runner's input or lock variables. So a login shell
//! gets its first command only after it has answered a check that runs like a command. If the answer is late
//! or wrong, the runner kills the shell and everything it started, and starts a plain shell. The next
//! command reports the reason as `loginSkipped`.

use crate::process::marked_processes;
use crate::process::start_time::StartTime;
use crate::serve::server::{Owner, Server};
use crate::serve::timers::Alarm;
use crate::shell::script::{Flavour, READY, Report};
use crate::sys::kill;
use std::time::Duration;

pub const LOGIN_MS: u64 = 5000;
pub const MAX_LOGIN_MS: u64 = 60_000;

/// A login shell that has not answered yet.
pub struct Login {
    pub nonce: String,
    begun: StartTime,
    /// Why the runner killed it.
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
    pub fn expect_login(&mut self, shell: u32, pid: libc::pid_t, patience_ms: u64) {
        self.timers.after(
            Duration::from_millis(patience_ms),
            Alarm::ShellLogin { shell, pid },
        );
    }

    /// Handles a report of a shell that runs its profile. Returns true if it answers the check.
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

    /// Kills the shell's process. `shell_exited` then starts a plain shell.
    pub fn give_up_login(&mut self, key: u32, pid: libc::pid_t, why: &'static str) {
        // A pid that is still in the table is not reaped yet, so it cannot be recycled.
        if self.pids.get(&pid) != Some(&Owner::Shell(key)) {
            return;
        }
        let Some(live) = self.shells.live(key) else {
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

/// Kills what the profile started. Returns why the login shell ended.
pub fn clean_up(login: &Login, mark: Option<u32>) -> &'static str {
    if let Some(mark) = mark {
        marked_processes::kill_since(mark, login.begun, None);
    }
    login.failed.unwrap_or("exited")
}

/// The check that follows the profile: see `Flavour::login_check`.
pub fn check_text(
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
    flavour.login_check(
        nonce,
        pid,
        path.unwrap_or_default(),
        cwd.map(std::ffi::CStr::to_bytes),
    )
}
