//! Which host a request is for, and whether it may be sent.

use hyper::header::{HOST, UPGRADE};
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Method, Request, Uri};
use std::net::SocketAddr;

use crate::policy::name::normalize;
use crate::policy::{AddressVerdict, Policy, Protocol, Reason, Verdict};
use crate::sandbox::Sandbox;
use crate::tcp::judge::{is_address, judge};

pub struct Asked {
    pub host: Option<String>,
    pub verdict: Verdict,
}

pub async fn check<B>(sandbox: &Sandbox, policy: &Policy, request: &Request<B>, called: SocketAddr) -> Asked {
    let refused = |host, reason| Asked {
        host,
        verdict: policy.refusal(reason, None),
    };
    // The gateway could not send these on as they are, so audit does not allow them either.
    if request.method() == Method::CONNECT {
        return Asked {
            host: None,
            verdict: Verdict::denied(Reason::ConnectRefusedByPolicy),
        };
    }
    if request
        .headers()
        .get_all(UPGRADE)
        .iter()
        .any(|to| !to.as_bytes().eq_ignore_ascii_case(b"websocket"))
    {
        return Asked {
            host: None,
            verdict: Verdict::denied(Reason::UpgradeRefused),
        };
    }
    let Some(authority) = authority_of(request, called.port()) else {
        return refused(None, Reason::HostMismatch);
    };
    if let Some(host) = normalize(authority.host()) {
        let verdict = judge(sandbox, policy, &host, called, Protocol::Http)
            .await
            .verdict;
        return Asked {
            host: Some(host),
            verdict,
        };
    }
    if !is_address(authority.host(), called.ip()) {
        return refused(None, Reason::HostMismatch);
    }
    match policy.address(called.ip(), called.port()) {
        AddressVerdict::Allowed(rule) => Asked {
            host: None,
            verdict: Verdict::Allowed(rule.to_owned()),
        },
        _ => refused(None, Reason::NoRule),
    }
}

/// The one host that `Host` and the target name. `None` if it is missing, if they differ, or if the port is another one.
fn authority_of<B>(request: &Request<B>, port: u16) -> Option<Authority> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host: Authority = hosts.next()?.to_str().ok()?.parse().ok()?;
    let plain = |authority: &Authority| {
        !authority.as_str().contains('@') && authority.port_u16().is_none_or(|named| named == port)
    };
    let same = |target: &Authority| plain(target) && target.host().eq_ignore_ascii_case(host.host());
    let consistent = hosts.next().is_none() && plain(&host) && request.uri().authority().is_none_or(same);
    consistent.then_some(host)
}

/// `GET http://host/path` is for proxies; servers get `GET /path`.
pub fn to_origin_form<B>(request: &mut Request<B>) {
    if request.uri().authority().is_some() {
        let root = PathAndQuery::from_static("/");
        let path = request.uri().path_and_query().cloned().unwrap_or(root);
        *request.uri_mut() = Uri::from(path);
    }
}
