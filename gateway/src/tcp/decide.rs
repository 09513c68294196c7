//! Decides on a connection by its destination and its first bytes.

use std::net::SocketAddr;
use tokio::net::TcpStream;

use super::judge::{judge, judge_tcp};
use super::sniff::{Spoken, sniff};
use crate::dns;
use crate::events::Kind;
use crate::policy::name::normalize;
use crate::policy::{AddressVerdict, Expected, Policy, Protocol, Reason, Service, Verdict};
use crate::sandbox::{Facts, RESOLVER, Sandbox, Via};

pub struct Decision {
    pub kind: Kind,
    pub verdict: Verdict,
    pub facts: Facts,
    pub route: Route,
}

/// What happens to an allowed connection. The bytes were read from the client already.
pub enum Route {
    Refuse,
    Resolver,
    Service(Service),
    Splice(Vec<u8>),
    Http(Vec<u8>),
    /// The host, and its ClientHello.
    Transform(String, Vec<u8>),
}

/// `None`: the client closed before there was anything to decide.
pub async fn decide(
    sandbox: &Sandbox,
    policy: &Policy,
    client: &mut TcpStream,
    called: SocketAddr,
) -> Option<Decision> {
    let (address, port) = (called.ip(), called.port());
    let facts = Facts {
        address,
        port,
        host: None,
        via: Via::Address,
    };
    let place = Place {
        sandbox,
        policy,
        called,
        facts,
    };
    if dns::is_resolver(address, port) {
        return Some(place.decided(Kind::Dns, allowed("resolver"), Via::Resolver, Route::Resolver));
    }
    if let Some(service) = sandbox.service_at(address, policy) {
        let host = service.host.clone();
        let route = Route::Service(service.clone());
        let verdict = policy.name(&host);
        return Some(
            place
                .named(host)
                .decided(Kind::Tcp, verdict, Via::Service(service), route),
        );
    }
    if address == RESOLVER {
        return Some(place.refused(Kind::Tcp, Verdict::denied(Reason::NoRule)));
    }
    if !sandbox.may_reach(policy, address, Some(port)) {
        return Some(place.refused(Kind::Tcp, Verdict::denied(Reason::PrivateAddress)));
    }
    match policy.address(address, port) {
        AddressVerdict::Denied(rule) => {
            let verdict = policy.refusal(Reason::DeniedByRule, Some(rule));
            Some(place.plain(Kind::Tcp, verdict, Vec::new()))
        }
        AddressVerdict::Allowed(rule) => by_address(place, client, rule).await,
        AddressVerdict::Unnamed => by_host(place, client).await,
    }
}

async fn by_address(place: Place<'_>, client: &mut TcpStream, rule: &str) -> Option<Decision> {
    if !place.policy.reads_names() || !place.may_speak_first() {
        return Some(place.plain(Kind::Tcp, allowed(rule), Vec::new()));
    }
    match sniff(client).await {
        (Spoken::Closed, _) => None,
        (Spoken::Tls(Some(name)), head) => Some(place.tls(&name, head).await),
        (Spoken::Tls(None), head) => Some(place.plain(Kind::Tls, allowed(rule), head)),
        (Spoken::Http, head) if place.reads_http() => {
            Some(place.decided(Kind::Http, allowed(rule), Via::Address, Route::Http(head)))
        }
        (_, head) => Some(place.plain(Kind::Tcp, allowed(rule), head)),
    }
}

async fn by_host(mut place: Place<'_>, client: &mut TcpStream) -> Option<Decision> {
    let policy = place.policy;
    let Expected { tls, http, tcp } = policy.expected(place.called.port());
    if tcp && let Some((host, verdict)) = judge_tcp(place.sandbox, policy, place.called).await {
        let route = Route::Splice(Vec::new());
        return Some(
            place
                .named(host)
                .decided(Kind::Tcp, verdict, Via::Host(Protocol::Tcp), route),
        );
    }
    let sniffs = tls || http || policy.audit && place.may_speak_first();
    if !sniffs {
        let reason = match (tcp, place.called.port()) {
            (true, _) => Reason::AddressMismatch,
            (false, 53 | 853) => Reason::ResolverRefused,
            (false, _) => Reason::NoRule,
        };
        place.facts.host = place.sandbox.names_of(place.called.ip()).into_iter().next();
        return Some(place.plain(Kind::Tcp, policy.refusal(reason, None), Vec::new()));
    }
    let refusal = |reason| policy.refusal(reason, None);
    match sniff(client).await {
        (Spoken::Closed, _) => None,
        (Spoken::Tls(name), head) if tls || policy.audit => Some(match name {
            Some(name) => place.tls(&name, head).await,
            None => place.plain(Kind::Tls, refusal(Reason::NoSni), head),
        }),
        (Spoken::Http, head) if place.reads_http() => Some(place.decided(
            Kind::Http,
            allowed("http"),
            Via::Host(Protocol::Http),
            Route::Http(head),
        )),
        (_, head) if place.reads_http() => Some(place.plain(Kind::Http, refusal(Reason::NotHttp), head)),
        (_, head) => Some(place.plain(Kind::Tls, refusal(Reason::Protocol), head)),
    }
}

struct Place<'a> {
    sandbox: &'a Sandbox,
    policy: &'a Policy,
    called: SocketAddr,
    facts: Facts,
}

impl Place<'_> {
    /// Clients of these protocols send before the server does.
    fn may_speak_first(&self) -> bool {
        let Expected { tls, http, .. } = self.policy.expected(self.called.port());
        tls || http || matches!(self.called.port(), 80 | 443)
    }

    fn reads_http(&self) -> bool {
        self.policy.expected(self.called.port()).http || self.called.port() == 80
    }

    async fn tls(self, name: &str, head: Vec<u8>) -> Decision {
        let Some(host) = normalize(name) else {
            let verdict = self.policy.refusal(Reason::NoSni, None);
            return self.plain(Kind::Tls, verdict, head);
        };
        let judgement = judge(self.sandbox, self.policy, &host, self.called, Protocol::Tls).await;
        let route = match judgement.by_host && self.policy.transforms(&host) {
            true => Route::Transform(host.clone(), head),
            false => Route::Splice(head),
        };
        self.named(host)
            .decided(Kind::Tls, judgement.verdict, Via::Host(Protocol::Tls), route)
    }

    fn named(mut self, host: String) -> Self {
        self.facts.host = Some(host);
        self
    }

    fn plain(self, kind: Kind, verdict: Verdict, head: Vec<u8>) -> Decision {
        let via = self.facts.via.clone();
        self.decided(kind, verdict, via, Route::Splice(head))
    }

    fn refused(self, kind: Kind, verdict: Verdict) -> Decision {
        self.decided(kind, verdict, Via::Address, Route::Refuse)
    }

    fn decided(self, kind: Kind, verdict: Verdict, via: Via, route: Route) -> Decision {
        Decision {
            kind,
            verdict,
            facts: Facts { via, ..self.facts },
            route,
        }
    }
}

fn allowed(rule: &str) -> Verdict {
    Verdict::Allowed(rule.to_owned())
}
