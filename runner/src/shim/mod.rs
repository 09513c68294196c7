//! `runner shim`: the parent, reaper and witness of one sandbox, outliving whoever started it.
//!
//! ```text
//! engine ─ task ─► stage 0 ─ fork into a new pid namespace ─► shim = PID 1 there        (stage 0 exits)
//!                                                              ├─ child: cgroups, mounts, exec crun ─► exits
//!                                                              ├─ runner = PID 1 of the sandbox's own pid namespace, adopted
//!                                                              └─ pasta, where there is a network, adopted
//! ```
//!
//! Why a pid namespace around the sandbox's own: the kernel then gives us all we need, whatever the code inside does. Orphans come to us
//! (PID 1 of this machine may take seconds to reap them). `kill(-1)` reaches every process, however often it forked or called setsid. And
//! if we die, however we die, the kernel kills all of them: a sandbox without its witness cannot exist. (Rejected: PR_SET_PDEATHSIG, which the
//! runtime's own exit would trigger; a pipe that the runner watches, which trusts the sandbox; a second process as init, which costs memory.)
//!
//! We are outside the sandbox's control groups, so neither its limits nor their killer ever hit the witness.
//!
//! It says one line on standard output: ready, or why not. After that it has one Unix socket, in a folder that no sandbox sees: a connection is greeted,
//! told the end as one line and is then closed, and may send `kill`. A connection names this very sandbox, a pid only a number that is used again.

mod birth;
mod cgroup;
mod idmap;
mod json;
pub mod launcher;
mod life;
mod mounts;
mod task;
mod wait;

use crate::sys::check;
use json::Json;
use std::io::{Read, Write};
use task::Task;

/// A task is a few kilobytes; whatever sends more is not our engine.
const MAX_TASK: u64 = 4 * 1024 * 1024;

/// Returns in stage 0 only, or where not even that came to be.
pub fn run() -> Result<(), String> {
    let mut text = String::new();
    std::io::stdin()
        .take(MAX_TASK)
        .read_to_string(&mut text)
        .map_err(|error| format!("task: {error}"))?;
    let task = Task::parse(&text).inspect_err(|message| answer(&Err(message.clone())))?;
    drop(text);
    // SAFETY: takes flags; the next child, not we, is in the new namespace.
    let unshared = check(unsafe { libc::unshare(libc::CLONE_NEWPID) });
    // SAFETY: one thread, so the child may use everything that the parent may.
    match unshared.and_then(|_| check(unsafe { libc::fork() })) {
        Ok(0) => {}
        Ok(_) => return Ok(()),
        Err(error) => {
            let message = format!("pid namespace: {error}");
            answer(&Err(message.clone()));
            return Err(message);
        }
    }
    let code = match detach()
        .map_err(|error| format!("detaching: {error}"))
        .and_then(|()| life::live(&task))
    {
        Ok(()) => 0,
        Err(message) => {
            answer(&Err(message));
            1
        }
    };
    std::process::exit(code);
}

/// No terminal, no folder, no descriptor of whoever started us.
fn detach() -> std::io::Result<()> {
    let null = birth::open("/dev/null", libc::O_RDWR)?;
    // SAFETY: numbers only. No Rust object owns a descriptor above 2 yet but `null`, which is dropped by number here and forgotten.
    unsafe {
        check(libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), 0))?;
        std::mem::forget(null);
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        check(libc::setsid())?;
        libc::umask(0o022);
        // Nobody reads our memory, not even another process of our user.
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0))?;
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 * 1024);
    }
    std::env::set_current_dir("/")
}

/// The one line on standard output, then its end.
fn answer(result: &Result<Vec<(String, Json)>, String>) {
    let line = match result {
        Ok(facts) => Json::Map(facts.clone()).line(),
        Err(message) => Json::Map(vec![("error".into(), Json::Text(message.clone()))]).line(),
    };
    // Whoever started us may have died meanwhile. That is no reason for the sandbox to end: its owner comes back.
    let mut out = std::io::stdout();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    if let Ok(null) = birth::open("/dev/null", libc::O_RDWR) {
        // SAFETY: numbers only.
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), 1) };
    }
}
