//! What a sandbox may reach. Pure functions over names, addresses and ports: no I/O happens here.

pub mod address;
pub mod name;
mod parse;
mod rule;
#[cfg(test)]
mod tests;
mod verdict;

use std::net::IpAddr;

use address::translated;
use name::HostPattern;
pub use rule::Protocol;
use rule::{AddressRule, HostRule};
pub use verdict::{Reason, Verdict};

use crate::transform::Transform;

#[derive(Debug)]
pub struct Policy {
    allow_hosts: Vec<HostRule>,
    allow_addresses: Vec<AddressRule>,
    deny_hosts: Vec<HostRule>,
    deny_addresses: Vec<AddressRule>,
    transform_hosts: Vec<HostPattern>,
    pub transforms: Vec<Transform>,
    /// Trusted as authorities of upstream servers, besides the machine's: certificates as PEM.
    pub upstream_ca: Vec<String>,
    pub services: Vec<Service>,
    pub audit: bool,
    pub limits: Limits,
}

/// A service of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `NAME.sandkasten.internal`
    pub host: String,
    /// Where the gateway connects to: a host or an address, and a port.
    pub to: (String, u16),
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: usize,
    pub bytes: Option<u64>,
    pub bytes_per_second: Option<u64>,
}

/// What rules for addresses say about one.
#[derive(Debug, PartialEq, Eq)]
pub enum AddressVerdict<'a> {
    Allowed(&'a str),
    Denied(&'a str),
    Unnamed,
}

/// The protocols that rules for hosts allow on one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub tls: bool,
    pub http: bool,
    pub tcp: bool,
}

pub const SERVICE_DOMAIN: &str = ".sandkasten.internal";

impl Policy {
    /// Whether a name may be resolved, and is thus known to the sandbox. `name` is normalized.
    pub fn name(&self, name: &str) -> Verdict {
        if let Some(rule) = self
            .deny_hosts
            .iter()
            .find(|rule| rule.ports.is_empty() && rule.pattern.matches(name))
        {
            return self.refusal(Reason::DeniedByRule, Some(&rule.text));
        }
        if self.service(name).is_some() {
            return Verdict::Allowed(name.to_owned());
        }
        if name.ends_with(SERVICE_DOMAIN) {
            return Verdict::denied(Reason::NoRule);
        }
        match self.allow_hosts.iter().find(|rule| rule.pattern.matches(name)) {
            Some(rule) => Verdict::Allowed(rule.text.clone()),
            None => self.refusal(Reason::NoRule, None),
        }
    }

    /// Whether a connection may reach a host. Its address is checked apart from this. `name` is normalized.
    pub fn host(&self, name: &str, port: u16, protocol: Protocol) -> Verdict {
        if let Some(rule) = self.denies_host(name, port) {
            return self.refusal(Reason::DeniedByRule, Some(rule));
        }
        let allows =
            |rule: &&HostRule| rule.protocol_on(port) == Some(protocol) && rule.pattern.matches(name);
        match (self.allow_hosts.iter().find(allows), protocol) {
            (Some(rule), _) => Verdict::Allowed(rule.text.clone()),
            (None, Protocol::Tls) => self.refusal(Reason::SniNotAllowed, None),
            (None, _) => self.refusal(Reason::NoRule, None),
        }
    }

    pub fn denies_host(&self, name: &str, port: u16) -> Option<&str> {
        let denies = |rule: &&HostRule| rule.denies_port(port) && rule.pattern.matches(name);
        self.deny_hosts.iter().find(denies).map(|rule| rule.text.as_str())
    }

    /// What rules for addresses say. `address` is canonical. A denied IPv4 address is denied behind NAT64, too.
    pub fn address(&self, address: IpAddr, port: u16) -> AddressVerdict<'_> {
        let matches = |rule: &&AddressRule| rule.matches(address, port);
        let denies = |rule: &&AddressRule| {
            matches(rule) || translated(address).is_some_and(|behind| rule.matches(behind, port))
        };
        match (
            self.deny_addresses.iter().find(denies),
            self.allow_addresses.iter().find(matches),
        ) {
            (Some(rule), _) => AddressVerdict::Denied(&rule.text),
            (None, Some(rule)) => AddressVerdict::Allowed(&rule.text),
            (None, None) => AddressVerdict::Unnamed,
        }
    }

    /// Whether a rule names this one address, on this port if one is given. Only this opens an address that leads inside.
    pub fn names_exactly(&self, address: IpAddr, port: Option<u16>) -> bool {
        let names = |rule: &AddressRule| {
            rule.is_exactly(address) && port.is_none_or(|port| rule.matches(address, port))
        };
        self.allow_addresses.iter().any(names)
    }

    pub fn expected(&self, port: u16) -> Expected {
        let mut expected = Expected::default();
        for protocol in self.allow_hosts.iter().filter_map(|rule| rule.protocol_on(port)) {
            match protocol {
                Protocol::Tls => expected.tls = true,
                Protocol::Http => expected.http = true,
                Protocol::Tcp => expected.tcp = true,
            }
        }
        expected
    }

    /// The exact hosts with a rule for plain TCP on this port.
    pub fn tcp_hosts(&self, port: u16) -> impl Iterator<Item = &str> {
        let tcp = move |rule: &&HostRule| rule.protocol_on(port) == Some(Protocol::Tcp);
        self.allow_hosts
            .iter()
            .filter(tcp)
            .filter_map(|rule| match &rule.pattern {
                HostPattern::Exact(host) => Some(host.as_str()),
                _ => None,
            })
    }

    /// Names matter on connections to addresses that a rule allows: a host may be denied or have a transform.
    pub fn reads_names(&self) -> bool {
        !self.deny_hosts.is_empty() || !self.transform_hosts.is_empty()
    }

    pub fn transforms(&self, name: &str) -> bool {
        self.transform_hosts.iter().any(|host| host.matches(name))
    }

    pub fn service(&self, host: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.host == host)
    }

    /// A refusal, or in audit mode its record.
    pub fn refusal(&self, reason: Reason, rule: Option<&str>) -> Verdict {
        match self.audit {
            true => Verdict::Audit(reason),
            false => Verdict::Denied {
                reason,
                rule: rule.map(str::to_owned),
            },
        }
    }
}
