//! The sockets of the namespace that the gateway serves.

use super::refused::Refused;
use super::{DNS_PORT, LISTENER_PORT, LISTENER_V4, LISTENER_V6, RESOLVER, addresses, filter};
use crate::netlink;
use crate::sys::{check, own};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Connections that wait while no gateway runs. The kernel limits it further (net.core.somaxconn).
const BACKLOG: libc::c_int = 4096;
/// A gateway closes the sockets of an earlier holder when that has ended.
const TAKEOVER: Duration = Duration::from_secs(5);

/// Sockets of the namespace in which `open` was called. They configure it from any other namespace, so that a
/// prepared shim need not return to it.
pub struct Unbound {
    route: OwnedFd,
    netfilter: OwnedFd,
    tcp4: OwnedFd,
    dns: OwnedFd,
    /// `None`: the kernel has no IPv6.
    tcp6: Option<OwnedFd>,
}

impl Unbound {
    pub fn open() -> io::Result<Unbound> {
        Ok(Unbound {
            route: netlink::socket(libc::NETLINK_ROUTE, 0)?,
            netfilter: netlink::socket(libc::NETLINK_NETFILTER, 0)?,
            tcp4: socket(libc::AF_INET, libc::SOCK_STREAM)?,
            dns: socket(libc::AF_INET, libc::SOCK_DGRAM)?,
            tcp6: match socket(libc::AF_INET6, libc::SOCK_STREAM) {
                Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
                result => Some(result?),
            },
        })
    }

    /// In a fixed order, to pass them to another process.
    pub fn descriptors(&self) -> Vec<&OwnedFd> {
        let mut all = vec![&self.route, &self.netfilter, &self.tcp4, &self.dns];
        all.extend(&self.tcp6);
        all
    }

    pub fn from_descriptors(descriptors: Vec<OwnedFd>) -> Option<Unbound> {
        let mut all = descriptors.into_iter();
        Some(Unbound {
            route: all.next()?,
            netfilter: all.next()?,
            tcp4: all.next()?,
            dns: all.next()?,
            tcp6: all.next(),
        })
    }

    /// Configures a new namespace: from now on its sockets have what programs send. Nothing of the sandbox may run yet.
    pub fn configure(self) -> io::Result<Sockets> {
        addresses::make_local(&self.route, self.tcp6.is_some()).map_err(at("addresses"))?;
        self.listen()?;
        self.filter(filter::Side::Sandbox, false)
    }

    /// For a namespace whose addresses and routes are set already, behind the interface of the sandbox's namespace.
    pub fn configure_pair(self) -> io::Result<Sockets> {
        self.listen()?;
        self.filter(filter::Side::Far, false)
    }

    /// The same as `configure` for a namespace that another process may have configured, whose sockets may still be closing.
    pub fn take_over(self) -> io::Result<Sockets> {
        addresses::make_local(&self.route, self.tcp6.is_some()).map_err(at("addresses"))?;
        let deadline = Instant::now() + TAKEOVER;
        while let Err(error) = self.listen() {
            if error.kind() != io::ErrorKind::AddrInUse || Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.filter(filter::Side::Sandbox, true)
    }

    pub fn route(&self) -> &OwnedFd {
        &self.route
    }

    pub fn has_v6(&self) -> bool {
        self.tcp6.is_some()
    }

    /// The index of an interface besides `lo` that is up.
    pub fn other_interface(&self) -> io::Result<Option<u32>> {
        addresses::other_interface(&self.route)
    }

    /// Sockets that are bound already stay so.
    fn listen(&self) -> io::Result<()> {
        listen_v4(&self.tcp4).map_err(at("tcp4"))?;
        if let Some(socket) = &self.tcp6 {
            listen_v6(socket).map_err(at("tcp6"))?;
        }
        bind_v4(&self.dns, RESOLVER, DNS_PORT).map_err(at("dns"))
    }

    fn filter(self, side: filter::Side, replace: bool) -> io::Result<Sockets> {
        let recorded = filter::install(&self.netfilter, side, replace)
            .map_err(at("packet filter (nf_tables, tproxy)"))?;
        let (refused, refused_out) = match recorded.then(|| Refused::open(self.netfilter)) {
            Some(Ok((refused, out))) => (Some(refused), Some(out)),
            // The kernel has no NFLOG.
            _ => (None, None),
        };
        Ok(Sockets {
            tcp4: self.tcp4,
            tcp6: self.tcp6,
            dns: self.dns,
            refused_out,
            refused,
        })
    }
}

/// What the gateway gets, and the source of `refused_out`.
pub struct Sockets {
    tcp4: OwnedFd,
    tcp6: Option<OwnedFd>,
    dns: OwnedFd,
    refused_out: Option<OwnedFd>,
    refused: Option<Refused>,
}

impl Sockets {
    /// By the names of protocol/egress.md.
    pub fn named(&self) -> Vec<(&'static str, &OwnedFd)> {
        let all = [
            ("tcp4", Some(&self.tcp4)),
            ("tcp6", self.tcp6.as_ref()),
            ("dns", Some(&self.dns)),
            ("refused", self.refused_out.as_ref()),
        ];
        all.into_iter()
            .filter_map(|(name, socket)| socket.map(|socket| (name, socket)))
            .collect()
    }

    pub fn refused(&self) -> Option<&Refused> {
        self.refused.as_ref()
    }
}

/// Keeps the kind of the error.
fn at(what: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    own(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) })
}

fn listen_v4(socket: &OwnedFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_TRANSPARENT)?;
    bind_v4(socket, LISTENER_V4, LISTENER_PORT)?;
    // SAFETY: numbers only.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) }).map(drop)
}

fn listen_v6(socket: &OwnedFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)?;
    set(socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT)?;
    // SAFETY: sockaddr_in6 is plain data that outlives the call.
    unsafe {
        let mut address: libc::sockaddr_in6 = zeroed();
        address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        address.sin6_port = LISTENER_PORT.to_be();
        address.sin6_addr.s6_addr = LISTENER_V6.octets();
        bind(socket, (&raw const address).cast(), size_of_val(&address))?;
        check(libc::listen(socket.as_raw_fd(), BACKLOG)).map(drop)
    }
}

/// A second bind fails with EINVAL.
fn is_bound(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

fn bind_v4(socket: &OwnedFd, address: std::net::Ipv4Addr, port: u16) -> io::Result<()> {
    // SAFETY: sockaddr_in is plain data that outlives the call.
    unsafe {
        let mut to: libc::sockaddr_in = zeroed();
        to.sin_family = libc::AF_INET as libc::sa_family_t;
        to.sin_port = port.to_be();
        to.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
        bind(socket, (&raw const to).cast(), size_of_val(&to))
    }
}

/// # Safety
/// Pointer and size describe an address.
unsafe fn bind(socket: &OwnedFd, address: *const libc::sockaddr, size: usize) -> io::Result<()> {
    // SAFETY: see above.
    match check(unsafe { libc::bind(socket.as_raw_fd(), address, size as libc::socklen_t) }) {
        Err(error) if is_bound(&error) => Ok(()),
        result => result.map(drop),
    }
}

fn set(socket: &OwnedFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let size = size_of_val(&on) as libc::socklen_t;
    // SAFETY: pointer and size describe a number that outlives the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size) })
        .map(drop)
}
