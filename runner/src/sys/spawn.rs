//! Starting a process, in the time of a system call.
//!
//! `clone(CLONE_VM | CLONE_VFORK)`: the child borrows our memory on a stack of its own while the calling thread sleeps,
//! until it has called execve or exited. No page table is copied, and a failure comes back through plain memory
//! instead of a pipe. What makes that sound:
//!
//! - the child runs only `child`, which allocates nothing, takes no lock, and makes raw system calls on data that was
//!   prepared before (file workers may run meanwhile: they never touch that data);
//! - all signals are blocked around the clone, so no handler of ours can run on the borrowed memory;
//! - descriptors, signal dispositions, ids and the working directory are the child's own (no CLONE_FILES, CLONE_SIGHAND,
//!   CLONE_FS), so nothing it changes there is ours;
//! - ids are changed with raw system calls: the C library's wrappers would try to change every thread that it knows.
//!
//! Rejected: fork (0.2 ms more, copies page tables), posix_spawn (no working directory, ids or limits).

use super::user::{self, User};
use crate::mark;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::RawFd;

pub struct Command {
    /// What to run, where that is not `argv[0]`.
    pub program: Option<CString>,
    pub argv: Vec<CString>,
    /// The whole environment, `NAME=value`.
    pub env: Vec<CString>,
    pub cwd: Option<CString>,
    pub user: Option<User>,
    /// One more supplementary group, or a limit, where the kernel lets us give it.
    pub mark: Option<u32>,
    /// Resource, soft and hard limit.
    pub limits: Vec<(u32, u64)>,
    /// Ours first, the child's number second. Everything else is closed.
    pub fds: Vec<(RawFd, RawFd)>,
    /// A terminal that becomes the controlling one.
    pub terminal: Option<RawFd>,
}

/// Which step failed, and with what.
#[derive(Debug)]
pub struct Failure {
    pub step: &'static str,
    pub errno: i32,
}

/// Starts `command` as the leader of a new session and group. Returns when it runs or could not be started.
pub fn spawn(command: &Command) -> Result<libc::pid_t, Failure> {
    let candidates = candidates(command);
    let argv: Vec<_> = command
        .argv
        .iter()
        .map(|arg| arg.as_ptr())
        .chain([std::ptr::null()])
        .collect();
    let env: Vec<_> = command
        .env
        .iter()
        .map(|arg| arg.as_ptr())
        .chain([std::ptr::null()])
        .collect();
    // For a script without `#!`, as execvp does: `sh <path> <args…>`.
    let mut script_argv = vec![c"sh".as_ptr(), std::ptr::null()];
    script_argv.extend_from_slice(argv.get(1..).unwrap_or(&[]));
    let user = command.user.as_ref().filter(|user| !user.is_current());
    let mut groups = match user {
        Some(user) => user.groups.clone(),
        None => user::current_groups(),
    };
    let by_limit = mark::by_limit();
    groups.extend(command.mark.filter(|_| !by_limit));
    let mut plan = Plan {
        candidates: &candidates,
        argv: &argv,
        script_argv: &mut script_argv,
        env: &env,
        cwd: command.cwd.as_deref(),
        user,
        groups: &groups,
        marked: command.mark.is_some() && !by_limit,
        limit: command.mark.filter(|_| by_limit),
        limits: &command.limits,
        fds: command.fds.clone(),
        terminal: command.terminal,
        step: "start",
        errno: 0,
    };
    let mut stack = vec![0u8; 32 * 1024];
    // SAFETY: see the head of this file. `plan` and `stack` live until clone returns, which CLONE_VFORK delays until
    // the child no longer uses them; the stack grows down from a 16-byte aligned top.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        let top = top.sub(top as usize % 16);
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(child, top.cast(), flags, (&raw mut plan).cast());
        let errno = super::errno();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        if pid < 0 {
            return Err(Failure { step: "start", errno });
        }
        pid
    };
    // Written by the child through the shared memory, behind the compiler's back.
    // SAFETY: `plan` is still ours and initialised.
    let (step, errno) = unsafe {
        (
            std::ptr::read_volatile(&plan.step),
            std::ptr::read_volatile(&plan.errno),
        )
    };
    if errno != 0 {
        // SAFETY: the child has exited; this takes away its zombie and nothing else.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        return Err(Failure { step, errno });
    }
    Ok(pid)
}

struct Plan<'a> {
    candidates: &'a [CString],
    argv: &'a [*const libc::c_char],
    script_argv: &'a mut [*const libc::c_char],
    env: &'a [*const libc::c_char],
    cwd: Option<&'a CStr>,
    user: Option<&'a User>,
    /// The mark is the last.
    groups: &'a [u32],
    marked: bool,
    /// The mark of a runner that marks by a limit.
    limit: Option<u32>,
    limits: &'a [(u32, u64)],
    fds: Vec<(RawFd, RawFd)>,
    terminal: Option<RawFd>,
    step: &'static str,
    errno: i32,
}

