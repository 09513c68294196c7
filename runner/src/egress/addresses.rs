//! Addresses and routes (rtnetlink).

use super::{LOOPBACK, OWN_V4, OWN_V6};
use crate::netlink::{self, ACK, CREATE, DUMP, Message, REQUEST, confirm, send};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const REPLACE: u16 = 0x100;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// No duplicate detection.
const IFA_F_NODAD: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const TABLE_MAIN: u8 = 254;
const TABLE_LOCAL: u8 = 255;
const STATIC: u8 = 4;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
const SCOPE_HOST: u8 = 254;
const UNICAST: u8 = 1;
const LOCAL: u8 = 2;

/// An address, or a route of its family.
pub enum Route {
    Address {
        index: u32,
        address: IpAddr,
        length: u8,
    },
    /// `local default dev lo`, with this address as the source of connections that have not chosen one.
    AllLocal(IpAddr),
    /// The default route.
    Gateway {
        index: u32,
        to: IpAddr,
    },
    /// One address behind an interface, although all are local.
    Neighbour {
        index: u32,
        to: IpAddr,
    },
}

/// Makes every address local. `socket` is a NETLINK_ROUTE socket of the namespace.
pub fn make_local(socket: &OwnedFd, with_v6: bool) -> io::Result<()> {
    apply(socket, &own(with_v6))
}

fn own(with_v6: bool) -> Vec<Route> {
    let mut all = vec![IpAddr::V4(OWN_V4)];
    if with_v6 {
        all.push(IpAddr::V6(OWN_V6));
    }
    let both = |address: IpAddr| {
        let length = if address.is_ipv4() { 32 } else { 128 };
        [
            Route::Address {
                index: LOOPBACK,
                address,
                length,
            },
            Route::AllLocal(address),
        ]
    };
    all.into_iter().flat_map(both).collect()
}

/// Adds or replaces them, in this order.
pub fn apply(socket: &OwnedFd, routes: &[Route]) -> io::Result<()> {
    send(socket, &requests(routes))?;
    confirm(socket, routes.len() as u32)
}

/// The index of an interface besides `lo` that is up. Others are those that the kernel creates for tunnels.
pub fn other_interface(socket: &OwnedFd) -> io::Result<Option<u32>> {
    let request = Message::new(GET_LINK, REQUEST | DUMP, 0, &[0; 16]).finish();
    let mut found = None;
    netlink::dump(socket, &request, |answer| {
        let word = |at: usize| {
            Some(u32::from_ne_bytes(
                answer.payload.get(at..at + 4)?.try_into().ok()?,
            ))
        };
        if let (NEW_LINK, Some(index), Some(flags)) = (answer.kind, word(4), word(8))
            && index != LOOPBACK
            && flags & libc::IFF_UP as u32 != 0
        {
            found = Some(index);
        }
    })?;
    Ok(found)
}

fn requests(routes: &[Route]) -> Vec<u8> {
    (1..)
        .zip(routes)
        .flat_map(|(sequence, route)| request(sequence, route))
        .collect()
}

fn request(sequence: u32, route: &Route) -> Vec<u8> {
    const FLAGS: u16 = REQUEST | ACK | CREATE | REPLACE;
    let routed = |to: &IpAddr, length: u8, table: u8, scope: u8, kind: u8| {
        let mut head = vec![parts(to).0, length, 0, 0, table, STATIC, scope, kind];
        head.extend([0; 4]);
        Message::new(NEW_ROUTE, FLAGS, sequence, &head)
    };
    match route {
        Route::Address {
            index,
            address,
            length,
        } => {
            let (family, octets) = parts(address);
            let mut head = vec![family, *length, IFA_F_NODAD, 0];
            head.extend(index.to_ne_bytes());
            let mut message = Message::new(NEW_ADDRESS, FLAGS, sequence, &head);
            message
                .attribute(IFA_LOCAL, &octets)
                .attribute(IFA_ADDRESS, &octets);
            message.finish()
        }
        Route::AllLocal(source) => {
            let mut message = routed(source, 0, TABLE_LOCAL, SCOPE_HOST, LOCAL);
            message
                .attribute(RTA_OIF, &LOOPBACK.to_ne_bytes())
                .attribute(RTA_PREFSRC, &parts(source).1);
            message.finish()
        }
        Route::Gateway { index, to } => {
            let mut message = routed(to, 0, TABLE_MAIN, SCOPE_UNIVERSE, UNICAST);
            message
                .attribute(RTA_OIF, &index.to_ne_bytes())
                .attribute(RTA_GATEWAY, &parts(to).1);
            message.finish()
        }
        Route::Neighbour { index, to } => {
            let octets = parts(to).1;
            let mut message = routed(to, (octets.len() * 8) as u8, TABLE_LOCAL, SCOPE_LINK, UNICAST);
            message
                .attribute(RTA_OIF, &index.to_ne_bytes())
                .attribute(RTA_DST, &octets);
            message.finish()
        }
    }
}

fn parts(address: &IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attributes;

    #[test]
    fn an_address_and_a_default_route_for_each_family() {
        let bytes = requests(&own(true));
        let mut rest = &bytes[..];
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
            let kind = u16::from_ne_bytes(rest[4..6].try_into().unwrap());
            seen.push((kind, rest[16..length].to_vec()));
            rest = &rest[length..];
        }
        let kinds: Vec<u16> = seen.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [NEW_ADDRESS, NEW_ROUTE, NEW_ADDRESS, NEW_ROUTE]);
        let (_, address) = &seen[0];
        assert_eq!(address[..4], [libc::AF_INET as u8, 32, IFA_F_NODAD, 0]);
        assert_eq!(attributes(&address[8..])[0], (IFA_LOCAL, &[192, 0, 0, 2][..]));
        let (_, route) = &seen[3];
        assert_eq!(route[..2], [libc::AF_INET6 as u8, 0]);
        assert_eq!((route[4], route[7]), (TABLE_LOCAL, LOCAL));
        let wanted = [
            (RTA_OIF, &1_u32.to_ne_bytes()[..]),
            (RTA_PREFSRC, &OWN_V6.octets()[..]),
        ];
        assert_eq!(attributes(&route[12..]), wanted);
    }
}
