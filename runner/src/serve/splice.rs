//! The short way for much content: out of a worker's pipe into the client's socket, pages as they are. What would be copied three times here (out of the
//! pipe, into a frame, into the socket) is not even looked at; a file of the page cache reaches the client's buffer in one copy, the client's own.
//!
//! A frame that has begun must be finished before anything else is sent. So the short way is taken only when nothing waits for the socket, only for bytes that
//! are in the pipe already, and what the socket did not take of them is kept as the connection's `Rest`.

use crate::serve::connection::{Conn, Stream, Use};
use crate::sys;
use crate::wire::frame::{self, HEADER, Kind, MAX_DATA};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// Less is sooner copied, unless more is about to come.
const WORTH_IT: usize = 32 * 1024;

#[derive(PartialEq)]
pub enum Direct {
    /// One frame has begun, and may be out.
    Sent,
    /// When the socket has taken what waits for it, or when there is more to send.
    Later,
    /// The long way, then.
    No,
}

/// The rest of a frame, still in its pipe.
pub struct Rest {
    pipe: OwnedFd,
    pub left: usize,
}

impl Conn {
    /// Sends one frame of content, if it can go this way now.
    pub fn send_directly(&mut self, id: u32, stream: &mut Stream) -> Direct {
        if self.copies {
            return Direct::No;
        }
        if self.backlog() > 0 || !self.writable {
            // Not the long way meanwhile: what is left of its frame comes first in its pipe.
            return if stream.direct { Direct::Later } else { Direct::No };
        }
        let Use::Relay(relay) = &mut stream.what else {
            return Direct::No;
        };
        // Of a worker that has said OPEN.
        let source = match &mut relay.source {
            Some(source) if source.readable && relay.opened && relay.bulk => source,
            _ => return Direct::No,
        };
        let there = waiting(source.fd.as_raw_fd());
        if there < WORTH_IT {
            // Whoever has sent much in a row is at it. The kernel says when there is more, or when that was all.
            if !stream.direct || there == 0 || is_all(source.fd.as_raw_fd()) {
                return Direct::No;
            }
            source.readable = false;
            return Direct::Later;
        }
        let size = there
            .min(MAX_DATA)
            .min(usize::try_from(stream.credit).unwrap_or(MAX_DATA));
        if size == 0 {
            return Direct::No;
        }
        let Ok(pipe) = sys::duplicate(source.fd.as_fd()) else {
            return Direct::No;
        };
        let mut header = [0; HEADER];
        frame::set_header(&mut header, Kind::Data, id, size);
        self.out.extend_from_slice(&header);
        while self.writable && self.sent < self.out.len() {
            match sys::write(self.fd.as_raw_fd(), &self.out[self.sent..]) {
                Ok(Some(count)) => self.sent += count,
                Ok(None) => self.writable = false,
                // Whoever flushes next is told the same.
                Err(_) => break,
            }
        }
        if self.sent == 0 {
            self.out.clear();
            return if stream.direct { Direct::Later } else { Direct::No };
        }
        stream.direct = true;
        stream.credit -= size as u64;
        let mut rest = Rest { pipe, left: size };
        if self.sent < self.out.len() || self.go_on(&mut rest).is_err() {
            // The header is out, or a part of it: now the frame must follow, be it the long way.
            self.copies = true;
            self.copy(&rest);
        } else {
            self.out.clear();
            self.sent = 0;
            self.rest = Some(rest).filter(|rest| rest.left > 0);
        }
        Direct::Sent
    }

    /// What is left of a frame that has begun. An error: the socket is broken.
    pub fn send_rest(&mut self) -> io::Result<()> {
        if let Some(mut rest) = self.rest.take() {
            self.go_on(&mut rest)?;
            self.rest = Some(rest).filter(|rest| rest.left > 0);
        }
        Ok(())
    }

