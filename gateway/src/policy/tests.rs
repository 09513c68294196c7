use serde_json::{Value, json};
use std::net::IpAddr;

use super::*;

fn policy(text: Value) -> Policy {
    Policy::parse(&text).expect("a policy")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn denied(reason: Reason) -> Verdict {
    Verdict::denied(reason)
}

fn denied_by(rule: &str) -> Verdict {
    Verdict::Denied {
        reason: Reason::DeniedByRule,
        rule: Some(rule.into()),
    }
}

fn allowed(rule: &str) -> Verdict {
    Verdict::Allowed(rule.into())
}

fn example() -> Policy {
    policy(json!({
        "allow": [
            { "host": "GitHub.com." },
            { "host": "github.com", "ports": [22] },
            { "host": "*.example.com", "ports": [443, 8443], "protocol": "tls" },
            { "host": "plain.example.com", "ports": [8080], "protocol": "http" },
            { "host": "bücher.example" },
            { "cidr": "198.51.100.0/24", "ports": [5432] },
            { "cidr": "10.0.0.0/8" },
            { "cidr": "10.0.0.5", "ports": [443] },
            { "cidr": "::ffff:192.168.7.7" },
            { "cidr": "2001:db8::/32" },
            { "service": "model", "to": "127.0.0.1:8899" }
        ],
        "deny": [
            { "host": "gist.example.com" },
            { "host": "api.example.com", "ports": [8443] },
            { "cidr": "198.51.100.66/32" },
            { "cidr": "2001:db8:bad::/48" }
        ]
    }))
}

#[test]
fn decides_names() {
    let policy = example();
    let table = [
        ("github.com", allowed("GitHub.com.")),
        ("api.github.com", denied(Reason::NoRule)),
        ("a.example.com", allowed("*.example.com:443,8443")),
        ("example.com", denied(Reason::NoRule)),
        ("xn--bcher-kva.example", allowed("bücher.example")),
        ("gist.example.com", denied_by("gist.example.com")),
        ("api.example.com", allowed("*.example.com:443,8443")),
        ("model.sandkasten.internal", allowed("model.sandkasten.internal")),
        ("other.sandkasten.internal", denied(Reason::NoRule)),
    ];
    for (name, expected) in table {
        assert_eq!(policy.name(name), expected, "{name}");
    }
}

#[test]
fn decides_hosts_by_port_and_protocol() {
    let policy = example();
    let table = [
        ("github.com", 443, Protocol::Tls, allowed("GitHub.com.")),
        ("github.com", 80, Protocol::Http, allowed("GitHub.com.")),
        ("github.com", 22, Protocol::Tcp, allowed("github.com:22")),
        ("github.com", 443, Protocol::Tcp, denied(Reason::NoRule)),
        ("github.com", 443, Protocol::Http, denied(Reason::NoRule)),
        ("github.com", 8443, Protocol::Tls, denied(Reason::SniNotAllowed)),
        ("github.com", 8443, Protocol::Tcp, denied(Reason::NoRule)),
        (
            "a.example.com",
            8443,
            Protocol::Tls,
            allowed("*.example.com:443,8443"),
        ),
        ("a.example.com", 80, Protocol::Http, denied(Reason::NoRule)),
        (
            "plain.example.com",
            8080,
            Protocol::Http,
            allowed("plain.example.com:8080"),
        ),
        ("plain.example.com", 8080, Protocol::Tcp, denied(Reason::NoRule)),
        (
            "gist.example.com",
            443,
            Protocol::Tls,
            denied_by("gist.example.com"),
        ),
        (
            "api.example.com",
            443,
            Protocol::Tls,
            allowed("*.example.com:443,8443"),
        ),
        (
            "api.example.com",
            8443,
            Protocol::Tls,
            denied_by("api.example.com:8443"),
        ),
        ("evil.com", 443, Protocol::Tls, denied(Reason::SniNotAllowed)),
    ];
    for (name, port, protocol, expected) in table {
        assert_eq!(
            policy.host(name, port, protocol),
            expected,
            "{name}:{port} {protocol:?}"
        );
    }
}

#[test]
fn decides_addresses() {
    let policy = example();
    let table = [
        (
            "198.51.100.7",
            5432,
            AddressVerdict::Allowed("198.51.100.0/24:5432"),
        ),
        ("198.51.100.7", 443, AddressVerdict::Unnamed),
        ("198.51.101.7", 5432, AddressVerdict::Unnamed),
        ("198.51.100.66", 5432, AddressVerdict::Denied("198.51.100.66/32")),
        ("192.168.7.7", 1, AddressVerdict::Allowed("::ffff:192.168.7.7")),
        ("2001:db8::7", 65535, AddressVerdict::Allowed("2001:db8::/32")),
        (
            "2001:db8:bad::1",
            443,
            AddressVerdict::Denied("2001:db8:bad::/48"),
        ),
        // Behind NAT64 and 6to4, a denied address stays denied, and an allowed one is not named.
        (
            "64:ff9b::198.51.100.66",
            5432,
            AddressVerdict::Denied("198.51.100.66/32"),
        ),
        (
            "2002:c633:6442::1",
            5432,
            AddressVerdict::Denied("198.51.100.66/32"),
        ),
        ("64:ff9b::198.51.100.7", 5432, AddressVerdict::Unnamed),
    ];
    for (text, port, expected) in table {
        assert_eq!(policy.address(address(text), port), expected, "{text}:{port}");
    }
}

#[test]
fn only_an_exact_address_opens_one_that_leads_inside() {
    let policy = example();
    let table = [
        ("10.0.0.5", Some(443), true),
        ("10.0.0.5", Some(80), false),
        ("10.0.0.5", None, true),
        ("10.0.0.6", Some(443), false),
        ("192.168.7.7", Some(22), true),
        ("127.0.0.1", Some(8899), false),
    ];
    for (text, port, expected) in table {
        assert_eq!(
            policy.names_exactly(address(text), port),
            expected,
            "{text} {port:?}"
        );
    }
}

#[test]
fn knows_which_protocols_a_port_expects() {
    let policy = example();
    let table = [
        (
            443,
            Expected {
                tls: true,
                ..Expected::default()
            },
        ),
        (
            80,
            Expected {
                http: true,
                ..Expected::default()
            },
        ),
        (
            22,
            Expected {
                tcp: true,
                ..Expected::default()
            },
        ),
        (
            8080,
            Expected {
                http: true,
                ..Expected::default()
            },
        ),
        (5432, Expected::default()),
    ];
    for (port, expected) in table {
        assert_eq!(policy.expected(port), expected, "{port}");
    }
    assert_eq!(policy.tcp_hosts(22).collect::<Vec<_>>(), ["github.com"]);
}

#[test]
fn audit_turns_refusals_into_records() {
    let policy = policy(json!({ "allow": [], "deny": [{ "host": "evil.com" }], "audit": true }));
    assert_eq!(policy.name("a.com"), Verdict::Audit(Reason::NoRule));
    assert_eq!(
        policy.host("a.com", 443, Protocol::Tls),
        Verdict::Audit(Reason::SniNotAllowed)
    );
    assert_eq!(
        policy.host("evil.com", 443, Protocol::Tls),
        Verdict::Audit(Reason::DeniedByRule)
    );
    assert_eq!(policy.name("x.sandkasten.internal"), denied(Reason::NoRule));
}

#[test]
fn an_empty_policy_allows_nothing() {
    let policy = policy(json!({ "allow": [] }));
    assert_eq!(policy.name("github.com"), denied(Reason::NoRule));
    assert_eq!(
        policy.host("github.com", 443, Protocol::Tls),
        denied(Reason::SniNotAllowed)
    );
    assert_eq!(policy.address(address("1.1.1.1"), 443), AddressVerdict::Unnamed);
    assert_eq!(policy.expected(443), Expected::default());
}

#[test]
fn refuses_policies_that_it_does_not_understand() {
    let table = [
        json!({}),
        json!([]),
        json!({ "allow": [{}] }),
        json!({ "allow": [{ "host": "a.com", "cidr": "1.1.1.1" }] }),
        json!({ "allow": [{ "host": "127.0.0.1" }] }),
        json!({ "allow": [{ "host": "a.com", "ports": [] }] }),
        json!({ "allow": [{ "host": "a.com", "ports": [0] }] }),
        json!({ "allow": [{ "host": "a.com", "ports": [65536] }] }),
        json!({ "allow": [{ "host": "a.com", "protocol": "udp" }] }),
        json!({ "allow": [{ "cidr": "1.1.1.1/33" }] }),
        json!({ "allow": [{ "cidr": "::ffff:0:0/64" }] }),
        json!({ "allow": [{ "service": "model" }] }),
        json!({ "allow": [{ "service": "a b", "to": "127.0.0.1:1" }] }),
        json!({ "allow": [{ "service": "model", "to": "127.0.0.1:0" }] }),
        json!({ "allow": [], "deny": [{ "service": "model", "to": "127.0.0.1:1" }] }),
        json!({ "allow": vec![json!({ "host": "a.com" }); 4097] }),
    ];
    for text in table {
        assert!(Policy::parse(&text).is_err(), "{text}");
    }
}
