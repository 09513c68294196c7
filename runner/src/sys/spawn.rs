//! Starts a process without waiting for its execve.
//!
//! `clone(CLONE_VM)`: the child uses the runner's memory, on its own stack, until execve or exit. No page
//! table is
//! copied. The runner never waits for it: once the child has the sandbox's user id, code in the sandbox can stop
//! it with SIGSTOP. Instead the child holds one end of a pipe, the *gate*, which the kernel closes at execve or
//! exit. The event loop watches the other end. This is sound because:
//!
//! - The child uses only its `Plan`, which the runner does not touch, and frees only after the gate is closed. By
//!   then the child has released the shared memory.
//! - The child makes raw system calls (`raw`), because it shares `errno` with the running parent thread. It does
//!   not allocate and takes no lock.
//! - All signals are blocked around the clone, so no signal handler runs in the shared memory.
//! - Descriptors, signal dispositions, ids and working directory are the child's own (no CLONE_FILES,
//!   CLONE_SIGHAND, CLONE_FS). Before it changes its user, the child closes all other descriptors, so a stopped
//!   child holds nothing open.
//!
//! Rejected: CLONE_VFORK (waits), fork (0.2 ms more, copies page tables), posix_spawn (waits; cannot set working
//! directory, ids or limits).

use super::raw;
use super::user::{self, User};
use crate::process::marks;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

pub struct Command {
    /// The program, if it is not `argv[0]`.
    pub program: Option<CString>,
    pub argv: Vec<CString>,
    /// The complete environment, as `NAME=value`.
    pub env: Vec<CString>,
    pub cwd: Option<CString>,
    pub user: Option<User>,
    /// The process mark (`process::marks`), applied where the kernel allows it.
    pub mark: Option<u32>,
    /// Resource, and its value as soft and hard limit.
    pub limits: Vec<(u32, u64)>,
    /// The parent's descriptor and its number in the child. All others are closed.
    pub fds: Vec<(RawFd, RawFd)>,
    /// Becomes the controlling terminal.
    pub terminal: Option<RawFd>,
}

/// The step that failed, and its errno.
#[derive(Debug, PartialEq)]
pub struct Failure {
    pub step: &'static str,
    pub errno: i32,
}

/// A child that may not have executed its program yet.
pub struct Starting {
    pub pid: libc::pid_t,
    gate: OwnedFd,
    /// Owned by the child until the gate is closed.
    plan: *mut Plan,
}

/// Starts `command` as leader of a new session and process group.
pub fn spawn(command: Command) -> Result<Starting, Failure> {
    let failed = |error: io::Error| Failure {
        step: "start",
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    let (gate, theirs) = super::pipe().map_err(failed)?;
    super::set_nonblocking(gate.as_raw_fd()).map_err(failed)?;
    let plan = Plan::new(&command, theirs.as_raw_fd()).map_err(failed)?;
    let top = plan.memory.stack();
    let plan = Box::into_raw(plan);
    // SAFETY: see the head of this file. `plan` and its memory stay where they are until the child has ended
    // or no longer has our memory.
    let (pid, errno) = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let pid = libc::clone(child, top, libc::CLONE_VM | libc::SIGCHLD, plan.cast());
        let errno = super::errno();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        (pid, errno)
    };
    if pid < 0 {
        // SAFETY: there is no child that could use it.
        drop(unsafe { Box::from_raw(plan) });
        return Err(Failure { step: "start", errno });
    }
    Ok(Starting { pid, gate, plan })
}

impl Starting {
    /// Becomes readable when the start is over.
    pub fn gate(&self) -> RawFd {
        self.gate.as_raw_fd()
    }

