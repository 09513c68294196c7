//! Rules as nf_tables expressions: one table each for IPv4 and IPv6, with one chain on the output hook and
//! the policy drop.
//!
//! A packet filter instead of routes, because a socket that is bound to an interface (SO_BINDTODEVICE needs
//! no privilege) ignores `unreachable` routes.

use super::netlink::{ACK, APPEND, CREATE, Message, REQUEST, confirm, send};
use super::{Prefix, Rule};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

const TABLE: &str = "sandkasten";
const CHAIN: &str = "out";

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const DELETE_TABLE: u16 = (SUBSYSTEM << 8) | 2;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
const LOCAL_OUT: u32 = 3;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const REGISTER: u32 = 1;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const META_OIF: u32 = 5;
const META_L4PROTO: u32 = 16;
const LOOPBACK_INDEX: u32 = 1;

#[derive(Clone, Copy, PartialEq)]
enum Family {
    V4 = 2,
    V6 = 10,
}

/// How a packet is refused: with an ICMP error, so that connect(2) fails at once, or silently if the kernel
/// lacks that expression.
#[derive(Clone, Copy)]
enum Refusal {
    Answer,
    Silence,
}

/// Replaces all rules in the namespace of `socket` (NETLINK_NETFILTER), in one transaction. `own` replaces
/// `Rule::Own`.
pub fn apply(socket: &OwnedFd, rules: &[Rule], own: &[IpAddr]) -> io::Result<()> {
    match transact(socket, rules, own, Refusal::Answer) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
            transact(socket, rules, own, Refusal::Silence)
        }
        result => result,
    }
}

fn transact(socket: &OwnedFd, rules: &[Rule], own: &[IpAddr], refusal: Refusal) -> io::Result<()> {
    let mut batch = Batch::new(refusal);
    for family in [Family::V4, Family::V6] {
        batch.family(family, rules, own);
    }
    let (bytes, last) = batch.finish();
    send(socket, &bytes)?;
    confirm(socket, last)
}

struct Batch {
    bytes: Vec<u8>,
    sequence: u32,
    refusal: Refusal,
}

impl Batch {
    fn new(refusal: Refusal) -> Batch {
        let mut batch = Batch {
            bytes: Vec::new(),
            sequence: 0,
            refusal,
        };
        batch.add(BATCH_BEGIN, 0, [0, 0, 0, SUBSYSTEM as u8], |_| {});
        batch
    }

    /// Deleting a table fails if it does not exist, so create it first.
    fn family(&mut self, family: Family, rules: &[Rule], own: &[IpAddr]) {
        for kind in [NEW_TABLE, DELETE_TABLE, NEW_TABLE] {
            let flags = if kind == NEW_TABLE { CREATE } else { 0 };
            self.add(kind, flags, head(family), |message| {
                message.text(1, TABLE);
            });
        }
        self.add(NEW_CHAIN, CREATE, head(family), |message| {
            message.text(1, TABLE).text(3, CHAIN).text(7, "filter");
            message.number(5, DROP).nested(4, |hook| {
                hook.number(1, LOCAL_OUT).number(2, 0);
            });
        });
        self.rule(family, |list| {
            meta(list, META_OIF);
            compare(list, &LOOPBACK_INDEX.to_ne_bytes());
            verdict(list, ACCEPT);
        });
        if family == Family::V6 {
            self.neighbour_discovery();
        }
        for rule in rules {
            match rule {
                Rule::Own => {
                    for address in own {
                        self.to(family, false, &Prefix::only(*address), None);
                    }
                }
                Rule::To { accept, prefix, port } => self.to(family, *accept, prefix, *port),
            }
        }
    }

    fn to(&mut self, family: Family, accept: bool, prefix: &Prefix, port: Option<u16>) {
        if matches!(prefix.address, IpAddr::V4(_)) != (family == Family::V4) {
            return;
        }
        // TCP and UDP.
        let protocols: &[Option<u8>] = if port.is_some() {
            &[Some(6), Some(17)]
        } else {
            &[None]
        };
        let refusal = self.refusal;
        for protocol in protocols {
            self.rule(family, |list| {
                destination(list, prefix);
                if let Some((protocol, port)) = protocol.zip(port) {
                    meta(list, META_L4PROTO);
                    compare(list, &[protocol]);
                    payload(list, TRANSPORT_HEADER, 2, 2);
                    compare(list, &port.to_be_bytes());
                }
                match (accept, refusal) {
                    (true, _) => verdict(list, ACCEPT),
                    (false, Refusal::Answer) => reject(list, family),
                    (false, Refusal::Silence) => verdict(list, DROP),
                }
            });
        }
    }

