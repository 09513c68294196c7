//! Lists listening ports and reports changes.
//!
//! An unprivileged process gets no event for a new listener (sock_diag reports only closing). So while a
//! client watches, the runner reads two small files four times a second.

use crate::serve::connection::Use;
use crate::serve::incoming::Outcome;
use crate::serve::server::Server;
use crate::serve::timers::Alarm;
use crate::wire::cbor::{Fields, Value};
use crate::wire::error::OpResult;
use crate::wire::frame::Kind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const LOOK_AGAIN: Duration = Duration::from_millis(250);
const LISTEN: &str = "0A";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    pub port: u16,
    pub address: String,
    pub uid: u32,
}

impl Server {
    pub fn op_ports(&mut self) -> OpResult<Outcome> {
        Ok(Outcome::Done(Fields::new().set("ports", describe(&listening()))))
    }

    pub fn op_ports_watch(&mut self) -> OpResult<Outcome> {
        let now = match &self.ports {
            Some(known) => known.clone(),
            None => {
                let now = listening();
                self.ports = Some(now.clone());
                self.timers.after(LOOK_AGAIN, Alarm::Ports);
                now
            }
        };
        Ok(Outcome::Stream(
            Use::Ports,
            Some(Fields::new().set("ports", describe(&now))),
        ))
    }

    pub fn watch_ports(&mut self) {
        let watching = |what: &Use| matches!(what, Use::Ports);
        let watched = self
            .conns
            .values()
            .any(|conn| conn.streams.values().any(|stream| watching(&stream.what)));
        let Some(before) = self.ports.take().filter(|_| watched) else {
            return;
        };
        let now = listening();
        let only = |some: &[Port], other: &[Port]| -> Vec<Port> {
            some.iter()
                .filter(|port| !other.contains(port))
                .cloned()
                .collect()
        };
        let (opened, closed) = (only(&now, &before), only(&before, &now));
        if !opened.is_empty() || !closed.is_empty() {
            let body = Fields::new()
                .text("event", "ports")
                .set("opened", describe(&opened))
                .set("closed", describe(&closed))
                .encode();
            for (key, conn) in &mut self.conns {
                let ids: Vec<u32> = conn
                    .streams
                    .iter()
                    .filter(|(_, stream)| watching(&stream.what))
                    .map(|(id, _)| *id)
                    .collect();
                // Drop the event if the client does not read. Its next list is correct again.
                for id in ids {
                    if conn.backlog() < crate::serve::connection::OUT_HIGH {
                        conn.put(Kind::Event, id, &body);
                        self.dirty.insert(*key);
                    }
                }
            }
        }
        self.ports = Some(now);
        self.timers.after(LOOK_AGAIN, Alarm::Ports);
    }
}

/// A hostile process can listen on all 65,535 ports.
const MAX_PORTS: usize = 4096;

fn listening() -> Vec<Port> {
    let mut ports = Vec::new();
    for path in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        // The second file is missing in a kernel without IPv6.
        parse(&std::fs::read_to_string(path).unwrap_or_default(), &mut ports);
    }
    ports.sort();
    ports.dedup();
    ports.truncate(MAX_PORTS);
    ports
}

fn parse(table: &str, ports: &mut Vec<Port>) {
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[_, local, _, LISTEN, _, _, _, uid, ..] = &fields[..] else {
            continue;
        };
        let Some((address, port)) = local.split_once(':') else {
            continue;
        };
        if let (Some(address), Ok(port), Ok(uid)) = (ip(address), u16::from_str_radix(port, 16), uid.parse())
        {
            ports.push(Port {
                port,
                address: address.to_string(),
                uid,
            });
        }
    }
}

/// The kernel prints 32-bit words in native byte order.
fn ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        u32::from_str_radix(hex.get(at..at + 8)?, 16)
            .ok()
            .map(u32::to_ne_bytes)
    };
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for index in 0..4 {
                bytes[index * 4..index * 4 + 4].copy_from_slice(&word(index * 8)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

fn describe(ports: &[Port]) -> Value {
    let one = |port: &Port| {
        Fields::new()
            .int("port", port.port)
            .text("address", &port.address)
            .int("uid", port.uid)
            .value()
    };
    Value::Array(ports.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_listed_and_connections_are_not() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1\n\
            1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 2 1\n\
            garbage\n";
        let mut ports = Vec::new();
        parse(table, &mut ports);
        let v6 = "head\n 0: 00000000000000000000000001000000:0050 0:0 0A 0:0 0:0 0 0 0 9 1\n";
        parse(v6, &mut ports);
        assert_eq!(
            ports[0],
            Port {
                port: 8080,
                address: "127.0.0.1".into(),
                uid: 1000
            }
        );
        assert_eq!(
            (ports[1].port, ports[1].address.as_str(), ports.len()),
            (80, "::1", 2)
        );
    }
}
