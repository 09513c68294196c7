//! Scrubs what the server sends over a WebSocket. A message may be cut into frames at any byte. So the heads of frames
//! are taken out of the stream, and put back at the same places afterwards. Scrubbing keeps the length.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::scrub::{Scrubber, Stream};

const CONTROL: u8 = 0x08;
const LONGEST_CONTROL: u64 = 125;
const MASKED: u8 = 0x80;
/// Frames that wait behind what may be the beginning of a secret.
const MOST_WAITING: usize = 1024;

pub(super) struct Frames {
    scrubber: Arc<Scrubber>,
    /// The data of all messages, as one stream.
    data: Stream,
    /// Bytes of `data` that came in and went out.
    taken: u64,
    sent: u64,
    /// What stands between the data, and after how many bytes of it: heads, and whole control frames.
    between: VecDeque<(u64, Bytes)>,
    /// The beginning of a head or of a control frame.
    partial: BytesMut,
    /// Bytes of the present frame's data that are still to come.
    left: u64,
}

impl Frames {
    pub fn new(scrubber: Arc<Scrubber>) -> Frames {
        Frames {
            data: Stream::new(Arc::clone(&scrubber)),
            scrubber,
            taken: 0,
            sent: 0,
            between: VecDeque::new(),
            partial: BytesMut::new(),
            left: 0,
        }
    }

    /// Takes a piece of the stream, and returns what can be sent. It may be empty.
    pub fn push(&mut self, mut piece: Bytes) -> io::Result<Bytes> {
        let mut out = BytesMut::new();
        while !piece.is_empty() {
            if self.left == 0 {
                self.head(&mut piece)?;
                self.put(b"", &mut out);
                continue;
            }
            let length = piece.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= length as u64;
            self.taken += length as u64;
            let ready = self.data.push(piece.split_to(length));
            self.put(&ready, &mut out);
        }
        if self.between.len() > MOST_WAITING {
            return Err(io::Error::other("too many frames within what may be a secret"));
        }
        Ok(out.freeze())
    }

    /// See `Stream::releasable`.
    pub fn releasable(&self) -> bool {
        self.data.releasable()
    }

    pub fn release(&mut self) -> Bytes {
        let ready = self.data.release();
        let mut out = BytesMut::new();
        self.put(&ready, &mut out);
        out.freeze()
    }

    /// The rest, at the end of the stream.
    pub fn finish(&mut self) -> Bytes {
        let ready = self.data.finish();
        let mut out = BytesMut::new();
        self.put(&ready, &mut out);
        out.freeze()
    }

    /// Reads one more byte of a head or of a control frame.
    fn head(&mut self, piece: &mut Bytes) -> io::Result<()> {
        self.partial.extend_from_slice(&piece.split_to(1));
        let Some((head, length)) = parse(&self.partial)? else {
            return Ok(());
        };
        if self.partial[0] & CONTROL == 0 {
            self.left = length;
        } else if (self.partial.len() - head) as u64 == length {
            self.scrubber.whole(&mut self.partial[head..]);
        } else {
            return Ok(());
        }
        self.between
            .push_back((self.taken, self.partial.split().freeze()));
        Ok(())
    }

    /// Appends data, and what stands before, between and behind it.
    fn put(&mut self, mut data: &[u8], out: &mut BytesMut) {
        while let Some((at, _)) = self.between.front() {
            let before = usize::try_from(at - self.sent).unwrap_or(usize::MAX);
            if before > data.len() {
                break;
            }
            out.extend_from_slice(&data[..before]);
            data = &data[before..];
            self.sent = *at;
            out.extend(
                self.between
                    .pop_front()
                    .map(|(_, bytes)| bytes)
                    .unwrap_or_default(),
            );
        }
        out.extend_from_slice(data);
        self.sent += data.len() as u64;
    }
}

