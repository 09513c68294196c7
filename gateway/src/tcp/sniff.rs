//! What a client speaks, from its first bytes.

use rustls::server::Acceptor;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

const FIRST_BYTES: Duration = Duration::from_secs(10);
const LONGEST_HELLO: usize = 64 * 1024;
const TLS_HANDSHAKE: u8 = 0x16;

#[derive(Debug, PartialEq, Eq)]
pub enum Spoken {
    /// With the server name of the ClientHello, as it was sent.
    Tls(Option<String>),
    Http,
    Other,
    /// The client waits, perhaps for the server to begin.
    Nothing,
    /// The client closed and had sent nothing.
    Closed,
}

/// Also returns the bytes that were read.
pub async fn sniff(client: &mut TcpStream) -> (Spoken, Vec<u8>) {
    let mut head = Vec::new();
    match timeout(FIRST_BYTES, read(client, &mut head)).await {
        Ok(spoken) => (spoken, head),
        Err(_) if head.is_empty() => (Spoken::Nothing, head),
        Err(_) => (Spoken::Other, head),
    }
}

async fn read(client: &mut TcpStream, head: &mut Vec<u8>) -> Spoken {
    let mut acceptor = Acceptor::default();
    loop {
        let before = head.len();
        match client.read_buf(head).await {
            Ok(0) | Err(_) if head.is_empty() => return Spoken::Closed,
            Ok(0) | Err(_) => return Spoken::Other,
            Ok(_) => {}
        }
        match head[0] {
            TLS_HANDSHAKE => {}
            first if is_token(first) => return Spoken::Http,
            _ => return Spoken::Other,
        }
        if head.len() > LONGEST_HELLO {
            return Spoken::Other;
        }
        match hello(&mut acceptor, &head[before..]) {
            Hello::Name(name) => return Spoken::Tls(name),
            Hello::Malformed => return Spoken::Other,
            Hello::Incomplete => {}
        }
    }
}

enum Hello {
    Name(Option<String>),
    Incomplete,
    Malformed,
}

fn hello(acceptor: &mut Acceptor, mut bytes: &[u8]) -> Hello {
    while !bytes.is_empty() {
        if !matches!(acceptor.read_tls(&mut bytes), Ok(read) if read > 0) {
            return Hello::Malformed;
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                return Hello::Name(accepted.client_hello().server_name().map(str::to_owned));
            }
            Ok(None) => {}
            Err(_) => return Hello::Malformed,
        }
    }
    Hello::Incomplete
}

/// The first character of a method.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
