//! A prepared shim, before it has a sandbox. Everything slow that is the same for all sandboxes is done.
//!
//! That includes the runtime: it is already started in its control groups and network, and blocks on
//! `config.json`, which is a pipe. It knows nothing of a sandbox yet.

use crate::egress::Unbound;
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

pub struct Prepared {
    pub host: HostProc,
    /// The shim's pid on the host, and its start time.
    pub me: u32,
    pub start_time: i64,
    pub signals: OwnedFd,
    pub groups: Groups,
    pub runtime: Runtime,
    /// Creates the sandbox's user namespace, once.
    pub users: Option<Unmapped>,
    pub account: bool,
}

pub struct Runtime {
    pub pid: libc::pid_t,
    /// Becomes the runner's socket. Bound once the sandbox has a name.
    pub listener: OwnedFd,
    /// For gVisor: the shim keeps the listener, and the runner gets the other end of this socket.
    pub inside: Option<OwnedFd>,
    /// Sockets of the sandbox's network, for a network with a policy.
    pub egress: Unbound,
    /// The runner writes one byte when it listens.
    pub ready: OwnedFd,
    /// Error output of the runtime, then of the runner.
    pub errors: OwnedFd,
}

impl Prepared {
    pub fn prepare(setup: &Setup) -> Result<Prepared, String> {
        let signals =
            signal_descriptor().map_err(|error| format!("cannot open a signal descriptor: {error}"))?;
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
            Ok((users, runtime)) => Ok(Prepared {
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
                Err(also) => format!("{message}; cleanup also failed: {also}"),
            }),
        }
    }

    /// Waits for the task. `None`: the input ended without one.
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

    /// Removes the preparations. No sandbox exists yet.
    pub fn give_up(mut self) -> Result<(), String> {
        self.users = None;
        kill_all();
        // SAFETY: reaps our own children, without looking at how they ended.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0 {}
        self.groups.remove()
    }

    /// Cleans up and returns the message, with errors of the cleanup.
    pub fn failed(self, message: String) -> String {
        match self.give_up() {
            Ok(()) => message,
            Err(also) => format!("{message}; cleanup also failed: {also}"),
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
        let egress = Unbound::open()?;
        if !setup.gvisor {
            return start(|pipes| become_runtime(setup, groups, pipes, &listener))
                .map(|started| started.with(listener, None, egress));
        }
        let (inside, theirs) = socket_pair()?;
        set_nonblocking(inside.as_raw_fd())?;
        start(|pipes| become_runtime(setup, groups, pipes, &theirs))
            .map(|started| started.with(listener, Some(inside), egress))
    });
    runtime
        .map(|runtime| (users, runtime))
        .map_err(|error| format!("cannot start the runtime: {error}"))
}

/// Only the child enters the empty network, because only root of the host can leave one. The child passes
/// out the sockets that it creates there.
fn prepare_account(setup: &Setup, groups: &Groups) -> Result<(Unmapped, Runtime), String> {
    let at = |error: io::Error| format!("cannot start the runtime: {error}");
    userns::check_map()?;
    staging::make(setup)?;
    let users = Unmapped::make().map_err(|error| format!("user namespace: {error}"))?;
    let (here, there) = socket_pair().map_err(at)?;
    let started = start(|pipes| {
        let handed = network::enter().and_then(|()| socket()).and_then(|listener| {
            let egress = Unbound::open()?;
            let mut all = vec![listener.as_raw_fd()];
            all.extend(egress.descriptors().iter().map(|fd| fd.as_raw_fd()));
            pass::send_all(there.as_raw_fd(), b"x", &all)?;
            Ok(listener)
        });
        match handed {
            Ok(listener) => become_runtime(setup, groups, pipes, &listener),
            Err(error) => format!("network: {error}"),
        }
    })
    .map_err(at)?;
    drop(there);
    let mut handed = pass::receive_all(&here).map_err(at)?.into_iter();
    match (handed.next(), Unbound::from_descriptors(handed.collect())) {
        (Some(listener), Some(egress)) => Ok((users, started.with(listener, None, egress))),
        _ => {
            let mut text = [0; 1024];
            let length = crate::sys::read(started.errors.as_raw_fd(), &mut text)
                .ok()
                .flatten();
            Err(String::from_utf8_lossy(&text[..length.unwrap_or(0)]).into_owned())
        }
    }
}

/// Kills everything in the shim's pid namespace except the shim.
pub fn kill_all() {
    // SAFETY: takes integers. We are PID 1 of a namespace (`run` forked into it), so -1 is that namespace
    // and never the host.
    unsafe {
        if libc::getpid() == 1 {
            libc::kill(-1, libc::SIGKILL);
        }
    }
}

/// Forks the child that becomes the runtime. On failure it writes the reason to `errors` and exits with a
/// non-zero status.
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

/// The parent's ends.
struct Started {
    pid: libc::pid_t,
    ready: OwnedFd,
    errors: OwnedFd,
}

impl Started {
    fn with(self, listener: OwnedFd, inside: Option<OwnedFd>, egress: Unbound) -> Runtime {
        let Started { pid, ready, errors } = self;
        Runtime {
            pid,
            listener,
            inside,
            egress,
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

/// Returns only on failure, with the reason.
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
    let arguments = match setup.gvisor {
        true => gvisor::arguments(&setup.arguments),
        false => Ok(setup.arguments.clone()),
    };
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => return format!("network of gVisor: {error}"),
    };
    let error = Command::new(format!("{}/{}", setup.stage, staging::RUNTIME))
        .arg0(&setup.runtime)
        .args(&arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        // Runtimes re-execute themselves from a read-only copy, so that a container cannot overwrite the
        // binary through /proc/<pid>/exe. This binary is already on a read-only mount. The variable saves an
        // exec and two mounts.
        .env("_LIBCONTAINER_CLONED_BINARY", "1")
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .exec();
    format!("{}: {error}", setup.runtime)
}

/// The runtime passes descriptors 3 and 4 to the runner; all others are close-on-exec. Its standard streams
/// are pipes, never devices of the host, because a runtime changes their owner to the sandbox's root.
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

/// Duplicates the descriptor to a number that does not collide with 0 to 4.
pub fn above(fd: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: duplicating an open descriptor touches no memory.
    own(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) })
}
