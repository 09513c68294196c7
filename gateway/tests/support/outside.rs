//! Servers outside: TCP servers that say where they are, and a resolver.

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType, rdata::CNAME};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use super::namespace::Namespace;

pub const RESOLVER: &str = "198.51.100.53";

type Names = Arc<Mutex<HashMap<String, Vec<String>>>>;

pub struct Outside {
    pub namespace: Namespace,
    names: Names,
    queries: Arc<Mutex<Vec<String>>>,
}

impl Outside {
    pub fn new(addresses: &[&str], ports: &[u16]) -> Self {
        let namespace = Namespace::new();
        for address in addresses {
            match address.contains(':') {
                true => namespace.ip(&format!("addr add {address}/128 dev lo nodad")),
                false => namespace.ip(&format!("addr add {address}/32 dev lo")),
            }
        }
        for port in ports {
            let listener = namespace
                .run(|| TcpListener::bind(("::", *port)))
                .expect("a server");
            std::thread::spawn(move || {
                listener
                    .incoming()
                    .flatten()
                    .for_each(|stream| drop(std::thread::spawn(|| echo(stream))))
            });
        }
        let (names, queries) = (Names::default(), Arc::default());
        let resolver = namespace
            .run(|| UdpSocket::bind((RESOLVER, 53)))
            .expect("a resolver");
        let (table, log) = (Arc::clone(&names), Arc::clone(&queries));
        std::thread::spawn(move || resolve(&resolver, &table, &log));
        Self {
            namespace,
            names,
            queries,
        }
    }

    /// A value that is not an address is an alias.
    pub fn name(&self, name: &str, values: &[&str]) {
        self.names
            .lock()
            .expect("names")
            .insert(name.to_owned(), values.iter().map(ToString::to_string).collect());
    }

    pub fn queries(&self) -> Vec<String> {
        self.queries.lock().expect("queries").clone()
    }
}

/// Says where it is when the first bytes arrive, returns them, and goes on echoing.
fn echo(mut stream: TcpStream) -> Option<()> {
    let place = stream.local_addr().ok()?;
    let mut buffer = [0; 65536];
    let mut greeted = false;
    loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        if !greeted && buffer[..read].starts_with(b"GET ") {
            stream.write_all(&http_answer(&buffer[..read])).ok()?;
            continue;
        }
        if !greeted {
            stream
                .write_all(format!("{}:{} ", place.ip().to_canonical(), place.port()).as_bytes())
                .ok()?;
        }
        greeted = true;
        stream.write_all(&buffer[..read]).ok()?;
    }
}

fn http_answer(request: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", request.len()).into_bytes();
    answer.extend(request);
    answer
}

fn resolve(socket: &UdpSocket, names: &Names, queries: &Mutex<Vec<String>>) {
    let mut buffer = [0; 4096];
    while let Ok((read, client)) = socket.recv_from(&mut buffer) {
        let Ok(query) = Message::from_vec(&buffer[..read]) else {
            continue;
        };
        let question = query.queries()[0].clone();
        let mut name = question.name().to_ascii().trim_end_matches('.').to_owned();
        queries.lock().expect("queries").push(name.clone());
        let mut answer = Message::new();
        answer
            .set_id(query.id())
            .set_message_type(MessageType::Response)
            .add_query(question.clone());
        let names = names.lock().expect("names");
        if !names.contains_key(&name) {
            answer.set_response_code(ResponseCode::NXDomain);
        }
        while let Some(values) = names.get(&name) {
            let owner = Name::from_ascii(format!("{name}.")).expect("a name");
            let mut alias = None;
            for value in values {
                match value.parse::<IpAddr>() {
                    Ok(address) if address.is_ipv4() == (question.query_type() == RecordType::A) => {
                        answer.add_answer(Record::from_rdata(owner.clone(), 0, RData::from(address)));
                    }
                    Ok(_) => {}
                    Err(_) => {
                        let target = Name::from_ascii(format!("{value}.")).expect("a name");
                        answer.add_answer(Record::from_rdata(owner.clone(), 0, RData::CNAME(CNAME(target))));
                        alias = Some(value.clone());
                    }
                }
            }
            match alias {
                Some(alias) => name = alias,
                None => break,
            }
        }
        let _ = socket.send_to(&answer.to_vec().expect("an answer"), client);
    }
}
