//! Where connections come from: a socket that listens; or, where no socket of the outside can be listened on in here (gVisor has a kernel of its own),
//! a connected one over which whoever listens outside hands in each connection that it has accepted.

use crate::sys::{own, pass, set_nonblocking};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub enum Door {
    Listens(OwnedFd),
    Hands(OwnedFd),
}

/// What is at the door.
pub enum Caller {
    Here(OwnedFd),
    /// Nobody is waiting any more.
    None,
    /// Somebody hung up before we came to them.
    Gone,
    /// Out of descriptors or memory: who is waiting is not announced a second time.
    Later,
}

impl Door {
    /// Asking never waits.
    pub fn next(&self) -> Caller {
        let called = match self {
            Door::Listens(socket) => accept(socket).map(Some),
            Door::Hands(socket) => handed(socket),
        };
        match called.map_err(|error| error.raw_os_error()) {
            Ok(Some(fd)) => Caller::Here(fd),
            // Whoever handed connections in has gone: there will be no more.
            Ok(None) | Err(Some(libc::EAGAIN)) => Caller::None,
            // A message without a descriptor in it has no number.
            Err(Some(libc::ECONNABORTED | libc::EINTR) | None) => Caller::Gone,
            Err(_) => Caller::Later,
        }
    }
}

impl AsRawFd for Door {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Door::Listens(socket) | Door::Hands(socket) => socket.as_raw_fd(),
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

fn handed(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let fd = pass::receive(socket)?;
    fd.iter().try_for_each(|fd| set_nonblocking(fd.as_raw_fd()))?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{read, socket_pair, write};

    #[test]
    fn connections_that_are_handed_in_come_one_by_one() {
        let (outside, inside) = socket_pair().unwrap();
        set_nonblocking(inside.as_raw_fd()).unwrap();
        let door = Door::Hands(inside);
        assert!(matches!(door.next(), Caller::None));
        let (first, theirs) = socket_pair().unwrap();
        pass::send(&outside, &theirs).unwrap();
        let (_second, theirs) = socket_pair().unwrap();
        pass::send(&outside, &theirs).unwrap();
        let Caller::Here(fd) = door.next() else {
            panic!("it was handed in")
        };
        write(first.as_raw_fd(), b"hello").unwrap();
        let mut text = [0; 5];
        assert_eq!(read(fd.as_raw_fd(), &mut text).unwrap(), Some(5));
        // It does not block, whatever the one that was sent did.
        assert_eq!(read(fd.as_raw_fd(), &mut text).unwrap(), None);
        assert!(matches!(door.next(), Caller::Here(_)));
        // A word without a connection is nobody, and ends nothing.
        write(outside.as_raw_fd(), b"x").unwrap();
        assert!(matches!(door.next(), Caller::Gone));
        drop(outside);
        assert!(matches!(door.next(), Caller::None));
    }
}
