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
        let line = format!("0 {first} {count}\n");
        self.write(&line, &line)
    }

    /// The namespace in which one user and one group have a name: each pair is the id on the disk and the id that shows instead.
    pub fn map_one(self, uid: (u32, u32), gid: (u32, u32)) -> io::Result<OwnedFd> {
        let line = |(disk, shown): (u32, u32)| format!("{disk} {shown} 1\n");
        self.write(&line(uid), &line(gid))
    }

    fn write(self, uids: &str, gids: &str) -> io::Result<OwnedFd> {
        let Unmapped(pid) = self;
        fs::write(format!("/proc/{pid}/uid_map"), uids)?;
        fs::write(format!("/proc/{pid}/gid_map"), gids)?;
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
