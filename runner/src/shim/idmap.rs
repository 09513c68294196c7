//! A user namespace to map ids by. The kernel makes one only around a process, so one is born beforehand; when the sandbox's range is known it is
//! mapped, looked at and killed.

use crate::sys::{check, own};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// A process that only waits, in a user namespace without a map.
pub struct Unmapped(libc::pid_t);

impl Unmapped {
    pub fn make() -> io::Result<Unmapped> {
        let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
        // SAFETY: without CLONE_VM and with no new stack this is fork; this process has one thread, and the child only waits.
        let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as libc::c_int })?;
        if pid == 0 {
            // SAFETY: takes numbers. The parent kills us; should it die first, so do we, with its pid namespace.
            unsafe {
                libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
                loop {
                    libc::pause();
                }
            }
        }
        Ok(Unmapped(pid))
    }

    /// The namespace, in which 0 … count-1 are the host's first … first+count-1.
    pub fn map(self, first: u32, count: u32) -> io::Result<OwnedFd> {
        let Unmapped(pid) = self;
        let line = format!("0 {first} {count}\n");
        fs::write(format!("/proc/{pid}/uid_map"), &line)?;
        fs::write(format!("/proc/{pid}/gid_map"), &line)?;
        let path = std::ffi::CString::new(format!("/proc/{pid}/ns/user"))?;
        // SAFETY: a C string that outlives the call.
        own(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })
    }
}

impl Drop for Unmapped {
    fn drop(&mut self) {
        // SAFETY: our own child, reaped by nobody else before this: the number cannot mean another process.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}
