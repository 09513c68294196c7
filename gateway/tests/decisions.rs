//! What a policy lets through, tried from inside a sandbox's namespace. Needs root.

mod support;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use serde_json::{Value, json};
use std::io::{Read, Write};

use support::World;
use support::speech::{get, hello, hello_without_sni};

fn policy() -> Value {
    json!({
        "allow": [
            { "host": "allowed.example" },
            { "host": "*.wild.example", "ports": [443] },
            { "host": "ssh.example", "ports": [22] },
            { "host": "inside.example" },
            { "host": "exact.example" },
            { "host": "alias.example" },
            { "host": "table.example" },
            { "cidr": "203.0.113.0/24", "ports": [443] },
            { "cidr": "10.0.0.0/8" },
            { "cidr": "10.0.0.5", "ports": [443] },
            { "service": "model", "to": "198.51.100.8:8443" }
        ],
        "deny": [{ "host": "bad.wild.example" }]
    })
}

fn world(test: &str) -> World {
    let world = World::new(test);
    for (name, addresses) in [
        ("allowed.example", &["198.51.100.7", "2001:db8::7"][..]),
        ("a.wild.example", &["198.51.100.7"]),
        ("bad.wild.example", &["198.51.100.7"]),
        ("ssh.example", &["198.51.100.8"]),
        (
            "inside.example",
            &["169.254.169.254", "192.168.1.1", "fd00::7", "::ffff:10.0.0.6"],
        ),
        ("exact.example", &["10.0.0.5"]),
        ("alias.example", &["hidden.example"]),
        ("hidden.example", &["198.51.100.8"]),
        ("other.example", &["203.0.113.9"]),
    ] {
        world.outside.name(name, addresses);
    }
    world
}

#[test]
fn resolves_only_allowed_names() {
    let mut world = world("names");
    world.add(policy());
    let table: [(&str, RecordType, ResponseCode, &[&str]); 17] = [
        (
            "allowed.example.",
            RecordType::A,
            ResponseCode::NoError,
            &["198.51.100.7"],
        ),
        (
            "ALLOWED.example.",
            RecordType::A,
            ResponseCode::NoError,
            &["198.51.100.7"],
        ),
        (
            "allowed.example.",
            RecordType::AAAA,
            ResponseCode::NoError,
            &["2001:db8::7"],
        ),
        ("allowed.example.", RecordType::HTTPS, ResponseCode::NoError, &[]),
        ("allowed.example.", RecordType::TXT, ResponseCode::Refused, &[]),
        ("allowed.example.", RecordType::ANY, ResponseCode::Refused, &[]),
        (
            "7.100.51.198.in-addr.arpa.",
            RecordType::PTR,
            ResponseCode::Refused,
            &[],
        ),
        ("other.example.", RecordType::A, ResponseCode::Refused, &[]),
        ("other.example.", RecordType::HTTPS, ResponseCode::Refused, &[]),
        ("bad.wild.example.", RecordType::A, ResponseCode::Refused, &[]),
        (
            "missing.wild.example.",
            RecordType::A,
            ResponseCode::NXDomain,
            &[],
        ),
        ("inside.example.", RecordType::A, ResponseCode::Refused, &[]),
        (
            "exact.example.",
            RecordType::A,
            ResponseCode::NoError,
            &["10.0.0.5"],
        ),
        (
            "alias.example.",
            RecordType::A,
            ResponseCode::NoError,
            &["198.51.100.8"],
        ),
        (
            "table.example.",
            RecordType::A,
            ResponseCode::NoError,
            &["198.51.100.8"],
        ),
        (
            "model.sandkasten.internal.",
            RecordType::A,
            ResponseCode::NoError,
            &["192.0.0.8"],
        ),
        (
            "other.sandkasten.internal.",
            RecordType::A,
            ResponseCode::Refused,
            &[],
        ),
    ];
    for (name, kind, code, addresses) in table {
        let expected = addresses
            .iter()
            .map(|address| address.parse().expect("an address"))
            .collect();
        assert_eq!(world.ask_dns(name, kind), (code, expected), "{name} {kind}");
    }
    let asked = world.outside.queries();
    for name in [
        "other.example",
        "bad.wild.example",
        "table.example",
        "model.sandkasten.internal",
    ] {
        assert!(!asked.contains(&name.to_owned()), "{name} was asked for outside");
    }
    world.expect_event(
        json!({ "kind": "dns", "host": "other.example", "verdict": "denied", "reason": "no_rule" }),
    );
    world.expect_event(json!({ "kind": "dns", "host": "inside.example", "reason": "private_address" }));
    world.expect_event(
        json!({ "kind": "dns", "host": "allowed.example", "verdict": "allowed", "rule": "allowed.example" }),
    );
}