    /// The result of the start, or `self` while it is in progress. A child that was killed before execve
    /// counts as started.
    pub fn outcome(self) -> Result<Result<(), Failure>, Starting> {
        // Nothing is written to the gate, so a read returns the end or would block.
        if !matches!(super::read(self.gate(), &mut [0]), Ok(Some(0))) {
            return Err(self);
        }
        // SAFETY: only the child had the other end, so it has given up our memory.
        let plan = unsafe { Box::from_raw(self.plan) };
        match plan.errno.load(Ordering::Acquire) {
            0 => Ok(Ok(())),
            errno => Ok(Err(Failure {
                step: STEPS[plan.step.load(Ordering::Acquire)],
                errno,
            })),
        }
    }
}

const STEPS: [&str; 8] = [
    "start",
    "session",
    "terminal",
    "descriptors",
    "limits",
    "user",
    "cwd",
    "exec",
];
const SESSION: usize = 1;
const TERMINAL: usize = 2;
const DESCRIPTORS: usize = 3;
const LIMITS: usize = 4;
const USER: usize = 5;
const CWD: usize = 6;
const EXEC: usize = 7;

struct Plan {
    /// Contains the stack and everything that the pointers below refer to.
    memory: Memory,
    candidates: Pointers,
    argv: Pointers,
    /// For a script without `#!`, like execvp: `sh <path> <args…>`.
    script_argv: Pointers,
    env: Pointers,
    cwd: Option<*const libc::c_char>,
    user: Option<User>,
    /// The mark is the last one.
    groups: Vec<u32>,
    marked: bool,
    /// The mark as a limit, if the runner cannot set groups.
    limit: Option<u32>,
    limits: Vec<(u32, u64)>,
    fds: Vec<(RawFd, RawFd)>,
    /// The child's descriptor numbers, in ascending order.
    targets: Vec<RawFd>,
    terminal: Option<RawFd>,
    gate: RawFd,
    step: AtomicUsize,
    errno: AtomicI32,
}

impl Plan {
    fn new(command: &Command, gate: RawFd) -> io::Result<Box<Plan>> {
        let found = candidates(command);
        let argv: Vec<&CStr> = command.argv.iter().map(CString::as_c_str).collect();
        let rest = argv.get(1..).unwrap_or(&[]);
        let script: Vec<&CStr> = [c"sh", c""].into_iter().chain(rest.iter().copied()).collect();
        let env: Vec<&CStr> = command.env.iter().map(CString::as_c_str).collect();
        let candidates: Vec<&CStr> = found.iter().map(CString::as_c_str).collect();
        let cwd: Vec<&CStr> = command.cwd.iter().map(CString::as_c_str).collect();
        let lists = [&candidates[..], &argv, &script, &env, &cwd];
        let mut memory = Memory::new(lists.iter().map(|list| Memory::needs(list)).sum())?;
        let [candidates, argv, script_argv, env, cwd] = lists.map(|list| memory.put(list));
        let user = command.user.clone().filter(|user| !user.is_current());
        let mut groups = match &user {
            Some(user) => user.groups.clone(),
            None => user::current_groups(),
        };
        let by_limit = marks::by_limit();
        groups.extend(command.mark.filter(|_| !by_limit));
        let mut targets: Vec<RawFd> = command.fds.iter().map(|(_, target)| *target).collect();
        targets.sort_unstable();
        Ok(Box::new(Plan {
            memory,
            candidates,
            argv,
            script_argv,
            env,
            // SAFETY: a list ends with a null pointer, so there is a first one.
            cwd: Some(unsafe { *cwd.0 }).filter(|cwd| !cwd.is_null()),
            user,
            groups,
            marked: command.mark.is_some() && !by_limit,
            limit: command.mark.filter(|_| by_limit),
            limits: command.limits.clone(),
            fds: command.fds.clone(),
            targets,
            terminal: command.terminal,
            gate,
            step: AtomicUsize::new(0),
            errno: AtomicI32::new(0),
        }))
    }
}

/// A null-terminated list of C strings in the plan's memory.
#[derive(Clone, Copy)]
struct Pointers(*mut *const libc::c_char);