/// The lengths of a frame's head and of its data. `None`: the head is not complete.
fn parse(bytes: &[u8]) -> io::Result<Option<(usize, u64)>> {
    let [first, second, rest @ ..] = bytes else {
        return Ok(None);
    };
    if second & MASKED != 0 {
        return Err(io::Error::other("a server must not mask its frames"));
    }
    let (head, length) = match (second, rest) {
        (126, [a, b, ..]) => (4, u64::from(u16::from_be_bytes([*a, *b]))),
        (127, [a, b, c, d, e, f, g, h, ..]) => (10, u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h])),
        (126 | 127, _) => return Ok(None),
        (short, _) => (2, u64::from(*short)),
    };
    if first & CONTROL != 0 && length > LONGEST_CONTROL {
        return Err(io::Error::other("a control frame is too long"));
    }
    Ok(Some((head, length)))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "tok_7Hq+zW/19aXc";

    static SCRUBBER: LazyLock<Arc<Scrubber>> = LazyLock::new(|| {
        let secret = SECRET.into();
        Scrubber::new([&secret].into_iter(), Vec::new()).unwrap().unwrap()
    });

    fn frames() -> Frames {
        Frames::new(Arc::clone(&SCRUBBER))
    }

    fn frame(first: u8, data: &[u8]) -> Vec<u8> {
        let length = data.len();
        let head = match length {
            0..126 => vec![first, length as u8],
            126..65_536 => [&[first, 126], &(length as u16).to_be_bytes()[..]].concat(),
            _ => [&[first, 127], &(length as u64).to_be_bytes()[..]].concat(),
        };
        [head.as_slice(), data].concat()
    }

    fn pushed(frames: &mut Frames, pieces: &[&[u8]]) -> Vec<u8> {
        let push = |piece: &&[u8]| frames.push(Bytes::copy_from_slice(piece)).unwrap();
        let mut out: Vec<u8> = pieces.iter().flat_map(push).collect();
        out.extend(frames.finish());
        out
    }

    #[test]
    fn finds_a_secret_across_frames_wherever_the_stream_is_cut() {
        let (left, right) = SECRET.as_bytes().split_at(9);
        let stars = [b'*'; SECRET.len()];
        let given = [
            frame(0x01, &[b"a ".as_slice(), left].concat()),
            frame(0x89, b"ping"),
            frame(0x00, b""),
            frame(0x80, &[right, b" b"].concat()),
            frame(0x8a, SECRET.as_bytes()),
            frame(0x82, &[&[b'.'; 300], SECRET.as_bytes(), &[b'.'; 70_000]].concat()),
            frame(0x88, &[b"\x03\xe8", SECRET.as_bytes()].concat()),
        ]
        .concat();
        let expected = [
            frame(0x01, &[b"a ".as_slice(), &stars[..9]].concat()),
            frame(0x89, b"ping"),
            frame(0x00, b""),
            frame(0x80, &[&stars[9..], b" b"].concat()),
            frame(0x8a, &stars),
            frame(0x82, &[&[b'.'; 300], &stars[..], &[b'.'; 70_000]].concat()),
            frame(0x88, &[b"\x03\xe8", &stars[..]].concat()),
        ]
        .concat();
        for cut in (0..430).chain([given.len() - 20, given.len() - 1, given.len()]) {
            let (before, after) = given.split_at(cut);
            assert!(
                pushed(&mut frames(), &[before, after]) == expected,
                "cut at {cut}"
            );
        }
        let single: Vec<&[u8]> = given.chunks(1).collect();
        assert!(pushed(&mut frames(), &single) == expected);
    }

    #[test]
    fn sends_a_message_without_waiting_for_the_next_one() {
        let mut frames = frames();
        assert_eq!(
            frames.push(frame(0x81, b"hello").into()).unwrap(),
            frame(0x81, b"hello")
        );
        assert_eq!(frames.push(frame(0x81, b"").into()).unwrap(), frame(0x81, b""));
        assert_eq!(
            frames.push(frame(0x81, b"and tok").into()).unwrap(),
            b"\x81\x07and "[..]
        );
        assert!(frames.releasable());
        assert_eq!(frames.release(), "tok");
    }

    #[test]
    fn keeps_few_frames_that_wait() {
        let mut frames = frames();
        frames.push(frame(0x01, b"tok_7Hq+z").into()).unwrap();
        assert!(frames.push(frame(0x89, b"").repeat(1000).into()).is_ok());
        assert!(frames.push(frame(0x89, b"").repeat(1000).into()).is_err());
        assert!(self::frames().push(frame(0x89, b"").repeat(5000).into()).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// A hostile server: whatever it sends, in whatever pieces, has one meaning, and keeps its length.
        #[test]
        fn any_bytes_in_any_pieces(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..10], 0..300), cut in any::<prop::sample::Index>()) {
            let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
            let all = |pieces: &[&[u8]]| {
                let mut frames = frames();
                let mut out = Vec::new();
                for piece in pieces {
                    out.extend(frames.push(Bytes::copy_from_slice(piece)).ok()?);
                }
                out.extend(frames.finish());
                // The beginning of a head that never came is not sent.
                out.extend(&frames.partial);
                Some(out)
            };
            let whole = all(&[&bytes]);
            prop_assert_eq!(&whole, &all(&[left, right]));
            prop_assert!(whole.is_none_or(|out| out == bytes));
        }
    }

    #[test]
    fn refuses_what_it_could_not_scrub() {
        assert!(frames().push(b"\x81\x84key!text".as_slice().into()).is_err());
        assert!(frames().push(b"\x89\x7e\x01\x00".as_slice().into()).is_err());
    }
}
