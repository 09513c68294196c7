//! nf_tables: a batch of messages that the kernel applies as one transaction, and the expressions of rules.

use super::{ACK, APPEND, CREATE, Message, REQUEST, confirm, send};
use std::io;
use std::os::fd::OwnedFd;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const DELETE_TABLE: u16 = (SUBSYSTEM << 8) | 2;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;

pub const PRE_ROUTING: u32 = 0;
pub const LOCAL_OUT: u32 = 3;
pub const DROP: u32 = 0;
pub const ACCEPT: u32 = 1;
/// Two registers of 16 bytes each.
pub const REGISTER: u32 = 1;
pub const OTHER_REGISTER: u32 = 2;
pub const NETWORK_HEADER: u32 = 1;
pub const TRANSPORT_HEADER: u32 = 2;
pub const META_IIF: u32 = 4;
pub const META_OIF: u32 = 5;
pub const META_NFPROTO: u32 = 15;
pub const META_L4PROTO: u32 = 16;

#[derive(Clone, Copy, PartialEq)]
pub enum Family {
    /// Both IPv4 and IPv6.
    Inet = 1,
    V4 = 2,
    V6 = 10,
}

/// A transaction on one table name.
pub struct Batch {
    bytes: Vec<u8>,
    sequence: u32,
    table: &'static str,
}

impl Batch {
    pub fn new(table: &'static str) -> Batch {
        let mut batch = Batch {
            bytes: Vec::with_capacity(4096),
            sequence: 0,
            table,
        };
        batch.add(BATCH_BEGIN, 0, [0, 0, 0, SUBSYSTEM as u8], |_| {});
        batch
    }

    pub fn new_table(&mut self, family: Family) {
        let table = self.table;
        self.add(NEW_TABLE, CREATE, head(family), |message| {
            message.text(1, table);
        });
    }

    /// Also removes its chains and rules. Deleting a table fails if it does not exist, so create it first.
    pub fn delete_table(&mut self, family: Family) {
        let table = self.table;
        self.new_table(family);
        self.add(DELETE_TABLE, 0, head(family), |message| {
            message.text(1, table);
        });
    }

    /// A filter chain with the policy drop.
    pub fn chain(&mut self, family: Family, name: &str, hook: u32, priority: i32) {
        let table = self.table;
        self.add(NEW_CHAIN, CREATE, head(family), |message| {
            message.text(1, table).text(3, name).text(7, "filter");
            message.number(5, DROP).nested(4, |fields| {
                fields.number(1, hook).number(2, priority as u32);
            });
        });
    }

    pub fn rule(&mut self, family: Family, chain: &str, expressions: impl FnOnce(&mut Message)) {
        let table = self.table;
        self.add(NEW_RULE, CREATE | APPEND, head(family), |message| {
            message.text(1, table).text(2, chain).nested(4, expressions);
        });
    }

    /// Applies everything or nothing. `socket` is a NETLINK_NETFILTER socket of the network namespace.
    pub fn apply(self, socket: &OwnedFd, family: Family) -> io::Result<()> {
        let (bytes, last) = self.finish(family);
        send(socket, &bytes)?;
        confirm(socket, last)
    }

    fn add(&mut self, kind: u16, flags: u16, head: [u8; 4], fill: impl FnOnce(&mut Message)) {
        let mut message = Message::new(kind, REQUEST | flags, self.sequence, &head);
        fill(&mut message);
        self.bytes.extend(message.finish());
        self.sequence += 1;
    }

    /// The batch, and the sequence number of its last message, which the kernel confirms.
    fn finish(mut self, family: Family) -> (Vec<u8>, u32) {
        let (confirmed, table) = (self.sequence, self.table);
        self.add(NEW_TABLE, CREATE | ACK, head(family), |message| {
            message.text(1, table);
        });
        self.add(BATCH_END, 0, [0, 0, 0, SUBSYSTEM as u8], |_| {});
        (self.bytes, confirmed)
    }
}

/// `struct nfgenmsg`.
fn head(family: Family) -> [u8; 4] {
    [family as u8, 0, 0, 0]
}

pub fn expression(list: &mut Message, name: &str, fill: impl FnOnce(&mut Message)) {
    list.nested(1, |element| {
        element.text(1, name).nested(2, fill);
    });
}

pub fn meta(list: &mut Message, key: u32) {
    expression(list, "meta", |data| {
        data.number(1, REGISTER).number(2, key);
    });
}

pub fn payload(list: &mut Message, base: u32, offset: u32, length: u32) {
    expression(list, "payload", |data| {
        data.number(1, REGISTER)
            .number(2, base)
            .number(3, offset)
            .number(4, length);
    });
}

pub fn compare(list: &mut Message, value: &[u8]) {
    expression(list, "cmp", |data| {
        data.number(1, REGISTER).number(2, 0).nested(3, |content| {
            content.attribute(1, value);
        });
    });
}

pub fn verdict(list: &mut Message, code: u32) {
    expression(list, "immediate", |data| {
        data.number(1, 0).nested(2, |content| {
            content.nested(2, |verdict| {
                verdict.number(1, code);
            });
        });
    });
}

/// Loads a value into a register.
pub fn load(list: &mut Message, register: u32, value: &[u8]) {
    expression(list, "immediate", |data| {
        data.number(1, register).nested(2, |content| {
            content.attribute(1, value);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attributes;

    #[test]
    fn a_batch_has_numbered_messages_and_the_last_rule_is_confirmed() {
        let mut batch = Batch::new("t");
        batch.new_table(Family::Inet);
        batch.rule(Family::Inet, "c", |list| verdict(list, ACCEPT));
        let (bytes, last) = batch.finish(Family::Inet);
        let mut kinds = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let length = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
            assert_eq!(length % 4, 0);
            let word = |at: usize| u16::from_ne_bytes(rest[at..at + 2].try_into().unwrap());
            assert_eq!(usize::from(word(8)), kinds.len());
            kinds.push((word(4), word(6) & ACK));
            rest = &rest[length..];
        }
        assert_eq!(
            kinds,
            [
                (BATCH_BEGIN, 0),
                (NEW_TABLE, 0),
                (NEW_RULE, 0),
                (NEW_TABLE, ACK),
                (BATCH_END, 0)
            ]
        );
        assert_eq!(last, 3);
    }

    #[test]
    fn a_verdict_is_an_immediate_of_register_0() {
        let mut message = Message::new(0, 0, 0, &[]);
        verdict(&mut message, ACCEPT);
        let bytes = message.finish();
        let element = attributes(&bytes[16..]);
        let parts = attributes(element[0].1);
        assert_eq!(parts[0], (1, &b"immediate\0"[..]));
        let data = attributes(parts[1].1);
        assert_eq!(data[0], (1, &0_u32.to_be_bytes()[..]));
        let code = attributes(attributes(data[1].1)[0].1)[0];
        assert_eq!(code, (1, &ACCEPT.to_be_bytes()[..]));
    }
}
