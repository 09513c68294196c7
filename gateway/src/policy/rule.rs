//! One rule of a policy.

use ipnet::IpNet;
use serde::Deserialize;
use std::net::IpAddr;

use super::address::canonical;
use super::name::HostPattern;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tls,
    Http,
    Tcp,
}

impl Protocol {
    fn of_port(port: u16) -> Self {
        match port {
            443 => Self::Tls,
            80 => Self::Http,
            _ => Self::Tcp,
        }
    }
}

/// A rule as the engine sends it.
#[derive(Deserialize)]
pub struct RuleText {
    pub host: Option<String>,
    pub cidr: Option<String>,
    pub service: Option<String>,
    pub to: Option<String>,
    pub ports: Option<Vec<u16>>,
    pub protocol: Option<Protocol>,
}

#[derive(Debug)]
pub struct HostRule {
    pub text: String,
    pub pattern: HostPattern,
    /// Empty: what the rule's list means without ports.
    pub ports: Vec<u16>,
    pub protocol: Option<Protocol>,
}

impl HostRule {
    pub fn parse(host: &str, rule: &RuleText) -> Result<Self, String> {
        let pattern = HostPattern::parse(host).ok_or_else(|| format!("{host:?} is not a host"))?;
        let ports = rule.ports.clone().unwrap_or_default();
        Ok(Self {
            text: with_ports(host, &ports),
            pattern,
            ports,
            protocol: rule.protocol,
        })
    }

    /// How an allowing rule reads connections to this port; `None` if it does not name the port.
    pub fn protocol_on(&self, port: u16) -> Option<Protocol> {
        let named = match (self.ports.as_slice(), self.protocol) {
            ([], Some(Protocol::Tls)) => port == 443,
            ([], Some(Protocol::Http)) => port == 80,
            ([], _) => port == 443 || port == 80,
            (ports, _) => ports.contains(&port),
        };
        named.then(|| self.protocol.unwrap_or(Protocol::of_port(port)))
    }

    /// A denying rule without ports means all of them.
    pub fn denies_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.contains(&port)
    }
}

#[derive(Debug)]
pub struct AddressRule {
    pub text: String,
    net: IpNet,
    ports: Vec<u16>,
}

impl AddressRule {
    pub fn parse(cidr: &str, rule: &RuleText) -> Result<Self, String> {
        let net = parse_net(cidr).ok_or_else(|| format!("{cidr:?} is not an address or network"))?;
        let ports = rule.ports.clone().unwrap_or_default();
        Ok(Self {
            text: with_ports(cidr, &ports),
            net,
            ports,
        })
    }

    /// `address` is canonical.
    pub fn matches(&self, address: IpAddr, port: u16) -> bool {
        self.net.contains(&address) && (self.ports.is_empty() || self.ports.contains(&port))
    }

    /// The rule is for this one address, not for a network around it.
    pub fn is_exactly(&self, address: IpAddr) -> bool {
        self.net.prefix_len() == self.net.max_prefix_len() && self.net.addr() == address
    }
}

fn parse_net(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(IpNet::from(canonical(address)));
    }
    let net: IpNet = text.parse().ok()?;
    match (net, canonical(net.addr())) {
        (IpNet::V6(mapped), IpAddr::V4(address)) => {
            IpNet::new(address.into(), mapped.prefix_len().checked_sub(96)?).ok()
        }
        _ => Some(net),
    }
}

fn with_ports(text: &str, ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    match (ports.is_empty(), text.contains(':')) {
        (true, _) => text.to_owned(),
        (false, true) => format!("[{text}]:{}", ports.join(",")),
        (false, false) => format!("{text}:{}", ports.join(",")),
    }
}
