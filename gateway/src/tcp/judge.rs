//! Decides on a named host at a called address.

use std::net::{IpAddr, SocketAddr};

use crate::policy::{AddressVerdict, Policy, Protocol, Reason, Verdict};
use crate::sandbox::Sandbox;

pub struct Judgement {
    pub verdict: Verdict,
    /// A rule allows the host, and the gateway resolved the address for it.
    pub by_host: bool,
}

/// `host` is normalized; `called` was checked against addresses that lead inside.
pub async fn judge(
    sandbox: &Sandbox,
    policy: &Policy,
    host: &str,
    called: SocketAddr,
    protocol: Protocol,
) -> Judgement {
    let decided = |verdict| Judgement {
        verdict,
        by_host: false,
    };
    let by_host = policy.host(host, called.port(), protocol);
    if matches!(by_host, Verdict::Allowed(_)) && sandbox.resolves_to(host, called.ip()).await {
        let denied = denied_address(policy, called);
        return Judgement {
            by_host: denied.is_none(),
            verdict: denied.unwrap_or(by_host),
        };
    }
    if policy.denies_host(host, called.port()).is_some() {
        return decided(by_host);
    }
    match policy.address(called.ip(), called.port()) {
        AddressVerdict::Allowed(rule) => decided(Verdict::Allowed(rule.to_owned())),
        AddressVerdict::Denied(rule) => decided(policy.refusal(Reason::DeniedByRule, Some(rule))),
        AddressVerdict::Unnamed if matches!(by_host, Verdict::Allowed(_)) => {
            decided(policy.refusal(Reason::AddressMismatch, None))
        }
        AddressVerdict::Unnamed => decided(by_host),
    }
}

fn denied_address(policy: &Policy, called: SocketAddr) -> Option<Verdict> {
    match policy.address(called.ip(), called.port()) {
        AddressVerdict::Denied(rule) => Some(policy.refusal(Reason::DeniedByRule, Some(rule))),
        _ => None,
    }
}

/// The host and rule of plain TCP to this address, if a rule allows a host that resolves to it.
pub async fn judge_tcp(sandbox: &Sandbox, policy: &Policy, called: SocketAddr) -> Option<(String, Verdict)> {
    let allowed = |host: String| match policy.host(&host, called.port(), Protocol::Tcp) {
        verdict @ Verdict::Allowed(_) => Some((host, verdict)),
        _ => None,
    };
    if let Some(found) = sandbox.names_of(called.ip()).into_iter().find_map(allowed) {
        return Some(found);
    }
    let hosts: Vec<String> = policy
        .tcp_hosts(called.port())
        .take(MOST_RESOLVED)
        .map(str::to_owned)
        .collect();
    let search = async {
        for host in hosts {
            if sandbox.resolves_to(&host, called.ip()).await
                && let Some(found) = allowed(host)
            {
                return Some(found);
            }
        }
        None
    };
    tokio::time::timeout(RESOLVE_ALL, search).await.unwrap_or(None)
}

const MOST_RESOLVED: usize = 16;
const RESOLVE_ALL: std::time::Duration = std::time::Duration::from_secs(10);

/// Whether text that names a host is this address.
pub fn is_address(text: &str, address: IpAddr) -> bool {
    let text = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    text.parse::<IpAddr>()
        .is_ok_and(|named| named.to_canonical() == address)
}
