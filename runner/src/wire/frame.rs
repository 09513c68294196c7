//! Frames: `length u32 | type u8 | stream u32`, big-endian, then `length` bytes of payload.
//!
//! The decoder is incremental and does not trust lengths. It checks a header against the limit of its type
//! before any payload arrives, and buffers only bytes that have arrived.

pub const HEADER: usize = 9;
/// Content of DATA and OUTPUT.
pub const MAX_DATA: usize = 64 * 1024;
/// A control body (REQUEST, OPEN, EVENT, DONE, ERROR, WELCOME, GOODBYE).
pub const MAX_BODY: usize = 1024 * 1024;
/// Bytes that a peer may send on a new stream before the first WINDOW.
pub const INITIAL_WINDOW: u32 = 256 * 1024;
/// The largest credit of a stream.
pub const MAX_WINDOW: u64 = 64 * 1024 * 1024;
/// Channel and event number before the content of an OUTPUT frame.
pub const OUTPUT_PREFIX: usize = 9;

pub const MAGIC: &[u8; 8] = b"SKRUNNER";
pub const MAJOR: u16 = 1;
pub const MINOR: u16 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Hello = 0x01,
    Welcome = 0x02,
    Goodbye = 0x03,
    Ping = 0x04,
    Pong = 0x05,
    Request = 0x10,
    Open = 0x11,
    Event = 0x12,
    Done = 0x13,
    Error = 0x14,
    Cancel = 0x15,
    Data = 0x20,
    Output = 0x21,
    End = 0x22,
    Window = 0x23,
}

impl Kind {
    pub fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::*;
        const ALL: [Kind; 15] = [
            Hello, Welcome, Goodbye, Ping, Pong, Request, Open, Event, Done, Error, Cancel, Data, Output,
            End, Window,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// The smallest and largest payload of a frame of this kind.
    pub fn bounds(self) -> (usize, usize) {
        match self {
            Kind::Hello => (12, 12),
            Kind::Ping | Kind::Pong => (8, 8),
            Kind::End | Kind::Cancel => (0, 0),
            Kind::Window => (4, 4),
            Kind::Data => (1, MAX_DATA),
            Kind::Output => (OUTPUT_PREFIX + 1, OUTPUT_PREFIX + MAX_DATA),
            _ => (1, MAX_BODY),
        }
    }

    /// Frames about the connection have stream 0.
    pub fn on_connection(self) -> bool {
        matches!(
            self,
            Kind::Hello | Kind::Welcome | Kind::Goodbye | Kind::Ping | Kind::Pong
        )
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: Kind,
    pub stream: u32,
    pub payload: &'a [u8],
}

/// Why a connection ends. `code` is the GOODBYE code.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub code: &'static str,
    pub message: String,
}

impl Violation {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Violation {
            code,
            message: message.into(),
        }
    }

    pub fn out_of_order(message: impl Into<String>) -> Self {
        Violation::new("out_of_order", message)
    }
}

pub fn put(out: &mut Vec<u8>, kind: Kind, stream: u32, payload: &[u8]) {
    put_header(out, kind, stream, payload.len());
    out.extend_from_slice(payload);
}

pub fn put_header(out: &mut Vec<u8>, kind: Kind, stream: u32, len: usize) {
    let start = out.len();
    out.resize(start + HEADER, 0);
    set_header(&mut out[start..], kind, stream, len);
}

/// Writes a header to the start of `out`.
pub fn set_header(out: &mut [u8], kind: Kind, stream: u32, len: usize) {
    debug_assert!(
        len >= kind.bounds().0 && len <= kind.bounds().1,
        "{kind:?} of {len} bytes"
    );
    out[..4].copy_from_slice(&(len as u32).to_be_bytes());
    out[4] = kind as u8;
    out[5..HEADER].copy_from_slice(&stream.to_be_bytes());
}

/// An OUTPUT frame whose content is in two slices.
pub fn put_output(out: &mut Vec<u8>, stream: u32, channel: u8, number: u64, head: &[u8], tail: &[u8]) {
    put_header(out, Kind::Output, stream, OUTPUT_PREFIX + head.len() + tail.len());
    out.push(channel);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
}

/// Parses the frame at the start of `input` and returns its total length. `None` if it is incomplete.
pub fn parse(input: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Violation> {
    let Some(header) = input.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    let Some(kind) = Kind::from_byte(header[4]) else {
        return Err(Violation::new(
            "unknown_frame",
            format!("frame type 0x{:02x} is unknown", header[4]),
        ));
    };
    let (least, most) = kind.bounds();
    if len > most {
        return Err(Violation::new(
            "too_long",
            format!("a {kind:?} frame has {len} bytes; the maximum is {most}"),
        ));
    }
    if len < least {
        return Err(Violation::new(
            "malformed",
            format!("a {kind:?} frame has {len} bytes; the minimum is {least}"),
        ));
    }
    if kind.on_connection() != (stream == 0) {
        return Err(Violation::new(
            "malformed",
            format!("a {kind:?} frame on stream {stream}"),
        ));
    }
    match input.get(HEADER..HEADER + len) {
        Some(payload) => Ok(Some((
            Frame {
                kind,
                stream,
                payload,
            },
            HEADER + len,
        ))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_frame_waits_and_a_complete_one_parses() {
        let mut bytes = Vec::new();
        put_output(&mut bytes, 7, 2, 1 << 40, b"hel", b"lo");
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
        let (frame, used) = parse(&bytes).unwrap().unwrap();
        assert_eq!((frame.kind, frame.stream, used), (Kind::Output, 7, bytes.len()));
    }

    #[test]
    fn a_frame_is_rejected_by_its_header_alone() {
        let refuse = |len: u32, kind: u8, stream: u32| {
            let mut header = len.to_be_bytes().to_vec();
            header.push(kind);
            header.extend_from_slice(&stream.to_be_bytes());
            parse(&header).unwrap_err().code
        };
        assert_eq!(refuse(u32::MAX, Kind::Request as u8, 1), "too_long");
        assert_eq!(refuse(MAX_DATA as u32 + 1, Kind::Data as u8, 1), "too_long");
        assert_eq!(refuse(0, Kind::Data as u8, 1), "malformed");
        assert_eq!(refuse(5, Kind::Window as u8, 1), "too_long");
        assert_eq!(refuse(4, Kind::Window as u8, 0), "malformed");
        assert_eq!(refuse(8, Kind::Ping as u8, 3), "malformed");
        assert_eq!(refuse(1, 0x77, 1), "unknown_frame");
    }
}
