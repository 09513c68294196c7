//! One client's connection: its buffers, its streams and their windows.
//!
//! Memory is bounded on both sides. Outgoing bytes are made only while the buffer is below `OUT_LOW`; output waits in its ring
//! and files in their pipes until then. Incoming bytes are bounded by the windows we grant, by `IN_QUEUED` for the
//! connection as a whole, and a client that sends requests without reading the answers is not read from.

use crate::files::worker::Handle;
use crate::serve::source_sink::{Sink, Source};
use crate::serve::splice::Rest;
use crate::sys;
use crate::wire::frame::{self, INITIAL_WINDOW, Kind, MAX_WINDOW, Violation};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

/// New data frames are added while less than this waits for the socket.
pub const OUT_LOW: usize = 256 * 1024;
/// Above this the client is not read from.
pub const OUT_HIGH: usize = 2 * 1024 * 1024;
/// Bytes of all streams together that may wait for slow receivers before the client is not read from.
pub const IN_QUEUED: usize = 8 * 1024 * 1024;
pub const MAX_STREAMS: usize = 256;
/// Consumed bytes are given back to the sender in steps of this, or when nothing is left waiting.
const WINDOW_STEP: u32 = INITIAL_WINDOW / 4;

pub enum Use {
    /// Sends a task's output, and takes its stdin where this stream owns it.
    Output {
        task: u32,
    },
    Wait {
        task: u32,
    },
    /// Is answered when a start is over: of this task, or of a shell.
    Start {
        task: Option<u32>,
    },
    Relay(Relay),
    Ports,
}

impl Use {
    pub fn task(&self) -> Option<u32> {
        match self {
            Use::Output { task } | Use::Wait { task } => Some(*task),
            Use::Start { task } => *task,
            Use::Relay(_) | Use::Ports => None,
        }
    }
}

/// Bytes between the client and a worker's pipes or a dialled socket.
pub struct Relay {
    pub source: Option<Source>,
    pub sink: Option<Sink>,
    pub job: Option<Handle>,
    /// For a dial: addresses that are still to be tried while connecting.
    pub connecting: Option<Vec<std::net::SocketAddr>>,
    pub opened: bool,
    /// Much content that comes to its end by itself, and that nobody waits for piece by piece.
    pub bulk: bool,
    pub sent_end: bool,
}

pub struct Stream {
    pub credit: u64,
    window: u32,
    consumed: u32,
    pub ended: bool,
    /// Its content goes the short way.
    pub direct: bool,
    pub what: Use,
}

impl Stream {
    pub fn new(what: Use) -> Stream {
        Stream {
            credit: INITIAL_WINDOW as u64,
            window: INITIAL_WINDOW,
            consumed: 0,
            ended: false,
            direct: false,
            what,
        }
    }

    /// A worker has not yet said that it has begun.
    pub fn waits_to_open(&self) -> bool {
        matches!(&self.what, Use::Relay(relay) if !relay.opened)
    }

    pub fn grant(&mut self, bytes: u32) -> Result<(), Violation> {
        self.credit += bytes as u64;
        if bytes == 0 || self.credit > MAX_WINDOW {
            return Err(Violation::new(
                "flow_control",
                "a window update of nothing, or beyond the largest window",
            ));
        }
        Ok(())
    }

    /// The client has sent this much on the stream.
    pub fn receive(&mut self, bytes: usize) -> Result<(), Violation> {
        if self.ended {
            return Err(Violation::new("out_of_order", "data after the end of a stream"));
        }
        match self.window.checked_sub(bytes as u32) {
            Some(left) => self.window = left,
            None => return Err(Violation::new("flow_control", "more data than the window allows")),
        }
        Ok(())
    }

    /// This much of it has been passed on; announces it when it is worth a frame.
    pub fn consume(&mut self, bytes: usize, idle: bool, id: u32, out: &mut Vec<u8>) {
        self.consumed += bytes as u32;
        if self.consumed > 0 && !self.ended && (idle || self.consumed >= WINDOW_STEP) {
            frame::put(out, Kind::Window, id, &self.consumed.to_be_bytes());
            self.window += self.consumed;
            self.consumed = 0;
        }
    }
}

pub struct Conn {
    pub fd: OwnedFd,
    pub input: Vec<u8>,
    pub out: Vec<u8>,
    /// How much of `out` the socket has taken.
    pub sent: usize,
    /// Of a frame that has begun: goes out before `out`.
    pub rest: Option<Rest>,
    /// What would go the short way cannot, here.
    pub copies: bool,
    pub readable: bool,
    pub writable: bool,
    pub greeted: bool,
    /// Set when a GOODBYE is queued: nothing more is acted on. The connection lingers until the client has closed its side (or a
    /// short time), because a client that is cut off while it still writes would never read the reason.
    pub closing: bool,
    pub lingering: bool,
    /// Our side is shut: everything that we had to say was sent.
    pub shut: bool,
    /// The client said GOODBYE itself.
    pub left: bool,
    pub streams: BTreeMap<u32, Stream>,
    pub last_stream: u32,
    /// Where the next round of sending starts, so that one stream cannot starve the others.
    pub cursor: u32,
}

impl Conn {
    pub fn new(fd: OwnedFd) -> Conn {
        sys::widen_socket(fd.as_raw_fd(), OUT_HIGH);
        Conn {
            fd,
            input: Vec::new(),
            out: Vec::new(),
            sent: 0,
            rest: None,
            copies: false,
            readable: true,
            writable: true,
            greeted: false,
            closing: false,
            lingering: false,
            shut: false,
            left: false,
            streams: BTreeMap::new(),
            last_stream: 0,
            cursor: 0,
        }
    }

    pub fn backlog(&self) -> usize {
        self.out.len() - self.sent + self.rest.as_ref().map_or(0, |rest| rest.left)
    }

    pub fn put(&mut self, kind: Kind, stream: u32, payload: &[u8]) {
        frame::put(&mut self.out, kind, stream, payload);
    }

    /// The last frame of a stream, which then no longer exists.
    pub fn finish(&mut self, stream: u32, result: Result<Vec<u8>, crate::wire::error::OpError>) {
        let result = match result {
            Ok(body) if body.len() > frame::MAX_BODY => Err(crate::wire::error::OpError::new(
                "limit",
                "the answer is larger than a frame",
            )),
            result => result,
        };
        match result {
            Ok(body) => self.put(Kind::Done, stream, &body),
            Err(error) => self.put(Kind::Error, stream, &error.body()),
        }
        self.streams.remove(&stream);
    }

    /// Ends the connection with a reason; what was queued before still goes out.
    pub fn goodbye(&mut self, violation: &Violation) {
        if !self.closing {
            let body = crate::wire::cbor::Fields::new()
                .text("code", violation.code)
                .text("message", &violation.message)
                .int("major", frame::MAJOR)
                .int("minor", frame::MINOR)
                .encode();
            self.put(Kind::Goodbye, 0, &body);
            self.closing = true;
        }
    }

    /// Bytes that wait for slow receivers.
    pub fn queued(&self) -> usize {
        self.streams
            .values()
            .map(|stream| match &stream.what {
                Use::Relay(relay) => relay.sink.as_ref().map_or(0, Sink::queued),
                _ => 0,
            })
            .sum()
    }
}