    /// Router and neighbour solicitation and advertisement (133 to 136). IPv6 needs them to find the
    /// gateway.
    fn neighbour_discovery(&mut self) {
        for kind in 133..=136_u8 {
            self.rule(Family::V6, |list| {
                meta(list, META_L4PROTO);
                compare(list, &[58]);
                payload(list, TRANSPORT_HEADER, 0, 1);
                compare(list, &[kind]);
                verdict(list, ACCEPT);
            });
        }
    }

    fn rule(&mut self, family: Family, expressions: impl FnOnce(&mut Message)) {
        self.add(NEW_RULE, CREATE | APPEND, head(family), |message| {
            message.text(1, TABLE).text(2, CHAIN).nested(4, expressions);
        });
    }

    fn add(&mut self, kind: u16, flags: u16, head: [u8; 4], fill: impl FnOnce(&mut Message)) {
        let mut message = Message::new(kind, REQUEST | flags, self.sequence, &head);
        fill(&mut message);
        self.bytes.extend(message.finish());
        self.sequence += 1;
    }

    /// The batch, and the sequence number of its last rule, which the kernel confirms.
    fn finish(mut self) -> (Vec<u8>, u32) {
        let confirmed = self.sequence;
        self.add(NEW_TABLE, CREATE | ACK, head(Family::V6), |message| {
            message.text(1, TABLE);
        });
        self.add(BATCH_END, 0, [0, 0, 0, SUBSYSTEM as u8], |_| {});
        (self.bytes, confirmed)
    }
}

/// `struct nfgenmsg`.
fn head(family: Family) -> [u8; 4] {
    [family as u8, 0, 0, 0]
}

fn expression(list: &mut Message, name: &str, fill: impl FnOnce(&mut Message)) {
    list.nested(1, |element| {
        element.text(1, name).nested(2, fill);
    });
}

fn meta(list: &mut Message, key: u32) {
    expression(list, "meta", |data| {
        data.number(1, REGISTER).number(2, key);
    });
}

fn payload(list: &mut Message, base: u32, offset: u32, length: u32) {
    expression(list, "payload", |data| {
        data.number(1, REGISTER)
            .number(2, base)
            .number(3, offset)
            .number(4, length);
    });
}

fn compare(list: &mut Message, value: &[u8]) {
    expression(list, "cmp", |data| {
        data.number(1, REGISTER).number(2, 0).nested(3, |content| {
            content.attribute(1, value);
        });
    });
}

/// Compares only the bytes of the prefix, the last one under a mask. An empty prefix matches everything.
fn destination(list: &mut Message, prefix: &Prefix) {
    let (bytes, offset) = match prefix.address {
        IpAddr::V4(address) => (address.octets().to_vec(), 16),
        IpAddr::V6(address) => (address.octets().to_vec(), 24),
    };
    let length = usize::from(prefix.length).div_ceil(8);
    if length == 0 {
        return;
    }
    payload(list, NETWORK_HEADER, offset, length as u32);
    let mut mask = vec![0xff_u8; length];
    let rest = prefix.length % 8;
    if rest != 0 {
        mask[length - 1] = 0xff << (8 - rest);
        expression(list, "bitwise", |data| {
            data.number(1, REGISTER)
                .number(2, REGISTER)
                .number(3, length as u32);
            data.nested(4, |content| {
                content.attribute(1, &mask);
            });
            data.nested(5, |content| {
                content.attribute(1, &vec![0; length]);
            });
        });
    }
    let value: Vec<u8> = bytes.iter().zip(&mask).map(|(byte, mask)| byte & mask).collect();
    compare(list, &value);
}

fn verdict(list: &mut Message, code: u32) {
    expression(list, "immediate", |data| {
        data.number(1, 0).nested(2, |content| {
            content.nested(2, |verdict| {
                verdict.number(1, code);
            });
        });
    });
}

/// “Administratively prohibited.”
fn reject(list: &mut Message, family: Family) {
    let code = if family == Family::V4 { 13_u8 } else { 1 };
    expression(list, "reject", |data| {
        data.number(1, 0).attribute(2, &[code]);
    });
}
