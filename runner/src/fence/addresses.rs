//! Addresses of the current network namespace, and notifications of changes.

use crate::netlink::{self, DUMP, Message, REQUEST};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

const GET_ADDRESS: u16 = 22;
const NEW_ADDRESS: u16 = 20;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x10 | 0x100;

/// All addresses of all interfaces, sorted, without duplicates.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let socket = netlink::socket(libc::NETLINK_ROUTE, 0)?;
    let request = Message::new(GET_ADDRESS, REQUEST | DUMP, 1, &[0; 8]).finish();
    let mut found = Vec::new();
    netlink::dump(&socket, &request, |answer| {
        if answer.kind == NEW_ADDRESS {
            found.extend(address_in(&answer.payload));
        }
    })?;
    found.sort();
    found.dedup();
    Ok(found)
}

/// Readable when an address may have been added or removed.
pub struct AddressWatch(OwnedFd);

impl AddressWatch {
    pub fn open() -> io::Result<AddressWatch> {
        netlink::socket(libc::NETLINK_ROUTE, GROUPS).map(AddressWatch)
    }

    pub fn drain(&self) {
        netlink::drain(&self.0);
    }
}

impl AsRawFd for AddressWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// On a point-to-point link, IFA_ADDRESS is the peer and IFA_LOCAL the own address. IPv6 has IFA_ADDRESS
/// only.
fn address_in(payload: &[u8]) -> Option<IpAddr> {
    let attributes = netlink::attributes(payload.get(8..)?);
    let named = |kind| attributes.iter().find(|(known, _)| *known == kind);
    let (_, bytes) = named(IFA_LOCAL).or_else(|| named(IFA_ADDRESS))?;
    match bytes.len() {
        4 => <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from),
        _ => None,
    }
}
