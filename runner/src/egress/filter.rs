//! The packet filter (nf_tables): what reaches the gateway, and what is rejected.

use super::refused::{GROUP, SNAP_BYTES};
use super::{DNS_PORT, LISTENER_PORT, LISTENER_V4, LISTENER_V6, LOOPBACK, OWN_V4, OWN_V6, RESOLVER};
use crate::netlink::Message;
use crate::netlink::nft::{
    ACCEPT, Batch, DROP, Family, LOCAL_OUT, META_IIF, META_L4PROTO, META_NFPROTO, NETWORK_HEADER,
    OTHER_REGISTER, PRE_ROUTING, REGISTER, TRANSPORT_HEADER, compare, expression, load, meta, payload,
    verdict,
};
use std::io;
use std::os::fd::OwnedFd;

const TABLE: &str = "sandkasten-egress";
const OUT: &str = "out";
const IN: &str = "in";
/// Before the routing of other filters.
const MANGLE: i32 = -150;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const REJECT_ICMPX: u32 = 2;
const REJECT_RESET: u32 = 1;
const ADMIN_PROHIBITED: u8 = 3;
/// Of rejected packets, this many are recorded in a second.
const RECORDED_PER_SECOND: u64 = 50;

/// Where the filter is.
#[derive(Clone, Copy)]
pub enum Side {
    /// In the namespace of the sandbox's programs.
    Sandbox,
    /// In the namespace behind the sandbox's interface (`pair`).
    Far,
}

/// `socket` is a NETLINK_NETFILTER socket of the namespace; `replace` if that may have this filter already. Returns whether rejected
/// packets are recorded, which needs NFLOG.
pub fn install(socket: &OwnedFd, side: Side, replace: bool) -> io::Result<bool> {
    match rules(true, side, replace).apply(socket, Family::Inet) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => rules(false, side, replace)
            .apply(socket, Family::Inet)
            .map(|()| false),
        result => result.map(|()| true),
    }
}

fn rules(record: bool, side: Side, replace: bool) -> Batch {
    let mut batch = Batch::new(TABLE);
    if replace {
        batch.delete_table(Family::Inet);
    }
    batch.new_table(Family::Inet);
    match side {
        Side::Sandbox => {
            output(&mut batch, record);
            input(&mut batch);
        }
        Side::Far => far_input(&mut batch, record),
    }
    batch
}

/// Rejects here, before a packet exists on `lo`, so that the sender's system call fails.
fn output(batch: &mut Batch, record: bool) {
    batch.chain(Family::Inet, OUT, LOCAL_OUT, 0);
    let mut rule = |fill: &dyn Fn(&mut Message)| batch.rule(Family::Inet, OUT, fill);
    rule(&|list| {
        meta(list, META_L4PROTO);
        compare(list, &[TCP]);
        verdict(list, ACCEPT);
    });
    within(&mut rule);
    resolver(&mut rule);
    refuse(&mut rule, record);
}

/// Gives TCP to the transparent listeners. The packets of the other protocols have passed `output`.
fn input(batch: &mut Batch) {
    batch.chain(Family::Inet, IN, PRE_ROUTING, MANGLE);
    let mut rule = |fill: &dyn Fn(&mut Message)| batch.rule(Family::Inet, IN, fill);
    within(&mut rule);
    to_listeners(&mut rule);
    // No listener, or the other end of a connection that chose an address of the outside as its own.
    reset(&mut rule);
    rule(&|list| verdict(list, ACCEPT));
}

