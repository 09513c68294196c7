//! Where new connections come from: a listening socket, or a connected socket that passes in file
//! descriptors.
//!
//! gVisor has its own kernel, so the runner cannot listen on a socket of the host there. The shim listens
//! outside and passes in each connection that it accepts.

use crate::sys::{own, pass, set_nonblocking};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub enum Acceptor {
    Listening(OwnedFd),
    PassedIn(OwnedFd),
}

/// The result of one accept.
pub enum Accepted {
    Connection(OwnedFd),
    /// No connection is pending.
    None,
    /// The client disconnected before the runner accepted it.
    Aborted,
    /// Out of descriptors or memory. Epoll does not report the pending connection again, so retry later.
    RetryLater,
}

impl Acceptor {
    /// Never blocks.
    pub fn next(&self) -> Accepted {
        let accepted = match self {
            Acceptor::Listening(socket) => accept(socket).map(Some),
            Acceptor::PassedIn(socket) => passed_in(socket),
        };
        match accepted.map_err(|error| error.raw_os_error()) {
            Ok(Some(fd)) => Accepted::Connection(fd),
            // `None`: the shim closed its side, so no more connections arrive.
            Ok(None) | Err(Some(libc::EAGAIN)) => Accepted::None,
            // `pass::receive` returns an error without an errno for a message that carries no descriptor.
            Err(Some(libc::ECONNABORTED | libc::EINTR) | None) => Accepted::Aborted,
            Err(_) => Accepted::RetryLater,
        }
    }
}

impl AsRawFd for Acceptor {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Acceptor::Listening(socket) | Acceptor::PassedIn(socket) => socket.as_raw_fd(),
        }
    }
}

fn accept(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no address is asked for, so the null pointers are what the call expects.
    own(unsafe {
        libc::accept4(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            flags,
        )
    })
}

fn passed_in(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let fd = pass::receive(socket)?;
    fd.iter().try_for_each(|fd| set_nonblocking(fd.as_raw_fd()))?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{read, socket_pair, write};

    #[test]
    fn passed_connections_arrive_one_by_one() {
        let (outside, inside) = socket_pair().unwrap();
        set_nonblocking(inside.as_raw_fd()).unwrap();
        let acceptor = Acceptor::PassedIn(inside);
        assert!(matches!(acceptor.next(), Accepted::None));
        let (first, theirs) = socket_pair().unwrap();
        pass::send(&outside, &theirs).unwrap();
        let (_second, theirs) = socket_pair().unwrap();
        pass::send(&outside, &theirs).unwrap();
        let Accepted::Connection(fd) = acceptor.next() else {
            panic!("a connection was passed in")
        };
        write(first.as_raw_fd(), b"hello").unwrap();
        let mut text = [0; 5];
        assert_eq!(read(fd.as_raw_fd(), &mut text).unwrap(), Some(5));
        // The descriptor is non-blocking even when the sender's was not.
        assert_eq!(read(fd.as_raw_fd(), &mut text).unwrap(), None);
        assert!(matches!(acceptor.next(), Accepted::Connection(_)));
        // A message without a descriptor is skipped.
        write(outside.as_raw_fd(), b"x").unwrap();
        assert!(matches!(acceptor.next(), Accepted::Aborted));
        drop(outside);
        assert!(matches!(acceptor.next(), Accepted::None));
    }
}
