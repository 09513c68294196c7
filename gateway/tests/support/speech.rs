//! What clients say first.

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::World;

/// A real ClientHello.
pub fn hello(name: &str) -> Vec<u8> {
    client_hello(name, true)
}

pub fn hello_without_sni() -> Vec<u8> {
    client_hello("a.example", false)
}

fn client_hello(name: &str, sni: bool) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions");
    let mut config = builder
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = sni;
    let server = ServerName::try_from(name.to_owned()).expect(name);
    let mut client = ClientConnection::new(Arc::new(config), server).expect("a client");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("a hello");
    bytes
}

pub fn get(host: &str) -> Vec<u8> {
    format!("GET /path?query HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

pub fn query(name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::new();
    message
        .set_id(7)
        .set_op_code(OpCode::Query)
        .set_recursion_desired(true);
    message.add_query(Query::query(Name::from_ascii(name).expect(name), kind));
    message.to_vec().expect("a query")
}

impl World {
    /// Asks the sandbox's resolver.
    pub fn ask_dns(&self, name: &str, kind: RecordType) -> (ResponseCode, Vec<IpAddr>) {
        let socket = self
            .sandbox
            .run(|| UdpSocket::bind("0.0.0.0:0"))
            .expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_secs(15)))
            .expect("a timeout");
        socket.send_to(&query(name, kind), "192.0.0.3:53").expect("sent");
        let mut buffer = [0; 4096];
        let read = socket.recv(&mut buffer).expect("an answer");
        let answer = Message::from_vec(&buffer[..read]).expect("a message");
        assert_eq!(answer.id(), 7);
        (
            answer.response_code(),
            answer
                .answers()
                .iter()
                .filter_map(|record| record.data().ip_addr())
                .collect(),
        )
    }

    pub fn lookup(&self, name: &str) -> Vec<IpAddr> {
        self.ask_dns(name, RecordType::A).1
    }
}
