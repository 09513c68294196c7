//! One request: checked, given its headers, sent on, and its response scrubbed.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, UPGRADE};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderName, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body, Incoming};
use tokio::sync::oneshot;

use super::broker::{Broker, Plan, State};
use super::counted::Counters;
use super::headers::{self, Upgrade};
use super::replies::Refusal;
use super::request_body::RequestBody;
use super::response_body::ResponseBody;
use super::tasks::Tasks;
use super::upstream::{Sent, Upstream};
use super::{RequestEvent, Verdict, host, websocket};

const MAX_PATH: usize = 1024;

/// What the requests of one connection share.
pub(super) struct Pass<F> {
    pub host: String,
    pub port: u16,
    pub broker: Arc<Broker>,
    pub upstream: Upstream,
    pub counters: Arc<Counters>,
    pub tasks: Tasks,
    pub on_request: F,
    /// Requests that got a response of the upstream.
    pub answered: AtomicU64,
    /// The upstream's kept connection ended. The sandbox's is to end in the same way, without an answer.
    pub lost: AtomicBool,
    /// An upgrade ends the HTTP connection to the upstream, which then does not mean that it was lost.
    pub upgrading: AtomicBool,
    /// Completes when the WebSocket ends.
    pub tunnel: std::sync::Mutex<Option<oneshot::Receiver<()>>>,
}

/// The connection or stream of the sandbox is to be reset, as the upstream did.
pub(super) type Reset = Box<dyn Error + Send + Sync>;

enum Outcome {
    Response(Response<ResponseBody>),
    Refusal(Refusal),
    Reset(Reset),
}

/// What was decided before anything is sent.
struct Prepared {
    request: Request<RequestBody>,
    client_upgrade: Option<hyper::upgrade::OnUpgrade>,
}