#[test]
fn answers_dns_over_tcp() {
    let mut world = world("dns-tcp");
    world.add(policy());
    let query = support::speech::query("allowed.example.", RecordType::A);
    let framed = [&(query.len() as u16).to_be_bytes(), query.as_slice()].concat();
    let answer = world.exchange("192.0.0.3:53", &framed);
    assert!(
        answer.windows(4).any(|bytes| bytes == [198, 51, 100, 7]),
        "{answer:?}"
    );
    assert!(!world.reaches("192.0.0.3:80", &get("allowed.example")));
    assert!(!world.reaches("198.51.100.53:53", &framed));
    world.expect_event(json!({ "address": "198.51.100.53", "port": 53, "reason": "resolver_refused" }));
}

#[test]
fn decides_tls_by_name_and_address() {
    let mut world = world("tls");
    world.add(policy());
    let table: [(&str, Vec<u8>, bool, Value); 14] = [
        (
            "198.51.100.7:443",
            hello("allowed.example"),
            true,
            json!({ "verdict": "allowed", "rule": "allowed.example" }),
        ),
        (
            "198.51.100.7:443",
            hello("Allowed.Example"),
            true,
            json!({ "host": "allowed.example" }),
        ),
        (
            "[2001:db8::7]:443",
            hello("allowed.example"),
            true,
            json!({ "address": "2001:db8::7" }),
        ),
        (
            "198.51.100.7:443",
            hello("a.wild.example"),
            true,
            json!({ "rule": "*.wild.example:443" }),
        ),
        (
            "198.51.100.7:443",
            hello("bad.wild.example"),
            false,
            json!({ "reason": "denied_by_rule" }),
        ),
        (
            "198.51.100.7:443",
            hello("evil.example"),
            false,
            json!({ "reason": "sni_not_allowed" }),
        ),
        (
            "198.51.100.7:443",
            hello("ssh.example"),
            false,
            json!({ "host": "ssh.example", "reason": "sni_not_allowed" }),
        ),
        (
            "198.51.100.8:443",
            hello("allowed.example"),
            false,
            json!({ "reason": "address_mismatch" }),
        ),
        (
            "198.51.100.7:443",
            hello_without_sni(),
            false,
            json!({ "reason": "no_sni" }),
        ),
        (
            "198.51.100.7:443",
            b"SSH-2.0-x\r\n".to_vec(),
            false,
            json!({ "reason": "protocol" }),
        ),
        (
            "203.0.113.9:443",
            hello("anything.example"),
            true,
            json!({ "rule": "203.0.113.0/24:443" }),
        ),
        (
            "203.0.113.9:443",
            hello("bad.wild.example"),
            false,
            json!({ "address": "203.0.113.9", "reason": "denied_by_rule" }),
        ),
        (
            "10.0.0.5:443",
            hello("exact.example"),
            true,
            json!({ "address": "10.0.0.5", "verdict": "allowed" }),
        ),
        (
            "[2001:db8::8]:443",
            hello("allowed.example"),
            false,
            json!({ "address": "2001:db8::8", "reason": "address_mismatch" }),
        ),
    ];
    for (address, bytes, expected, event) in table {
        assert_eq!(world.reaches(address, &bytes), expected, "{address} {event}");
        world.expect_event(event);
    }
}

#[test]
fn never_leads_inside() {
    let mut world = world("inside");
    world.add(policy());
    let inside = [
        "10.0.0.6:443",
        "10.0.0.5:80",
        "169.254.169.254:80",
        "192.168.1.1:443",
        "[fd00::7]:443",
        "[::ffff:10.0.0.6]:443",
        "192.168.77.1:443",
        "192.168.77.2:443",
        "[fd77::1]:443",
        "203.0.113.200:443",
        "203.0.113.201:443",
        "[64:ff9b::a00:6]:443",
        "[2002:a00:6::]:443",
        // The machine's own addresses behind NAT64 and 6to4.
        "[64:ff9b::203.0.113.200]:443",
        "[64:ff9b::203.0.113.201]:443",
        "[2002:cb00:71c8::1]:443",
    ];
    for address in inside {
        assert!(!world.reaches(address, &hello("allowed.example")), "{address}");
    }
    for event in world.events().iter().filter(|event| event["kind"] != "dns") {
        assert_eq!(event["reason"], "private_address", "{event}");
    }
    world.update(json!({ "allow": [], "audit": true }));
    for address in inside {
        assert!(
            !world.reaches(address, &hello("allowed.example")),
            "{address} in audit mode"
        );
    }
}

#[test]
fn a_name_that_moves_inside_leads_nowhere() {
    let mut world = world("rebinding");
    world.add(policy());
    assert_eq!(world.lookup("allowed.example.").len(), 1);
    world.outside.name("allowed.example", &["169.254.169.254"]);
    assert_eq!(world.lookup("allowed.example."), Vec::<std::net::IpAddr>::new());
    assert!(!world.reaches("169.254.169.254:443", &hello("allowed.example")));
    assert!(
        world.reaches("198.51.100.7:443", &hello("allowed.example")),
        "remembered for ten minutes"
    );
}

