//! A shim before it has a sandbox: everything that takes long and is the same for all of them has been done.
//!
//! The runtime is one of these things. It has been started, in the groups and in a network of its own, and reads `config.json`, which is a pipe:
//! so it waits there, loaded and linked, until there is something to read. It knows nothing of any sandbox yet.

use crate::shim::cgroup::Groups;
use crate::shim::host_proc::HostProc;
use crate::shim::idmap::Unmapped;
use crate::shim::poll::{poll, signal_descriptor};
use crate::shim::setup::Setup;
use crate::shim::{gvisor, network, next_text, staging, userns};
use crate::sys::{check, own, pass, pipe, set_nonblocking, socket_pair};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

pub struct Waiting {
    pub host: HostProc,
    /// Our own number on the host, and when we started.
    pub me: u32,
    pub start_time: i64,
    pub signals: OwnedFd,
    pub groups: Groups,
    pub runtime: Runtime,
    /// Makes the sandbox's user namespace, once.
    pub users: Option<Unmapped>,
    pub account: bool,
}

pub struct Runtime {
    pub pid: libc::pid_t,
    /// Becomes the runner's: bound when the sandbox has a name.
    pub listener: OwnedFd,
    /// In a gVisor: the listener stays ours, and the runner gets the other end of this.
    pub inside: Option<OwnedFd>,
    /// Gets one byte from the runner when it listens.
    pub ready: OwnedFd,
    /// What the runtime and then the runner write as errors.
    pub errors: OwnedFd,
}

impl Waiting {
    pub fn prepare(setup: &Setup) -> Result<Waiting, String> {
        let signals = signal_descriptor().map_err(|error| format!("signals: {error}"))?;
        let host = HostProc::open().map_err(|error| format!("/proc: {error}"))?;
        let me = host.me()?;
        let start_time = host.start_time(me).ok_or("/proc: no start time")?;
        let groups = Groups::make(&setup.groups, format!("{me}-{start_time}"))?;
        let started = if setup.account {
            prepare_account(setup, &groups)
        } else {
            prepare_root(setup, &groups)
        };
        match started {
            Ok((users, runtime)) => Ok(Waiting {
                host,
                me,
                start_time,
                signals,
                groups,
                runtime,
                users: Some(users),
                account: setup.account,
            }),
            Err(message) => Err(match groups.remove() {
                Ok(()) => message,
                Err(also) => format!("{message}; and then {also}"),
            }),
        }
    }

    /// Waits for the text of the task; none when nobody will send one any more.
    pub fn task(&mut self) -> Result<Option<String>, String> {
        loop {
            let [signalled, said] = poll([self.signals.as_raw_fd(), 0], None);
            if said {
                return next_text();
            }
            if signalled && self.told_to_go() {
                return Ok(None);
            }
        }
    }

    /// Nothing of a sandbox exists: only our own preparations are taken away.
    pub fn give_up(mut self) -> Result<(), String> {
        self.users = None;
        kill_everyone();
        // SAFETY: reaps our own children, without looking at how they ended.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0 {}
        self.groups.remove()
    }

    /// The message, after everything was taken away; with what else went wrong then.
    pub fn failed(self, message: String) -> String {
        match self.give_up() {
            Ok(()) => message,
            Err(also) => format!("{message}; and then {also}"),
        }
    }

    fn told_to_go(&self) -> bool {
        let mut asked = false;
        // SAFETY: signalfd_siginfo is plain data, valid for any bytes; the read is bounded by its size.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of_val(&info);
            while libc::read(self.signals.as_raw_fd(), (&raw mut info).cast(), size) == size as isize {
                asked |= info.ssi_signo as i32 == libc::SIGTERM;
            }
        }
        asked
    }
}

fn prepare_root(setup: &Setup, groups: &Groups) -> Result<(Unmapped, Runtime), String> {
    staging::make(setup)?;
    let users = Unmapped::make().map_err(|error| format!("user namespace: {error}"))?;
    let runtime = network::inside(|| {
        let listener = socket()?;
        if !setup.gvisor {
            return start(|pipes| become_runtime(setup, groups, pipes, &listener))
                .map(|started| started.with(listener, None));
        }
        let (inside, theirs) = socket_pair()?;
        set_nonblocking(inside.as_raw_fd())?;
        start(|pipes| become_runtime(setup, groups, pipes, &theirs))
            .map(|started| started.with(listener, Some(inside)))
    });
    runtime
        .map(|runtime| (users, runtime))
        .map_err(|error| format!("starting: {error}"))
}

