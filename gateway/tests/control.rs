//! The control socket, the process, and hostile input to both. Needs root.

mod support;

use serde_json::json;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::World;
use support::control::Control;
use support::speech::get;

fn allowed() -> serde_json::Value {
    json!({ "allow": [{ "host": "allowed.example" }] })
}

#[test]
fn answers_with_errors() {
    let mut world = World::new("control-errors");
    let table = [
        (json!({ "op": "hello", "version": 2 }), "invalid_argument"),
        (json!({ "op": "unknown" }), "invalid_argument"),
        (json!({ "version": 1 }), "invalid_argument"),
        (json!({ "op": "add", "sandbox": "box" }), "invalid_argument"),
        (
            json!({ "op": "add", "sandbox": "", "socket": "x", "policy": allowed() }),
            "invalid_argument",
        ),
        (
            json!({ "op": "add", "sandbox": "box", "socket": "/missing", "policy": allowed() }),
            "unavailable",
        ),
        (
            json!({ "op": "add", "sandbox": "box", "socket": "x", "policy": { "allow": [{ "host": "1.2.3.4" }] } }),
            "invalid_argument",
        ),
        (
            json!({ "op": "update", "sandbox": "box", "policy": allowed() }),
            "not_found",
        ),
        (json!({ "op": "remove", "sandbox": "box" }), "not_found"),
        (
            json!({ "op": "host", "resolvers": ["a.com"], "own": [] }),
            "invalid_argument",
        ),
        (
            json!({ "op": "host", "resolvers": [], "own": [], "hosts": { "a b": [] } }),
            "invalid_argument",
        ),
    ];
    for (request, code) in table {
        let error = world.control.ask(request.clone()).expect_err("an error");
        assert_eq!(error["code"], code, "{request} {error}");
    }
    assert_eq!(
        world.control.ask(json!({ "op": "list" })).expect("a list"),
        json!({ "sandboxes": [] })
    );
}

#[test]
fn survives_hostile_lines() {
    let mut world = World::new("control-hostile");
    for line in [
        &b"{"[..],
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"\"op\"",
        &[b'['; 100_000],
    ] {
        world.control.send(line);
        assert_eq!(
            world.control.line().expect("an answer")["error"]["code"],
            "invalid_argument"
        );
    }
    let mut other = Control::connect(&world.folder);
    other.send(&vec![b'x'; 5 * 1024 * 1024]);
    assert!(
        other.line().is_none(),
        "a line that is too long ends the connection"
    );
    let mut silent = UnixStream::connect(world.folder.join("egress/control.sock")).expect("a connection");
    silent
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a timeout");
    assert!(silent.read(&mut [0]).is_err());
    world
        .control
        .ask(json!({ "op": "hello", "version": 1 }))
        .expect("hello");
}

#[test]
fn refuses_sockets_that_are_no_sandbox() {
    let mut world = World::new("control-shim");
    let path = world.folder.join("egress/other.sock");
    for message in [
        &b"{}\n"[..],
        b"x",
        &[b'x'; 8000],
        b"{\"version\":1,\"sockets\":[\"dns\"]}\n",
        b"{\"version\":2,\"sockets\":[]}\n",
    ] {
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let message = message.to_vec();
        let shim = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a gateway");
            let _ = std::io::Write::write_all(&mut stream, &message);
        });
        let error = world
            .control
            .ask(json!({ "op": "add", "sandbox": "x", "socket": path, "policy": allowed() }));
        assert_eq!(error.expect_err("an error")["code"], "unavailable");
        shim.join().expect("a shim");
    }
}

#[test]
fn follows_events() {
    let mut world = World::new("control-follow");
    world.outside.name("allowed.example", &["198.51.100.7"]);
    world.add(allowed());
    world.lookup("evil.example.");
    let first = world.expect_event(json!({ "host": "evil.example" }));
    let mut follower = Control::connect(&world.folder);
    let after = first["seq"].as_u64().expect("a number");
    let answer = follower
        .ask(json!({ "op": "events", "sandbox": "box", "after": after, "follow": true }))
        .expect("events");
    assert_eq!(answer["events"], json!([]));
    world.lookup("other.example.");
    let line = follower.line().expect("an event");
    assert_eq!(
        (&line["event"]["host"], &line["id"]),
        (&json!("other.example"), &json!(1))
    );
    assert!(line["event"]["seq"].as_u64() > Some(after));
    for index in 0..1100 {
        world.lookup(&format!("n{index}.example."));
    }
    assert_eq!(world.events().len(), 1000);
    let list = world.control.ask(json!({ "op": "list" })).expect("a list");
    assert_eq!(list["sandboxes"][0]["refused"], 1102);
    assert_eq!(list["sandboxes"][0]["droppedEvents"], 102);
}

#[test]
fn ends_with_the_sandbox() {
    let mut world = World::new("control-end");
    world.outside.name("allowed.example", &["198.51.100.7"]);
    world.add(allowed());
    let mut stream = world.connect("198.51.100.7:80").expect("a connection");
    std::io::Write::write_all(&mut stream, &get("allowed.example")).expect("written");
    assert!(!support::first_bytes(&mut stream).is_empty());
    world.shim.close();
    assert!(stream.read(&mut [0]).is_err(), "reset");
    assert_eq!(
        world.control.ask(json!({ "op": "list" })).expect("a list"),
        json!({ "sandboxes": [] })
    );
    // Events stay for a while.
    world.expect_event(json!({ "kind": "http", "host": "allowed.example", "reason": "policy_changed" }));
    world.add(allowed());
    world
        .control
        .ask(json!({ "op": "remove", "sandbox": "box" }))
        .expect("removed");
    assert!(world.shim.was_left());
}

#[test]
fn one_gateway_per_folder_and_without_privileges() {
    let world = World::new("control-process");
    let second = Command::new(env!("CARGO_BIN_EXE_gateway"))
        .args(["serve", "--folder"])
        .arg(&world.folder)
        .output();
    let second = second.expect("a second gateway");
    assert!(second.status.success());
    assert_eq!(second.stdout, b"{\"running\":true}\n");

    let status = std::fs::read_to_string(format!("/proc/{}/status", world.gateway_pid())).expect("a status");
    for line in [
        "CapEff:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(line), "{line} in {status}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", world.gateway_pid())).expect("limits");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .expect("a line");
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}

#[test]
fn runs_as_another_user_in_a_folder_that_it_cannot_reach_and_ends_when_idle() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("gateway-user-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("a mode");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    command
        .arg("serve")
        .arg("--folder")
        .arg(&folder)
        .args(["--user", "65534:65533", "--idle", "1"]);
    let mut process = command.stdout(Stdio::piped()).spawn().expect("a gateway");
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(process.stdout.take().expect("output")),
        &mut String::new(),
    )
    .expect("a line");
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("a status");
    assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
    assert!(status.contains("Gid:\t65533\t65533\t65533\t65533"), "{status}");
    let mut control = Control::connect(&folder);
    std::thread::sleep(Duration::from_millis(2500));
    control
        .ask(json!({ "op": "hello", "version": 1 }))
        .expect("not idle while the engine is connected");
    drop(control);
    let until = Instant::now() + Duration::from_secs(10);
    while process.try_wait().expect("a status").is_none() {
        assert!(Instant::now() < until, "still runs");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}
