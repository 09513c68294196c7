//! A world of three network namespaces: the sandbox, where every address is local, the gateway, and the outside.

#![allow(dead_code)]

pub mod control;
pub mod namespace;
pub mod outside;
pub mod shim;
pub mod speech;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use control::Control;
use namespace::Namespace;
use outside::Outside;
use shim::Shim;

pub struct World {
    pub folder: PathBuf,
    pub outside: Outside,
    pub sandbox: Namespace,
    pub gateway: Namespace,
    pub shim: Shim,
    process: Child,
    pub control: Control,
}

/// Addresses of servers outside. Each answers with its address and port, and then echoes.
pub const SERVERS: [&str; 10] = [
    "198.51.100.7",
    "198.51.100.8",
    "203.0.113.9",
    "198.51.100.53",
    "10.0.0.5",
    "10.0.0.6",
    "169.254.169.254",
    "192.168.1.1",
    "2001:db8::7",
    "fd00::7",
];
pub const PORTS: [u16; 7] = [22, 53, 80, 443, 5432, 8080, 8443];

impl World {
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("gateway-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("egress")).expect("a folder");
        let outside = Outside::new(&SERVERS, &PORTS);
        let gateway = Namespace::new();
        gateway.link_to(&outside.namespace);
        let sandbox = Namespace::new();
        let shim = Shim::new(&sandbox, &folder.join("egress/box.sock"));
        let process = start(&gateway, &folder);
        let control = Control::connect(&folder);
        let mut world = Self {
            folder,
            outside,
            sandbox,
            gateway,
            shim,
            process,
            control,
        };
        world.greet();
        world
    }

    fn greet(&mut self) {
        self.control
            .ask(json!({ "op": "hello", "version": 1 }))
            .expect("hello");
        let resolver = format!("{}:53", outside::RESOLVER);
        let host = json!({ "op": "host", "resolvers": [resolver], "own": ["203.0.113.200"], "hosts": { "table.example": ["198.51.100.8"] } });
        self.control.ask(host).expect("host");
    }

    pub fn add(&mut self, policy: Value) {
        let socket = self.folder.join("egress/box.sock");
        let add = json!({ "op": "add", "sandbox": "box", "socket": socket, "policy": policy, "own": ["203.0.113.201"] });
        self.control.ask(add).expect("add");
    }

    pub fn update(&mut self, policy: Value) -> u64 {
        let answer = self
            .control
            .ask(json!({ "op": "update", "sandbox": "box", "policy": policy }))
            .expect("update");
        answer["closed"].as_u64().expect("closed")
    }

    /// Kills the gateway and starts a new one, without the sandbox.
    pub fn restart(&mut self) {
        self.kill();
        self.process = start(&self.gateway, &self.folder);
        self.control = Control::connect(&self.folder);
        self.greet();
    }

    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub fn gateway_pid(&self) -> u32 {
        self.process.id()
    }

    /// From inside the sandbox.
    pub fn connect(&self, address: &str) -> std::io::Result<TcpStream> {
        let address: SocketAddr = address.parse().expect(address);
        self.sandbox.run(move || {
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
            stream.set_read_timeout(Some(Duration::from_secs(15)))?;
            Ok(stream)
        })
    }

    /// Sends bytes and returns the first bytes of the answer. Empty: the connection was reset or closed.
    pub fn exchange(&self, address: &str, bytes: &[u8]) -> Vec<u8> {
        let Ok(mut stream) = self.connect(address) else {
            return Vec::new();
        };
        let _ = stream.write_all(bytes);
        first_bytes(&mut stream)
    }

    pub fn reaches(&self, address: &str, bytes: &[u8]) -> bool {
        !self.exchange(address, bytes).is_empty()
    }

    pub fn events(&mut self) -> Vec<Value> {
        let answer = self
            .control
            .ask(json!({ "op": "events", "sandbox": "box" }))
            .expect("events");
        answer["events"].as_array().expect("a list").clone()
    }

    /// Waits for an event with all of these fields.
    pub fn expect_event(&mut self, fields: Value) -> Value {
        let wanted = fields.as_object().expect("fields");
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let events = self.events();
            let matches = |event: &&Value| wanted.iter().all(|(name, value)| event[name] == *value);
            if let Some(event) = events.iter().find(matches) {
                return event.clone();
            }
            assert!(Instant::now() < until, "no event {fields} in {events:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn first_bytes(stream: &mut TcpStream) -> Vec<u8> {
    let mut buffer = [0; 4096];
    let read = read(stream, &mut buffer).unwrap_or(0);
    buffer[..read].to_vec()
}

/// With a timeout, read(2) returns early when the machine was paused.
pub fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn start(namespace: &Namespace, folder: &std::path::Path) -> Child {
    let mut command =
        Command::new(std::env::var("GATEWAY_BINARY").unwrap_or(env!("CARGO_BIN_EXE_gateway").into()));
    command
        .arg("serve")
        .arg("--folder")
        .arg(folder)
        .stdout(Stdio::piped());
    let mut process = namespace.run(move || command.spawn()).expect("a gateway");
    let mut line = String::new();
    let output = process.stdout.take().expect("output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert!(line.contains("pid"), "{line:?}");
    process
}
