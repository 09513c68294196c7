//! Many connections while the policy changes, a killed gateway, slow readers, limits. Needs root.

mod support;

use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::World;
use support::control::Control;
use support::speech::hello;

fn both() -> Value {
    json!({ "allow": [{ "host": "a.example" }, { "host": "b.example" }], "limits": { "connections": 4096 } })
}

fn world(test: &str) -> World {
    let mut world = World::new(test);
    world.outside.name("a.example", &["198.51.100.7"]);
    world.outside.name("b.example", &["198.51.100.8"]);
    world.add(both());
    world
}

/// An open connection that has exchanged its first bytes.
fn open(world: &World, address: &str, name: &str) -> TcpStream {
    let mut stream = world.connect(address).expect("a connection");
    stream.write_all(&hello(name)).expect("written");
    let mut seen = Vec::new();
    while seen.len() < 100 {
        let more = support::first_bytes(&mut stream);
        if more.is_empty() {
            let events = Control::connect(&world.folder).ask(json!({ "op": "events" }));
            panic!("closed after {} bytes: {events:?}", seen.len());
        }
        seen.extend(more);
    }
    stream
}

/// Whether bytes still pass. Panics if the connection ended in any other way than by a reset.
fn is_open(stream: &mut TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a timeout");
    let mut buffer = [0; 65536];
    // A write reports a reset, and then a read would report an orderly end.
    match stream.write_all(b"?") {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
        written => written.expect("written"),
    }
    loop {
        match support::read(stream, &mut buffer) {
            Ok(0) => panic!("an orderly end instead of a reset"),
            Ok(read) if buffer[..read].contains(&b'?') => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_thousand_connections_while_the_policy_changes() {
    let mut world = world("load-update");
    let mut kept: Vec<_> = (0..500)
        .map(|_| open(&world, "198.51.100.7:443", "a.example"))
        .collect();
    let mut closed: Vec<_> = (0..500)
        .map(|_| open(&world, "198.51.100.8:443", "b.example"))
        .collect();
    let start = Instant::now();
    let only_a = json!({ "allow": [{ "host": "a.example" }], "limits": { "connections": 4096 } });
    assert_eq!(world.update(only_a.clone()), 500);
    let took = start.elapsed();
    assert!(
        !world.reaches("198.51.100.8:443", &hello("b.example")),
        "effective at once"
    );
    assert!(
        closed.iter_mut().all(|stream| !is_open(stream)),
        "all of b are reset"
    );
    assert!(kept.iter_mut().all(is_open), "all of a go on");
    println!("update with 1,000 connections: {took:?}");

    // Opening goes on while the policy changes back and forth: nothing of b survives the last change.
    let world = std::sync::Mutex::new(world);
    let mut opened = Vec::new();
    for round in 0..20 {
        let mut world = world.lock().expect("the world");
        world.update(if round % 2 == 0 { both() } else { only_a.clone() });
        let late = (0..10).filter_map(|_| {
            let mut stream = world.connect("198.51.100.8:443").ok()?;
            stream.write_all(&hello("b.example")).ok()?;
            Some(stream)
        });
        opened.extend(late.collect::<Vec<_>>());
    }
    let mut world = world.into_inner().expect("the world");
    world.update(only_a);
    std::thread::sleep(Duration::from_millis(300));
    for mut stream in opened {
        stream
            .set_read_timeout(Some(Duration::from_millis(500)))
            .expect("a timeout");
        let end = std::io::copy(&mut stream, &mut std::io::sink());
        assert_eq!(end.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    }
    assert!(kept.iter_mut().all(is_open));
}

#[test]
fn a_killed_gateway_resets_everything_and_nothing_falls_open() {
    let mut world = world("load-kill");
    let mut streams: Vec<_> = (0..200)
        .map(|_| open(&world, "198.51.100.7:443", "a.example"))
        .collect();
    world.kill();
    assert!(streams.iter_mut().all(|stream| !is_open(stream)), "all are reset");
    // Without a gateway connections wait in the queue of the listener.
    let mut waiting = world.connect("198.51.100.7:443").expect("a place in the queue");
    waiting.write_all(&hello("a.example")).expect("written");
    let mut forbidden = world.connect("198.51.100.8:443").expect("a place in the queue");
    forbidden.write_all(&hello("b.example")).expect("written");
    waiting
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a timeout");
    assert_eq!(
        support::read(&mut waiting, &mut [0]).expect_err("silence").kind(),
        ErrorKind::WouldBlock
    );
    world.restart();
    world.add(json!({ "allow": [{ "host": "a.example" }] }));
    waiting
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    assert!(waiting.read(&mut [0; 16]).expect("an answer") > 0);
    assert!(forbidden.read(&mut [0; 16]).is_err(), "decided by the new policy");
    assert!(is_open(&mut open(&world, "198.51.100.7:443", "a.example")));
}

#[test]
fn works_again_after_it_ran_out_of_descriptors() {
    let mut world = world("load-descriptors");
    let limited = std::process::Command::new("prlimit")
        .args([format!("--pid={}", world.gateway_pid()), "--nofile=60".to_owned()])
        .status();
    assert!(limited.expect("prlimit").success());
    // More than the gateway has descriptors for, and fewer than wait in the listener's queue.
    let streams: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = world.connect("198.51.100.7:443").expect("a connection");
            let _ = stream.write_all(&hello("a.example"));
            stream
        })
        .collect();
    // Wait until it has run out. Whether a connection then fails or waits in the queue depends on their order.
    let folder = format!("/proc/{}/fd", world.gateway_pid());
    let until = Instant::now() + Duration::from_secs(15);
    while std::fs::read_dir(&folder).expect("descriptors").count() < 55 {
        assert!(Instant::now() < until, "it has descriptors left");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        !world.reaches("203.0.113.9:443", &hello("a.example")),
        "nothing falls open"
    );
    drop(streams);
    let until = Instant::now() + Duration::from_secs(15);
    while !world.reaches("198.51.100.7:443", &hello("a.example")) {
        assert!(Instant::now() < until, "it does not work again");
    }
    let events = world.events();
    let strange = |event: &&Value| event["address"] == "203.0.113.9" && event["verdict"] != "denied";
    assert_eq!(events.iter().find(strange), None);
}

#[test]
fn a_slow_reader_delays_no_other_connection() {
    let world = world("load-slow");
    let mut slow: Vec<_> = (0..50)
        .map(|_| open(&world, "198.51.100.7:443", "a.example"))
        .collect();
    for stream in &mut slow {
        // The server echoes; nothing reads it, so both directions fill up.
        stream.set_nonblocking(true).expect("nonblocking");
        let until = Instant::now() + Duration::from_millis(50);
        while Instant::now() < until {
            let _ = stream.write(&[b'x'; 65536]);
        }
    }
    let start = Instant::now();
    assert!(is_open(&mut open(&world, "198.51.100.7:443", "a.example")));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn limits_connections_bytes_and_their_rate() {
    let mut world = world("load-limits");
    let limited = |limits: Value| json!({ "allow": [{ "host": "a.example" }], "limits": limits });
    world.update(limited(json!({ "connections": 3 })));
    let _open: Vec<_> = (0..3)
        .map(|_| open(&world, "198.51.100.7:443", "a.example"))
        .collect();
    assert!(!world.reaches("198.51.100.7:443", &hello("a.example")));
    world.expect_event(json!({ "verdict": "denied", "reason": "limit_connections" }));
    drop(_open);

    world.update(limited(json!({ "bytesPerSecond": 200_000 })));
    let mut stream = open(&world, "198.51.100.7:443", "a.example");
    let start = Instant::now();
    stream.write_all(&[b'x'; 100_000]).expect("written");
    let mut read = 0;
    while read < 100_000 {
        read += stream.read(&mut [0; 65536]).expect("bytes");
    }
    let took = start.elapsed();
    assert!(
        took > Duration::from_millis(700) && took < Duration::from_secs(4),
        "200,000 bytes took {took:?}"
    );

    world.update(limited(json!({ "bytes": 1_000_000 })));
    let end = loop {
        match stream
            .write_all(&[b'x'; 10_000])
            .and_then(|()| stream.read(&mut [0; 65536]))
        {
            Ok(0) => panic!("an orderly end"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(
        matches!(end.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{end}"
    );
    world.expect_event(json!({ "verdict": "allowed", "reason": "limit_bytes" }));
    assert!(!world.reaches("198.51.100.7:443", &hello("a.example")));
    world.expect_event(json!({ "verdict": "denied", "reason": "limit_bytes" }));
    let list = world.control.ask(json!({ "op": "list" })).expect("a list");
    let sum = list["sandboxes"][0]["bytesIn"]
        .as_u64()
        .zip(list["sandboxes"][0]["bytesOut"].as_u64())
        .map(|(a, b)| a + b);
    assert!(
        sum.is_some_and(|sum| (900_000..1_600_000).contains(&sum)),
        "{sum:?}"
    );
}
