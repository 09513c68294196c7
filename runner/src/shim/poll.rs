//! Small wrappers for the shim: poll, signalfd, a listening socket, atomic file writes.

use crate::sys::{check, own};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_millis() as i64)
}

/// Readers see the old file or the complete new one.
pub fn write_whole(path: &str, text: &str) -> io::Result<()> {
    let draft = format!("{path}.new");
    let mut options = fs::OpenOptions::new();
    let written = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

pub fn listen(path: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

pub fn signal_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: sigset_t is plain data that sigfillset initialises.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut mask);
        check(libc::sigprocmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut()))?;
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        own(libc::signalfd(-1, &mask, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))
    }
}

pub fn poll<const N: usize>(fds: [RawFd; N], wait: Option<Duration>) -> [bool; N] {
    let ready = poll_all(&fds, wait);
    std::array::from_fn(|index| ready[index])
}

/// Which descriptors are readable or closed. Negative descriptors are ignored.
pub fn poll_all(fds: &[RawFd], wait: Option<Duration>) -> Vec<bool> {
    let entry = |fd: &RawFd| libc::pollfd {
        fd: *fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<libc::pollfd> = fds.iter().map(entry).collect();
    let wait = wait.map_or(-1, |wait| wait.as_millis().clamp(1, i32::MAX as u128) as i32);
    // SAFETY: pointer and length describe `entries`.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, wait) };
    entries.iter().map(|entry| entry.revents != 0).collect()
}
