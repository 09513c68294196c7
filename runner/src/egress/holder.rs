//! `runner egress PID SOCKET [UID:GID]`: the network of a container, whose namespace a daemon made.
//!
//! The holder configures the namespace, keeps its sockets, and serves them until the container's first process ends.
//! If the holder is killed, connections of the container are refused, and another holder can take its place.

use super::{Handover, Place, Sockets, Unbound};
use crate::shim::poll::{poll_all, signal_descriptor};
use crate::sys::{check, own};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const USAGE: &str = "usage: runner egress PID SOCKET [UID:GID]";

/// Prints a line when the sockets are served. Does nothing if another holder serves them.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), String> {
    let arguments: Option<Vec<String>> = arguments.map(|word| word.into_string().ok()).collect();
    let (pid, place) = arguments.as_deref().and_then(parse).ok_or(USAGE)?;
    let container = pidfd(pid).map_err(|error| format!("process {pid}: {error}"))?;
    let folder = place.socket.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut handover = {
        // Two holders that start at the same time must not replace each other's socket.
        let _alone = lock(folder).map_err(|error| format!("{folder}: {error}"))?;
        if UnixStream::connect(&place.socket).is_ok() {
            return announce();
        }
        let unbound = open(pid, &container)?;
        let sockets = configure(unbound)?;
        Handover::open(sockets, &place).map_err(|error| format!("{}: {error}", place.socket))?
    };
    let signals = signal_descriptor().map_err(|error| format!("signals: {error}"))?;
    detach().map_err(|error| format!("cannot detach: {error}"))?;
    announce()?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| format!("/dev/null: {error}"))?;
    for stream in 0..3 {
        // SAFETY: numbers only.
        unsafe { libc::dup2(null.as_raw_fd(), stream) };
    }
    loop {
        let ready = poll_all(
            &[container.as_raw_fd(), handover.as_raw_fd(), signals.as_raw_fd()],
            None,
        );
        if ready[0] || (ready[2] && terminated(signals.as_raw_fd())) {
            return Ok(());
        }
        if ready[1] {
            handover.serve();
        }
    }
}

fn parse(arguments: &[String]) -> Option<(libc::pid_t, Place)> {
    let (pid, socket, owner) = match arguments {
        [pid, socket] => (pid, socket, None),
        [pid, socket, owner] => {
            let (user, group) = owner.split_once(':')?;
            (pid, socket, Some((user.parse().ok()?, group.parse().ok()?)))
        }
        _ => return None,
    };
    let pid = pid.parse().ok().filter(|pid: &libc::pid_t| *pid > 1)?;
    let socket = socket.clone();
    socket.starts_with('/').then_some((pid, Place { socket, owner }))
}

/// Opens sockets in the container's namespace, and returns to ours.
fn open(pid: libc::pid_t, container: &OwnedFd) -> Result<Unbound, String> {
    let path = format!("/proc/{pid}/ns/net");
    let at = |error: io::Error| format!("{path}: {error}");
    let target = File::open(&path).map_err(at)?;
    let here = File::open("/proc/self/ns/net").map_err(at)?;
    // The process still lives, so the number meant it when the path was opened.
    if poll_all(&[container.as_raw_fd()], Some(Duration::ZERO))[0] {
        return Err(format!("process {pid} has ended"));
    }
    let (ours, theirs) = (here.metadata().map_err(at)?, target.metadata().map_err(at)?);
    if (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()) {
        return Err("the container shares the network of this machine".to_owned());
    }
    // SAFETY: numbers only; this process has one thread.
    check(unsafe { libc::setns(target.as_raw_fd(), libc::CLONE_NEWNET) }).map_err(at)?;
    let opened = enable_v6().and_then(|()| Unbound::open());
    // SAFETY: numbers only.
    check(unsafe { libc::setns(here.as_raw_fd(), libc::CLONE_NEWNET) }).map_err(at)?;
    opened.map_err(at)
}

/// Daemons switch IPv6 off where they have no addresses for it. Here it would fail instead of reaching the gateway.
fn enable_v6() -> io::Result<()> {
    for interface in ["all", "default", "lo"] {
        match fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "0") {
            // No IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}

/// The container's daemon must not have connected it.
fn configure(unbound: Unbound) -> Result<Sockets, String> {
    match unbound.other_interface() {
        Ok(None) => {}
        Ok(Some(index)) => {
            return Err(format!(
                "the container has another network interface (number {index})"
            ));
        }
        Err(error) => return Err(format!("cannot list the container's network interfaces: {error}")),
    }
    unbound.take_over().map_err(|error| error.to_string())
}

fn announce() -> Result<(), String> {
    let mut out = io::stdout();
    out.write_all(b"ready\n")
        .and_then(|()| out.flush())
        .map_err(|error| format!("cannot answer: {error}"))
}

/// Outlives the engine, as the container does.
fn detach() -> io::Result<()> {
    // SAFETY: numbers only. The caller may have made this process the leader of a session already.
    unsafe {
        libc::setsid();
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0))?;
        libc::prctl(libc::PR_SET_NAME, c"egress".as_ptr());
    }
    std::env::set_current_dir("/")
}

fn terminated(signals: RawFd) -> bool {
    let mut asked = false;
    // SAFETY: signalfd_siginfo is plain data, valid for any bytes; the read is bounded by its size.
    unsafe {
        let mut info: libc::signalfd_siginfo = std::mem::zeroed();
        let size = size_of_val(&info);
        while libc::read(signals, (&raw mut info).cast(), size) == size as isize {
            asked |= info.ssi_signo as i32 == libc::SIGTERM;
        }
    }
    asked
}

fn pidfd(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    own(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as RawFd)
}

fn lock(folder: &str) -> io::Result<File> {
    let file = File::open(folder)?;
    // SAFETY: numbers only.
    check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_or_rejected() {
        let words = |text: &str| parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let place = |owner| {
            let socket = "/s".to_owned();
            Some((7, Place { socket, owner }))
        };
        assert_eq!(words("7 /s"), place(None));
        assert_eq!(words("7 /s 1:2"), place(Some((1, 2))));
        for bad in [
            "",
            "7",
            "1 /s",
            "-7 /s",
            "x /s",
            "7 s",
            "7 /s 1",
            "7 /s 1:",
            "7 /s -1:2",
            "7 /s 1:2 3",
        ] {
            assert_eq!(words(bad), None, "{bad}");
        }
    }
}
