//! The machine: its addresses, its resolvers and its table of hosts.

use nix::ifaddrs::getifaddrs;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::lock;
use crate::policy::address::canonical;

const INTERFACES_FRESH_FOR: Duration = Duration::from_secs(2);

/// As op `host` sends it.
#[derive(Default)]
pub struct Told {
    pub resolvers: Vec<SocketAddr>,
    pub own: HashSet<IpAddr>,
    pub hosts: HashMap<String, Vec<IpAddr>>,
}

#[derive(Default)]
pub struct Host {
    told: Mutex<Arc<Told>>,
    interfaces: Mutex<Option<(Instant, Arc<HashSet<IpAddr>>)>>,
}

impl Host {
    pub fn tell(&self, told: Told) {
        *lock(&self.told) = Arc::new(told);
    }

    pub fn told(&self) -> Arc<Told> {
        lock(&self.told).clone()
    }

    /// Whether this machine has the address, as the engine or its interfaces say. `address` is canonical.
    pub fn owns(&self, address: IpAddr) -> bool {
        let on_interface = || self.interfaces().is_none_or(|all| all.contains(&address));
        self.told().own.contains(&address) || on_interface()
    }

    /// Reading them needs a descriptor. Without one, the earlier ones count. `None`: they were never read.
    fn interfaces(&self) -> Option<Arc<HashSet<IpAddr>>> {
        let mut cached = lock(&self.interfaces);
        if let Some((at, addresses)) = cached.as_ref()
            && at.elapsed() < INTERFACES_FRESH_FOR
        {
            return Some(addresses.clone());
        }
        if let Ok(addresses) = read_interfaces() {
            *cached = Some((Instant::now(), Arc::new(addresses)));
        }
        cached.as_ref().map(|(_, addresses)| addresses.clone())
    }
}

fn read_interfaces() -> nix::Result<HashSet<IpAddr>> {
    let address_of = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    Ok(getifaddrs()?.filter_map(address_of).map(canonical).collect())
}

/// Whether this machine has a route to the address. Sends nothing. True without a free descriptor: a name whose addresses
/// are left out stays without them for as long as its answer is valid.
pub fn has_route(address: IpAddr) -> bool {
    let any = match address {
        IpAddr::V4(_) => "0.0.0.0:0",
        IpAddr::V6(_) => "[::]:0",
    };
    match UdpSocket::bind(any) {
        Ok(socket) => socket.connect((address, 53)).is_ok(),
        Err(error) => matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)),
    }
}
