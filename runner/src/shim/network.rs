//! A network namespace with only a loopback interface. The host's user namespace owns it, so root in the
//! sandbox cannot change it. For sandboxes with a network see `open_network`.

use super::host_proc;
use crate::sys::{check, own};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;

/// Runs `act` in a new network namespace and returns to the old one. Processes and sockets that `act`
/// creates stay there. The runner's socket is created there too, because a socket of the host's network
/// would let the sandbox query that network.
pub fn inside<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let outside = host_proc::open("/proc/self/ns/net", libc::O_RDONLY)?;
    // SAFETY: takes flags; this process has one thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    let result = prepare().and_then(|()| act());
    // SAFETY: numbers only.
    check(unsafe { libc::setns(outside.as_raw_fd(), libc::CLONE_NEWNET) })?;
    result
}

/// Enters for good: only root of the host can return.
pub fn enter() -> io::Result<()> {
    // SAFETY: takes flags; this process has one thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    prepare()
}

fn prepare() -> io::Result<()> {
    loopback_up()?;
    // Lets ordinary users of the sandbox listen on port 80.
    match fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn loopback_up() -> io::Result<()> {
    // SAFETY: a socket to ask through; `ifreq` is plain data, its name is terminated by the zeroes, and both
    // requests read and write no more
    // than it.
    unsafe {
        let socket = own(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        ))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        check(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS as _,
            &raw mut request,
        ))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        check(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw mut request,
        ))?;
    }
    Ok(())
}
