//! HTTP/1 without TLS: each request is decided, and sent on by a client of our own.
//!
//! The upstream sees what the gateway understood, so both cannot read the same bytes in two ways.

mod check;
mod upstream;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::io::{Io, Meter};
use super::record::Record;
use super::{socket, splice};
use crate::events::{Draft, Kind};
use crate::lock;
use crate::policy::{Protocol, Reason, Verdict};
use crate::sandbox::{Connection, Facts, Sandbox, Via};
use upstream::{Lost, Upstream};

/// Also ends connections without requests for this long.
const HEAD: Duration = Duration::from_secs(60);
const LONGEST_HEAD: usize = 64 * 1024;
const LONGEST_PATH: usize = 1024;

type Body = Either<Incoming, Full<Bytes>>;

pub struct Exchange<'a> {
    pub sandbox: &'a Arc<Sandbox>,
    pub connection: &'a Connection,
    pub called: SocketAddr,
    pub meter: Meter,
    pub record: &'a mut Record,
}

struct State<'a> {
    sandbox: &'a Arc<Sandbox>,
    connection: &'a Connection,
    called: SocketAddr,
    record: Mutex<&'a mut Record>,
    last_host: Mutex<String>,
    upstream: tokio::sync::Mutex<Upstream>,
    tunnel: Mutex<Option<(OnUpgrade, OnUpgrade)>>,
}

impl Exchange<'_> {
    pub async fn serve(self, client: TcpStream, head: Vec<u8>) {
        self.record.forget();
        let state = State {
            sandbox: self.sandbox,
            connection: self.connection,
            called: self.called,
            record: Mutex::new(self.record),
            last_host: Mutex::default(),
            upstream: tokio::sync::Mutex::new(Upstream::new(self.called, self.meter.clone())),
            tunnel: Mutex::default(),
        };
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(LONGEST_HEAD);
        builder
            .preserve_header_case(true)
            .auto_date_header(false)
            .half_close(true);
        let service = service_fn(|request| state.answer(request));
        let client = TokioIo::new(Io::new(client, head, None));
        let served = builder.serve_connection(client, service).with_upgrades().await;
        let mut lost = served.is_err();
        if let Err(error) = served
            && error.is_parse()
        {
            let mut record = lock(&state.record);
            if !record.is_decided() {
                record.begin(Kind::Http, None);
                record.judge(&Verdict::denied(Reason::NotHttp));
            }
        }
        let tunnel = lock(&state.tunnel).take();
        if let Some((client, upstream)) = tunnel {
            lost |= carry_upgraded(client, upstream, &self.meter).await.is_err();
        }
        if lost && self.sandbox.traffic.is_exhausted() {
            lock(&state.record).cut(Reason::LimitBytes);
        }
    }
}

impl State<'_> {
    async fn answer(&self, mut request: Request<Incoming>) -> std::io::Result<Response<Body>> {
        let start = std::time::Instant::now();
        let policy = self.sandbox.policy();
        let asked = check::check(self.sandbox, &policy, &request, self.called).await;
        let (host, mut verdict) = (asked.host, asked.verdict);
        let via = Via::Host(Protocol::Http);
        let facts = Facts {
            address: self.called.ip(),
            port: self.called.port(),
            host: host.clone(),
            via,
        };
        if !verdict.is_denied() && !self.sandbox.admit(self.connection, facts, &policy) {
            verdict = Verdict::denied(Reason::PolicyChanged);
        }
        let mut draft = self.draft(&request, host.clone(), &verdict);
        if let Verdict::Denied { reason, .. } = verdict {
            self.sandbox.record(Draft {
                status: Some(403),
                ..draft
            });
            return Ok(refusal(StatusCode::FORBIDDEN, host.as_deref(), reason.word()));
        }
        self.note(host.as_deref(), &verdict, &draft);
        check::to_origin_form(&mut request);
        let upgrading = request.headers().contains_key(hyper::header::UPGRADE);
        let client_upgrade = hyper::upgrade::on(&mut request);
        match self.upstream.lock().await.send(request).await {
            Ok(mut response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                if !upgrading {
                    return Ok(refusal(
                        StatusCode::BAD_GATEWAY,
                        host.as_deref(),
                        Reason::UpgradeRefused.word(),
                    ));
                }
                *lock(&self.tunnel) = Some((client_upgrade, hyper::upgrade::on(&mut response)));
                Ok(response.map(Either::Left))
            }
            Ok(response) => Ok(response.map(Either::Left)),
            Err(Lost::WhileReused) => Err(std::io::ErrorKind::ConnectionReset.into()),
            Err(Lost::AtFirst) => {
                (draft.verdict, draft.reason) = ("error", Some(Reason::ConnectFailed.word()));
                draft.status = Some(502);
                draft.duration_ms = start.elapsed().as_millis() as u64;
                self.sandbox.record(draft);
                Ok(refusal(
                    StatusCode::BAD_GATEWAY,
                    host.as_deref(),
                    Reason::ConnectFailed.word(),
                ))
            }
        }
    }

    /// The connection's event is that of its first host. Further hosts have events of their own.
    fn note(&self, host: Option<&str>, verdict: &Verdict, draft: &Draft) {
        let mut last = lock(&self.last_host);
        let mut record = lock(&self.record);
        let host = host.unwrap_or_default();
        if !record.is_decided() {
            record.begin(Kind::Http, draft.host.clone());
            record.judge(verdict);
        } else if *last != host {
            self.sandbox.record(draft.clone());
        }
        host.clone_into(&mut last);
    }

    fn draft(&self, request: &Request<Incoming>, host: Option<String>, verdict: &Verdict) -> Draft {
        let mut draft = Draft::new(Kind::Http, self.called.port(), verdict);
        draft.host = host;
        draft.address = Some(self.called.ip().to_string());
        draft.method = Some(request.method().as_str().chars().take(32).collect());
        draft.path = Some(request.uri().path().chars().take(LONGEST_PATH).collect());
        draft
    }
}

fn refusal(status: StatusCode, host: Option<&str>, reason: &str) -> Response<Body> {
    let host = host.unwrap_or("this request");
    let text = format!("sandkasten: the network policy or the gateway refused {host}: {reason}\n");
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    response
}

async fn carry_upgraded(client: OnUpgrade, upstream: OnUpgrade, meter: &Meter) -> std::io::Result<()> {
    let both = async { tokio::try_join!(client, upstream) };
    let upgraded = tokio::time::timeout(Duration::from_secs(10), both).await?;
    let (client, upstream) = upgraded.map_err(std::io::Error::other)?;
    let (mut client, sent) = into_stream(client)?;
    let (mut upstream, received) = into_stream(upstream)?;
    meter.sent(sent.len());
    upstream.write_all(&sent).await?;
    client.write_all(&received).await?;
    splice::both(&client, &upstream, meter).await?;
    socket::close_gently(&client);
    socket::close_gently(&upstream);
    Ok(())
}

fn into_stream(upgraded: Upgraded) -> std::io::Result<(TcpStream, Vec<u8>)> {
    let parts = upgraded
        .downcast::<TokioIo<Io>>()
        .map_err(|_| std::io::Error::other("not our stream"))?;
    let (stream, unread) = parts.io.into_inner().into_parts();
    Ok((stream, [parts.read_buf.as_ref(), unread.as_slice()].concat()))
}
