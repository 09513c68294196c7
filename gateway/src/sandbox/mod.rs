//! One sandbox: its policy, its open connections, and the names that it resolved.

mod brokered;
mod connections;
mod names;
mod receive;
mod traffic;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::dns::resolver::{self, Family};
use crate::events::Draft;
use crate::gateway::Gateway;
use crate::host::has_route;
use crate::lock;
use crate::policy::address::{canonical, is_inside, translated};
use crate::policy::{Policy, Reason, Service};
pub use brokered::{Brokered, Secrets};
use connections::Connections;
pub use connections::{Connection, Facts, Via};
use names::Names;
pub use receive::{Sockets, receive};
pub use traffic::Traffic;

/// Where the sandbox's resolver is, inside.
pub const RESOLVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 0, 3));
const FIRST_SERVICE: u8 = 8;

pub struct Sandbox {
    pub name: Arc<str>,
    pub traffic: Traffic,
    gateway: Weak<Gateway>,
    own: Vec<IpAddr>,
    /// Missing without a CA for the sandbox.
    pub brokered: Option<Brokered>,
    connections: Mutex<Connections>,
    names: Mutex<Names>,
    /// Hosts of services by their address inside. A name keeps its address over updates.
    service_hosts: Mutex<Vec<String>>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// What a name resolved to.
#[derive(Debug)]
pub struct Resolved {
    pub addresses: Vec<IpAddr>,
    pub ttl: u32,
    /// All its addresses lead inside.
    pub inside: bool,
}

impl Sandbox {
    pub fn new(
        gateway: &Arc<Gateway>,
        name: &str,
        policy: Policy,
        own: Vec<IpAddr>,
        brokered: Option<Brokered>,
    ) -> Arc<Self> {
        let sandbox = Self {
            name: name.into(),
            traffic: Traffic::new(&policy.limits),
            gateway: Arc::downgrade(gateway),
            own,
            brokered,
            service_hosts: Mutex::default(),
            names: Mutex::default(),
            tasks: Mutex::default(),
            connections: Mutex::new(Connections::new(Arc::new(policy))),
        };
        sandbox.assign_services();
        Arc::new(sandbox)
    }

    pub fn policy(&self) -> Arc<Policy> {
        lock(&self.connections).policy.clone()
    }

    /// Replaces the policy, and resets the connections that it does not allow. Returns their number.
    pub fn update(&self, policy: Policy) -> usize {
        self.traffic.set_limits(&policy.limits);
        lock(&self.names).expire();
        let policy = Arc::new(policy);
        let closed = lock(&self.connections).replace(policy, |policy, facts| self.allows(policy, facts));
        self.assign_services();
        closed
    }

    /// A new connection and the signal that resets it, unless there are too many.
    pub fn open(self: &Arc<Self>) -> Option<(Connection, oneshot::Receiver<Reason>)> {
        Connection::open(self, &self.connections)
    }

    /// Lets a connection go on if the current policy allows it. `seen` is the policy that decided.
    pub fn admit(&self, connection: &Connection, facts: Facts, seen: &Arc<Policy>) -> bool {
        lock(&self.connections).admit(connection.id, facts, |policy, facts| {
            Arc::ptr_eq(policy, seen) || self.allows(policy, facts)
        })
    }

    pub fn connection_count(&self) -> usize {
        lock(&self.connections).count()
    }

    fn allows(&self, policy: &Policy, facts: &Facts) -> bool {
        facts.allowed_by(policy, self.may_reach(policy, facts.address, Some(facts.port)))
    }

    /// Whether the gateway may connect to the address at all. `address` is canonical.
    pub fn may_reach(&self, policy: &Policy, address: IpAddr, port: Option<u16>) -> bool {
        let inside =
            is_inside(address) || self.owns(address) || translated(address).is_some_and(|v4| self.owns(v4));
        !inside || policy.names_exactly(address, port)
    }

    /// Whether the machine has the address.
    fn owns(&self, address: IpAddr) -> bool {
        self.own.contains(&address) || self.gateway().is_none_or(|gateway| gateway.host.owns(address))
    }

    pub fn record(&self, draft: Draft) {
        if draft.verdict == "denied" {
            self.traffic.count_refused();
        }
        if let Some(gateway) = self.gateway() {
            gateway.events.record(&self.name, draft);
        }
    }

    pub fn gateway(&self) -> Option<Arc<Gateway>> {
        self.gateway.upgrade()
    }

    /// Resolves an allowed name, and remembers its addresses. Addresses that lead inside are left out.
    pub async fn resolve(&self, name: &str, family: Family) -> Result<Resolved, resolver::Failure> {
        if let Some((addresses, ttl)) = lock(&self.names).fresh(name, family) {
            return Ok(Resolved {
                addresses,
                ttl,
                inside: false,
            });
        }
        let gateway = self.gateway().ok_or(resolver::Failure::Unavailable)?;
        let found = resolver::resolve(&gateway.host.told(), name, family).await?;
        let policy = self.policy();
        let any = !found.addresses.is_empty();
        let outside: Vec<_> = found.addresses.into_iter().map(canonical).collect();
        let outside: Vec<_> = outside
            .into_iter()
            .filter(|address| self.may_reach(&policy, *address, None))
            .collect();
        let inside = any && outside.is_empty();
        let addresses: Vec<_> = outside
            .into_iter()
            .filter(|address| has_route(*address))
            .collect();
        lock(&self.names).remember(name, family, &addresses, found.ttl);
        Ok(Resolved {
            addresses,
            ttl: found.ttl,
            inside,
        })
    }

    /// Whether the gateway resolved this address for the name, lately or now.
    pub async fn resolves_to(&self, name: &str, address: IpAddr) -> bool {
        if lock(&self.names).holds(name, address) {
            return true;
        }
        let found = self.resolve(name, Family::of(address)).await;
        found.is_ok_and(|found| found.addresses.contains(&address))
    }

    /// The names that the sandbox resolved lately to this address.
    pub fn names_of(&self, address: IpAddr) -> Vec<String> {
        lock(&self.names).names_of(address)
    }

    fn assign_services(&self) {
        let policy = self.policy();
        let mut hosts = lock(&self.service_hosts);
        for service in &policy.services {
            if !hosts.contains(&service.host) && hosts.len() < usize::from(u8::MAX - FIRST_SERVICE) {
                hosts.push(service.host.clone());
            }
        }
    }

    pub fn service_address(&self, host: &str) -> Option<Ipv4Addr> {
        let index = lock(&self.service_hosts).iter().position(|known| known == host)?;
        Some(Ipv4Addr::new(
            192,
            0,
            0,
            FIRST_SERVICE.checked_add(u8::try_from(index).ok()?)?,
        ))
    }

    pub fn service_at(&self, address: IpAddr, policy: &Policy) -> Option<Service> {
        let IpAddr::V4(address) = address else { return None };
        let [192, 0, 0, last] = address.octets() else {
            return None;
        };
        let index = usize::from(last.checked_sub(FIRST_SERVICE)?);
        let host = lock(&self.service_hosts).get(index)?.clone();
        policy.service(&host).cloned()
    }

    pub fn keep_task(&self, task: AbortHandle) {
        lock(&self.tasks).push(task);
    }

    /// Stops accepting and resets all connections.
    pub fn end(&self) {
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
        lock(&self.connections).reset_all(Reason::PolicyChanged);
    }
}
