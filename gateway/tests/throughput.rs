//! A measurement, not a check: `cargo test --release --test throughput -- --ignored --nocapture`. Needs root.

mod support;

use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use support::World;

const BYTES: usize = 2 << 30;
const ROUNDS: usize = 3;

#[test]
#[ignore = "measures"]
fn throughput_and_connect_time() {
    let mut world = World::new("throughput");
    let sink = world
        .outside
        .namespace
        .run(|| TcpListener::bind("198.51.100.8:8081"))
        .expect("a server");
    std::thread::spawn(move || {
        sink.incoming()
            .flatten()
            .for_each(|stream| drop(std::thread::spawn(|| swallow(stream))))
    });
    world.add(json!({ "allow": [{ "cidr": "198.51.100.0/24" }] }));
    let server = "198.51.100.8:8081";
    for _ in 0..ROUNDS {
        let loopback = rate(
            world
                .outside
                .namespace
                .run(|| TcpStream::connect(server))
                .expect("a connection"),
        );
        let veth = rate(
            world
                .gateway
                .run(|| TcpStream::connect(server))
                .expect("a connection"),
        );
        let spliced = rate(world.connect(server).expect("a connection"));
        println!("GB/s: loopback {loopback:.2}, veth {veth:.2}, through the gateway {spliced:.2}");
    }
    println!(
        "connect and first byte: veth {:?}",
        first_byte(|| world
            .gateway
            .run(|| TcpStream::connect(server).expect("a connection")))
    );
    println!(
        "connect and first byte: gateway {:?}",
        first_byte(|| world.connect(server).expect("a connection"))
    );
}

/// Answers the first bytes, and reads until the end.
fn swallow(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 20];
    let _ = stream.read(&mut buffer).and_then(|_| stream.write_all(b"!"));
    while matches!(stream.read(&mut buffer), Ok(read) if read > 0) {}
    let _ = stream.write_all(b"!");
}

fn rate(mut stream: TcpStream) -> f64 {
    let start = Instant::now();
    let block = vec![0; 1 << 20];
    for _ in 0..BYTES / block.len() {
        stream.write_all(&block).expect("written");
    }
    stream.shutdown(std::net::Shutdown::Write).expect("shut down");
    stream.read_to_end(&mut Vec::new()).expect("the end");
    BYTES as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// The median of the time from connect(2) to the first byte of the answer. Both sides also start a thread.
fn first_byte(connect: impl Fn() -> TcpStream) -> Duration {
    let mut times: Vec<_> = (0..300)
        .map(|_| {
            let start = Instant::now();
            let mut stream = connect();
            stream.write_all(b"?").expect("written");
            stream.read_exact(&mut [0]).expect("a byte");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}
