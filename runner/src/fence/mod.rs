//! Restricts which addresses a network namespace may reach: an ordered list of rules, where the first match
//! decides. The kernel's packet filter enforces them. Nothing in a sandbox has the capability to change
//! them.
//!
//! The engine writes the rules (`packages/engine/src/isolators/open-network.ts`).

mod addresses;
mod filter;

pub use addresses::{AddressWatch, own_addresses};
pub use filter::apply;

use crate::netlink;
use crate::sys::check;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

#[derive(Debug, PartialEq)]
pub enum Rule {
    /// Rejects the host's current addresses.
    Own,
    To {
        accept: bool,
        prefix: Prefix,
        /// A TCP and UDP port; `None` for all traffic.
        port: Option<u16>,
    },
}

#[derive(Debug, PartialEq)]
pub struct Prefix {
    pub address: IpAddr,
    pub length: u8,
}

impl Prefix {
    pub fn only(address: IpAddr) -> Prefix {
        let length = if address.is_ipv4() { 32 } else { 128 };
        Prefix { address, length }
    }
}

/// Parses `own`, `accept 10.1.0.0/16`, `accept 192.0.0.3/32 53` or `reject fc00::/7`.
pub fn parse(text: &str) -> Result<Rule, String> {
    let wrong = || format!("'{text}' is not a network rule");
    let words: Vec<&str> = text.split(' ').collect();
    let (verdict, prefix, port) = match words[..] {
        ["own"] => return Ok(Rule::Own),
        [verdict, prefix] => (verdict, prefix, None),
        [verdict, prefix, port] => (verdict, prefix, Some(port.parse::<u16>().map_err(|_| wrong())?)),
        _ => return Err(wrong()),
    };
    let accept = match verdict {
        "accept" => true,
        "reject" => false,
        _ => return Err(wrong()),
    };
    let (address, length) = prefix.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    if length > Prefix::only(address).length {
        return Err(wrong());
    }
    let prefix = Prefix { address, length };
    Ok(Rule::To { accept, prefix, port })
}

/// A socket to the packet filter of the current network namespace.
pub fn filter_socket() -> io::Result<OwnedFd> {
    netlink::socket(libc::NETLINK_NETFILTER, 0)
}

/// `runner fence PID`: restricts the network of the container with this first process. Reads one rule per
/// line from standard input.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<(), String> {
    let pid = arguments.next().and_then(|pid| pid.to_str()?.parse::<u32>().ok());
    let pid = pid.ok_or("usage: runner fence PID < rules")?;
    let mut text = String::new();
    io::stdin()
        .take(1024 * 1024)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read rules: {error}"))?;
    let rules: Vec<Rule> = text.lines().map(parse).collect::<Result<_, _>>()?;
    let own = own_addresses().map_err(|error| format!("cannot list addresses of this machine: {error}"))?;
    let path = format!("/proc/{pid}/ns/net");
    let target = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    let here = std::fs::read_link("/proc/self/ns/net").map_err(|error| format!("/proc/self: {error}"))?;
    let there = std::fs::read_link(&path).map_err(|error| format!("{path}: {error}"))?;
    if here == there {
        return Err("the container shares the network of this machine".to_owned());
    }
    // SAFETY: numbers only; this process has one thread.
    check(unsafe { libc::setns(target.as_raw_fd(), libc::CLONE_NEWNET) })
        .map_err(|error| format!("{path}: {error}"))?;
    filter_socket()
        .and_then(|socket| apply(&socket, &rules, &own))
        .map_err(|error| format!("cannot install the packet filter (nf_tables): {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_parsed_or_rejected() {
        assert_eq!(parse("own"), Ok(Rule::Own));
        assert_eq!(
            parse("accept 192.0.0.3/32 53"),
            Ok(Rule::To {
                accept: true,
                prefix: Prefix::only([192, 0, 0, 3].into()),
                port: Some(53)
            })
        );
        assert!(matches!(
            parse("reject fc00::/7"),
            Ok(Rule::To { accept: false, .. })
        ));
        for bad in [
            "",
            "accept",
            "accept 10.0.0.0",
            "accept 10.0.0.0/33",
            "deny 10.0.0.0/8",
            "reject ::/129",
            "accept 10.0.0.0/8 65536",
            "accept 010.0.0.0/8",
            "own 10.0.0.0/8",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