impl<F: Fn(RequestEvent) + Send + Sync + 'static> Pass<F> {
    pub async fn serve(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<ResponseBody>, Reset> {
        let began = Instant::now();
        self.counters.requests.fetch_add(1, Relaxed);
        let method = request.method().clone();
        let path = request.uri().path().chars().take(MAX_PATH).collect();
        let state = self.broker.state();
        let outcome = match self.prepare(request, &state) {
            Ok(prepared) => self.send(prepared, &state).await,
            Err(refusal) => Outcome::Refusal(refusal),
        };
        let (status, verdict, reason) = match &outcome {
            Outcome::Response(response) => (response.status().as_u16(), Verdict::Allowed, None),
            Outcome::Refusal(refusal) => (refusal.status.as_u16(), refusal.verdict, Some(refusal.reason)),
            Outcome::Reset(_) => (0, Verdict::Error, Some("upstream_failed")),
        };
        (self.on_request)(RequestEvent {
            method: method.to_string(),
            path,
            status,
            verdict,
            reason,
            duration: began.elapsed(),
        });
        match outcome {
            Outcome::Response(response) => Ok(response),
            Outcome::Refusal(refusal) => Ok(refusal.response()),
            Outcome::Reset(error) => {
                self.lost.store(true, Relaxed);
                Err(error)
            }
        }
    }

    fn prepare(&self, mut request: Request<Incoming>, state: &State) -> Result<Prepared, Refusal> {
        let hosts: Vec<_> = request.headers().get_all(HOST).iter().collect();
        if !host::names_only(&self.host, self.port, request.uri().authority(), &hosts) {
            let text = format!(
                "this connection is for {}, and the request names another host",
                self.host
            );
            return Err(Refusal::denied(
                StatusCode::MISDIRECTED_REQUEST,
                "host_mismatch",
                text,
            ));
        }
        if request.method() == Method::CONNECT {
            let text = "CONNECT is not allowed";
            return Err(Refusal::denied(
                StatusCode::METHOD_NOT_ALLOWED,
                "connect_refused_by_policy",
                text,
            ));
        }
        let client_upgrade = match headers::upgrade(request.headers()) {
            Upgrade::None => None,
            Upgrade::WebSocket if request.method() == Method::GET && self.upstream.is_http1() => {
                Some(hyper::upgrade::on(&mut request))
            }
            _ => {
                let text = "only WebSocket upgrades are allowed";
                return Err(Refusal::denied(StatusCode::FORBIDDEN, "upgrade_refused", text));
            }
        };
        let planned = state.plan(
            &self.host,
            request.method(),
            request.uri().path(),
            request.headers(),
        );
        let set = match planned {
            Plan::Set(set) => set,
            Plan::SecretMissing(name) => {
                return Err(Refusal::bad_gateway(
                    "secret_missing",
                    format!("the secret {name:?} is not set"),
                ));
            }
            Plan::AmbiguousPath => {
                let text = "the path has dot segments; send it in its normal form";
                return Err(Refusal::denied(StatusCode::BAD_REQUEST, "path_refused", text));
            }
            Plan::Override => {
                let text = "a header asks for another method or path; send them in the request line";
                return Err(Refusal::denied(StatusCode::BAD_REQUEST, "override_refused", text));
            }
        };
        if let Upstream::Refused(refused) = &self.upstream {
            return Err(refused.refusal(&self.host));
        }
        let request = self.rewrite(request, set, state, client_upgrade.is_some())?;
        Ok(Prepared {
            request,
            client_upgrade,
        })
    }

    /// The request as the upstream gets it.
    fn rewrite(
        &self,
        request: Request<Incoming>,
        set: Vec<(HeaderName, HeaderValue)>,
        state: &State,
        upgrade: bool,
    ) -> Result<Request<RequestBody>, Refusal> {
        let unusable = |what: &str| {
            Refusal::denied(
                StatusCode::BAD_REQUEST,
                "not_http",
                format!("the request cannot be sent on: {what}"),
            )
        };
        let (old, body) = request.into_parts();
        if old.headers.contains_key(CONTENT_LENGTH) && body.size_hint().exact().is_none() {
            return Err(unusable("it has two lengths"));
        }
        let mut request = Request::new(RequestBody::new(
            body,
            set.iter().map(|(name, _)| name.clone()).collect(),
        ));
        *request.method_mut() = old.method;
        *request.headers_mut() = old.headers;
        headers::prepare_request(request.headers_mut(), state.scrubber.is_some());
        request.headers_mut().remove(HOST);
        let path = old
            .uri
            .path_and_query()
            .cloned()
            .unwrap_or(PathAndQuery::from_static("/"));
        if self.upstream.is_http1() {
            let host = HeaderValue::from_str(&self.authority()).map_err(|_| unusable("its target"))?;
            request.headers_mut().insert(HOST, host);
            *request.uri_mut() = Uri::from(path);
            *request.version_mut() = Version::HTTP_11;
        } else {
            let mut parts = http::uri::Parts::default();
            parts.scheme = Some(Scheme::HTTPS);
            parts.authority = Some(self.authority().parse().map_err(|_| unusable("its target"))?);
            parts.path_and_query = Some(path);
            *request.uri_mut() = Uri::from_parts(parts).map_err(|_| unusable("its target"))?;
            *request.version_mut() = Version::HTTP_2;
        }
        if upgrade {
            mark_upgrade(request.headers_mut());
        }
        headers::replace(request.headers_mut(), set);
        Ok(request)
    }

    /// The host as requests name it.
    fn authority(&self) -> String {
        match self.port {
            443 => self.host.clone(),
            port => format!("{}:{port}", self.host),
        }
    }

    async fn send(&self, prepared: Prepared, state: &State) -> Outcome {
        self.upgrading.store(prepared.client_upgrade.is_some(), Relaxed);
        let first = self.answered.load(Relaxed) == 0;
        let response = match self.upstream.send(prepared.request).await {
            Sent::Response(response) => response,
            // A client repeats a request that a kept connection lost, as it would without the gateway.
            Sent::Lost(_) if first && self.upstream.is_http1() => {
                let text = format!("{} closed the connection without a response", self.host);
                return Outcome::Refusal(Refusal::bad_gateway("upstream_failed", text));
            }
            Sent::Lost(error) => return Outcome::Reset(error),
            Sent::Invalid => {
                let text = format!("{} did not answer with valid HTTP", self.host);
                return Outcome::Refusal(Refusal::bad_gateway("upstream_failed", text));
            }
        };
        self.answered.fetch_add(1, Relaxed);
        self.respond(response, prepared.client_upgrade, state)
    }

    fn respond(
        &self,
        mut response: Response<Incoming>,
        client_upgrade: Option<hyper::upgrade::OnUpgrade>,
        state: &State,
    ) -> Outcome {
        let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        self.upgrading.store(switched, Relaxed);
        let scrubber = state.scrubber.as_ref();
        let mut head = Response::new(());
        *head.status_mut() = response.status();
        if switched {
            let (Some(client), Upgrade::WebSocket) = (client_upgrade, headers::upgrade(response.headers()))
            else {
                let text = format!("{} switched to another protocol than WebSocket", self.host);
                return Outcome::Refusal(Refusal::bad_gateway("upgrade_refused", text));
            };
            self.start_tunnel(client, hyper::upgrade::on(&mut response), state);
        }
        let (old, body) = response.into_parts();
        if scrubber.is_some() && !body.is_end_stream() && !headers::is_plain(&old.headers) {
            let text = format!(
                "{} sent a compressed body, in which secrets cannot be found",
                self.host
            );
            return Outcome::Refusal(Refusal::bad_gateway("encoding_refused", text));
        }
        let close = self.upstream.is_http1() && !switched && headers::closes(old.version, &old.headers);
        *head.headers_mut() = old.headers;
        if !body.is_end_stream() && body.size_hint().exact().is_none() {
            // Chunks decided the length, whatever else the server said.
            head.headers_mut().remove(CONTENT_LENGTH);
        }
        headers::prepare_response(head.headers_mut());
        if let Some(scrubber) = scrubber {
            scrubber.headers(head.headers_mut());
        }
        if switched {
            mark_upgrade(head.headers_mut());
        } else if close {
            head.headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Outcome::Response(head.map(|()| ResponseBody::upstream(body, scrubber)))
    }

    fn start_tunnel(
        &self,
        client: hyper::upgrade::OnUpgrade,
        upstream: hyper::upgrade::OnUpgrade,
        state: &State,
    ) {
        let (ended, wait) = oneshot::channel();
        let scrubber = state.scrubber.clone();
        self.tasks.spawn(async move {
            websocket::tunnel(client, upstream, scrubber).await;
            let _ = ended.send(());
        });
        *self
            .tunnel
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(wait);
    }
}

fn mark_upgrade(headers: &mut http::HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}
