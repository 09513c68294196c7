//! Rules as nf_tables expressions: one table each for IPv4 and IPv6, with one chain on the output hook and
//! the policy drop.
//!
//! A packet filter instead of routes, because a socket that is bound to an interface (SO_BINDTODEVICE needs
//! no privilege) ignores `unreachable` routes.

use super::{Prefix, Rule};
use crate::netlink::Message;
use crate::netlink::nft::{
    ACCEPT, Batch, DROP, Family, LOCAL_OUT, META_L4PROTO, META_OIF, NETWORK_HEADER, REGISTER,
    TRANSPORT_HEADER, compare, expression, meta, payload, verdict,
};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;

const TABLE: &str = "sandkasten";
const CHAIN: &str = "out";
const LOOPBACK_INDEX: u32 = 1;

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
    let mut fence = Fence {
        batch: Batch::new(TABLE),
        refusal,
    };
    for family in [Family::V4, Family::V6] {
        fence.family(family, rules, own);
    }
    fence.batch.apply(socket, Family::V6)
}

struct Fence {
    batch: Batch,
    refusal: Refusal,
}

impl Fence {
    fn family(&mut self, family: Family, rules: &[Rule], own: &[IpAddr]) {
        self.batch.delete_table(family);
        self.batch.new_table(family);
        self.batch.chain(family, CHAIN, LOCAL_OUT, 0);
        self.batch.rule(family, CHAIN, |list| {
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
                    for address in own.iter().copied().flat_map(with_nat64) {
                        self.to(family, false, &Prefix::only(address), None);
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
            self.batch.rule(family, CHAIN, |list| {
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
            self.batch.rule(Family::V6, CHAIN, |list| {
                meta(list, META_L4PROTO);
                compare(list, &[58]);
                payload(list, TRANSPORT_HEADER, 0, 1);
                compare(list, &[kind]);
                verdict(list, ACCEPT);
            });
        }
    }
}

/// Compares only the bytes of the prefix, the last one under a mask. An empty prefix matches everything.
/// An IPv4 address, and the one by which a router behind NAT64 finds it.
fn with_nat64(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let behind = match address {
        IpAddr::V4(v4) => {
            let [high, low] = [v4.to_bits() >> 16, v4.to_bits() & 0xffff].map(|word| word as u16);
            Some(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low).into())
        }
        IpAddr::V6(_) => None,
    };
    std::iter::once(address).chain(behind)
}

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

/// “Administratively prohibited.”
fn reject(list: &mut Message, family: Family) {
    let code = if family == Family::V4 { 13_u8 } else { 1 };
    expression(list, "reject", |data| {
        data.number(1, 0).attribute(2, &[code]);
    });
}
