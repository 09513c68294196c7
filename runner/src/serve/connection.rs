//! One client's connection: buffers, streams and flow-control windows.
//!
//! Memory is bounded in both directions. The runner creates outgoing frames only while `out` is below
//! `OUT_LOW`; until then output stays in its ring and file content in its pipe. Incoming data is bounded by
//! the windows that the runner grants and by `IN_QUEUED`. The runner stops reading from a client that does
//! not read its responses.

use crate::files::worker::Handle;
use crate::serve::source_sink::{Sink, Source};
use crate::serve::splice::PartialFrame;
use crate::sys;
use crate::wire::frame::{self, INITIAL_WINDOW, Kind, MAX_WINDOW, Violation};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

/// The runner adds data frames while fewer bytes than this are unsent.
pub const OUT_LOW: usize = 256 * 1024;
/// The runner stops reading from the client when more bytes than this are unsent.
pub const OUT_HIGH: usize = 2 * 1024 * 1024;
/// The runner stops reading from the client when its streams together have more bytes queued than this.
pub const IN_QUEUED: usize = 8 * 1024 * 1024;
pub const MAX_STREAMS: usize = 256;
/// The runner sends a WINDOW frame after this many consumed bytes, or as soon as nothing is queued.
const WINDOW_STEP: u32 = INITIAL_WINDOW / 4;

pub enum Use {
    /// Sends a task's output. Takes its stdin if this stream is the stdin owner.
    Output {
        task: u32,
    },
    Wait {
        task: u32,
    },
    /// Waits for the start of this task, or of a shell (`None`).
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
#[derive(Default)]
pub struct Relay {
    pub source: Option<Source>,
    pub sink: Option<Sink>,
    pub job: Option<Handle>,
    /// For a dial: addresses to try if the current one fails.
    pub connecting: Option<Vec<std::net::SocketAddr>>,
    pub opened: bool,
    /// A finite bulk transfer, where latency of single chunks does not matter.
    pub bulk: bool,
    pub sent_end: bool,
}

pub struct Stream {
    pub credit: u64,
    window: u32,
    consumed: u32,
    pub ended: bool,
    /// The content is spliced (`splice`).
    pub spliced: bool,
    pub what: Use,
}

impl Stream {
    pub fn new(what: Use) -> Stream {
        Stream {
            credit: INITIAL_WINDOW as u64,
            window: INITIAL_WINDOW,
            consumed: 0,
            ended: false,
            spliced: false,
            what,
        }
    }

    /// The worker has not sent its OPEN body yet.
    pub fn waits_to_open(&self) -> bool {
        matches!(&self.what, Use::Relay(relay) if !relay.opened)
    }

    pub fn grant(&mut self, bytes: u32) -> Result<(), Violation> {
        self.credit += bytes as u64;
        if bytes == 0 || self.credit > MAX_WINDOW {
            return Err(Violation::new(
                "flow_control",
                "a window update of 0 bytes, or beyond the largest window",
            ));
        }
        Ok(())
    }

    /// Accounts for data from the client.
    pub fn receive(&mut self, bytes: usize) -> Result<(), Violation> {
        if self.ended {
            return Err(Violation::out_of_order("DATA after END"));
        }
        match self.window.checked_sub(bytes as u32) {
            Some(left) => self.window = left,
            None => return Err(Violation::new("flow_control", "more DATA than the window allows")),
        }
        Ok(())
    }

    /// Accounts for data that was passed on, and sends a WINDOW frame when it is due.
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
    /// How many bytes of `out` are sent.
    pub sent: usize,
    /// The unsent part of a spliced frame. It precedes `out`.
    pub partial: Option<PartialFrame>,
    /// Splicing failed on this socket, so the runner copies instead.
    pub splice_failed: bool,
    pub readable: bool,
    pub writable: bool,
    pub greeted: bool,
    /// A GOODBYE is queued, and the runner ignores further frames. The connection stays open until the
    /// client closes it or `LINGER` passes: a client that is cut off while it writes never reads the reason.
    pub closing: bool,
    pub lingering: bool,
    /// The runner has sent everything and shut down its side.
    pub shut: bool,
    /// The client sent GOODBYE.
    pub client_left: bool,
    pub streams: BTreeMap<u32, Stream>,
    pub last_stream: u32,
    /// The stream that was served last. The next round starts after it, so no stream starves.
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
            partial: None,
            splice_failed: false,
            readable: true,
            writable: true,
            greeted: false,
            closing: false,
            lingering: false,
            shut: false,
            client_left: false,
            streams: BTreeMap::new(),
            last_stream: 0,
            cursor: 0,
        }
    }

    pub fn backlog(&self) -> usize {
        self.out.len() - self.sent + self.partial.as_ref().map_or(0, |rest| rest.left)
    }

    pub fn put(&mut self, kind: Kind, stream: u32, payload: &[u8]) {
        frame::put(&mut self.out, kind, stream, payload);
    }

    /// Sends the last frame of a stream and removes the stream.
    pub fn finish(&mut self, stream: u32, result: Result<Vec<u8>, crate::wire::error::OpError>) {
        let result = match result {
            Ok(body) if body.len() > frame::MAX_BODY => Err(crate::wire::error::OpError::new(
                "limit",
                "the response is larger than a frame",
            )),
            result => result,
        };
        match result {
            Ok(body) => self.put(Kind::Done, stream, &body),
            Err(error) => self.put(Kind::Error, stream, &error.body()),
        }
        self.streams.remove(&stream);
    }

    /// Ends the connection with a reason. Frames that are already queued are still sent.
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

    /// Bytes that are queued for slow receivers.
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
