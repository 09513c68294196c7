//! Receives a sandbox's sockets from its shim.

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use serde::Deserialize;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use tokio::io::Interest;
use tokio::net::{TcpListener, UdpSocket, UnixDatagram, UnixStream};

const LONGEST_MESSAGE: usize = 4096;
const MOST_SOCKETS: usize = 16;

pub struct Sockets {
    pub tcp: Vec<TcpListener>,
    pub dns: UdpSocket,
    pub refused: Option<UnixDatagram>,
}

#[derive(Deserialize)]
struct Message {
    version: u32,
    sockets: Vec<String>,
}

pub async fn receive(shim: &UnixStream) -> Result<Sockets, String> {
    let (text, sockets) = read_message(shim)
        .await
        .map_err(|error| format!("the sandbox's socket: {error}"))?;
    let message: Message =
        serde_json::from_slice(&text).map_err(|error| format!("the sandbox's message: {error}"))?;
    if message.version != 1 || message.sockets.len() != sockets.len() {
        return Err("the sandbox's message: unknown version, or names and sockets do not match".to_owned());
    }
    assign(message.sockets, sockets).map_err(|error| format!("the sandbox's sockets: {error}"))
}

async fn read_message(shim: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut text, mut sockets) = (Vec::new(), Vec::new());
    loop {
        shim.readable().await?;
        let (bytes, more) = match shim.try_io(Interest::READABLE, || read_part(shim.as_raw_fd())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        sockets.extend(more);
        if bytes.is_empty() || text.len() + bytes.len() > LONGEST_MESSAGE || sockets.len() > MOST_SOCKETS {
            return Err(io::Error::other("no message of one short line"));
        }
        text.extend(bytes);
        if text.ends_with(b"\n") {
            return Ok((text, sockets));
        }
    }
}

fn read_part(shim: RawFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = [0; LONGEST_MESSAGE];
    let mut space = cmsg_space!([RawFd; MOST_SOCKETS]);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg::<()>(shim, &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut sockets = Vec::new();
    for control in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = control {
            // SAFETY: the kernel made these descriptors for this message, and nothing else owns them.
            sockets.extend(
                descriptors
                    .into_iter()
                    .map(|socket| unsafe { OwnedFd::from_raw_fd(socket) }),
            );
        }
    }
    let read = received.bytes;
    Ok((bytes[..read].to_vec(), sockets))
}

fn assign(names: Vec<String>, sockets: Vec<OwnedFd>) -> io::Result<Sockets> {
    let (mut tcp, mut dns, mut refused) = (Vec::new(), None, None);
    for (name, socket) in names.iter().zip(sockets) {
        match name.as_str() {
            "tcp4" | "tcp6" => {
                let listener = std::net::TcpListener::from(socket);
                listener.set_nonblocking(true)?;
                tcp.push(TcpListener::from_std(listener)?);
            }
            "dns" => {
                let socket = std::net::UdpSocket::from(socket);
                socket.set_nonblocking(true)?;
                dns = Some(UdpSocket::from_std(socket)?);
            }
            "refused" => {
                let socket = std::os::unix::net::UnixDatagram::from(socket);
                socket.set_nonblocking(true)?;
                refused = Some(UnixDatagram::from_std(socket)?);
            }
            _ => {}
        }
    }
    let dns = dns.ok_or_else(|| io::Error::other("dns is missing"))?;
    Ok(Sockets { tcp, dns, refused })
}
