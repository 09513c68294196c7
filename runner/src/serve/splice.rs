//! Sends file content from a worker's pipe to the client's socket with splice(2). The runner would otherwise
//! copy the bytes three times. A cached file reaches the client with one copy, in the client's own read.
//!
//! A frame must be complete before the next one starts. So the runner splices only while nothing else is
//! unsent, and only bytes that are already in the pipe. The unsent part of a frame is kept in `Conn::rest`.

use crate::serve::connection::{Conn, Stream, Use};
use crate::sys;
use crate::wire::frame::{self, HEADER, Kind, MAX_DATA};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// Copying is faster for fewer bytes.
const MIN_SPLICE: usize = 32 * 1024;

#[derive(PartialEq)]
pub enum Spliced {
    /// A frame was started, and may be complete.
    Sent,
    /// Try again after the flush, or when the pipe has more.
    Later,
    /// Copy instead.
    Unsuitable,
}

/// The unsent part of a frame, still in its pipe.
pub struct PartialFrame {
    pipe: OwnedFd,
    pub left: usize,
}

impl Conn {
    /// Sends one DATA frame by splicing, if that is possible now.
    pub fn send_spliced(&mut self, id: u32, stream: &mut Stream) -> Spliced {
        if self.splice_failed {
            return Spliced::Unsuitable;
        }
        if self.backlog() > 0 || !self.writable {
            // Do not copy meanwhile: the pipe still starts with the rest of the previous frame.
            return if stream.spliced {
                Spliced::Later
            } else {
                Spliced::Unsuitable
            };
        }
        let Use::Relay(relay) = &mut stream.what else {
            return Spliced::Unsuitable;
        };
        let source = match &mut relay.source {
            Some(source) if source.readable && relay.opened && relay.bulk => source,
            _ => return Spliced::Unsuitable,
        };
        let available = bytes_available(source.fd.as_raw_fd());
        if available < MIN_SPLICE {
            // A bulk transfer is running. Epoll reports when the pipe has more data or is closed.
            if !stream.spliced || available == 0 || writer_closed(source.fd.as_raw_fd()) {
                return Spliced::Unsuitable;
            }
            source.readable = false;
            return Spliced::Later;
        }
        let size = available
            .min(MAX_DATA)
            .min(usize::try_from(stream.credit).unwrap_or(MAX_DATA));
        if size == 0 {
            return Spliced::Unsuitable;
        }
        let Ok(pipe) = sys::duplicate(source.fd.as_fd()) else {
            return Spliced::Unsuitable;
        };
        let mut header = [0; HEADER];
        frame::set_header(&mut header, Kind::Data, id, size);
        self.out.extend_from_slice(&header);
        while self.writable && self.sent < self.out.len() {
            match sys::write(self.fd.as_raw_fd(), &self.out[self.sent..]) {
                Ok(Some(count)) => self.sent += count,
                Ok(None) => self.writable = false,
                // The next flush reports the error.
                Err(_) => break,
            }
        }
        if self.sent == 0 {
            self.out.clear();
            return if stream.spliced {
                Spliced::Later
            } else {
                Spliced::Unsuitable
            };
        }
        stream.spliced = true;
        stream.credit -= size as u64;
        let mut rest = PartialFrame { pipe, left: size };
        if self.sent < self.out.len() || self.continue_frame(&mut rest).is_err() {
            // A part of the header is sent, so the frame must follow: copy it.
            self.splice_failed = true;
            self.copy(&rest);
        } else {
            self.out.clear();
            self.sent = 0;
            self.partial = Some(rest).filter(|rest| rest.left > 0);
        }
        Spliced::Sent
    }

    /// Continues a started frame. An error means that the socket is broken.
    pub fn send_partial(&mut self) -> io::Result<()> {
        if let Some(mut rest) = self.partial.take() {
            self.continue_frame(&mut rest)?;
            self.partial = Some(rest).filter(|rest| rest.left > 0);
        }
        Ok(())
    }

    fn continue_frame(&mut self, rest: &mut PartialFrame) -> io::Result<()> {
        while self.writable && rest.left > 0 {
            match splice(rest.pipe.as_raw_fd(), self.fd.as_raw_fd(), rest.left)? {
                Some(count) => rest.left -= count,
                None => self.writable = false,
            }
        }
        Ok(())
    }

    fn copy(&mut self, rest: &PartialFrame) {
        let start = self.out.len();
        self.out.resize(start + rest.left, 0);
        let mut at = start;
        // The runner is the only reader of this pipe, so all bytes are there.
        while at < self.out.len() {
            match sys::read(rest.pipe.as_raw_fd(), &mut self.out[at..]) {
                Ok(Some(count)) if count > 0 => at += count,
                _ => {
                    // Disconnect rather than send wrong bytes.
                    // SAFETY: acts on a descriptor that is open.
                    unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
                    return;
                }
            }
        }
    }
}

/// Bytes in a pipe.
fn bytes_available(pipe: RawFd) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the pointer is to a number that outlives the call.
    match unsafe { libc::ioctl(pipe, libc::FIONREAD, &raw mut count) } {
        0 => usize::try_from(count).unwrap_or(0),
        _ => 0,
    }
}

