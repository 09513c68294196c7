//! The connection to the upstream server.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

use super::pass::Reset;
use super::replies::Refusal;
use super::request_body::RequestBody;
use super::tasks::Tasks;
use super::tls::{Protocol, Refused};

const MAX_HEADERS: usize = 256;
const MAX_HEADER_BYTES: u32 = 256 * 1024;
pub(super) const STREAM_WINDOW: u32 = 1024 * 1024;
pub(super) const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
const PING: Duration = Duration::from_secs(30);

pub(super) enum Upstream {
    Http1(Mutex<http1::SendRequest<RequestBody>>),
    Http2(http2::SendRequest<RequestBody>),
    /// Not connected. Each request is answered with the cause.
    Refused(Refused),
}

pub(super) enum Sent {
    Response(Response<Incoming>),
    /// The connection or stream ended without a response.
    Lost(Reset),
    /// The server sent something that is not HTTP.
    Invalid,
}

impl Upstream {
    /// `lost` runs when the connection ends.
    pub async fn open<S>(
        stream: S,
        protocol: Protocol,
        tasks: &Tasks,
        lost: impl FnOnce() + Send + 'static,
    ) -> Upstream
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let opened = match protocol {
            Protocol::Http1 => Self::http1(stream, tasks, lost).await,
            Protocol::Http2 => Self::http2(stream, tasks, lost).await,
        };
        opened.unwrap_or(Upstream::Refused(Refused::Words("closed the connection")))
    }

    async fn http1<S>(
        stream: S,
        tasks: &Tasks,
        lost: impl FnOnce() + Send + 'static,
    ) -> hyper::Result<Upstream>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.title_case_headers(true).max_headers(MAX_HEADERS);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tasks.spawn(async move {
            let _ = connection.with_upgrades().await;
            lost();
        });
        Ok(Upstream::Http1(Mutex::new(sender)))
    }

    async fn http2<S>(
        stream: S,
        tasks: &Tasks,
        lost: impl FnOnce() + Send + 'static,
    ) -> hyper::Result<Upstream>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http2::Builder::new(tasks.clone());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADER_BYTES)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tasks.spawn(async move {
            let _ = connection.await;
            lost();
        });
        Ok(Upstream::Http2(sender))
    }

    pub fn is_http1(&self) -> bool {
        !matches!(self, Upstream::Http2(_))
    }

    pub async fn send(&self, request: Request<RequestBody>) -> Sent {
        let sent = match self {
            Upstream::Refused(_) => return Sent::Lost("there is no connection".into()),
            Upstream::Http2(sender) => sender.clone().send_request(request).await,
            Upstream::Http1(sender) => {
                let mut sender = sender.lock().await;
                match sender.ready().await {
                    Ok(()) => sender.send_request(request).await,
                    Err(error) => Err(error),
                }
            }
        };
        match sent {
            Ok(response) => Sent::Response(response),
            Err(error) if error.is_parse() => Sent::Invalid,
            Err(error) => Sent::Lost(error.into()),
        }
    }
}

impl Refused {
    pub fn refusal(self, host: &str) -> Refusal {
        match self {
            Refused::Timeout => Refusal {
                status: StatusCode::GATEWAY_TIMEOUT,
                ..Refusal::bad_gateway(
                    "upstream_tls",
                    format!("{host} did not complete the TLS handshake in time"),
                )
            },
            Refused::Words(words) => Refusal::bad_gateway("upstream_tls", format!("{host} {words}")),
        }
    }
}