    fn go_on(&mut self, rest: &mut Rest) -> io::Result<()> {
        while self.writable && rest.left > 0 {
            match splice(rest.pipe.as_raw_fd(), self.fd.as_raw_fd(), rest.left)? {
                Some(count) => rest.left -= count,
                None => self.writable = false,
            }
        }
        Ok(())
    }

    fn copy(&mut self, rest: &Rest) {
        let start = self.out.len();
        self.out.resize(start + rest.left, 0);
        let mut at = start;
        // All of it is there: nobody else reads from this pipe.
        while at < self.out.len() {
            match sys::read(rest.pipe.as_raw_fd(), &mut self.out[at..]) {
                Ok(Some(count)) if count > 0 => at += count,
                _ => {
                    // Should it not be, the client is cut off, rather than given other bytes.
                    // SAFETY: acts on a descriptor that is open.
                    unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
                    return;
                }
            }
        }
    }
}

/// How many bytes are in a pipe.
fn waiting(pipe: RawFd) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the pointer is to a number that outlives the call.
    match unsafe { libc::ioctl(pipe, libc::FIONREAD, &raw mut count) } {
        0 => usize::try_from(count).unwrap_or(0),
        _ => 0,
    }
}

/// Nobody writes to it any more.
fn is_all(pipe: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd: pipe,
        events: 0,
        revents: 0,
    };
    // SAFETY: one entry, valid for the call; a zero timeout does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) };
    poll.revents & libc::POLLHUP != 0
}

/// `None` is "no room now".
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
    use super::Direct;
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
            sink: None,
            job: None,
            connecting: None,
            opened: true,
            bulk: true,
            sent_end: false,
        };
        (Stream::new(Use::Relay(relay)), input)
    }

    #[test]
    fn a_frame_whose_content_finds_no_room_is_finished_before_anything_else() {
        let content: Vec<u8> = (0..14 * MAX_DATA as u32).map(|at| (at / 3) as u8).collect();
        let (mut stream, _input) = stream_of(&content);
        stream.grant(1 << 20).expect("less than the largest window");
        let mut interrupted = 0;
        let (ours, theirs) = sys::socket_pair().expect("a pair of sockets");
        for fd in [&ours, &theirs] {
            sys::set_nonblocking(fd.as_raw_fd()).expect("not to wait");
        }
        let mut conn = Conn::new(ours);
        let mut ping = Vec::new();
        frame::put(&mut ping, Kind::Ping, 0, &[1; 8]);
        let (mut wire, mut chunk) = (Vec::new(), vec![0; 1 << 20]);
        for _ in 0..14 {
            // Full, but for one small message: the header goes out, what it announces does not.
            while let Ok(Some(_)) = sys::write(conn.fd.as_raw_fd(), &ping) {}
            loop {
                let count = sys::read(theirs.as_raw_fd(), &mut chunk[..ping.len()])
                    .unwrap()
                    .unwrap();
                wire.extend_from_slice(&chunk[..count]);
                conn.writable = true;
                if conn.send_directly(7, &mut stream) == Direct::Sent {
                    break;
                }
            }
            if conn.rest.is_some() {
                interrupted += 1;
                // Neither this way nor the other may anything be taken out of the pipe now.
                assert!(conn.send_directly(7, &mut stream) == Direct::Later);
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
    fn little_is_waited_for_only_while_more_can_come() {
        let (mut stream, input) = stream_of(&[7; MAX_DATA + 100]);
        let (ours, theirs) = sys::socket_pair().expect("a pair of sockets");
        sys::set_nonblocking(ours.as_raw_fd()).expect("not to wait");
        let mut conn = Conn::new(ours);
        assert!(conn.send_directly(7, &mut stream) == Direct::Sent);
        assert!(conn.rest.is_none() && conn.backlog() == 0);
        assert!(conn.send_directly(7, &mut stream) == Direct::Later);
        drop(input);
        if let Use::Relay(Relay {
            source: Some(source), ..
        }) = &mut stream.what
        {
            assert!(!source.readable);
            source.readable = true;
        }
        assert!(conn.send_directly(7, &mut stream) == Direct::No);
        drop(theirs);
    }
}
