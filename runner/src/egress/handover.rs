//! The Unix socket through which the gateway gets the sockets of one sandbox (protocol/egress.md).

use super::Sockets;
use crate::sys::epoll::{Epoll, Ready};
use crate::sys::{pass, read};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, lchown};
use std::os::unix::net::{UnixListener, UnixStream};

/// A gateway needs one connection. More are those of gateways that have just ended.
const MAX_CLIENTS: usize = 8;
const LISTENER: u64 = 0;
const REFUSED: u64 = 1;

/// Where the gateway connects.
#[derive(Debug, PartialEq)]
pub struct Place {
    pub socket: String,
    /// The gateway's user and group. `None`: those of this process.
    pub owner: Option<(u32, u32)>,
}

/// Serves the sockets. Readable when `serve` has something to do. Never blocks.
pub struct Handover {
    sockets: Sockets,
    socket: String,
    listener: UnixListener,
    /// With their tokens.
    clients: Vec<(u64, UnixStream)>,
    next_token: u64,
    events: Epoll,
}

impl Handover {
    pub fn open(sockets: Sockets, place: &Place) -> io::Result<Handover> {
        let listener = listen(place)?;
        let handover = Handover {
            sockets,
            socket: place.socket.clone(),
            events: Epoll::new()?,
            listener,
            clients: Vec::new(),
            next_token: REFUSED + 1,
        };
        handover.events.add(handover.listener.as_raw_fd(), LISTENER)?;
        if let Some(refused) = handover.sockets.refused() {
            handover.events.add(refused.log().as_raw_fd(), REFUSED)?;
        }
        Ok(handover)
    }

    pub fn serve(&mut self) {
        let mut ready: Vec<Ready> = Vec::new();
        self.events.wait(&mut ready, 0);
        for Ready { token, .. } in ready {
            match token {
                LISTENER => self.accept(),
                REFUSED => self
                    .sockets
                    .refused()
                    .into_iter()
                    .for_each(|refused| refused.pump()),
                // A client says nothing, so it has ended, or is not a gateway.
                token => self.clients.retain(|(own, stream)| {
                    *own != token || matches!(read(stream.as_raw_fd(), &mut [0]), Ok(None))
                }),
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() == MAX_CLIENTS {
                continue;
            }
            let token = self.next_token;
            self.next_token += 1;
            if stream.set_nonblocking(true).is_ok()
                && self.greet(&stream).is_ok()
                && self.events.add(stream.as_raw_fd(), token).is_ok()
            {
                self.clients.push((token, stream));
            }
        }
    }

    /// The first message of a connection, which fits into its empty buffer.
    fn greet(&self, stream: &UnixStream) -> io::Result<()> {
        let named = self.sockets.named();
        let names: Vec<String> = named.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let line = format!("{{\"version\":1,\"sockets\":[{}]}}\n", names.join(","));
        let descriptors: Vec<RawFd> = named.iter().map(|(_, socket)| socket.as_raw_fd()).collect();
        pass::send_all(stream.as_raw_fd(), line.as_bytes(), &descriptors)
    }
}

impl AsRawFd for Handover {
    fn as_raw_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

/// Replaces the socket of an earlier run that was killed.
fn listen(Place { socket, owner }: &Place) -> io::Result<UnixListener> {
    if fs::symlink_metadata(socket).is_ok_and(|facts| facts.file_type().is_socket()) {
        fs::remove_file(socket)?;
    }
    // SAFETY: numbers only.
    let mask = unsafe { libc::umask(0o177) };
    let bound = UnixListener::bind(socket);
    // SAFETY: numbers only.
    unsafe { libc::umask(mask) };
    let listener = bound?;
    let ready = listener.set_nonblocking(true).and_then(|()| match owner {
        Some((user, group)) => lchown(socket, Some(*user), Some(*group)),
        None => Ok(()),
    });
    if let Err(error) = ready {
        let _ = fs::remove_file(socket);
        return Err(error);
    }
    Ok(listener)
}
