//! Random and mutated bytes from inside a sandbox, and from resolvers. Needs root.

mod support;

use serde_json::json;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};

use support::World;
use support::speech::{get, hello, query};

/// xorshift: the same bytes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn mutate(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..1 + self.below(8) {
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[at] = self.next() as u8,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, self.next() as u8),
                _ => bytes[at] ^= 1 << self.below(8),
            }
        }
        bytes
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(600)).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn survives_random_bytes_from_inside() {
    let mut world = World::new("hostile");
    world.outside.name("allowed.example", &["198.51.100.7"]);
    world.add(json!({ "allow": [{ "host": "allowed.example" }] }));
    let mut random = Random(0x5eed);
    let socket = world
        .sandbox
        .run(|| UdpSocket::bind("0.0.0.0:0"))
        .expect("a socket");
    let question = query("allowed.example.", hickory_proto::rr::RecordType::A);
    let speeches = [
        (443, hello("allowed.example")),
        (80, get("allowed.example")),
        (53, [&[0, 33][..], &question].concat()),
    ];
    for round in 0..2000 {
        let packet = if round % 4 == 0 {
            random.bytes()
        } else {
            random.mutate(&question)
        };
        let _ = socket.send_to(&packet, "192.0.0.3:53");
        let _ = world.shim.refused.send(&random.bytes());
    }
    let streams: Vec<TcpStream> = world.sandbox.run(|| {
        let speak = |round: usize| {
            let (port, speech) = &speeches[round % speeches.len()];
            let address = if *port == 53 { "192.0.0.3" } else { "198.51.100.7" };
            let mut stream = TcpStream::connect((address, *port)).ok()?;
            let bytes = if round.is_multiple_of(5) {
                random.bytes()
            } else {
                random.mutate(speech)
            };
            let _ = stream.write_all(&bytes);
            round.is_multiple_of(10).then_some(stream)
        };
        (0..3000).filter_map(speak).collect()
    });
    drop(streams);
    assert_eq!(world.lookup("allowed.example.").len(), 1);
    assert!(world.reaches("198.51.100.7:443", &hello("allowed.example")));
    assert!(world.reaches("198.51.100.7:80", &get("allowed.example")));
    // What went through is a ClientHello or a request whose name is still the allowed one.
    for event in world
        .events()
        .iter()
        .filter(|event| event["verdict"] == "allowed" && event["kind"] != "dns")
    {
        assert_eq!(event["host"], "allowed.example", "{event}");
    }
}

#[test]
fn survives_hostile_resolvers() {
    let mut world = World::new("hostile-resolver");
    let socket = world
        .outside
        .namespace
        .run(|| UdpSocket::bind("198.51.100.8:53"))
        .expect("a resolver");
    std::thread::spawn(move || {
        let mut random = Random(0xbad);
        let mut buffer = [0; 1024];
        while let Ok((read, client)) = socket.recv_from(&mut buffer) {
            // Never the right answer: another id, a query, noise.
            for _ in 0..5 {
                let _ = socket.send_to(&random.mutate(&buffer[..read]), client);
                let _ = socket.send_to(&random.bytes(), client);
            }
        }
    });
    world.add(json!({ "allow": [{ "host": "*.example" }] }));
    let first_fails = json!({ "op": "host", "resolvers": ["198.51.100.8", "198.51.100.53"], "own": [] });
    world.control.ask(first_fails).expect("host");
    world.outside.name("allowed.example", &["198.51.100.7"]);
    assert_eq!(
        world.lookup("allowed.example.").len(),
        1,
        "the second resolver answers"
    );
}
