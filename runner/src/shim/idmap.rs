//! The sandbox's user namespace. The kernel creates one only with a process, so the shim forks a helper in
//! advance. Once the sandbox's ids are known, the helper becomes the first of them, creates the namespace,
//! sets its limits and is killed. An open descriptor keeps the namespace alive.
//!
//! The helper changes its user first because the kernel also charges what a namespace uses (inotify
//! instances, pending signals, timers, message queues) to the namespace's *owner*. If root owned it, one
//! sandbox could exhaust the limits of the host's root.

use crate::sys::{check, own, read, socket_pair, write};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A file of `/proc/sys/user` and its value in the namespace.
pub type Limit = (String, u64);

/// How ids inside map to ids outside.
pub struct Map {
    pub inside: u32,
    pub outside: u32,
    pub count: u32,
}

/// A helper that waits to create the namespace.
pub struct Unmapped {
    pid: libc::pid_t,
    line: OwnedFd,
}

impl Unmapped {
    pub fn make() -> io::Result<Unmapped> {
        let (line, theirs) = socket_pair()?;
        // SAFETY: this process has one thread, so the child may use everything that the parent may.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            drop(line);
            let answer = match help(&theirs) {
                Ok(()) => String::new(),
                Err(message) => message,
            };
            // The first byte announces an answer. The parent kills the helper after reading it.
            let _ = write(theirs.as_raw_fd(), format!(".{answer}").as_bytes());
            loop {
                // SAFETY: takes nothing. Should the parent die first, so do we, with its pid namespace.
                unsafe { libc::pause() };
            }
        }
        Ok(Unmapped { pid, line })
    }

    /// Creates the namespace with this map and these limits.
    pub fn map(self, map: &Map, limits: &[Limit]) -> io::Result<OwnedFd> {
        self.unshare(map.outside, limits)?;
        let line = format!("{} {} {}\n", map.inside, map.outside, map.count);
        self.write(&line, &line)
    }

    /// Creates a namespace that maps one user and one group. Each pair is the id on disk and the id shown
    /// instead.
    pub fn map_one(self, uid: (u32, u32), gid: (u32, u32)) -> io::Result<OwnedFd> {
        self.unshare(uid.1, &[])?;
        let line = |(disk, shown): (u32, u32)| format!("{disk} {shown} 1\n");
        self.write(&line(uid), &line(gid))
    }

    /// Lets the helper create its namespace as this user.
    fn unshare(&self, owner: u32, limits: &[Limit]) -> io::Result<()> {
        let mut order = format!("{owner}\n");
        for (name, value) in limits {
            order.push_str(&format!("{name} {value}\n"));
        }
        write(self.line.as_raw_fd(), order.as_bytes())?;
        let mut answer = [0; 512];
        match read(self.line.as_raw_fd(), &mut answer)? {
            Some(1) => Ok(()),
            Some(length @ 2..) => Err(io::Error::other(String::from_utf8_lossy(&answer[1..length]))),
            _ => Err(io::Error::other("the helper process has ended")),
        }
    }

    fn write(self, uids: &str, gids: &str) -> io::Result<OwnedFd> {
        fs::write(format!("/proc/{}/uid_map", self.pid), uids)?;
        fs::write(format!("/proc/{}/gid_map", self.pid), gids)?;
        let path = std::ffi::CString::new(format!("/proc/{}/ns/user", self.pid))?;
        // SAFETY: a C string that outlives the call.
        own(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })
    }
}

impl Drop for Unmapped {
    fn drop(&mut self) {
        // SAFETY: an unreaped child of this process, so its pid is not reused.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Runs in the helper: waits for the request and creates the namespace.
fn help(line: &OwnedFd) -> Result<(), String> {
    let at = |what: &str, error: io::Error| format!("{what}: {error}");
    let keep = line.as_raw_fd() as libc::c_uint;
    // SAFETY: numbers only; nothing else of the parent's descriptors is used here.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, keep - 1, 0);
        libc::syscall(libc::SYS_close_range, keep + 1, u32::MAX, 0);
    }
    let mut order = [0; 4096];
    let length = read(line.as_raw_fd(), &mut order)
        .map_err(|error| at("order", error))?
        .unwrap_or(0);
    let text = std::str::from_utf8(&order[..length]).map_err(|_| "request: not UTF-8")?;
    let mut lines = text.lines();
    let owner: u32 = lines
        .next()
        .and_then(|id| id.parse().ok())
        .ok_or("request: no id")?;
    // SAFETY: numbers only; this process has one thread.
    unsafe {
        check(libc::setresgid(owner, owner, owner)).map_err(|error| at("group", error))?;
        check(libc::setresuid(owner, owner, owner)).map_err(|error| at("user", error))?;
        check(libc::unshare(libc::CLONE_NEWUSER)).map_err(|error| at("unshare", error))?;
    }
    for line in lines {
        let (name, value) = line.split_once(' ').ok_or("request: no value")?;
        match fs::write(format!("/proc/sys/user/{name}"), value) {
            Ok(()) => {}
            // Older kernels lack some limits.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(name, error)),
        }
    }
    Ok(())
}
