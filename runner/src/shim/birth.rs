//! From a task to a running PID 1: a child joins the control groups, makes the mounts and becomes the runtime, which starts PID 1 and exits.
//! PID 1 is then ours, because we are the init of the pid namespace that they are all born in. Then it is checked from outside.

use super::task::Task;
use super::{cgroup, mounts};
use crate::sys::{check, own, pipe};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

pub struct Birth {
    /// The child that becomes the runtime.
    pub pid: libc::pid_t,
    /// Gets one byte from the runner when its socket listens.
    pub ready: OwnedFd,
    /// What the child, the runtime and then the runner write as errors.
    pub errors: OwnedFd,
}

/// Starts the child. What goes wrong in it comes as text on `errors` and a status that is not 0.
pub fn start(task: &Task) -> io::Result<Birth> {
    let (ready, ready_in) = pipe()?;
    let (errors, errors_in) = pipe()?;
    // SAFETY: this process has one thread, so the child may use everything that the parent may.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let message = become_runtime(task, ready_in, &errors_in);
        let _ = crate::sys::write(errors_in.as_raw_fd(), message.as_bytes());
        // SAFETY: leaves without running the parent's destructors.
        unsafe { libc::_exit(125) };
    }
    Ok(Birth { pid, ready, errors })
}

/// Returns only with what failed.
fn become_runtime(task: &Task, ready: OwnedFd, errors: &OwnedFd) -> String {
    if let Err(message) = cgroup::join(&task.groups).and_then(|()| mounts::make(task)) {
        return message;
    }
    // The runtime hands descriptor 3 on to the runner; every other one of ours is closed by its flag. First out of the way, then in place.
    let errors = match above(errors).and_then(|errors| above(&ready).map(|ready| (errors, ready))) {
        // SAFETY: numbers only; nothing that is still needed has the number 3.
        Ok((errors, ready)) => check(unsafe { libc::dup2(ready.as_raw_fd(), 3) }).map(|_| errors),
        Err(error) => Err(error),
    };
    let errors = match errors {
        Ok(errors) => errors,
        Err(error) => return format!("descriptors: {error}"),
    };
    unblock_signals();
    let error = Command::new(format!("{}/{}", task.stage, mounts::RUNTIME))
        .arg0(&task.runtime)
        .args([
            "--root",
            &format!("{}/runtime", task.stage),
            "--cgroup-manager=disabled",
            "run",
            "--detach",
        ])
        .args(["--preserve-fds=1", "--bundle", &task.stage, &task.id])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        // A container must not be able to write to the runtime's binary through /proc/<pid>/exe, so runtimes run themselves a second time
        // from a read-only copy of their mount. Ours is one already, and this says so: it saves an exec and two mounts.
        .env("_LIBCONTAINER_CLONED_BINARY", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(errors))
        .exec();
    format!("{}: {error}", task.runtime)
}

/// Connects the network of PID 1. The program goes to the background when the interface is up; it stays our (adopted) child.
pub fn connect(task: &Task, argv: &[String], host_pid: u32, log: &OwnedFd) -> io::Result<libc::pid_t> {
    let mut words = argv
        .iter()
        .map(|word| word.replace("{pid}", &host_pid.to_string()));
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: as in `start`.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        // Its work is the sandbox's work: paid from the sandbox's limits.
        let failed = cgroup::join(&task.groups).and_then(|()| {
            let errors = above(log).map_err(|error| error.to_string())?;
            unblock_signals();
            let mut command = Command::new(&program);
            command
                .args(words)
                .env_clear()
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .current_dir("/");
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::from(errors));
            Err::<(), String>(format!("{program}: {}", command.exec()))
        });
        let _ = crate::sys::write(log.as_raw_fd(), failed.unwrap_err().as_bytes());
        // SAFETY: leaves without running the parent's destructors.
        unsafe { libc::_exit(125) };
    }
    Ok(pid)
}

/// Whom the runtime left behind: its number here, and its number on the host.
pub fn adopted() -> Result<(libc::pid_t, u32), String> {
    // /proc is the host's here: numbers in it are the host's, and `NSpid` has ours second.
    let me = fs::read_link("/proc/self").map_err(|error| format!("/proc/self: {error}"))?;
    let path = format!("/proc/self/task/{}/children", me.display());
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // Among helpers of the runtime that are about to go, it is the one that is PID 1 of a namespace below ours.
    for host in text
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse::<u32>().ok())
    {
        let Ok(status) = read_status(host) else { continue };
        let pids: Vec<&str> = field(&status, "NSpid")
            .unwrap_or_default()
            .split_ascii_whitespace()
            .collect();
        if let [.., ours, "1"] = pids[..]
            && pids.len() >= 3
            && let Ok(ours) = ours.parse()
        {
            return Ok((ours, host));
        }
    }
    Err(format!(
        "the runtime left [{}], and none is PID 1 of a sandbox",
        text.trim()
    ))
}

/// PID 1 is what was asked for, as the kernel tells it. A runtime that ignored a field of `config.json` (the filter travels in an
/// annotation, which another version may not know) must not go unnoticed: without these there is no sandbox.
pub fn verify(task: &Task, host_pid: u32) -> Result<(), String> {
    let status = read_status(host_pid)?;
    let first = task.first_id.to_string();
    let capabilities = format!("{:016x}", task.capabilities);
    let has = |name: &str| field(&status, name).unwrap_or("none").to_owned();
    let mine = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    let its = |name: &str| fs::read_link(format!("/proc/{host_pid}/ns/{name}")).ok();
    for (name, expected) in [("Seccomp", "2"), ("NoNewPrivs", "1")] {
        if field(&status, name) != Some(expected) {
            return Err(format!("PID 1 runs with {name} {}, not {expected}", has(name)));
        }
    }
    for name in ["CapBnd", "CapPrm", "CapEff"] {
        if field(&status, name) != Some(&capabilities) {
            return Err(format!(
                "PID 1 runs with {name} {}, not {capabilities}",
                has(name)
            ));
        }
    }
    for name in ["CapInh", "CapAmb"] {
        if field(&status, name) != Some("0000000000000000") {
            return Err(format!("PID 1 runs with {name} {}, not none", has(name)));
        }
    }
    for name in ["Uid", "Gid"] {
        if !field(&status, name).is_some_and(|ids| ids.split_ascii_whitespace().all(|id| id == first)) {
            return Err(format!("PID 1 runs with {name} {}, not {first}", has(name)));
        }
    }
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        if its(name).is_none() || its(name) == mine(name) {
            return Err(format!("PID 1 is in our {name} namespace"));
        }
    }
    Ok(())
}

/// Seconds are too coarse and a pid is used again: a process is named by its number and when it started, in ticks since boot.
pub fn start_time(host_pid: &str) -> Option<i64> {
    let stat = fs::read_to_string(format!("/proc/{host_pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the last one closes it. Field 22 is the 20th after it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

fn read_status(pid: u32) -> Result<String, String> {
    fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| format!("/proc/{pid}/status: {error}"))
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

fn unblock_signals() {
    // SAFETY: sigset_t is plain data that sigemptyset initialises.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// The same descriptor under a number that is in nobody's way.
fn above(fd: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: duplicating an open descriptor touches no memory.
    own(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) })
}

/// Opens a path as a descriptor that is closed at exec.
pub fn open(path: &str, flags: libc::c_int) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    // SAFETY: a C string that outlives the call.
    own(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600) })
}
