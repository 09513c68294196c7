//! One connection of a sandbox to a host that has a transform.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::broker::Broker;
use super::counted::{Counted, Counters};
use super::pass::Pass;
use super::tasks::Tasks;
use super::tls::{self, Protocol};
use super::upstream::{CONNECTION_WINDOW, STREAM_WINDOW, Upstream};
use super::{Failure, RequestEvent, Totals, host};

/// Also ends connections that are idle for this long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
const CLOSE: Duration = Duration::from_secs(1);
const MAX_HEADERS: usize = 128;
const MAX_HEAD: usize = 64 * 1024;
const MAX_STREAMS: u32 = 128;

/// Serves a connection until it ends. `client` has sent nothing but its ClientHello, which is not read yet, and
/// `upstream` is connected to an address and port that were checked for the host of `target`. Dropping the future resets both.
pub async fn serve<C, U, F>(
    client: C,
    target: (String, u16),
    upstream: U,
    broker: Arc<Broker>,
    on_request: F,
) -> Result<Totals, Failure>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(RequestEvent) + Send + Sync + 'static,
{
    let counters = Arc::new(Counters::default());
    let client = Counted::new(client, Arc::clone(&counters));
    let served = run(
        client,
        (target.0.to_ascii_lowercase(), target.1),
        upstream,
        broker,
        on_request,
        Arc::clone(&counters),
    )
    .await;
    let totals = counters.totals();
    match served {
        Ok(()) => Ok(totals),
        Err((reason, message)) => Err(Failure {
            totals,
            reason,
            message,
        }),
    }
}

type Broken = (&'static str, String);

async fn run<C, U, F>(
    client: Counted<C>,
    (host, port): (String, u16),
    upstream: U,
    broker: Arc<Broker>,
    on_request: F,
    counters: Arc<Counters>,
) -> Result<(), Broken>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(RequestEvent) + Send + Sync + 'static,
{
    let client_tls = |error: std::io::Error| ("client_tls", error.to_string());
    let start = tls::hello(client).await.map_err(client_tls)?;
    let named = start
        .client_hello()
        .server_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(&host));
    if !named || !host::is_name(&host) {
        return Err((
            "sni_not_allowed",
            "the ClientHello names another host than the caller".into(),
        ));
    }
    let offered = tls::offered(&start);
    let leaf = broker.leaf(&host).map_err(|error| ("client_tls", error.0))?;

    let tasks = Tasks::default();
    let _guard = tasks.guard();
    let lost = Arc::new(Notify::new());
    // The upstream answers first, so that both sides speak the same version of HTTP.
    let (upstream, protocols) =
        match tls::connect(upstream, &host, &offered, broker.state().upstream.clone()).await {
            Err(refused) => (Upstream::Refused(refused), offered),
            Ok(stream) => {
                let protocol = tls::negotiated(stream.get_ref().1.alpn_protocol());
                let lost = Arc::clone(&lost);
                (
                    Upstream::open(stream, protocol, &tasks, move || lost.notify_one()).await,
                    vec![protocol],
                )
            }
        };
    let client = tls::accept(start, leaf, &protocols, broker.provider())
        .await
        .map_err(client_tls)?;
    let pass = Arc::new(Pass {
        host,
        port,
        broker,
        upstream,
        counters,
        tasks: tasks.clone(),
        on_request,
        answered: Default::default(),
        lost: Default::default(),
        upgrading: Default::default(),
        tunnel: Default::default(),
    });
    let served = match tls::negotiated(client.get_ref().1.alpn_protocol()) {
        Protocol::Http1 => serve_http1(client, &pass, &lost).await,
        Protocol::Http2 => serve_http2(client, &pass, &lost, tasks).await,
    };
    let tunnel = pass
        .tunnel
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .take();
    if let Some(ended) = tunnel {
        let _ = ended.await;
    }
    served.map_err(|error| {
        (
            if error.is_parse() {
                "not_http"
            } else {
                "connection_lost"
            },
            error.to_string(),
        )
    })
}

async fn serve_http1<C, F>(client: TlsStream<C>, pass: &Arc<Pass<F>>, lost: &Notify) -> hyper::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(RequestEvent) + Send + Sync + 'static,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .title_case_headers(true)
        .auto_date_header(false)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD)
        .max_buf_size(2 * MAX_HEAD);
    let service = service_fn(|request| Arc::clone(pass).serve(request));
    let mut connection = builder
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades();
    let served = loop {
        tokio::select! {
            served = &mut connection => break served,
            () = lost.notified() => {
                if !pass.upgrading.load(Relaxed) {
                    std::pin::Pin::new(&mut connection).graceful_shutdown();
                }
            }
        }
    };
    // Nothing of an answer was sent, so this is an orderly end. After other errors it would look like one.
    if pass.lost.load(Relaxed)
        && let Some(parts) = connection.into_parts()
    {
        let _ = timeout(CLOSE, parts.io.into_inner().shutdown()).await;
        return Ok(());
    }
    served
}

async fn serve_http2<C, F>(
    client: TlsStream<C>,
    pass: &Arc<Pass<F>>,
    lost: &Notify,
    tasks: Tasks,
) -> hyper::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(RequestEvent) + Send + Sync + 'static,
{
    let mut builder = http2::Builder::new(tasks);
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32);
    let shared = Arc::clone(pass);
    let service = service_fn(move |request| Arc::clone(&shared).serve(request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(client), service));
    loop {
        tokio::select! {
            served = connection.as_mut() => return served,
            () = lost.notified() => connection.as_mut().graceful_shutdown(),
        }
    }
}
