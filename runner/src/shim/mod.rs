//! `runner shim`: the parent and reaper of one sandbox. It outlives the process that started it.
//!
//! ```text
//! launcher ─ setup ─► stage 0 ─ fork into a new pid namespace ─► shim = PID 1 there   (stage 0 exits)
//!                                                                 │  mounts, control groups, network, crun: `prepared`
//!          ─ task ───────────────────────────────────────────────►│  limits, disk, config.json: `start`
//!                                                                 ├─ crun, which starts the runner and exits
//!                                                                 ├─ runner = PID 1 of the sandbox, adopted
//!                                                                 └─ pasta, if there is a network, adopted
//! ```
//!
//! There are two messages because most of the work is the same for all sandboxes and can be done in advance.
//! Until the task arrives, nothing of a sandbox exists: no file, no id, no name. If its input ends before that,
//! the shim cleans up and exits.
//!
//! The shim has a pid namespace around the sandbox's own, so that control does not depend on the code inside.
//! The shim adopts orphans. `kill(-1)` reaches every process, regardless of forks and setsid. If the shim dies,
//! the kernel kills the sandbox. Rejected: PR_SET_PDEATHSIG, which the runtime's exit would trigger; a pipe that
//! the runner watches, which trusts the sandbox; a separate init process, which costs memory.
//!
//! The shim is outside the sandbox's control groups, so the sandbox's limits and the OOM killer do not hit it.
//!
//! The shim prints one line: ready, or an error. Then it serves a Unix socket in a folder that no sandbox sees.
//! It greets each connection, sends the end record as one line, and closes it. A client may send `kill`, and
//! `hold`, which freezes the sandbox until that client sends `release` or disconnects. A connection identifies
//! this sandbox reliably; a pid can be reused.

mod cgroup;
mod failure;
mod gvisor;
pub(crate) mod host_proc;
mod idmap;
mod json;
pub mod launcher;
mod lifecycle;
pub(crate) mod limited_disk;
pub(crate) mod mounts;
pub(crate) mod network;
mod open_network;
pub(crate) mod poll;
mod setup;
mod staging;
mod task;
pub mod userns;
mod verify;
mod writable_programs;

use crate::sys::{self, check};
use failure::Failure;
use json::Json;
use lifecycle::prepared::Prepared;
use setup::Setup;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use task::Task;

/// A task has a few kilobytes.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// Process names in `ps`, without and with a sandbox.
const SPARE: &std::ffi::CStr = c"shim-spare";
const WITNESS: &std::ffi::CStr = c"shim";

/// Returns only in stage 0.
pub fn run() -> Result<(), String> {
    let failed = |message: String| -> String {
        answer(&Err(message.clone().into()));
        message
    };
    let text = next_text().and_then(|text| text.ok_or_else(|| "setup: missing".to_owned()));
    let setup = text.and_then(|text| Setup::parse(&text)).map_err(failed)?;
    // SAFETY: takes flags; the next child, not we, is in the new namespace.
    let unshared = check(unsafe { libc::unshare(libc::CLONE_NEWPID) });
    // SAFETY: one thread, so the child may use everything that the parent may.
    match unshared.and_then(|_| check(unsafe { libc::fork() })) {
        Ok(0) => {}
        Ok(_) => return Ok(()),
        Err(error) => return Err(failed(format!("pid namespace: {error}"))),
    }
    let code = match detach()
        .map_err(|error| format!("cannot detach from the launcher: {error}").into())
        .and_then(|()| live(&setup))
    {
        Ok(()) => 0,
        Err(failure) => {
            answer(&Err(failure));
            1
        }
    };
    std::process::exit(code);
}

fn live(setup: &Setup) -> Result<(), Failure> {
    let mut prepared = Prepared::prepare(setup)?;
    let task = match prepared
        .task()
        .and_then(|text| text.map(|text| Task::parse(&text, setup.account)).transpose())
    {
        Ok(Some(task)) => task,
        Ok(None) => return Ok(prepared.give_up()?),
        Err(message) => return Err(prepared.failed(message).into()),
    };
    name(WITNESS);
    let null = host_proc::open("/dev/null", libc::O_RDONLY).map_err(|error| format!("/dev/null: {error}"));
    // SAFETY: numbers only. The task was the last message on standard input.
    if let Err(message) = null.map(|null| unsafe { libc::dup2(null.as_raw_fd(), 0) }) {
        return Err(prepared.failed(message).into());
    }
    lifecycle::supervise::live(&task, prepared)
}

/// Drops the terminal, working directory and descriptors of the launcher, except standard input and output.
fn detach() -> io::Result<()> {
    // SAFETY: numbers only. No Rust object owns a descriptor above 2 yet.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        check(libc::setsid())?;
        libc::umask(0o022);
        // Other processes of this user must not read the shim's memory.
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0))?;
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 * 1024);
    }
    name(SPARE);
    std::env::set_current_dir("/")
}

fn name(name: &std::ffi::CStr) {
    // SAFETY: a C string constant.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Reads a length (u32, big-endian) and that many bytes; `None` at the end of the input. Reads nothing
/// beyond, because callers poll the descriptor for the next message.
fn next_message() -> Result<Option<Vec<u8>>, String> {
    let mut length = [0; 4];
    match sys::read_full(0, &mut length).map_err(|error| format!("message: {error}"))? {
        0 => return Ok(None),
        4 => {}
        _ => return Err("message: truncated".to_owned()),
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_MESSAGE {
        return Err("message: too long".to_owned());
    }
    let mut bytes = vec![0; length];
    match sys::read_full(0, &mut bytes).map_err(|error| format!("message: {error}"))? {
        read if read == length => Ok(Some(bytes)),
        _ => Err("message: truncated".to_owned()),
    }
}

fn next_text() -> Result<Option<String>, String> {
    let text = next_message()?.map(String::from_utf8).transpose();
    text.map_err(|_| "message: not UTF-8".to_owned())
}

/// Prints the response line and closes standard output.
fn answer(result: &Result<Vec<(String, Json)>, Failure>) {
    let line = match result {
        Ok(facts) => Json::Map(facts.clone()).line(),
        Err(failure) => {
            let errno = failure
                .errno
                .map_or(Json::Null, |errno| Json::Number(errno.into()));
            Json::Map(vec![
                ("error".into(), Json::Text(failure.message.clone())),
                ("errno".into(), errno),
            ])
            .line()
        }
    };
    // The launcher may be dead. The sandbox continues, because its owner can reconnect.
    let mut out = io::stdout();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    if let Ok(null) = host_proc::open("/dev/null", libc::O_RDWR) {
        // SAFETY: numbers only.
        unsafe { libc::dup2(null.as_raw_fd(), 1) };
    }
}