/// Memory that the child uses, in its own mapping, because it outlives the call. A guard page below the
/// stack catches an overflow.
struct Memory {
    at: *mut u8,
    length: usize,
    used: usize,
}

impl Memory {
    const GUARD: usize = 64 * 1024;
    const STACK: usize = 32 * 1024;

    fn new(content: usize) -> io::Result<Memory> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let length = Memory::GUARD + Memory::STACK + content;
        // SAFETY: a new mapping, which nothing else knows.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), length, rights, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let memory = Memory {
                at: at.cast(),
                length,
                used: Memory::GUARD + Memory::STACK,
            };
            super::check(libc::mprotect(at, Memory::GUARD, libc::PROT_NONE))?;
            Ok(memory)
        }
    }

    /// The stack grows down from here.
    fn stack(&self) -> *mut libc::c_void {
        self.at.wrapping_add(Memory::GUARD + Memory::STACK).cast()
    }

    /// The size of a list: pointers, strings and alignment.
    fn needs(list: &[&CStr]) -> usize {
        let texts: usize = list.iter().map(|text| text.to_bytes_with_nul().len()).sum();
        (list.len() + 2) * size_of::<*const libc::c_char>() + texts
    }

    fn put(&mut self, list: &[&CStr]) -> Pointers {
        self.used = self.used.next_multiple_of(size_of::<*const libc::c_char>());
        let pointers: *mut *const libc::c_char = self.at.wrapping_add(self.used).cast();
        self.used += (list.len() + 1) * size_of::<*const libc::c_char>();
        for (index, text) in list.iter().enumerate() {
            let bytes = text.to_bytes_with_nul();
            let to = self.at.wrapping_add(self.used);
            self.used += bytes.len();
            assert!(self.used <= self.length, "`needs` counted everything");
            // SAFETY: both places are in the mapping, which is new and so ends the list with a null pointer.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                *pointers.add(index) = to.cast();
            }
        }
        Pointers(pointers)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing uses any more.
        unsafe { libc::munmap(self.at.cast(), self.length) };
    }
}

extern "C" fn child(plan: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the parent passes its `Plan` and leaves it to us.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    // SAFETY: only raw system calls on prepared data, as the head of this file explains.
    let (step, errno) = unsafe { become_command(plan) };
    plan.step.store(step, Ordering::Release);
    plan.errno.store(errno, Ordering::Release);
    // SAFETY: leaves this process without running any of the parent's destructors.
    unsafe { raw::call(libc::SYS_exit_group, [127, 0, 0, 0, 0]) };
    127
}