#[test]
fn a_policy_that_changes_within_the_first_bytes_decides() {
    let mut world = world("first-bytes");
    world.add(policy());
    let request = get("allowed.example");
    let mut streams: Vec<_> = [
        ("198.51.100.7:443", hello("allowed.example")),
        ("198.51.100.7:80", request),
    ]
    .into_iter()
    .map(|(address, bytes)| {
        let mut stream = world.connect(address).expect("a connection");
        let rest = bytes[20..].to_vec();
        stream.write_all(&bytes[..20]).expect("written");
        (stream, rest)
    })
    .collect();
    while world.control.ask(json!({ "op": "list" })).expect("a list")["sandboxes"][0]["connections"] != 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(world.update(json!({ "allow": [] })), 0, "nothing is decided yet");
    for (stream, rest) in &mut streams {
        let _ = stream.write_all(rest);
        let answer = support::first_bytes(stream);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 403"),
            "{answer:?}"
        );
    }
    world.expect_event(json!({ "kind": "tls", "host": "allowed.example", "reason": "policy_changed" }));
    world.expect_event(json!({ "kind": "http", "host": "allowed.example", "verdict": "denied", "port": 80 }));
}

#[test]
fn decides_plain_tcp_by_resolved_address() {
    let mut world = world("tcp");
    world.add(policy());
    assert!(world.reaches("198.51.100.8:22", b"x"), "resolved now");
    assert_eq!(world.lookup("ssh.example.").len(), 1);
    assert!(world.reaches("198.51.100.8:22", b"x"));
    world.expect_event(json!({ "kind": "tcp", "host": "ssh.example", "port": 22, "verdict": "allowed", "rule": "ssh.example:22" }));
    assert!(!world.reaches("198.51.100.7:22", b"x"));
    world.expect_event(json!({ "address": "198.51.100.7", "port": 22, "reason": "address_mismatch" }));
    assert!(!world.reaches("203.0.113.9:8080", b"x"));
    world.expect_event(json!({ "address": "203.0.113.9", "port": 8080, "reason": "no_rule" }));
}

#[test]
fn services_have_names() {
    let mut world = world("services");
    world.add(policy());
    let answer = world.exchange("192.0.0.8:80", b"hello");
    assert!(answer.starts_with(b"198.51.100.8:8443 "), "{answer:?}");
    world.expect_event(json!({ "host": "model.sandkasten.internal", "verdict": "allowed" }));
    assert!(!world.reaches("192.0.0.9:80", b"hello"));
    world.update(json!({ "allow": [] }));
    assert!(!world.reaches("192.0.0.8:80", b"hello"));
}

#[test]
fn audit_allows_and_records() {
    let mut world = world("audit");
    world.add(json!({ "allow": [], "deny": [{ "cidr": "198.51.100.8" }], "audit": true }));
    let table: [(&str, Vec<u8>, &str); 7] = [
        ("198.51.100.7:443", hello("any.example"), "sni_not_allowed"),
        ("198.51.100.7:443", hello_without_sni(), "no_sni"),
        ("198.51.100.7:443", b"x".to_vec(), "protocol"),
        ("198.51.100.7:22", b"x".to_vec(), "no_rule"),
        ("198.51.100.53:53", b"x".to_vec(), "resolver_refused"),
        ("198.51.100.8:8080", b"x".to_vec(), "denied_by_rule"),
        ("198.51.100.7:80", get("other.example"), "no_rule"),
    ];
    for (address, bytes, reason) in table {
        assert!(world.reaches(address, &bytes), "{address} {reason}");
        let address = address.rsplit_once(':').expect("a port").0;
        world.expect_event(json!({ "address": address, "verdict": "audit", "reason": reason }));
    }
    assert_eq!(world.lookup("other.example.").len(), 1);
}

#[test]
fn counts_bytes_and_passes_half_closes() {
    let mut world = world("bytes");
    world.add(policy());
    let mut stream = world.connect("198.51.100.8:22").expect("a connection");
    stream.write_all(&[7; 100_000]).expect("written");
    stream.shutdown(std::net::Shutdown::Write).expect("shut down");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an orderly end");
    assert_eq!(answer.len(), 100_000 + "198.51.100.8:22 ".len());
    let event = world.expect_event(json!({ "port": 22, "verdict": "allowed" }));
    assert_eq!(
        (event["bytesOut"].as_u64(), event["bytesIn"].as_u64()),
        (Some(100_000), Some(100_016))
    );
}

#[test]
fn records_rejected_packets() {
    let mut world = world("packets");
    world.add(policy());
    let mut packet = vec![
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 0, 2, 198, 51, 100, 7,
    ];
    packet.extend([0, 9, 1, 187, 0, 8, 0, 0]);
    world.shim.refused.send(b"").expect("sent");
    world.shim.refused.send(&packet).expect("sent");
    world
        .expect_event(json!({ "kind": "udp", "address": "198.51.100.7", "port": 443, "reason": "protocol" }));
}
