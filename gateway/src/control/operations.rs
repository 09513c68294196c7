//! What the operations of the control socket do.

use secrecy::ExposeSecret;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::request::{Add, Events, Failure, Hello, Host, Named, Operation, Update};
use crate::gateway::Gateway;
use crate::host::Told;
use crate::policy::Policy;
use crate::policy::address::canonical;
use crate::policy::name::normalize;
use crate::sandbox::{Brokered, Sandbox, Sockets, receive};
use crate::{dns, refused, tcp, transform};

const VERSION: u32 = 1;
const HANDOVER: Duration = Duration::from_secs(5);
const LONGEST_NAME: usize = 256;

type Answer = Result<Value, Failure>;

pub async fn run(gateway: &Arc<Gateway>, operation: Operation) -> Answer {
    match operation {
        Operation::Hello(hello) => greet(hello),
        Operation::Ca => {
            let ca = transform::make_ca().map_err(|error| Failure::unavailable(error.0))?;
            Ok(json!({ "cert": ca.cert, "key": ca.key.expose_secret() }))
        }
        Operation::Add(add) => add_sandbox(gateway, add).await,
        Operation::Update(update) => update_sandbox(gateway, update),
        Operation::Remove(Named { sandbox }) => match gateway.remove(&sandbox) {
            true => Ok(json!({})),
            false => Err(Failure::not_found(&sandbox)),
        },
        Operation::List => Ok(list(gateway)),
        Operation::Host(host) => tell_host(gateway, host),
        Operation::Events(_) => Err(Failure::invalid("events are answered elsewhere")),
    }
}

fn greet(hello: Hello) -> Answer {
    match hello.version {
        VERSION => Ok(json!({ "version": VERSION, "pid": std::process::id() })),
        other => Err(Failure::invalid(format!(
            "version {other} is unknown; this gateway speaks {VERSION}"
        ))),
    }
}

async fn add_sandbox(gateway: &Arc<Gateway>, add: Add) -> Answer {
    if add.sandbox.is_empty() || add.sandbox.len() > LONGEST_NAME {
        return Err(Failure::invalid(format!(
            "sandbox needs 1 to {LONGEST_NAME} bytes"
        )));
    }
    let policy = Policy::parse(&add.policy).map_err(Failure::invalid)?;
    let own = addresses(&add.own)?;
    let brokered = match add.ca {
        Some(ca) => Some(Brokered::new(
            &ca.into(),
            &policy,
            add.secrets.unwrap_or_default(),
        )?),
        None => None,
    };
    let handover = async {
        let shim = UnixStream::connect(reachable(&add.socket))
            .await
            .map_err(|error| error.to_string())?;
        let sockets = receive(&shim).await?;
        Ok::<_, String>((shim, sockets))
    };
    let (shim, sockets) = match timeout(HANDOVER, handover).await {
        Ok(Ok(received)) => received,
        Ok(Err(message)) => return Err(Failure::unavailable(format!("{}: {message}", add.socket))),
        Err(_) => return Err(Failure::unavailable(format!("{}: no answer in 5 s", add.socket))),
    };
    let sandbox = Sandbox::new(gateway, &add.sandbox, policy, own, brokered);
    gateway.insert(sandbox.clone());
    start(gateway, &sandbox, shim, sockets);
    Ok(json!({}))
}

/// The gateway works in the folder of the sockets: it may have no right to walk there, and the path may be too long.
fn reachable(socket: &str) -> &Path {
    let socket = Path::new(socket);
    let here = std::env::current_dir().ok();
    here.and_then(|here| socket.strip_prefix(here).ok())
        .unwrap_or(socket)
}

