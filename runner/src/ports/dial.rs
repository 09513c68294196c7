//! `dial`: connects to a port inside the sandbox and relays it. Previews therefore need no bridge and no
//! firewall rule, and work without a network. Only loopback can be dialled, so the relay does not lead out
//! of the sandbox.

use crate::serve::connection::{Relay, Use};
use crate::serve::epoll_token::Token;
use crate::serve::incoming::Outcome;
use crate::serve::server::Server;
use crate::serve::source_sink::{Finish, Sink, Source};
use crate::sys::{self, own};
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

impl Server {
    pub fn op_dial(&mut self, conn: u32, stream: u32, request: &Request) -> OpResult<Outcome> {
        let port = request.uint("port", u16::MAX as u64)? as u16;
        if port == 0 {
            return Err(OpError::invalid("port: must be 1 to 65535"));
        }
        // Popped from the end: IPv4 first, then IPv6, which many development servers use alone.
        let mut addresses = vec![
            SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        ];
        let mut relay = Relay {
            opened: true,
            ..Relay::default()
        };
        self.dial_next(conn, stream, &mut relay, &mut addresses)?;
        relay.connecting = Some(addresses);
        Ok(Outcome::Stream(Use::Relay(relay), None))
    }

    /// Returns true when connected, false while connecting.
    pub fn dial_step(&mut self, conn: u32, stream: u32, relay: &mut Relay) -> OpResult<bool> {
        let Some(sink) = relay.sink.as_ref().filter(|sink| sink.writable) else {
            return Ok(false);
        };
        let Some(fd) = sink.raw() else { return Ok(false) };
        match socket_error(fd) {
            0 => {
                relay.connecting = None;
                Ok(true)
            }
            errno => {
                let mut addresses = relay.connecting.take().unwrap_or_default();
                if addresses.is_empty() {
                    return Err(OpError::errno(errno, "dial"));
                }
                self.dial_next(conn, stream, relay, &mut addresses)?;
                relay.connecting = Some(addresses);
                Ok(false)
            }
        }
    }

    /// Starts to connect to the next address.
    fn dial_next(
        &mut self,
        conn: u32,
        stream: u32,
        relay: &mut Relay,
        addresses: &mut Vec<SocketAddr>,
    ) -> OpResult<()> {
        let mut last = OpError::new("refused", "dial: nothing listens on the port");
        while let Some(address) = addresses.pop() {
            match connect(address) {
                Err(error) => last = OpError::io(&error, "dial"),
                Ok(socket) => {
                    let failed = |error: std::io::Error| OpError::io(&error, "dial");
                    let writer = sys::duplicate(socket.as_fd()).map_err(failed)?;
                    // Replaces and closes the socket that failed.
                    relay.source = Some(Source::new(socket, 0).map_err(failed)?);
                    let mut sink = Sink::new(writer, Finish::Shutdown).map_err(failed)?;
                    sink.writable = false;
                    let fd = sink.raw().expect("a sink begins open");
                    relay.sink = Some(sink);
                    self.epoll
                        .add(fd, Token::RelayOut { conn, stream })
                        .map_err(failed)?;
                    return Ok(());
                }
            }
        }
        Err(last)
    }
}

fn connect(address: SocketAddr) -> std::io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers, returns a descriptor.
    let socket = own(unsafe { libc::socket(family, kind, 0) })?;
    let fd = socket.as_raw_fd();
    let on: libc::c_int = 1;
    // SAFETY: the option is one int; the addresses are plain data whose size is passed along.
    let result = unsafe {
        // Relay small writes without delay.
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            4,
        );
        match address {
            SocketAddr::V4(address) => {
                let mut raw: libc::sockaddr_in = std::mem::zeroed();
                raw.sin_family = libc::AF_INET as u16;
                raw.sin_port = address.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                libc::connect(fd, (&raw const raw).cast(), std::mem::size_of_val(&raw) as u32)
            }
            SocketAddr::V6(address) => {
                let mut raw: libc::sockaddr_in6 = std::mem::zeroed();
                raw.sin6_family = libc::AF_INET6 as u16;
                raw.sin6_port = address.port().to_be();
                raw.sin6_addr.s6_addr = address.ip().octets();
                libc::connect(fd, (&raw const raw).cast(), std::mem::size_of_val(&raw) as u32)
            }
        }
    };
    match sys::check(result) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

fn socket_error(fd: i32) -> i32 {
    let mut error: libc::c_int = 0;
    let mut len = std::mem::size_of_val(&error) as libc::socklen_t;
    // SAFETY: the option is one int, and `len` says so.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &mut len,
        )
    };
    if result < 0 { sys::errno() } else { error }
}
