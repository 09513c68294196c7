//! A user namespace to map ids by. The kernel makes one only around a process, so one is born, mapped, looked at and killed.

use crate::sys::{check, own};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// A user namespace in which 0 … count-1 are the host's first … first+count-1.
pub fn namespace(first: u32, count: u32) -> io::Result<OwnedFd> {
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and with no new stack this is fork; this process has one thread, and the child only waits.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as libc::c_int })?;
    if pid == 0 {
        loop {
            // SAFETY: takes nothing. The parent kills us; should it die first, so do we, with its pid namespace.
            unsafe { libc::pause() };
        }
    }
    let made = map(pid, first, count);
    // SAFETY: our own child, not yet reaped: the number cannot mean another process.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    made
}

fn map(pid: libc::pid_t, first: u32, count: u32) -> io::Result<OwnedFd> {
    let line = format!("0 {first} {count}\n");
    fs::write(format!("/proc/{pid}/uid_map"), &line)?;
    fs::write(format!("/proc/{pid}/gid_map"), &line)?;
    let path = std::ffi::CString::new(format!("/proc/{pid}/ns/user"))?;
    // SAFETY: a C string that outlives the call.
    own(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })
}
