//! From a task to a running PID 1: sets limits, mounts file systems and tells the runtime what to start. The
//! shim adopts the sandbox's PID 1, because the shim is init of the surrounding pid namespace.

use super::prepared::Prepared;
use crate::shim::failure::{Failure, at};
use crate::shim::idmap::Map;
use crate::shim::task::Task;
use crate::shim::{host_proc, mounts, staging};
use crate::sys::check;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The sandbox's user namespace in the stage. Keep `config.ts` in sync.
const USER_NAMESPACE: &str = "userns";

/// Everything except telling the runtime. Keep the returned user namespace open until the runtime has joined
/// it.
pub fn start(task: &Task, prepared: &mut Prepared) -> Result<OwnedFd, Failure> {
    at(&task.socket, bind(&prepared.runtime.listener, &task.socket))?;
    prepared.groups.limit(&task.groups)?;
    let helper = prepared.users.take().ok_or("this shim already has a sandbox")?;
    let map = Map {
        inside: task.first_inside,
        outside: task.first_id,
        count: task.ids,
    };
    let users = at("user namespace", helper.map(&map, &task.user_limits))?;
    // The runtime opens the namespace by this name (`config.json`). The shim is process 1 of the /proc that
    // the runtime sees.
    let descriptor = format!("/proc/1/fd/{}", users.as_raw_fd());
    at(
        "user namespace",
        std::os::unix::fs::symlink(descriptor, USER_NAMESPACE),
    )?;
    mounts::make(task, Some(&users).filter(|_| !prepared.account))?;
    Ok(users)
}

/// Writes to the pipe that the runtime reads. Returns false while the runtime has not opened it.
///
/// A real file replaces the pipe only after the runtime has opened it, because the runtime later copies
/// `config.json` by name. So the runtime never waits for a writer that is already gone.
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

/// Binds the socket and listens. Only root may connect. The sandbox can read this name, so it reveals
/// nothing about the host.
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