/// Returns only on failure: the step and its errno.
unsafe fn become_command(plan: &mut Plan) -> (usize, i32) {
    macro_rules! call {
        ($number:expr $(, $argument:expr)*) => {
            raw::call($number, padded([$($argument as usize),*]))
        };
    }
    macro_rules! step {
        ($name:ident, $call:expr) => {{
            let result = $call;
            if result < 0 {
                return ($name, -result as i32);
            }
            result
        }};
    }
    unsafe {
        step!(SESSION, call!(libc::SYS_setsid));
        if let Some(terminal) = plan.terminal {
            step!(TERMINAL, call!(libc::SYS_ioctl, terminal, libc::TIOCSCTTY, 0));
        }
        reset_signals();
        let above = plan.targets.last().map_or(0, |target| target + 1);
        let aside = |fd: RawFd| call!(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, above);
        // Move the gate and sources away from the child's target numbers first.
        if plan.gate < above {
            plan.gate = step!(DESCRIPTORS, aside(plan.gate)) as RawFd;
        }
        for (source, _) in plan.fds.iter_mut() {
            if *source < above {
                *source = step!(DESCRIPTORS, aside(*source)) as RawFd;
            }
        }
        for (source, target) in &plan.fds {
            step!(DESCRIPTORS, call!(libc::SYS_dup3, *source, *target, 0));
        }
        close_others(&plan.targets, plan.gate);
        for (resource, value) in &plan.limits {
            let limit = [*value; 2];
            step!(
                LIMITS,
                call!(libc::SYS_prlimit64, 0, *resource, limit.as_ptr(), 0)
            );
        }
        // The runner may run with a higher priority. Lowering it needs no privilege. The result is 20 -
        // nice.
        if call!(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) > 20 {
            call!(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, 0);
        }
        if let Some(mark) = plan.limit {
            let limit = [u64::from(mark); 2];
            // Fails only if the limit is already lower. Then the command has no mark.
            call!(libc::SYS_prlimit64, 0, marks::LIMIT, limit.as_ptr(), 0);
        }
        let groups = plan.groups.as_ptr();
        // Fails without root or with an unmapped id. Then the command has no mark.
        let marked = plan.marked && call!(libc::SYS_setgroups, plan.groups.len(), groups) == 0;
        if let Some(user) = &plan.user {
            if !marked {
                step!(USER, call!(libc::SYS_setgroups, user.groups.len(), groups));
            }
            step!(USER, call!(libc::SYS_setresgid, user.gid, user.gid, user.gid));
            // From here on, code in the sandbox can signal this child.
            step!(USER, call!(libc::SYS_setresuid, user.uid, user.uid, user.uid));
        }
        if let Some(cwd) = plan.cwd {
            step!(CWD, call!(libc::SYS_chdir, cwd));
        }
        let env = plan.env.0;
        let mut errno = libc::ENOENT;
        let mut candidate = plan.candidates.0;
        while !(*candidate).is_null() {
            let path = *candidate;
            candidate = candidate.add(1);
            match -call!(libc::SYS_execve, path, plan.argv.0, env) as i32 {
                libc::ENOENT | libc::ENOTDIR => continue,
                libc::ENOEXEC => {
                    *plan.script_argv.0.add(1) = path;
                    call!(libc::SYS_execve, c"/bin/sh".as_ptr(), plan.script_argv.0, env);
                    errno = libc::ENOEXEC;
                }
                // Like execvp: remember EACCES and try the rest of PATH.
                libc::EACCES => errno = libc::EACCES,
                other => return (EXEC, other),
            }
        }
        (EXEC, errno)
    }
}

fn padded<const COUNT: usize>(given: [usize; COUNT]) -> [usize; 5] {
    let mut all = [0; 5];
    for (to, from) in all.iter_mut().zip(given) {
        *to = from;
    }
    all
}

/// Closes all descriptors except the child's targets, which are sorted, and the gate above them.
unsafe fn close_others(targets: &[RawFd], gate: RawFd) {
    let mut from = 0;
    let close = |from: RawFd, to: RawFd| {
        if from <= to {
            // SAFETY: numbers only. On a kernel without this call they are closed at execve, by their flag.
            unsafe { raw::call(libc::SYS_close_range, [from as usize, to as usize, 0, 0, 0]) };
        }
    };
    for target in targets {
        close(from, target - 1);
        from = target + 1;
    }
    close(from, gate - 1);
    close(gate + 1, RawFd::MAX);
}

/// Ignored signals survive execve, and the runner ignores SIGPIPE.
unsafe fn reset_signals() {
    // The kernel's sigaction structure: all zeroes is the default action.
    let (default, none) = ([0usize; 4], [0u64; 1]);
    // SAFETY: both are as large as the kernel reads.
    unsafe {
        for signal in 1..32 {
            raw::call(
                libc::SYS_rt_sigaction,
                [signal, default.as_ptr() as usize, 0, 8, 0],
            );
        }
        let set = libc::SIG_SETMASK as usize;
        raw::call(libc::SYS_rt_sigprocmask, [set, none.as_ptr() as usize, 0, 8, 0]);
    }
}

/// The paths to try: the program itself, or each folder of the command's PATH.
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
