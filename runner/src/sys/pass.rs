//! Passes a file descriptor over a Unix socket.

use super::{check, own};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Room for MAX descriptors with their header, aligned for the kernel.
#[repr(align(8))]
struct Control([u8; 64]);

/// Most descriptors of one message.
const MAX: usize = 8;

pub fn send(socket: &OwnedFd, fd: &OwnedFd) -> io::Result<()> {
    send_all(socket.as_raw_fd(), b"x", &[fd.as_raw_fd()])
}

/// Sends bytes and descriptors as one message.
pub fn send_all(socket: RawFd, bytes: &[u8], fds: &[RawFd]) -> io::Result<()> {
    if fds.len() > MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = bytes.to_vec();
    let mut control = Control([0; 64]);
    let length = size_of_val(fds) as u32;
    let sent = with_message(&mut bytes, &mut control, |message| {
        // SAFETY: `control` is large enough for MAX descriptors and aligned; the header that is filled is the
        // first in it.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(length) as usize;
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(length) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            for (index, fd) in fds.iter().enumerate() {
                data.add(index).write_unaligned(*fd);
            }
            check(libc::sendmsg(socket, message, libc::MSG_NOSIGNAL) as libc::c_int)
        }
    })?;
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives a descriptor. `None` if the other side closed without sending one.
pub fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    receive_all(socket).map(|fds| fds.into_iter().next())
}

/// Receives the descriptors of one message. None if the other side closed without sending one.
pub fn receive_all(socket: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0];
    let mut control = Control([0; 64]);
    with_message(&mut byte, &mut control, |message| {
        // SAFETY: the message's buffers outlive the call. A header that the kernel wrote describes the data
        // behind it.
        unsafe {
            if check(libc::recvmsg(socket.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC) as libc::c_int)? == 0
            {
                return Ok(Vec::new());
            }
            let header = libc::CMSG_FIRSTHDR(message);
            if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            let all = (0..bytes / size_of::<RawFd>()).map(|index| own(data.add(index).read_unaligned()));
            all.collect()
        }
    })
}

fn with_message<T>(bytes: &mut [u8], control: &mut Control, act: impl FnOnce(&mut libc::msghdr) -> T) -> T {
    let mut vector = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: msghdr is plain data; its pointers refer to values that outlive `act`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    act(&mut message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_passed_and_the_end_is_reported() {
        let (here, there) = crate::sys::socket_pair().unwrap();
        let (out, into) = crate::sys::pipe().unwrap();
        send(&there, &into).unwrap();
        let copy = receive(&here).unwrap().unwrap();
        crate::sys::write(copy.as_raw_fd(), b"hello").unwrap();
        let mut text = [0; 5];
        assert_eq!(crate::sys::read(out.as_raw_fd(), &mut text).unwrap(), Some(5));
        assert_eq!(&text, b"hello");
        send_all(there.as_raw_fd(), b"x", &[out.as_raw_fd(), into.as_raw_fd()]).unwrap();
        assert_eq!(receive_all(&here).unwrap().len(), 2);
        drop(there);
        assert!(receive(&here).unwrap().is_none());
    }
}