fn start(gateway: &Arc<Gateway>, sandbox: &Arc<Sandbox>, shim: UnixStream, sockets: Sockets) {
    for listener in sockets.tcp {
        sandbox.keep_task(tokio::spawn(tcp::accept(sandbox.clone(), listener)).abort_handle());
    }
    sandbox.keep_task(tokio::spawn(dns::serve_udp(sandbox.clone(), sockets.dns)).abort_handle());
    if let Some(socket) = sockets.refused {
        sandbox.keep_task(tokio::spawn(refused::serve(sandbox.clone(), socket)).abort_handle());
    }
    let (gateway, watched) = (gateway.clone(), sandbox.clone());
    let watch = tokio::spawn(async move {
        wait_for_end(&shim).await;
        gateway.remove_same(&watched);
    });
    sandbox.keep_task(watch.abort_handle());
}

/// The shim says nothing more; its end of the connection closes with the sandbox.
async fn wait_for_end(shim: &UnixStream) {
    let mut byte = [0];
    while shim.readable().await.is_ok() {
        match shim.try_read(&mut byte) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}

fn update_sandbox(gateway: &Gateway, update: Update) -> Answer {
    let policy = Policy::parse(&update.policy).map_err(Failure::invalid)?;
    let sandbox = gateway
        .sandbox(&update.sandbox)
        .ok_or_else(|| Failure::not_found(&update.sandbox))?;
    // Secrets first: a connection that the new policy allows must not be served with the old ones.
    if let Some(brokered) = &sandbox.brokered {
        brokered.update(&policy, update.secrets)?;
    }
    Ok(json!({ "closed": sandbox.update(policy) }))
}

fn list(gateway: &Gateway) -> Value {
    let describe = |sandbox: Arc<Sandbox>| {
        json!({
            "sandbox": *sandbox.name,
            "connections": sandbox.connection_count(),
            "bytesIn": sandbox.traffic.bytes_in.load(Relaxed),
            "bytesOut": sandbox.traffic.bytes_out.load(Relaxed),
            "refused": sandbox.traffic.refused(),
            "droppedEvents": gateway.events.dropped(&sandbox.name),
        })
    };
    json!({ "sandboxes": gateway.sandboxes().into_iter().map(describe).collect::<Vec<_>>() })
}

fn tell_host(gateway: &Gateway, host: Host) -> Answer {
    let mut hosts = HashMap::new();
    for (name, texts) in &host.hosts {
        let name =
            normalize(name).ok_or_else(|| Failure::invalid(format!("hosts: {name:?} is not a host")))?;
        hosts.insert(name, addresses(texts)?);
    }
    let resolvers = host
        .resolvers
        .iter()
        .map(|text| resolver(text))
        .collect::<Result<_, _>>()?;
    let own = addresses(&host.own)?.into_iter().collect();
    gateway.host.tell(Told {
        resolvers,
        own,
        hosts,
    });
    Ok(json!({}))
}

fn resolver(text: &str) -> Result<SocketAddr, Failure> {
    let address = text
        .parse()
        .or_else(|_| text.parse::<IpAddr>().map(|address| (address, 53).into()));
    address.map_err(|_| Failure::invalid(format!("resolvers: {text:?} is not an address")))
}

fn addresses(texts: &[String]) -> Result<Vec<IpAddr>, Failure> {
    let parse = |text: &String| {
        text.parse()
            .map(canonical)
            .map_err(|_| Failure::invalid(format!("{text:?} is not an address")))
    };
    texts.iter().map(parse).collect()
}

/// Answers, and with `follow` goes on sending what is recorded afterwards. A slow reader misses events: their numbers
/// have gaps then.
pub async fn events(gateway: &Gateway, id: Value, request: Events, lines: &mpsc::Sender<Value>) {
    let (events, next, mut live) = gateway.events.read(request.sandbox.as_deref(), request.after);
    let _ = lines
        .send(json!({ "id": id, "ok": { "events": events, "next": next } }))
        .await;
    if !request.follow {
        return;
    }
    let lines = lines.clone();
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                event = live.recv() => event,
                () = lines.closed() => return,
            };
            match event {
                Ok(event)
                    if request
                        .sandbox
                        .as_deref()
                        .is_some_and(|sandbox| *sandbox != *event.sandbox) => {}
                Ok(event) => {
                    if lines.send(json!({ "id": id, "event": event })).await.is_err() {
                        return;
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    });
}