/// The writer has closed the pipe.
fn writer_closed(pipe: RawFd) -> bool {
    sys::poll(pipe, 0, 0) & libc::POLLHUP != 0
}

/// `None`: no room now.
fn splice(from: RawFd, to: RawFd, most: usize) -> io::Result<Option<usize>> {
    let none = std::ptr::null_mut();
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    loop {
        // SAFETY: takes two open descriptors and no offsets; touches no memory of ours.
        let count = unsafe { libc::splice(from, none, to, none, most, flags) };
        match (count, sys::errno()) {
            (1.., _) => return Ok(Some(count as usize)),
            (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
            (_, libc::EINTR) => continue,
            (_, libc::EAGAIN) => return Ok(None),
            (_, code) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spliced;
    use crate::serve::connection::{Conn, Relay, Stream, Use};
    use crate::serve::source_sink::Source;
    use crate::sys;
    use crate::wire::frame::{self, HEADER, Kind, MAX_DATA};
    use std::os::fd::{AsRawFd, OwnedFd};

    fn stream_of(bytes: &[u8]) -> (Stream, OwnedFd) {
        let (output, input) = sys::pipe().expect("a pipe");
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(input.as_raw_fd(), libc::F_SETPIPE_SZ, 1 << 20) };
        assert_eq!(
            sys::write(input.as_raw_fd(), bytes).expect("room"),
            Some(bytes.len())
        );
        let relay = Relay {
            source: Some(Source::new(output, 0).expect("a source")),
            opened: true,
            bulk: true,
            ..Relay::default()
        };
        (Stream::new(Use::Relay(relay)), input)
    }

    #[test]
    fn an_interrupted_frame_is_completed_before_other_frames() {
        let content: Vec<u8> = (0..14 * MAX_DATA as u32).map(|at| (at / 3) as u8).collect();
        let (mut stream, _input) = stream_of(&content);
        stream.grant(1 << 20).expect("less than the largest window");
        let mut interrupted = 0;
        let (ours, theirs) = sys::socket_pair().expect("a pair of sockets");
        for fd in [&ours, &theirs] {
            sys::set_nonblocking(fd.as_raw_fd()).expect("non-blocking mode");
        }
        let mut conn = Conn::new(ours);
        let mut ping = Vec::new();
        frame::put(&mut ping, Kind::Ping, 0, &[1; 8]);
        let (mut wire, mut chunk) = (Vec::new(), vec![0; 1 << 20]);
        for _ in 0..14 {
            // Fill the socket except for one small frame: the header fits, the content does not.
            while let Ok(Some(_)) = sys::write(conn.fd.as_raw_fd(), &ping) {}
            loop {
                let count = sys::read(theirs.as_raw_fd(), &mut chunk[..ping.len()])
                    .unwrap()
                    .unwrap();
                wire.extend_from_slice(&chunk[..count]);
                conn.writable = true;
                if conn.send_spliced(7, &mut stream) == Spliced::Sent {
                    break;
                }
            }
            if conn.partial.is_some() {
                interrupted += 1;
                // While a frame is incomplete, nothing else may be read from the pipe.
                assert!(conn.send_spliced(7, &mut stream) == Spliced::Later);
            }
            conn.put(Kind::Pong, 0, &[2; 8]);
            while conn.backlog() > 0 {
                while let Ok(Some(count @ 1..)) = sys::read(theirs.as_raw_fd(), &mut chunk) {
                    wire.extend_from_slice(&chunk[..count]);
                }
                conn.writable = true;
                assert!(crate::serve::incoming::flush(&mut conn));
            }
        }
        while let Ok(Some(count @ 1..)) = sys::read(theirs.as_raw_fd(), &mut chunk) {
            wire.extend_from_slice(&chunk[..count]);
        }
        let (mut received, mut pongs, mut rest) = (Vec::new(), 0, &wire[..]);
        while !rest.is_empty() {
            let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            let payload = &rest[HEADER..HEADER + length];
            match Kind::from_byte(rest[4]) {
                Some(Kind::Data) => received.extend_from_slice(payload),
                Some(Kind::Pong) => {
                    pongs += 1;
                    assert_eq!(received.len(), pongs * MAX_DATA);
                }
                Some(Kind::Ping) => {}
                other => panic!("{other:?}"),
            }
            rest = &rest[HEADER + length..];
        }
        assert!(interrupted > 0);
        assert!(received == content);
    }

    #[test]
    fn a_small_rest_is_delayed_only_while_the_writer_is_open() {
        let (mut stream, input) = stream_of(&[7; MAX_DATA + 100]);
        let (ours, theirs) = sys::socket_pair().expect("a pair of sockets");
        sys::set_nonblocking(ours.as_raw_fd()).expect("non-blocking mode");
        let mut conn = Conn::new(ours);
        assert!(conn.send_spliced(7, &mut stream) == Spliced::Sent);
        assert!(conn.partial.is_none() && conn.backlog() == 0);
        assert!(conn.send_spliced(7, &mut stream) == Spliced::Later);
        drop(input);
        if let Use::Relay(Relay {
            source: Some(source), ..
        }) = &mut stream.what
        {
            assert!(!source.readable);
            source.readable = true;
        }
        assert!(conn.send_spliced(7, &mut stream) == Spliced::Unsuitable);
        drop(theirs);
    }
}
