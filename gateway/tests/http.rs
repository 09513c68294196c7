//! HTTP on port 80: each request of a connection is decided. Needs root.

mod support;

use serde_json::json;
use std::io::{Read, Write};
use std::time::Duration;

use support::speech::get;
use support::{World, first_bytes};

fn world(test: &str) -> World {
    let mut world = World::new(test);
    world.outside.name("allowed.example", &["198.51.100.7"]);
    world.outside.name("twin.example", &["198.51.100.7"]);
    world.outside.name("moved.example", &["198.51.100.8"]);
    world.add(json!({
        "allow": [
            { "host": "allowed.example" }, { "host": "twin.example" }, { "host": "moved.example" },
            { "host": "allowed.example", "ports": [8080], "protocol": "http" }
        ]
    }));
    world
}

fn status(answer: &[u8]) -> &str {
    std::str::from_utf8(answer)
        .ok()
        .and_then(|text| text.split(' ').nth(1))
        .unwrap_or("closed")
}

#[test]
fn decides_each_request() {
    let mut world = world("http-requests");
    let table: [(&str, &str, &str, Option<&str>); 15] = [
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
            "200",
            None,
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: ALLOWED.example.:80\r\n\r\n",
            "200",
            None,
        ),
        (
            "198.51.100.7:8080",
            "GET / HTTP/1.1\r\nHost: allowed.example:8080\r\n\r\n",
            "200",
            None,
        ),
        (
            "198.51.100.7:80",
            "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
            "200",
            None,
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "403",
            Some("no_rule"),
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\n\r\n",
            "403",
            Some("host_mismatch"),
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: allowed.example\r\nHost: evil.example\r\n\r\n",
            "403",
            Some("host_mismatch"),
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: allowed.example:8080\r\n\r\n",
            "403",
            Some("host_mismatch"),
        ),
        (
            "198.51.100.7:80",
            "GET http://evil.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
            "403",
            Some("host_mismatch"),
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: 198.51.100.7\r\n\r\n",
            "403",
            Some("no_rule"),
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: 2130706433\r\n\r\n",
            "403",
            Some("host_mismatch"),
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: moved.example\r\n\r\n",
            "403",
            Some("address_mismatch"),
        ),
        (
            "198.51.100.7:80",
            "CONNECT allowed.example:80 HTTP/1.1\r\nHost: allowed.example:80\r\n\r\n",
            "403",
            Some("connect_refused_by_policy"),
        ),
        (
            "198.51.100.7:80",
            "GET / HTTP/1.1\r\nHost: allowed.example\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
            "403",
            Some("upgrade_refused"),
        ),
        (
            "198.51.100.7:80",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "closed",
            Some("not_http"),
        ),
    ];
    for (address, request, expected, reason) in table {
        assert_eq!(
            status(&world.exchange(address, request.as_bytes())),
            expected,
            "{request}"
        );
        if let Some(reason) = reason {
            world.expect_event(json!({ "kind": "http", "verdict": "denied", "reason": reason }));
        }
    }
    assert_eq!(
        status(&world.exchange("198.51.100.7:80", b"\x05\x01\x00")),
        "closed"
    );
    let event = world.expect_event(json!({ "kind": "http", "host": "evil.example" }));
    assert_eq!(
        (&event["method"], &event["path"], &event["status"]),
        (&json!("GET"), &json!("/"), &json!(403))
    );
}

#[test]
fn decides_later_requests_of_a_connection() {
    let mut world = world("http-keepalive");
    let mut stream = world.connect("198.51.100.7:80").expect("a connection");
    let mut ask = |host: &str| {
        stream.write_all(&get(host)).expect("written");
        String::from_utf8(first_bytes(&mut stream)).expect("text")
    };
    assert_eq!(status(ask("allowed.example").as_bytes()), "200");
    assert_eq!(status(ask("evil.example").as_bytes()), "403");
    assert_eq!(status(ask("twin.example").as_bytes()), "200");
    world.expect_event(
        json!({ "kind": "http", "host": "twin.example", "verdict": "allowed", "path": "/path" }),
    );
}

#[test]
fn a_hidden_request_does_not_reach_the_other_side() {
    let world = world("http-smuggling");
    let hidden = "GET /hidden HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let length = hidden.len();
    let requests = [
        format!(
            "GET / HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"
        ),
        format!("GET / HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 0\r\n\r\n{hidden}"),
        format!("GET / HTTP/1.1\r\nHost: allowed.example\r\nTransfer-Encoding: xchunked\r\n\r\n{hidden}"),
        format!("GET / HTTP/1.1\r\nHost: allowed.example\nX: y\r\n\r\n{hidden}"),
        format!("GET / HTTP/1.1\r\nHost : evil.example\r\nHost: allowed.example\r\n\r\n{hidden}"),
        "GET / HTTP/1.1\r\nHost: allowed.example\r\n Host: evil.example\r\n\r\n".to_owned(),
    ];
    for request in requests {
        let mut stream = world.connect("198.51.100.7:80").expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_millis(500)))
            .expect("a timeout");
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        // The server repeats what it read.
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            !answer.contains("evil.example\r\n\r\n") || answer.contains("403"),
            "{request}\n{answer}"
        );
        assert!(!answer.contains("GET /hidden"), "{request}\n{answer}");
    }
}

#[test]
fn passes_websockets() {
    let mut world = world("http-websocket");
    let listener = world
        .outside
        .namespace
        .run(|| std::net::TcpListener::bind("198.51.100.8:8081"))
        .expect("a server");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        first_bytes(&mut stream);
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst";
        stream.write_all(answer).expect("written");
        let bytes = first_bytes(&mut stream);
        stream.write_all(&bytes).expect("written");
    });
    world
        .update(json!({ "allow": [{ "host": "moved.example", "ports": [8080, 8081], "protocol": "http" }] }));
    let mut stream = world.connect("198.51.100.8:8081").expect("a connection");
    let request =
        b"GET / HTTP/1.1\r\nHost: moved.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(request).expect("written");
    let mut seen = Vec::new();
    while !seen.ends_with(b"first") {
        let more = first_bytes(&mut stream);
        assert!(!more.is_empty(), "{}", String::from_utf8_lossy(&seen));
        seen.extend(more);
    }
    assert!(seen.starts_with(b"HTTP/1.1 101"));
    stream.write_all(b"second").expect("written");
    assert_eq!(first_bytes(&mut stream), b"second");
    drop(stream);
    world.expect_event(json!({ "kind": "http", "host": "moved.example", "verdict": "allowed" }));
}

#[test]
fn a_changed_policy_resets_and_decides_later_requests() {
    let mut world = world("http-update");
    let mut stream = world.connect("198.51.100.7:80").expect("a connection");
    stream.write_all(&get("allowed.example")).expect("written");
    assert_eq!(status(&first_bytes(&mut stream)), "200");
    assert_eq!(world.update(json!({ "allow": [{ "host": "twin.example" }] })), 1);
    let error = stream.read(&mut [0]).expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}
