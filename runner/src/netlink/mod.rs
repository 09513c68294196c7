//! Netlink messages: build, send, receive.

pub mod nft;

use crate::sys::{check, own};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

pub const REQUEST: u16 = 0x1;
pub const ACK: u16 = 0x4;
pub const DUMP: u16 = 0x300;
pub const CREATE: u16 = 0x400;
pub const APPEND: u16 = 0x800;

const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NESTED: u16 = 0x8000;
/// The kernel's largest message by default.
const ANSWER: usize = 32 * 1024;

/// A message under construction. `finish` sets its length.
pub struct Message(Vec<u8>);

impl Message {
    /// `fixed` is the structure after the netlink header.
    pub fn new(kind: u16, flags: u16, sequence: u32, fixed: &[u8]) -> Message {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(fixed);
        Message(bytes)
    }

    pub fn attribute(&mut self, kind: u16, data: &[u8]) -> &mut Message {
        let length = (data.len() + 4) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(data);
        self.pad();
        self
    }

    /// A structure before the attributes of a nested message.
    pub fn fixed(&mut self, bytes: &[u8]) -> &mut Message {
        self.0.extend(bytes);
        self
    }

    pub fn text(&mut self, kind: u16, text: &str) -> &mut Message {
        let mut data = text.as_bytes().to_vec();
        data.push(0);
        self.attribute(kind, &data)
    }

    /// Big-endian, as nf_tables requires.
    pub fn number(&mut self, kind: u16, value: u32) -> &mut Message {
        self.attribute(kind, &value.to_be_bytes())
    }

    pub fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) -> &mut Message {
        let start = self.0.len();
        self.0.extend([0; 4]);
        fill(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&(kind | NESTED).to_ne_bytes());
        self
    }

    pub fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }

    fn pad(&mut self) {
        while !self.0.len().is_multiple_of(4) {
            self.0.push(0);
        }
    }
}

/// A socket of the current network namespace. `groups` is a mask of notifications to subscribe to.
pub fn socket(protocol: libc::c_int, groups: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: numbers, and an address structure that outlives the call.
    unsafe {
        let socket = own(libc::socket(libc::AF_NETLINK, kind, protocol))?;
        let mut address: libc::sockaddr_nl = std::mem::zeroed();
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = groups;
        check(libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_nl>() as libc::socklen_t,
        ))?;
        Ok(socket)
    }
}

/// Sends a message or a batch.
pub fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `bytes`.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Reads replies until the kernel confirms this sequence number or reports an error. The kernel processes a
/// message during send(2), so the replies are already there and the call does not wait.
pub fn confirm(socket: &OwnedFd, last: u32) -> io::Result<()> {
    loop {
        for answer in receive(socket)?.ok_or(io::ErrorKind::UnexpectedEof)? {
            if answer.kind != ERROR {
                continue;
            }
            match answer.error() {
                Some(0) if answer.sequence == last => return Ok(()),
                Some(0) => {}
                Some(code) => return Err(io::Error::from_raw_os_error(code)),
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

/// Calls `each` for every message of a dump.
pub fn dump(socket: &OwnedFd, request: &[u8], mut each: impl FnMut(&Answer)) -> io::Result<()> {
    send(socket, request)?;
    loop {
        for answer in receive(socket)?.ok_or(io::ErrorKind::UnexpectedEof)? {
            match answer.kind {
                DONE => return Ok(()),
                ERROR => {
                    let code = answer.error().unwrap_or(libc::EIO);
                    return Err(io::Error::from_raw_os_error(code));
                }
                _ => each(&answer),
            }
        }
    }
}

/// Discards everything that has arrived, including overflow errors.
pub fn drain(socket: &OwnedFd) {
    let mut buffer = [0; 4096];
    loop {
        // SAFETY: pointer and length describe `buffer`.
        let count = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            )
        };
        if count <= 0 && crate::sys::errno() != libc::ENOBUFS {
            return;
        }
    }
}

pub struct Answer {
    pub kind: u16,
    pub sequence: u32,
    pub payload: Vec<u8>,
}

impl Answer {
    /// A positive errno; 0 confirms.
    fn error(&self) -> Option<i32> {
        let code = self.payload.get(..4)?;
        Some(-i32::from_ne_bytes(code.try_into().ok()?))
    }
}

/// Parses attributes into kind and content.
pub fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some((length, kind)) = half(bytes, 0).zip(half(bytes, 2)) {
        let length = usize::from(length);
        let Some(data) = bytes.get(4..length) else { break };
        found.push((kind & 0x3fff, data));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// `None` if nothing has arrived.
pub fn receive(socket: &OwnedFd) -> io::Result<Option<Vec<Answer>>> {
    let mut buffer = vec![0; ANSWER];
    let Some(count) = crate::sys::read(socket.as_raw_fd(), &mut buffer)? else {
        return Ok(None);
    };
    let mut bytes = &buffer[..count];
    let mut answers = Vec::new();
    while let Some(length) = word(bytes, 0).map(|length| length as usize) {
        let Some(payload) = bytes.get(HEADER..length) else {
            break;
        };
        answers.push(Answer {
            kind: half(bytes, 4).unwrap_or(0),
            sequence: word(bytes, 8).unwrap_or(0),
            payload: payload.to_vec(),
        });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Some(answers))
}
