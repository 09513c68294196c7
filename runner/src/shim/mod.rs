//! `runner shim`: the parent, reaper and witness of one sandbox, outliving whoever started it.
//!
//! ```text
//! launcher ─ setup ─► stage 0 ─ fork into a new pid namespace ─► shim = PID 1 there              (stage 0 exits)
//!                                                                 │  mounts, control groups, a network, crun: `waiting`
//!          ─ task ───────────────────────────────────────────────►│  limits, disk, config.json: `birth`
//!                                                                 ├─ crun, which starts the runner and exits
//!                                                                 ├─ runner = PID 1 of the sandbox's own pid namespace, adopted
//!                                                                 └─ pasta, where there is a network, adopted
//! ```
//!
//! Two messages, because most of what a sandbox needs is the same for all of them and can be done before one is asked for. Until the task comes,
//! nothing of any sandbox exists: no file, no id, no name. A shim whose input ends before takes its preparations away and goes.
//!
//! Why a pid namespace around the sandbox's own: the kernel then gives us all we need, whatever the code inside does. Orphans come to us
//! (PID 1 of this machine may take seconds to reap them). `kill(-1)` reaches every process, however often it forked or called setsid. And
//! if we die, however we die, the kernel kills all of them: a sandbox without its witness cannot exist. (Rejected: PR_SET_PDEATHSIG, which the
//! runtime's own exit would trigger; a pipe that the runner watches, which trusts the sandbox; a second process as init, which costs memory.)
//!
//! We are outside the sandbox's control groups, so neither its limits nor their killer ever hit the witness.
//!
//! It says one line on standard output: ready, or why not. After that it has one Unix socket, in a folder that no sandbox sees: a connection is greeted,
//! told the end as one line and is then closed. It may send `kill`, and `hold`, which stops every process in the sandbox until that connection says
//! `release` or ends. A connection names this very sandbox, a pid only a number that is used again.

mod cgroup;
mod failure;
mod gvisor;
mod host_proc;
mod idmap;
mod json;
pub mod launcher;
mod lifecycle;
pub(crate) mod limited_disk;
pub(crate) mod mounts;
mod network;
mod open_network;
mod poll;
mod setup;
mod staging;
mod task;
pub mod userns;
mod verify;

use crate::sys::check;
use failure::Failure;
use json::Json;
use lifecycle::prepared::Waiting;
use setup::Setup;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use task::Task;

/// A task is a few kilobytes; whatever sends more is not our engine.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// What `ps` shows of a shim that has no sandbox yet, and of one that has.
const SPARE: &std::ffi::CStr = c"shim-spare";
const WITNESS: &std::ffi::CStr = c"shim";

/// Returns in stage 0 only, or where not even that came to be.
pub fn run() -> Result<(), String> {
    let failed = |message: String| -> String {
        answer(&Err(message.clone().into()));
        message
    };
    let text = next_text().and_then(|text| text.ok_or_else(|| "setup: there is none".to_owned()));
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
        .map_err(|error| format!("detaching: {error}").into())
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
    let mut waiting = Waiting::prepare(setup)?;
    let task = match waiting
        .task()
        .and_then(|text| text.map(|text| Task::parse(&text, setup.account)).transpose())
    {
        Ok(Some(task)) => task,
        Ok(None) => return Ok(waiting.give_up()?),
        Err(message) => return Err(waiting.failed(message).into()),
    };
    name(WITNESS);
    let null = host_proc::open("/dev/null", libc::O_RDONLY).map_err(|error| format!("/dev/null: {error}"));
    // SAFETY: numbers only. The task was the last that comes from there.
    if let Err(message) = null.map(|null| unsafe { libc::dup2(null.as_raw_fd(), 0) }) {
        return Err(waiting.failed(message).into());
    }
    lifecycle::supervise::live(&task, waiting)
}

/// No terminal, no folder, no descriptor of whoever started us but the two that we talk over.
fn detach() -> io::Result<()> {
    // SAFETY: numbers only. No Rust object owns a descriptor above 2 yet.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        check(libc::setsid())?;
        libc::umask(0o022);
        // Nobody reads our memory, not even another process of our user.
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

/// Length (u32, big-endian) and text; none when the input ends before one begins. Nothing is read beyond it: who waits for the next one polls the
/// descriptor, and would wait in vain for what is in a buffer already.
fn next_message() -> Result<Option<Vec<u8>>, String> {
    let mut length = [0; 4];
    match fill(&mut length).map_err(|error| format!("message: {error}"))? {
        0 => return Ok(None),
        4 => {}
        _ => return Err("message: cut off".to_owned()),
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_MESSAGE {
        return Err("message: too long".to_owned());
    }
    let mut bytes = vec![0; length];
    match fill(&mut bytes).map_err(|error| format!("message: {error}"))? {
        read if read == length => Ok(Some(bytes)),
        _ => Err("message: cut off".to_owned()),
    }
}

fn next_text() -> Result<Option<String>, String> {
    let text = next_message()?.map(String::from_utf8).transpose();
    text.map_err(|_| "message: not UTF-8".to_owned())
}

/// How much of it was there before the input ended.
fn fill(bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match crate::sys::read(0, &mut bytes[filled..])? {
            Some(0) => break,
            Some(count) => filled += count,
            None => return Err(io::ErrorKind::WouldBlock.into()),
        }
    }
    Ok(filled)
}

/// The one line on standard output, then its end.
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
    // Whoever started us may have died meanwhile. That is no reason for the sandbox to end: its owner comes back.
    let mut out = io::stdout();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    if let Ok(null) = host_proc::open("/dev/null", libc::O_RDWR) {
        // SAFETY: numbers only.
        unsafe { libc::dup2(null.as_raw_fd(), 1) };
    }
}
