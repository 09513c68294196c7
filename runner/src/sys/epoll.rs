//! Edge-triggered epoll, with one registration per descriptor. The owner remembers "readable" until a read
//! returns EAGAIN. So backpressure means not reading, which costs no system call.

use super::{check, own};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub struct Epoll(OwnedFd);

#[derive(Clone, Copy)]
pub struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: takes flags, returns a descriptor.
        own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Epoll)
    }

    /// Closing the descriptor removes it. The kernel rejects regular files.
    pub fn add(&self, fd: RawFd, token: impl Into<u64>) -> io::Result<()> {
        let interest = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: interest as u32,
            u64: token.into(),
        };
        // SAFETY: `event` is valid for the duration of the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) })?;
        Ok(())
    }

    pub fn wait(&self, out: &mut Vec<Ready>, timeout_ms: i32) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the kernel writes at most `events.len()` entries.
        let count = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as i32,
                timeout_ms,
            )
        };
        out.clear();
        for event in &events[..count.max(0) as usize] {
            let flags = event.events as i32;
            let broken = flags & (libc::EPOLLHUP | libc::EPOLLERR) != 0;
            out.push(Ready {
                token: event.u64,
                readable: broken || flags & (libc::EPOLLIN | libc::EPOLLRDHUP) != 0,
                writable: broken || flags & libc::EPOLLOUT != 0,
            });
        }
    }
}
