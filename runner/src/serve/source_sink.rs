//! Non-blocking file descriptors in the event loop: a `Source` to read from and a `Sink` to write to. Epoll
//! is edge-triggered (`sys::epoll`), so `readable` and `writable` hold the last reported state.

use crate::sys;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub struct Source {
    pub fd: OwnedFd,
    pub channel: u8,
    pub readable: bool,
}

pub enum Pulled {
    Bytes(usize),
    Nothing,
    Ended,
}

impl Source {
    pub fn new(fd: OwnedFd, channel: u8) -> io::Result<Source> {
        sys::set_nonblocking(fd.as_raw_fd())?;
        Ok(Source {
            fd,
            channel,
            readable: true,
        })
    }

    pub fn pull(&mut self, buffer: &mut [u8]) -> Pulled {
        match sys::read(self.fd.as_raw_fd(), buffer) {
            Ok(Some(0)) => Pulled::Ended,
            Ok(Some(count)) => Pulled::Bytes(count),
            Ok(None) => {
                self.readable = false;
                Pulled::Nothing
            }
            // A pty master returns EIO when its last slave is closed. A reset peer has no more data either.
            Err(_) => Pulled::Ended,
        }
    }
}

/// How the receiver learns that the input has ended.
#[derive(Clone, Copy, PartialEq)]
pub enum Finish {
    Close,
    /// Half-close, because the socket still delivers data.
    Shutdown,
    /// A terminal cannot be half-closed, so write the end-of-file character.
    Character,
}

pub struct Sink {
    fd: Option<OwnedFd>,
    finish: Finish,
    queue: VecDeque<u8>,
    ending: bool,
    pub writable: bool,
}

impl Sink {
    pub fn new(fd: OwnedFd, finish: Finish) -> io::Result<Sink> {
        sys::set_nonblocking(fd.as_raw_fd())?;
        Ok(Sink {
            fd: Some(fd),
            finish,
            queue: VecDeque::new(),
            ending: false,
            writable: true,
        })
    }

    pub fn raw(&self) -> Option<RawFd> {
        self.fd.as_ref().map(|fd| fd.as_raw_fd())
    }

    /// The input has ended, or the receiver is gone.
    pub fn closed(&self) -> bool {
        self.fd.is_none()
    }

    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Closes at once and drops what is queued.
    pub fn abandon(&mut self) {
        self.fd = None;
        self.queue.clear();
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if !self.ending && self.fd.is_some() {
            self.queue.extend(bytes);
        }
    }

    /// Closes after the queued bytes are written.
    pub fn end(&mut self) {
        if !self.ending && self.finish == Finish::Character {
            self.queue.push_back(4);
        }
        self.ending = true;
    }

    /// Writes what the receiver takes now, and closes after the last byte. Data for a receiver that is gone
    /// is dropped, so that its sender does not wait forever.
    pub fn flush(&mut self) {
        self.write();
        self.close_after_last();
    }

    /// Everything is written and the input has ended.
    pub fn is_complete(&self) -> bool {
        self.ending && self.queue.is_empty()
    }

    pub fn write(&mut self) {
        while let (Some(fd), true, false) = (&self.fd, self.writable, self.queue.is_empty()) {
            match sys::write(fd.as_raw_fd(), self.queue.as_slices().0) {
                Ok(Some(count)) => drop(self.queue.drain(..count)),
                Ok(None) => self.writable = false,
                Err(_) => {
                    self.queue.clear();
                    self.fd = None;
                }
            }
        }
        if self.queue.is_empty() {
            self.queue.shrink_to(4096);
        }
    }

    pub fn close_after_last(&mut self) {
        if self.is_complete()
            && self.finish != Finish::Character
            && let Some(fd) = self.fd.take()
            && self.finish == Finish::Shutdown
        {
            // SAFETY: acts on a descriptor that is open; `fd` is a duplicate that is closed right after.
            unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) };
        }
    }
}
