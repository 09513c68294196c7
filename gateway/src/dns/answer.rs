//! Answers one query of a sandbox.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use std::net::IpAddr;
use std::time::Instant;

use super::resolver::{Failure, Family};
use crate::events::{Draft, Kind};
use crate::policy::name::normalize;
use crate::policy::{Reason, Verdict};
use crate::sandbox::{RESOLVER, Sandbox};

const SERVICE_TTL: u32 = 60;
const SMALLEST_PAYLOAD: usize = 512;
const LARGEST_PAYLOAD: u16 = 1232;

/// `None`: the bytes are not a query, and no answer is due. `over_udp` limits the size of the answer.
pub async fn answer(sandbox: &Sandbox, bytes: &[u8], over_udp: bool) -> Option<Vec<u8>> {
    let query = match Message::from_vec(bytes) {
        Ok(query) if query.message_type() == MessageType::Query => query,
        Ok(_) => return None,
        Err(_) => return malformed(bytes),
    };
    let mut response = Message::new();
    response
        .set_id(query.id())
        .set_message_type(MessageType::Response)
        .set_op_code(query.op_code());
    response
        .set_recursion_desired(query.recursion_desired())
        .set_recursion_available(true);
    let mut payload = SMALLEST_PAYLOAD;
    if query.extensions().is_some() {
        payload = usize::from(
            query
                .max_payload()
                .clamp(SMALLEST_PAYLOAD as u16, LARGEST_PAYLOAD),
        );
        let mut edns = Edns::new();
        edns.set_max_payload(LARGEST_PAYLOAD);
        response.set_edns(edns);
    }
    match (query.op_code(), query.queries()) {
        (OpCode::Query, [question]) => {
            response.add_query(question.clone());
            let (code, records) = decide(sandbox, question).await;
            response.set_response_code(code).add_answers(records);
        }
        (OpCode::Query, _) => {
            response.set_response_code(ResponseCode::FormErr);
        }
        _ => {
            response.set_response_code(ResponseCode::NotImp);
        }
    }
    let bytes = response.to_vec().ok()?;
    match over_udp && bytes.len() > payload {
        true => response.truncate().to_vec().ok(),
        false => Some(bytes),
    }
}

fn malformed(bytes: &[u8]) -> Option<Vec<u8>> {
    let id = bytes
        .get(..12)
        .map(|header| u16::from_be_bytes([header[0], header[1]]))?;
    let is_query = bytes[2] & 0x80 == 0;
    is_query.then(|| {
        Message::error_msg(id, OpCode::Query, ResponseCode::FormErr)
            .to_vec()
            .ok()
    })?
}

async fn decide(sandbox: &Sandbox, question: &Query) -> (ResponseCode, Vec<Record>) {
    let start = Instant::now();
    let name = normalize(&question.name().to_ascii());
    let (verdict, code, records) = match &name {
        Some(name) => lookup(sandbox, name, question).await,
        None => refused(Reason::NoRule),
    };
    let mut draft = Draft::new(Kind::Dns, 53, &verdict);
    if matches!(code, ResponseCode::ServFail) && !verdict.is_denied() {
        (draft.verdict, draft.reason) = ("error", Some(Reason::ConnectFailed.word()));
    }
    draft.host = Some(name.unwrap_or_else(|| shortened(&question.name().to_ascii())));
    draft.address = records
        .first()
        .and_then(|record| Some(record.data().ip_addr()?.to_string()));
    draft.duration_ms = start.elapsed().as_millis() as u64;
    sandbox.record(draft);
    (code, records)
}

type Decided = (Verdict, ResponseCode, Vec<Record>);

async fn lookup(sandbox: &Sandbox, name: &str, question: &Query) -> Decided {
    let policy = sandbox.policy();
    let verdict = policy.name(name);
    if let Verdict::Denied { .. } = verdict {
        return (verdict, ResponseCode::Refused, Vec::new());
    }
    let family = match (question.query_class(), question.query_type()) {
        (DNSClass::IN, RecordType::A) => Family::V4,
        (DNSClass::IN, RecordType::AAAA) => Family::V6,
        (DNSClass::IN, RecordType::HTTPS | RecordType::SVCB) => {
            return (verdict, ResponseCode::NoError, Vec::new());
        }
        _ => return refused(Reason::Protocol),
    };
    if policy.service(name).is_some() {
        let address = sandbox.service_address(name).filter(|_| family == Family::V4);
        let records = address.map(|address| record(question, IpAddr::V4(address), SERVICE_TTL));
        return (verdict, ResponseCode::NoError, records.into_iter().collect());
    }
    match sandbox.resolve(name, family).await {
        Ok(found) if found.inside => refused(Reason::PrivateAddress),
        Ok(found) => {
            let records = found
                .addresses
                .iter()
                .map(|address| record(question, *address, found.ttl))
                .collect();
            (verdict, ResponseCode::NoError, records)
        }
        Err(Failure::NoSuchName) => (verdict, ResponseCode::NXDomain, Vec::new()),
        Err(Failure::Unavailable) => (verdict, ResponseCode::ServFail, Vec::new()),
    }
}

fn refused(reason: Reason) -> Decided {
    (Verdict::denied(reason), ResponseCode::Refused, Vec::new())
}

/// Aliases are flattened: each address belongs to the name that was asked for, in the same upper and lower case.
fn record(question: &Query, address: IpAddr, ttl: u32) -> Record {
    Record::from_rdata(question.name().clone(), ttl, RData::from(address))
}

fn shortened(text: &str) -> String {
    text.chars().take(253).collect()
}

/// Whether a connection is to the sandbox's resolver.
pub fn is_resolver(address: IpAddr, port: u16) -> bool {
    address == RESOLVER && port == 53
}
