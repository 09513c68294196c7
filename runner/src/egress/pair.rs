//! The network of a sandbox whose own kernel (gVisor) does not use the namespace's sockets.
//!
//! ```text
//! sandbox's namespace: eth0 192.0.0.2 ── veth ── eth0 192.0.0.1: a namespace with no other interface and no process,
//!                                               in which every other address is local
//! ```
//!
//! The listeners are in the second namespace. gVisor takes the addresses and routes of its `eth0` from the first.

use super::addresses::{self, Route};
use super::{LISTENER_V4, LISTENER_V6, OWN_V4, OWN_V6, Sockets, Unbound};
use crate::netlink::{ACK, CREATE, Message, REQUEST, confirm, send};
use crate::shim::{host_proc, network};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

const NEW_LINK: u16 = 16;
const EXCLUSIVE: u16 = 0x200;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const NAME: &str = "eth0";
/// A number that no other interface has: the kernel may add tunnels to new namespaces.
const INDEX: u32 = 100;

/// `near` has sockets of the sandbox's namespace. Nothing of the sandbox may run yet.
pub fn connect(near: &Unbound) -> io::Result<Sockets> {
    let (far, namespace) = network::inside(|| {
        let namespace = host_proc::open("/proc/self/ns/net", libc::O_RDONLY)?;
        Ok((Unbound::open()?, namespace))
    })?;
    let v6 = far.has_v6();
    send(near.route(), &cable(&namespace))?;
    confirm(near.route(), 1)?;
    send(
        far.route(),
        &Message::new(NEW_LINK, REQUEST | ACK, 1, &link(true)).finish(),
    )?;
    confirm(far.route(), 1)?;
    let (near_side, far_side) = sides(v6);
    addresses::apply(near.route(), &near_side)?;
    addresses::apply(far.route(), &far_side)?;
    far.configure_pair()
}

/// Whether the current namespace was connected.
pub fn is_connected() -> bool {
    // SAFETY: a C string constant.
    unsafe { libc::if_nametoindex(c"eth0".as_ptr()) == INDEX }
}

/// `struct ifinfomsg`.
fn link(up: bool) -> [u8; 16] {
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&INDEX.to_ne_bytes());
    if up {
        let up = (libc::IFF_UP as u32).to_ne_bytes();
        head[8..12].copy_from_slice(&up);
        head[12..16].copy_from_slice(&up);
    }
    head
}

/// Both ends. The kernel cannot bring the far one up before they are connected.
fn cable(namespace: &OwnedFd) -> Vec<u8> {
    let flags = REQUEST | ACK | CREATE | EXCLUSIVE;
    let mut message = Message::new(NEW_LINK, flags, 1, &link(true));
    message.text(IFLA_IFNAME, NAME).nested(IFLA_LINKINFO, |info| {
        info.text(1, "veth").nested(2, |data| {
            data.nested(1, |peer| {
                peer.fixed(&link(false))
                    .text(IFLA_IFNAME, NAME)
                    .attribute(IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
            });
        });
    });
    message.finish()
}

fn sides(v6: bool) -> (Vec<Route>, Vec<Route>) {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    let mut all: Vec<(IpAddr, IpAddr, u8)> = vec![(OWN_V4.into(), LISTENER_V4.into(), 29)];
    if v6 {
        all.push((OWN_V6.into(), LISTENER_V6.into(), 64));
    }
    for (own, listener, length) in all {
        near.push(Route::Address {
            index: INDEX,
            address: own,
            length,
        });
        near.push(Route::Gateway {
            index: INDEX,
            to: listener,
        });
        // Only this address, because a network would be more exact than the route that makes all addresses local.
        far.push(Route::Address {
            index: INDEX,
            address: listener,
            length: if listener.is_ipv4() { 32 } else { 128 },
        });
        far.push(Route::Neighbour {
            index: INDEX,
            to: own,
        });
        far.push(Route::AllLocal(listener));
    }
    (near, far)
}
