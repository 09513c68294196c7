//! Differences for gVisor's `runsc`, which puts its own kernel, the sentry, between the sandbox and the host:
//!
//! ```text
//! shim ── listens on the runner's socket and passes in every connection ──┐
//!   ├─ runsc-gofer     opens files for the sentry                         │
//!   └─ runsc-sandbox   the sentry, with the runner as the sandbox's PID 1 ◄┘
//!        └─ …          processes in which the sandbox's code runs
//! ```
//!
//! A program in gVisor cannot listen on a socket of the host, but it can use a connected one and receive
//! descriptors through it. So the shim listens, and the sandbox cannot reach the shim's socket. Rejected:
//! `runsc exec` of a bridge per connection, a process of 20 MB that takes as long to start as the sandbox.
//!
//! `runsc` seeks in `config.json`, so it cannot read a pipe of that name. The process that becomes `runsc` waits
//! on the pipe instead.

use super::mounts::mount;
use super::{open_network, staging};
use crate::egress::pair;
use crate::sys::pass;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The file in the stage where the runtime writes the sentry's pid
/// (`packages/engine/src/isolators/oci/launch/runtime.ts` passes the name).
const PID: &str = "sandbox.pid";

/// Returns when `config.json` is a complete file. The text that comes through the pipe is discarded.
pub fn wait_for_config() -> io::Result<()> {
    fs::read(staging::CONFIG).map(drop)
}

/// The arguments of `runsc` for the network of this process, which `egress::pair` may have connected meanwhile. Then
/// the network also gets the name that `config.json` uses.
///
/// `runsc` refuses to use an interface of the machine's own network, which it recognises by a file that newer kernels
/// have in every network. So that folder is empty for the runtime. The kernel has one such folder for each network, so
/// the shim, which is in another network, cannot cover it.
pub fn arguments(prepared: &[String]) -> io::Result<Vec<String>> {
    if !pair::is_connected() {
        return Ok(prepared.to_vec());
    }
    fs::write(open_network::NAMESPACE, "")?;
    mount(
        "/proc/self/ns/net",
        open_network::NAMESPACE,
        "",
        libc::MS_BIND,
        "",
    )?;
    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount("hidden", "/proc/sys/net/core", "tmpfs", flags, "size=0")?;
    let network = |argument: &String| match argument.as_str() {
        "--network=none" => "--network=sandbox".to_owned(),
        _ => argument.clone(),
    };
    Ok(prepared.iter().map(network).collect())
}

/// The sentry's pid in the shim's pid namespace.
pub fn sentry() -> Result<libc::pid_t, String> {
    let text = fs::read_to_string(PID).map_err(|error| format!("{PID}: {error}"))?;
    text.trim()
        .parse()
        .map_err(|_| format!("{PID}: not a pid: '{text}'"))
}

/// Passes connections into the sandbox.
pub struct ConnectionPasser {
    /// Listens on the runner's path.
    pub listener: OwnedFd,
    /// The socket to the runner.
    pub inside: OwnedFd,
}

impl ConnectionPasser {
    /// Accepts all pending connections. Closes those that do not fit, because the runner has not taken the
    /// previous ones.
    pub fn pass_pending(&self) {
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

impl AsRawFd for ConnectionPasser {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}
