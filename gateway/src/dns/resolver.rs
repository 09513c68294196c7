//! Asks the machine's resolvers.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::host::Told;
use crate::policy::name::normalize;

const ATTEMPT: Duration = Duration::from_millis(2000);
const TOTAL: Duration = Duration::from_secs(8);
const MOST_ADDRESSES: usize = 32;
const LONGEST_TTL: u32 = 300;
const TABLE_TTL: u32 = 60;
const UDP_PAYLOAD: u16 = 1232;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4 = 0,
    V6 = 1,
}

impl Family {
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    fn record_type(self) -> RecordType {
        match self {
            Self::V4 => RecordType::A,
            Self::V6 => RecordType::AAAA,
        }
    }
}

pub struct Found {
    pub addresses: Vec<IpAddr>,
    pub ttl: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    NoSuchName,
    Unavailable,
}

pub async fn resolve(host: &Told, name: &str, family: Family) -> Result<Found, Failure> {
    if let Some(addresses) = host.hosts.get(name) {
        let addresses = addresses
            .iter()
            .copied()
            .filter(|address| Family::of(*address) == family)
            .collect();
        return Ok(Found {
            addresses,
            ttl: TABLE_TTL,
        });
    }
    timeout(TOTAL, ask_all(&host.resolvers, name, family))
        .await
        .unwrap_or(Err(Failure::Unavailable))
}

async fn ask_all(resolvers: &[SocketAddr], name: &str, family: Family) -> Result<Found, Failure> {
    let query_name = Name::from_ascii(format!("{name}.")).map_err(|_| Failure::NoSuchName)?;
    for resolver in resolvers.iter().chain(resolvers) {
        let Ok(answer) = ask(*resolver, &query_name, family).await else {
            continue;
        };
        match answer.response_code() {
            ResponseCode::NoError => return Ok(read_addresses(&answer, name, family)),
            ResponseCode::NXDomain => return Err(Failure::NoSuchName),
            _ => {}
        }
    }
    Err(Failure::Unavailable)
}

async fn ask(resolver: SocketAddr, name: &Name, family: Family) -> io::Result<Message> {
    let query = Query::query(name.clone(), family.record_type());
    let mut edns = Edns::new();
    edns.set_max_payload(UDP_PAYLOAD);
    let mut message = Message::new();
    message
        .set_id(random_id()?)
        .set_message_type(MessageType::Query)
        .set_op_code(OpCode::Query);
    message
        .set_recursion_desired(true)
        .add_query(query)
        .set_edns(edns);
    let bytes = message.to_vec().map_err(io::Error::other)?;
    let answer = timeout(ATTEMPT, ask_udp(resolver, &bytes, &message)).await??;
    match answer.truncated() {
        true => timeout(ATTEMPT, ask_tcp(resolver, &bytes, &message)).await?,
        false => Ok(answer),
    }
}

/// Waits for the answer to this question. A packet that is anything else may be forged, and is ignored.
async fn ask_udp(resolver: SocketAddr, bytes: &[u8], question: &Message) -> io::Result<Message> {
    let any: SocketAddr = match resolver {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(resolver).await?;
    socket.send(bytes).await?;
    let mut buffer = [0; 4096];
    loop {
        let read = socket.recv(&mut buffer).await?;
        match Message::from_vec(&buffer[..read]) {
            Ok(answer) if answers(&answer, question) => return Ok(answer),
            _ => {}
        }
    }
}

async fn ask_tcp(resolver: SocketAddr, bytes: &[u8], question: &Message) -> io::Result<Message> {
    let mut stream = TcpStream::connect(resolver).await?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    let answer = Message::from_vec(&answer).map_err(io::Error::other)?;
    answers(&answer, question)
        .then_some(answer)
        .ok_or_else(|| io::Error::other("an answer to another question"))
}

fn answers(answer: &Message, question: &Message) -> bool {
    answer.id() == question.id()
        && answer.message_type() == MessageType::Response
        && answer.queries() == question.queries()
}

/// The addresses at the end of the chain of aliases that begins at the name.
fn read_addresses(answer: &Message, name: &str, family: Family) -> Found {
    let mut found = Found {
        addresses: Vec::new(),
        ttl: LONGEST_TTL,
    };
    let mut chain = vec![name.to_owned()];
    for record in answer.answers() {
        let Some(owner) = normalize(&record.name().to_ascii()) else {
            continue;
        };
        if !chain.contains(&owner) {
            continue;
        }
        let address = match record.data() {
            RData::A(address) => IpAddr::V4(address.0),
            RData::AAAA(address) => IpAddr::V6(address.0),
            RData::CNAME(alias) => {
                chain.extend(normalize(&alias.to_ascii()));
                found.ttl = found.ttl.min(record.ttl());
                continue;
            }
            _ => continue,
        };
        if Family::of(address) == family && found.addresses.len() < MOST_ADDRESSES {
            found.ttl = found.ttl.min(record.ttl());
            found.addresses.push(address);
        }
    }
    found
}

fn random_id() -> io::Result<u16> {
    let mut bytes = [0; 2];
    // SAFETY: pointer and length describe `bytes`.
    let read = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match read {
        2 => Ok(u16::from_ne_bytes(bytes)),
        _ => Err(io::Error::last_os_error()),
    }
}
