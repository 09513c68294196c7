//! Passes a file descriptor over a Unix socket.

use super::{check, own};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Room for one descriptor with its header, aligned for the kernel.
#[repr(align(8))]
struct Control([u8; 64]);

pub fn send(socket: &OwnedFd, fd: &OwnedFd) -> io::Result<()> {
    let mut byte = *b"x";
    let mut control = Control([0; 64]);
    with_message(&mut byte, &mut control, |message| {
        // SAFETY: `control` is large enough for one descriptor and aligned; the header that is filled is the
        // first in it.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) as usize;
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as usize;
            libc::CMSG_DATA(header)
                .cast::<libc::c_int>()
                .write_unaligned(fd.as_raw_fd());
            check(libc::sendmsg(socket.as_raw_fd(), message, libc::MSG_NOSIGNAL) as libc::c_int)
        }
    })?;
    Ok(())
}

/// Receives a descriptor. `None` if the other side closed without sending one.
pub fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut control = Control([0; 64]);
    with_message(&mut byte, &mut control, |message| {
        // SAFETY: the message's buffers outlive the call. A header that the kernel wrote describes the data
        // behind it.
        unsafe {
            if check(libc::recvmsg(socket.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC) as libc::c_int)? == 0
            {
                return Ok(None);
            }
            let header = libc::CMSG_FIRSTHDR(message);
            if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
                return Err(io::ErrorKind::InvalidData.into());
            }
            own(libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned()).map(Some)
        }
    })
}

fn with_message<T>(byte: &mut [u8; 1], control: &mut Control, act: impl FnOnce(&mut libc::msghdr) -> T) -> T {
    let mut vector = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
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
        drop(there);
        assert!(receive(&here).unwrap().is_none());
    }
}
