//! The host's `/proc`: processes by their pids on the host.

use crate::sys::own;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The host's `/proc`, opened before the shim mounts its own.
pub struct HostProc(OwnedFd);

impl HostProc {
    pub fn open() -> io::Result<HostProc> {
        open("/proc", libc::O_PATH | libc::O_DIRECTORY).map(HostProc)
    }

    pub fn path(&self, rest: impl std::fmt::Display) -> String {
        format!("/proc/self/fd/{}/{rest}", self.0.as_raw_fd())
    }

    /// The shim's pid on the host.
    pub fn me(&self) -> Result<u32, String> {
        let me = fs::read_link(self.path("self")).map_err(|error| format!("/proc/self: {error}"))?;
        me.to_string_lossy()
            .parse()
            .map_err(|_| format!("/proc/self: not a pid: {}", me.display()))
    }

    /// Start time in ticks since boot. Pids are reused, so pid and start time together identify a process.
    pub fn start_time(&self, pid: u32) -> Option<i64> {
        let stat = fs::read_to_string(self.path(format_args!("{pid}/stat"))).ok()?;
        // The name in parentheses can contain anything, so search for the last parenthesis. Field 22 is the
        // 20th after it.
        stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
    }

    pub fn status(&self, pid: u32) -> Result<String, String> {
        fs::read_to_string(self.path(format_args!("{pid}/status")))
            .map_err(|error| format!("/proc/{pid}/status: {error}"))
    }

    /// Finds the process that the runtime left behind, as its pid in the shim's namespace and on the host:
    /// the child with this pid, or the child that is PID 1 of a nested namespace. Children that existed
    /// `before` are excluded, because pasta is such a PID 1 too.
    pub fn adopted(
        &self,
        me: u32,
        known: Option<libc::pid_t>,
        before: &[u32],
    ) -> Result<(libc::pid_t, u32), String> {
        let children = self.children(me)?;
        for host in children.iter().copied().filter(|pid| !before.contains(pid)) {
            let Ok(status) = self.status(host) else { continue };
            let pids: Vec<&str> = field(&status, "NSpid")
                .unwrap_or_default()
                .split_ascii_whitespace()
                .collect();
            let found = match (known, &pids[..]) {
                (Some(known), [.., ours]) => ours.parse().ok().filter(|ours| *ours == known),
                (None, [_, .., ours, "1"]) => ours.parse().ok(),
                _ => None,
            };
            if let Some(ours) = found {
                return Ok((ours, host));
            }
        }
        Err(format!(
            "the runtime left the processes {children:?}, and none of them is PID 1 of a sandbox"
        ))
    }

    /// Pids on the host.
    pub fn children(&self, me: u32) -> Result<Vec<u32>, String> {
        let path = self.path(format_args!("{me}/task/{me}/children"));
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot list children: {error}"))?;
        Ok(text
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect())
    }
}

pub fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

pub fn open(path: &str, flags: libc::c_int) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    // SAFETY: a C string that outlives the call.
    own(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600) })
}
