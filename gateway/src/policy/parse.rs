//! Reads a policy as the engine sends it. Unknown fields are ignored.

use serde::Deserialize;
use serde_json::Value;

use super::name::{HostPattern, normalize};
use super::rule::{AddressRule, HostRule, RuleText};
use super::{Limits, Policy, SERVICE_DOMAIN, Service};
use crate::transform::Transform;

const MOST_RULES: usize = 4096;
/// Each service has an address of its own in 192.0.0.0/24.
pub const MOST_SERVICES: usize = 128;
const DEFAULT_CONNECTIONS: usize = 512;
const MOST_CONNECTIONS: usize = 65_536;

#[derive(Deserialize)]
struct PolicyText {
    allow: Vec<RuleText>,
    #[serde(default)]
    deny: Vec<RuleText>,
    #[serde(default)]
    transform: Vec<Transform>,
    #[serde(default, rename = "upstreamCa")]
    upstream_ca: Vec<String>,
    #[serde(default)]
    audit: bool,
    limits: Option<LimitsText>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LimitsText {
    connections: Option<usize>,
    bytes: Option<u64>,
    bytes_per_second: Option<u64>,
}

impl Policy {
    pub fn parse(policy: &Value) -> Result<Self, String> {
        let text = PolicyText::deserialize(policy).map_err(|error| format!("policy: {error}"))?;
        if text.allow.len() > MOST_RULES || text.deny.len() > MOST_RULES {
            return Err(format!("policy: more than {MOST_RULES} rules"));
        }
        let limits = text.limits.unwrap_or_default();
        let mut policy = Self {
            allow_hosts: Vec::new(),
            allow_addresses: Vec::new(),
            deny_hosts: Vec::new(),
            deny_addresses: Vec::new(),
            transform_hosts: text
                .transform
                .iter()
                .map(transform_host)
                .collect::<Result<_, _>>()?,
            transforms: text.transform,
            upstream_ca: text.upstream_ca,
            services: Vec::new(),
            audit: text.audit,
            limits: Limits {
                connections: limits
                    .connections
                    .unwrap_or(DEFAULT_CONNECTIONS)
                    .min(MOST_CONNECTIONS),
                bytes: limits.bytes,
                bytes_per_second: limits.bytes_per_second,
            },
        };
        for (index, rule) in text.allow.iter().enumerate() {
            policy
                .add_allow(rule)
                .map_err(|problem| format!("policy.allow[{index}]: {problem}"))?;
        }
        for (index, rule) in text.deny.iter().enumerate() {
            policy
                .add_deny(rule)
                .map_err(|problem| format!("policy.deny[{index}]: {problem}"))?;
        }
        match policy.services.len() > MOST_SERVICES {
            true => Err(format!("policy: more than {MOST_SERVICES} services")),
            false => Ok(policy),
        }
    }

    fn add_allow(&mut self, rule: &RuleText) -> Result<(), String> {
        check_ports(rule)?;
        match (&rule.host, &rule.cidr, &rule.service) {
            (Some(host), None, None) => self.allow_hosts.push(HostRule::parse(host, rule)?),
            (None, Some(cidr), None) => self.allow_addresses.push(AddressRule::parse(cidr, rule)?),
            (None, None, Some(service)) => self.services.push(parse_service(service, rule)?),
            _ => return Err("needs one of host, cidr and service".to_owned()),
        }
        Ok(())
    }

    fn add_deny(&mut self, rule: &RuleText) -> Result<(), String> {
        check_ports(rule)?;
        match (&rule.host, &rule.cidr) {
            (Some(host), None) => self.deny_hosts.push(HostRule::parse(host, rule)?),
            (None, Some(cidr)) => self.deny_addresses.push(AddressRule::parse(cidr, rule)?),
            _ => return Err("needs one of host and cidr".to_owned()),
        }
        Ok(())
    }
}

fn transform_host(transform: &Transform) -> Result<HostPattern, String> {
    let host = &transform.matching.host;
    HostPattern::parse(host).ok_or_else(|| format!("policy.transform: {host:?} is not a host"))
}

/// An empty list would read as the default ports, so the engine leaves it out instead.
fn check_ports(rule: &RuleText) -> Result<(), String> {
    match &rule.ports {
        Some(ports) if ports.is_empty() || ports.len() > 1024 => {
            Err("ports needs 1 to 1024 entries".to_owned())
        }
        Some(ports) if ports.contains(&0) => Err("port 0 does not exist".to_owned()),
        _ => Ok(()),
    }
}

fn parse_service(name: &str, rule: &RuleText) -> Result<Service, String> {
    let host = normalize(&format!("{name}{SERVICE_DOMAIN}"))
        .ok_or_else(|| format!("{name:?} is not a service's name"))?;
    let to = rule
        .to
        .as_deref()
        .and_then(parse_target)
        .ok_or("a service needs `to`: HOST:PORT")?;
    Ok(Service { host, to })
}

fn parse_target(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let known = host.parse::<std::net::IpAddr>().is_ok() || normalize(host).is_some();
    known.then(|| (host.to_owned(), port))
}
