//! Encodes and decodes the golden frames of `protocol/golden`, byte for byte. The TypeScript client tests
//! the same files.

use runner::wire::cbor::{Fields, Value, decode, encode};
use runner::wire::frame::{self, Kind, parse, put, put_output};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/golden")
}

fn golden(name: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.hex")))
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .into_string()
                .unwrap()
                .strip_suffix(".hex")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

fn control(kind: Kind, stream: u32, fields: Fields) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, kind, stream, &fields.encode());
    out
}

fn plain(kind: Kind, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, kind, stream, payload);
    out
}

/// One frame of every kind.
fn built() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |text: &[u8]| Value::Bytes(text.to_vec());
    let mut hello = frame::MAGIC.to_vec();
    hello.extend([0, 1, 0, 0]);
    let boot: Vec<u8> = (0..16).collect();
    let env = Fields::new().bytes("LANG", b"C").set("GONE", Value::Null).value();
    let mut output = Vec::new();
    put_output(&mut output, 1, 2, 1 << 32, b"oo", b"ps\n");
    vec![
        ("hello", plain(Kind::Hello, 0, &hello)),
        (
            "welcome",
            control(
                Kind::Welcome,
                0,
                Fields::new()
                    .int("major", 1)
                    .int("minor", 0)
                    .int("pid", 1)
                    .bytes("boot", &boot)
                    .int("maxStreams", 256),
            ),
        ),
        (
            "goodbye",
            control(
                Kind::Goodbye,
                0,
                Fields::new()
                    .text("code", "version")
                    .text("message", "protocol 2 was asked for, this runner speaks 1")
                    .int("major", 1)
                    .int("minor", 0),
            ),
        ),
        (
            "ping",
            plain(Kind::Ping, 0, &[0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]),
        ),
        (
            "pong",
            plain(Kind::Pong, 0, &[0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]),
        ),
        (
            "request-start",
            control(
                Kind::Request,
                1,
                Fields::new()
                    .text("op", "start")
                    .text("id", "p1")
                    .set(
                        "argv",
                        Value::Array(vec![bytes(b"sh"), bytes(b"-c"), bytes(b"echo \xff")]),
                    )
                    .set("env", env)
                    .bool("stdin", true)
                    .int("timeoutMs", 60_000),
            ),
        ),
        (
            "request-merged",
            control(
                Kind::Request,
                5,
                Fields::new()
                    .text("op", "start")
                    .text("id", "p2")
                    .set("argv", Value::Array(vec![bytes(b"make")]))
                    .bool("merged", true),
            ),
        ),
        (
            "request-shell",
            control(
                Kind::Request,
                3,
                Fields::new()
                    .text("op", "shell.exec")
                    .text("shell", "s1")
                    .text("id", "c1")
                    .bytes("command", b"cd '/tmp' && pwd")
                    .int("after", 0)
                    .int("timeoutMs", 300),
            ),
        ),
        (
            "request-write",
            control(
                Kind::Request,
                7,
                Fields::new()
                    .text("op", "fs.write")
                    .bytes("path", b"/tmp/\xff\xfe\n ")
                    .int("mode", 0o644)
                    .bool("parents", true),
            ),
        ),
        (
            "open",
            control(Kind::Open, 1, Fields::new().int("pid", 42).bool("existed", false)),
        ),
        (
            "event-gone",
            control(
                Kind::Event,
                1,
                Fields::new().text("event", "gone").int("from", 3).int("to", 10),
            ),
        ),
        (
            "done-exit",
            control(
                Kind::Done,
                1,
                Fields::new()
                    .int("exitCode", 3)
                    .bool("timedOut", false)
                    .int("durationMs", 1500)
                    .int("userMs", 10)
                    .int("systemMs", 4)
                    .int("maxRssKb", 70_000)
                    .int("last", 12),
            ),
        ),
        (
            "done-signal",
            control(
                Kind::Done,
                1,
                Fields::new()
                    .text("signal", "SIGKILL")
                    .bool("timedOut", true)
                    .int("durationMs", 61_000)
                    .int("userMs", 0)
                    .int("systemMs", 0)
                    .int("maxRssKb", 1580)
                    .int("last", 0),
            ),
        ),
        (
            "done-command",
            control(
                Kind::Done,
                3,
                Fields::new()
                    .int("exitCode", 0)
                    .bool("timedOut", false)
                    .int("durationMs", 2)
                    .bool("restarted", true)
                    .bytes("cwd", b"/a\xff")
                    .int("last", 1),
            ),
        ),
        (
            "error",
            control(
                Kind::Error,
                1,
                Fields::new()
                    .text("code", "not_found")
                    .text("message", "exec: No such file or directory")
                    .int("errno", 2)
                    .text("step", "exec"),
            ),
        ),
        ("cancel", plain(Kind::Cancel, 1, b"")),
        ("data", plain(Kind::Data, 7, b"\x00\xff\n\r")),
        ("output", output),
        ("end", plain(Kind::End, 7, b"")),
        ("window", plain(Kind::Window, 1, &65_536u32.to_be_bytes())),
    ]
}

#[test]
fn the_encoder_writes_every_golden_frame() {
    let built = built();
    for (name, bytes) in &built {
        assert_eq!(*bytes, golden(name), "{name}");
    }
    let expected: Vec<String> = names()
        .into_iter()
        .filter(|name| !name.starts_with("refused-"))
        .collect();
    let mut known: Vec<&str> = built.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(known, expected, "every golden frame is built here");
}

#[test]
fn the_decoder_round_trips_every_golden_frame() {
    for name in names().iter().filter(|name| !name.starts_with("refused-")) {
        let bytes = golden(name);
        let (frame, used) = parse(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len(), "{name}");
        let control = matches!(
            frame.kind,
            Kind::Welcome
                | Kind::Goodbye
                | Kind::Request
                | Kind::Open
                | Kind::Event
                | Kind::Done
                | Kind::Error
        );
        if control {
            assert_eq!(encode(&decode(frame.payload).unwrap()), frame.payload, "{name}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "{name} cut at {cut}");
        }
    }
}

#[test]
fn the_decoder_rejects_every_refused_frame() {
    let refused: Vec<String> = names()
        .into_iter()
        .filter(|name| name.starts_with("refused-"))
        .collect();
    assert!(refused.len() >= 7);
    for name in refused {
        let description = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        let violation = parse(&golden(&name)).unwrap_err();
        assert!(
            description.contains(&format!("\"refused\": \"{}\"", violation.code)),
            "{name}: {violation:?}"
        );
    }
}