/// Everything that the sandbox's kernel sends arrives through the interface. Nothing else is in this namespace.
fn far_input(batch: &mut Batch, record: bool) {
    batch.chain(Family::Inet, IN, PRE_ROUTING, MANGLE);
    let mut rule = |fill: &dyn Fn(&mut Message)| batch.rule(Family::Inet, IN, fill);
    rule(&|list| {
        meta(list, META_IIF);
        compare(list, &LOOPBACK.to_ne_bytes());
        verdict(list, DROP);
    });
    to_listeners(&mut rule);
    reset(&mut rule);
    resolver(&mut rule);
    // What IPv6 sends by itself: router and neighbour discovery, and reports of multicast groups.
    for kind in [133_u8, 134, 136, 143] {
        rule(&|list| {
            icmp_v6(list, kind);
            verdict(list, ACCEPT);
        });
    }
    // The search for another neighbour is the first and only packet of a program that calls a link-local address.
    rule(&|list| {
        icmp_v6(list, NEIGHBOUR_SOLICITATION);
        payload(list, TRANSPORT_HEADER, 8, 16);
        compare(list, &LISTENER_V6.octets());
        verdict(list, ACCEPT);
    });
    rule(&|list| {
        icmp_v6(list, NEIGHBOUR_SOLICITATION);
        // Without a source: whether another interface has the address that it is about to use.
        payload(list, NETWORK_HEADER, 8, 16);
        compare(list, &[0; 16]);
        verdict(list, ACCEPT);
    });
    refuse(&mut rule, record);
}

fn icmp_v6(list: &mut Message, kind: u8) {
    meta(list, META_L4PROTO);
    compare(list, &[ICMPV6]);
    payload(list, TRANSPORT_HEADER, 0, 1);
    compare(list, &[kind]);
}

fn to_listeners(rule: &mut impl FnMut(&dyn Fn(&mut Message))) {
    for (family, address) in [
        (IPV4, &LISTENER_V4.octets()[..]),
        (IPV6, &LISTENER_V6.octets()[..]),
    ] {
        rule(&|list| {
            meta(list, META_NFPROTO);
            compare(list, &[family]);
            meta(list, META_L4PROTO);
            compare(list, &[TCP]);
            load(list, REGISTER, address);
            load(list, OTHER_REGISTER, &LISTENER_PORT.to_be_bytes());
            expression(list, "tproxy", |data| {
                data.number(1, family.into())
                    .number(2, REGISTER)
                    .number(3, OTHER_REGISTER);
            });
            verdict(list, ACCEPT);
        });
    }
}

fn reset(rule: &mut impl FnMut(&dyn Fn(&mut Message))) {
    rule(&|list| {
        meta(list, META_L4PROTO);
        compare(list, &[TCP]);
        expression(list, "reject", |data| {
            data.number(1, REJECT_RESET).attribute(2, &[0]);
        });
    });
}

/// Accepts DNS to the gateway.
fn resolver(rule: &mut impl FnMut(&dyn Fn(&mut Message))) {
    rule(&|list| {
        destination(list, IPV4, &RESOLVER.octets());
        meta(list, META_L4PROTO);
        compare(list, &[UDP]);
        payload(list, TRANSPORT_HEADER, 2, 2);
        compare(list, &DNS_PORT.to_be_bytes());
        verdict(list, ACCEPT);
    });
}

/// Rejects everything, and records some of it.
fn refuse(rule: &mut impl FnMut(&dyn Fn(&mut Message)), record: bool) {
    if record {
        rule(&|list| {
            expression(list, "limit", |data| {
                data.attribute(1, &RECORDED_PER_SECOND.to_be_bytes())
                    .attribute(2, &1_u64.to_be_bytes())
                    .number(3, RECORDED_PER_SECOND as u32);
            });
            expression(list, "log", |data| {
                data.attribute(1, &GROUP.to_be_bytes()).number(3, SNAP_BYTES);
            });
        });
    }
    rule(&|list| {
        expression(list, "reject", |data| {
            data.number(1, REJECT_ICMPX).attribute(2, &[ADMIN_PROHIBITED]);
        });
    });
}

/// Accepts what stays in the sandbox: loopback, and its own addresses.
fn within(rule: &mut impl FnMut(&dyn Fn(&mut Message))) {
    let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
    for (family, address) in [
        (IPV4, &[127][..]),
        (IPV4, &OWN_V4.octets()[..]),
        (IPV6, &loopback[..]),
        (IPV6, &OWN_V6.octets()[..]),
    ] {
        rule(&|list| {
            destination(list, family, address);
            verdict(list, ACCEPT);
        });
    }
}

/// Compares the destination with an address, or with the first bytes of one.
fn destination(list: &mut Message, family: u8, address: &[u8]) {
    meta(list, META_NFPROTO);
    compare(list, &[family]);
    let offset = if family == IPV4 { 16 } else { 24 };
    payload(list, NETWORK_HEADER, offset, address.len() as u32);
    compare(list, address);
}