/// Only the child enters the empty network, because nobody but root of the host can leave one; it hands out the socket that it makes there.
fn prepare_account(setup: &Setup, groups: &Groups) -> Result<(Unmapped, Runtime), String> {
    let at = |error: io::Error| format!("starting: {error}");
    userns::check_map()?;
    staging::make(setup)?;
    let users = Unmapped::make().map_err(|error| format!("user namespace: {error}"))?;
    let (here, there) = socket_pair().map_err(at)?;
    let started = start(|pipes| {
        let handed = network::enter().and_then(|()| socket()).and_then(|listener| {
            pass::send(&there, &listener)?;
            Ok(listener)
        });
        match handed {
            Ok(listener) => become_runtime(setup, groups, pipes, &listener),
            Err(error) => format!("network: {error}"),
        }
    })
    .map_err(at)?;
    drop(there);
    match pass::receive(&here).map_err(at)? {
        Some(listener) => Ok((users, started.with(listener, None))),
        None => {
            let mut text = [0; 1024];
            let length = crate::sys::read(started.errors.as_raw_fd(), &mut text)
                .ok()
                .flatten();
            Err(String::from_utf8_lossy(&text[..length.unwrap_or(0)]).into_owned())
        }
    }
}

/// Everything in our pid namespace but ourselves.
pub fn kill_everyone() {
    // SAFETY: takes integers. We are PID 1 of a namespace (`run` forked into it), so -1 is that namespace and never the host.
    unsafe {
        if libc::getpid() == 1 {
            libc::kill(-1, libc::SIGKILL);
        }
    }
}

/// Starts the child that becomes the runtime. What goes wrong in it comes as text on `errors` and a status that is not 0.
fn start(become_it: impl FnOnce(&Pipes) -> String) -> io::Result<Started> {
    let (ready, ready_in) = pipe()?;
    let (errors, errors_in) = pipe()?;
    // SAFETY: this process has one thread, so the child may use everything that the parent may.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let pipes = Pipes {
            ready: ready_in,
            errors: errors_in,
        };
        let message = become_it(&pipes);
        let _ = crate::sys::write(pipes.errors.as_raw_fd(), message.as_bytes());
        // SAFETY: leaves without running the parent's destructors.
        unsafe { libc::_exit(125) };
    }
    Ok(Started { pid, ready, errors })
}

/// The child's ends.
struct Pipes {
    ready: OwnedFd,
    errors: OwnedFd,
}

/// Ours.
struct Started {
    pid: libc::pid_t,
    ready: OwnedFd,
    errors: OwnedFd,
}

impl Started {
    fn with(self, listener: OwnedFd, inside: Option<OwnedFd>) -> Runtime {
        let Started { pid, ready, errors } = self;
        Runtime {
            pid,
            listener,
            inside,
            ready,
            errors,
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers.
    own(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })
}

/// Returns only with what failed.
fn become_runtime(
    setup: &Setup,
    groups: &Groups,
    Pipes { ready, errors }: &Pipes,
    socket: &OwnedFd,
) -> String {
    let outcome = groups
        .join()
        .and_then(|()| streams(ready, socket, errors).map_err(|error| format!("descriptors: {error}")));
    let [input, errors, output] = match outcome {
        Ok(streams) => streams,
        Err(message) => return message,
    };
    unblock_signals();
    if setup.gvisor
        && let Err(error) = gvisor::wait_for_config()
    {
        return format!("{}: {error}", staging::CONFIG);
    }
    let error = Command::new(format!("{}/{}", setup.stage, staging::RUNTIME))
        .arg0(&setup.runtime)
        .args(&setup.arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        // A container must not be able to write to the runtime's binary through /proc/<pid>/exe, so runtimes run themselves a second time
        // from a read-only copy of their mount. Ours is one already, and this says so: it saves an exec and two mounts.
        .env("_LIBCONTAINER_CLONED_BINARY", "1")
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .exec();
    format!("{}: {error}", setup.runtime)
}

/// The runtime hands the descriptors 3 and 4 on to the runner; every other one of ours is closed by its flag. Its standard streams are pipes, never
/// a device of the host: a runtime gives them to the sandbox's root.
fn streams(ready: &OwnedFd, socket: &OwnedFd, errors: &OwnedFd) -> io::Result<[OwnedFd; 3]> {
    let (input, _) = pipe()?;
    let [input, ready, socket] = [above(&input)?, above(ready)?, above(socket)?];
    let [errors, output] = [above(errors)?, above(errors)?];
    // SAFETY: numbers only; nothing that is still needed has the numbers 3 and 4.
    unsafe {
        check(libc::dup2(ready.as_raw_fd(), 3))?;
        check(libc::dup2(socket.as_raw_fd(), 4))?;
    }
    Ok([input, errors, output])
}

pub fn unblock_signals() {
    // SAFETY: sigset_t is plain data that sigemptyset initialises.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// The same descriptor under a number that is in nobody's way.
pub fn above(fd: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: duplicating an open descriptor touches no memory.
    own(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) })
}
