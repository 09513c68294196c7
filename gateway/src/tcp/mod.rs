//! TCP connections of sandboxes: accept, decide, connect, carry, record.

mod brokered;
mod connect;
mod decide;
mod http;
mod io;
mod judge;
mod record;
mod sniff;
mod socket;
mod splice;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::dns;
use crate::policy::address::canonical;
use crate::policy::{Reason, Verdict};
use crate::sandbox::{Connection, Sandbox};
use decide::{Decision, Route};
use io::{Io, Meter};
use record::Record;

pub async fn accept(sandbox: Arc<Sandbox>, listener: TcpListener) {
    loop {
        tokio::task::consume_budget().await;
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(serve(sandbox.clone(), client))),
            // Out of descriptors, or the client has gone.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve(sandbox: Arc<Sandbox>, client: TcpStream) {
    let Ok(called) = client.local_addr() else { return };
    let called = SocketAddr::new(canonical(called.ip()), called.port());
    socket::prepare(&client);
    let mut record = Record::new(called);
    let exhausted = sandbox.traffic.is_exhausted();
    match sandbox.open() {
        None => record.judge(&Verdict::denied(Reason::LimitConnections)),
        Some(_) if exhausted && !dns::is_resolver(called.ip(), called.port()) => {
            record.judge(&Verdict::denied(Reason::LimitBytes));
        }
        Some((connection, reset)) => tokio::select! {
            biased;
            Ok(reason) = reset => record.cut(reason),
            () = carry(&sandbox, &connection, client, called, &mut record) => {}
        },
    }
    if let Some(draft) = record.finish() {
        sandbox.record(draft);
    }
}

async fn carry(
    sandbox: &Arc<Sandbox>,
    connection: &Connection,
    mut client: TcpStream,
    called: SocketAddr,
    record: &mut Record,
) {
    let policy = sandbox.policy();
    let Some(Decision {
        kind,
        verdict,
        facts,
        route,
    }) = decide::decide(sandbox, &policy, &mut client, called).await
    else {
        // The client closed before it said anything, so there was nothing to decide.
        return record.forget();
    };
    record.begin(kind, facts.host.clone());
    record.judge(&verdict);
    if verdict.is_denied() {
        return;
    }
    if !matches!(route, Route::Http(_)) && !sandbox.admit(connection, facts.clone(), &policy) {
        return record.judge(&Verdict::denied(Reason::PolicyChanged));
    }
    let meter = Meter {
        sandbox: sandbox.clone(),
        counts: record.counts.clone(),
    };
    match route {
        Route::Refuse => {}
        Route::Resolver => {
            record.forget();
            let _ = dns::serve_tcp(sandbox, &mut client).await;
        }
        Route::Http(head) => {
            let exchange = http::Exchange {
                sandbox,
                connection,
                called,
                meter,
                record,
            };
            exchange.serve(client, head).await;
        }
        Route::Splice(head) => {
            let upstream = connect::to(called).await;
            tunnel(client, upstream, head, meter, record).await;
        }
        Route::Service(service) => {
            let upstream = connect::to_service(sandbox, &service).await;
            tunnel(client, upstream, Vec::new(), meter, record).await;
        }
        Route::Transform(host, head) => match &sandbox.brokered {
            None => record.judge(&Verdict::denied(Reason::SecretMissing)),
            Some(brokered) => match connect::to(called).await {
                Err(_) => record.fail(Reason::ConnectFailed.word()),
                Ok(upstream) => {
                    let client = Io::new(client, head, None);
                    let upstream = Io::new(upstream, Vec::new(), Some(meter));
                    let target = (host, called.port());
                    brokered::carry(sandbox, brokered, target, client, upstream, record).await;
                }
            },
        },
    }
}

/// `head` is what was read from the client already.
async fn tunnel(
    client: TcpStream,
    upstream: std::io::Result<TcpStream>,
    head: Vec<u8>,
    meter: Meter,
    record: &mut Record,
) {
    let Ok(mut upstream) = upstream else {
        return record.fail(Reason::ConnectFailed.word());
    };
    meter.sent(head.len());
    if upstream.write_all(&head).await.is_err() {
        return;
    }
    match splice::both(&client, &upstream, &meter).await {
        Ok(()) => {
            socket::close_gently(&client);
            socket::close_gently(&upstream);
        }
        Err(_) if meter.sandbox.traffic.is_exhausted() => record.cut(Reason::LimitBytes),
        Err(_) => {}
    }
}