extern "C" fn child(plan: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the parent passes its `Plan` and sleeps, so this is the only reference in use.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    // SAFETY: only async-signal-safe calls on prepared data, as the head of this file explains.
    let (step, errno) = unsafe { become_command(plan) };
    plan.step = step;
    plan.errno = errno;
    // SAFETY: leaves this process without running any of the parent's destructors.
    unsafe { libc::_exit(127) }
}

/// Returns only when something failed.
unsafe fn become_command(plan: &mut Plan) -> (&'static str, i32) {
    macro_rules! step {
        ($name:literal, $call:expr) => {
            if $call < 0 {
                return ($name, *libc::__errno_location());
            }
        };
    }
    unsafe {
        step!("session", libc::setsid());
        if let Some(terminal) = plan.terminal {
            step!("terminal", libc::ioctl(terminal, libc::TIOCSCTTY, 0));
        }
        reset_signals();
        // A source that sits on someone's target number moves out of the way first.
        for index in 0..plan.fds.len() {
            let source = plan.fds[index].0;
            if plan.fds.iter().any(|(_, target)| *target == source) {
                let moved = libc::fcntl(source, libc::F_DUPFD_CLOEXEC, 512);
                step!("descriptors", moved);
                plan.fds[index].0 = moved;
            }
        }
        for (source, target) in &plan.fds {
            step!("descriptors", libc::dup2(*source, *target));
        }
        for (resource, value) in plan.limits {
            let limit = libc::rlimit64 {
                rlim_cur: *value,
                rlim_max: *value,
            };
            let none = std::ptr::null_mut::<libc::rlimit64>();
            step!(
                "limits",
                libc::syscall(libc::SYS_prlimit64, 0, *resource, &raw const limit, none)
            );
        }
        back_to_ordinary_priority();
        if let Some(mark) = plan.limit {
            let limit = [u64::from(mark); 2];
            // Refused only where it is lower already: then without.
            libc::syscall(libc::SYS_prlimit64, 0, mark::LIMIT, limit.as_ptr(), 0);
        }
        let set_groups = |count: usize| libc::syscall(libc::SYS_setgroups, count, plan.groups.as_ptr());
        // Not root, or an id that is not mapped here: then without.
        let marked = plan.marked && set_groups(plan.groups.len()) == 0;
        if let Some(user) = plan.user {
            if !marked {
                step!("user", set_groups(user.groups.len()));
            }
            step!(
                "user",
                libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid)
            );
            step!(
                "user",
                libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid)
            );
        }
        if let Some(cwd) = plan.cwd {
            step!("cwd", libc::chdir(cwd.as_ptr()));
        }
        let mut errno = libc::ENOENT;
        for path in plan.candidates {
            libc::execve(path.as_ptr(), plan.argv.as_ptr(), plan.env.as_ptr());
            match *libc::__errno_location() {
                libc::ENOENT | libc::ENOTDIR => continue,
                libc::ENOEXEC => {
                    plan.script_argv[1] = path.as_ptr();
                    libc::execve(c"/bin/sh".as_ptr(), plan.script_argv.as_ptr(), plan.env.as_ptr());
                    errno = libc::ENOEXEC;
                }
                // Remembered, as execvp does, while a later folder of PATH may still have it.
                libc::EACCES => errno = libc::EACCES,
                other => return ("exec", other),
            }
        }
        ("exec", errno)
    }
}

/// Ignored signals survive execve; the runner's own ignored SIGPIPE must not.
unsafe fn reset_signals() {
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        for signal in 1..32 {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// The runner may have been given a higher priority than what it runs. To give one up takes no right.
unsafe fn back_to_ordinary_priority() {
    unsafe {
        // The raw call answers 20 - nice, so that no answer looks like an error.
        if libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) > 20 {
            libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, 0);
        }
    }
}

/// Where execve should look: the path itself, or each folder of the command's own PATH.
fn candidates(command: &Command) -> Vec<CString> {
    let Some(program) = command.program.as_ref().or(command.argv.first()) else {
        return Vec::new();
    };
    if program.as_bytes().contains(&b'/') {
        return vec![program.clone()];
    }
    let path = command
        .env
        .iter()
        .find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
    let path = path.unwrap_or(b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    path.split(|byte| *byte == b':')
        .map(|folder| if folder.is_empty() { &b"."[..] } else { folder })
        .filter_map(|folder| CString::new([folder, b"/", program.as_bytes()].concat()).ok())
        .collect()
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        io::Error::from_raw_os_error(failure.errno)
    }
}
