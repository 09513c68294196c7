//! The open connections of a sandbox, decided again when its policy changes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

use super::Sandbox;
use crate::lock;
use crate::policy::{AddressVerdict, Policy, Protocol, Reason, Service};

/// What a connection is, as far as a policy can decide on it.
#[derive(Clone, Debug)]
pub struct Facts {
    pub address: IpAddr,
    pub port: u16,
    pub host: Option<String>,
    pub via: Via,
}

#[derive(Clone, Debug)]
pub enum Via {
    Host(Protocol),
    Address,
    Service(Service),
    /// The sandbox's own resolver.
    Resolver,
}

impl Facts {
    pub(super) fn allowed_by(&self, policy: &Policy, reachable: bool) -> bool {
        match &self.via {
            Via::Resolver => return true,
            Via::Service(service) => return policy.service(&service.host) == Some(service),
            _ if !reachable => return false,
            _ if policy.audit => return true,
            _ => {}
        }
        let host_denied = self
            .host
            .as_ref()
            .is_some_and(|host| policy.denies_host(host, self.port).is_some());
        match (policy.address(self.address, self.port), &self.via, &self.host) {
            (AddressVerdict::Denied(_), ..) => false,
            _ if host_denied => false,
            (AddressVerdict::Allowed(_), ..) => true,
            (_, Via::Host(protocol), Some(host)) => !policy.host(host, self.port, *protocol).is_denied(),
            _ => false,
        }
    }
}

pub(super) struct Connections {
    pub policy: Arc<Policy>,
    open: HashMap<u64, Open>,
    next: u64,
    ended: bool,
}

struct Open {
    /// Unknown until the connection is decided.
    facts: Option<Facts>,
    reset: Option<oneshot::Sender<Reason>>,
}

impl Open {
    fn reset(&mut self, reason: Reason) {
        if let Some(reset) = self.reset.take() {
            let _ = reset.send(reason);
        }
    }
}

impl Connections {
    pub fn new(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            open: HashMap::new(),
            next: 0,
            ended: false,
        }
    }

    pub fn count(&self) -> usize {
        self.open.len()
    }

    pub fn replace(&mut self, policy: Arc<Policy>, allows: impl Fn(&Policy, &Facts) -> bool) -> usize {
        self.policy = policy;
        let mut closed = 0;
        for open in self.open.values_mut() {
            if open
                .facts
                .as_ref()
                .is_some_and(|facts| !allows(&self.policy, facts))
            {
                open.reset(Reason::PolicyChanged);
                closed += 1;
            }
        }
        closed
    }

    pub fn admit(&mut self, id: u64, facts: Facts, allows: impl Fn(&Arc<Policy>, &Facts) -> bool) -> bool {
        let allowed = !self.ended && allows(&self.policy, &facts);
        if let Some(open) = self.open.get_mut(&id) {
            open.facts = Some(facts);
        }
        allowed
    }

    pub fn reset_all(&mut self, reason: Reason) {
        self.ended = true;
        self.open.values_mut().for_each(|open| open.reset(reason));
    }
}

/// Counts as open until it is dropped.
pub struct Connection {
    pub(super) id: u64,
    sandbox: Arc<Sandbox>,
}

impl Connection {
    /// Also returns what yields the reason when the connection must be reset.
    pub(super) fn open(
        sandbox: &Arc<Sandbox>,
        connections: &Mutex<Connections>,
    ) -> Option<(Self, oneshot::Receiver<Reason>)> {
        let mut connections = lock(connections);
        if connections.ended || connections.open.len() >= connections.policy.limits.connections {
            return None;
        }
        let id = connections.next;
        connections.next += 1;
        let (sender, reset) = oneshot::channel();
        connections.open.insert(
            id,
            Open {
                facts: None,
                reset: Some(sender),
            },
        );
        Some((
            Self {
                id,
                sandbox: sandbox.clone(),
            },
            reset,
        ))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.sandbox.connections).open.remove(&self.id);
    }
}
