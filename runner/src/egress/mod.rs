//! The network of a sandbox with a policy: a namespace with only `lo`, in which every address is local.
//!
//! ```text
//! program ─ TCP to any address ─► lo ─► prerouting: TPROXY ─► 192.0.0.1:1 or [fd73:616e:646b::1]:1   tcp4, tcp6
//!         ─ 192.0.0.3:53 (UDP) ─► lo ──────────────────────► 192.0.0.3:53                            dns
//!         ─ anything else ──────► output: rejected, and its first bytes ─► NFLOG ─► refused
//! ```
//!
//! The sockets are all that connects the namespace with the outside. The gateway gets copies of them through a Unix
//! socket (`handover`) and serves them; protocol/egress.md describes that. No packet leaves the namespace, with or
//! without the filter: the filter gives TCP to the gateway, makes everything else fail at once, and records it.

mod addresses;
mod filter;
mod handover;
mod holder;
pub mod pair;
mod refused;
mod sockets;
#[cfg(test)]
mod tests;

pub use handover::{Handover, Place};
pub use holder::run;
pub use sockets::{Sockets, Unbound};

use std::net::{Ipv4Addr, Ipv6Addr};

/// The sandbox's own addresses, besides its loopback addresses.
const OWN_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfd73, 0x616e, 0x646b, 0, 0, 0, 0, 2);
const RESOLVER: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 3);
const DNS_PORT: u16 = 53;
/// Where the transparent sockets listen. Not the sandbox's own addresses, so that all ports of those stay free.
const LISTENER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
const LISTENER_V6: Ipv6Addr = Ipv6Addr::new(0xfd73, 0x616e, 0x646b, 0, 0, 0, 0, 1);
const LISTENER_PORT: u16 = 1;
/// `lo` has this index in every network namespace.
const LOOPBACK: u32 = 1;
