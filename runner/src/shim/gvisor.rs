//! What is different where the runtime is gVisor's `runsc`, which puts a kernel of its own, the sentry, between the sandbox and the host's:
//!
//! ```text
//! shim ── listens on the runner's socket, and hands in every connection ──┐
//!   ├─ runsc-gofer     opens files for the sentry                         │
//!   └─ runsc-sandbox   the sentry; in it the runner, PID 1 of the sandbox ◄┘
//!        └─ …          empty processes in which the sandbox's code runs
//! ```
//!
//! A socket of the host cannot be listened on in there, but one that is connected can be used, and through it others come. So we listen, and nothing
//! inside leads to our socket either. (Rejected: `runsc exec` of a bridge for each connection, a process of twenty megabytes that takes as long to
//! start as the sandbox itself.)
//!
//! The runtime goes back and forth in `config.json`, so it cannot wait on a pipe with that name: the process that becomes the runtime does.

use super::staging;
use crate::sys::pass;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Where the runtime writes which process the sentry is, on the stage (`packages/engine/src/isolators/oci/runtime.ts` tells it).
const PID: &str = "sandbox.pid";

/// Returns when `config.json` is a file, whole and to be read. Its text came through the pipe too, and is of no interest here.
pub fn wait_for_config() -> io::Result<()> {
    fs::read(staging::CONFIG).map(drop)
}

/// The sentry, by our numbers.
pub fn sentry() -> Result<libc::pid_t, String> {
    let text = fs::read_to_string(PID).map_err(|error| format!("{PID}: {error}"))?;
    text.trim().parse().map_err(|_| format!("{PID}: '{text}'"))
}

/// Lets callers in.
pub struct Porter {
    /// Bound to the runner's name.
    pub listener: OwnedFd,
    /// Leads to the runner.
    pub inside: OwnedFd,
}

impl Porter {
    /// Everyone who waits. One for whom there is no room in there, because nobody inside has taken in hundreds before them, is sent away.
    pub fn let_in(&self) {
        loop {
            // SAFETY: no address is asked for, so the null pointers are what the call expects.
            let accepted = crate::sys::own(unsafe {
                libc::accept4(
                    self.listener.as_raw_fd(),
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    libc::SOCK_CLOEXEC,
                )
            });
            let Ok(caller) = accepted else { return };
            let _ = pass::send(&self.inside, &caller);
        }
    }
}

impl AsRawFd for Porter {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}
