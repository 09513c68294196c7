//! From a task to a running PID 1: limits, file systems, and then the runtime may read what to start. PID 1 is ours in the end, because we are the
//! init of the pid namespace that they are all born in.

use super::prepared::Waiting;
use crate::shim::failure::{Failure, at};
use crate::shim::idmap::Map;
use crate::shim::task::Task;
use crate::shim::{host_proc, mounts, staging};
use crate::sys::check;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The sandbox's user namespace on the stage. Keep `config.ts` in step.
const USERS: &str = "userns";

/// Everything but telling the runtime. Returns the sandbox's user namespace, which has to stay open until the runtime has joined it.
pub fn start(task: &Task, waiting: &mut Waiting) -> Result<OwnedFd, Failure> {
    at(&task.socket, bind(&waiting.runtime.listener, &task.socket))?;
    waiting.groups.limit(&task.groups)?;
    let helper = waiting.users.take().ok_or("this shim has a sandbox already")?;
    let map = Map {
        inside: task.first_inside,
        outside: task.first_id,
        count: task.ids,
    };
    let users = at("user namespace", helper.map(&map, &task.user_limits))?;
    // The runtime opens it by this name (`config.json`). We are process 1 of the /proc that it sees.
    let descriptor = format!("/proc/1/fd/{}", users.as_raw_fd());
    at("user namespace", std::os::unix::fs::symlink(descriptor, USERS))?;
    mounts::make(task, Some(&users).filter(|_| !waiting.account))?;
    Ok(users)
}

/// Into the pipe that the runtime reads from. False when it has not come to read yet: it may still be on its way.
///
/// Only when it has opened the pipe does a real file take the pipe's name (it copies the file for itself afterwards, by its name), so it never waits for
/// a writer that has been and gone.
pub fn hand_over(text: &str) -> io::Result<bool> {
    let pipe = match host_proc::open(staging::CONFIG, libc::O_WRONLY | libc::O_NONBLOCK) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(false),
        result => result?,
    };
    let mut options = fs::OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open("config.new")?
        .write_all(text.as_bytes())?;
    fs::rename("config.new", staging::CONFIG)?;
    let size = libc::c_int::try_from(text.len()).map_err(io::Error::other)?;
    // SAFETY: numbers only. With room for all of it, writing never waits, not even for a runtime that has died.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, size.max(4096)) })?;
    match crate::sys::write(pipe.as_raw_fd(), text.as_bytes())? {
        Some(length) if length == text.len() => Ok(true),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Gives the socket its name and listens. Only root may connect. The sandbox may read the name that is given here, so it says nothing of the host.
fn bind(socket: &OwnedFd, path: &str) -> io::Result<()> {
    let (folder, name) = path.rsplit_once('/').ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = host_proc::open(folder, libc::O_PATH | libc::O_DIRECTORY)?;
    let path = format!("/proc/self/fd/{}/{name}", folder.as_raw_fd());
    // SAFETY: sockaddr_un is plain data; the path was measured, and zeroes end it.
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let bytes = path.as_bytes();
        if bytes.len() >= address.sun_path.len() {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        let mask = libc::umask(0o177);
        let bound = libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_un>() as libc::socklen_t,
        );
        libc::umask(mask);
        check(bound)?;
        check(libc::listen(socket.as_raw_fd(), 128))?;
    }
    Ok(())
}
