//! Brokered secrets: opens the TLS connections of hosts that have a transform, and sets headers there. See README.md.

mod authority;
mod broker;
mod connection;
mod counted;
mod event;
mod frames;
mod headers;
mod host;
mod pass;
mod path;
mod replies;
mod request_body;
mod response_body;
mod roots;
mod rules;
mod scrub;
mod secrets;
mod tasks;
mod tls;
mod upstream;
mod websocket;

pub use authority::{CaMaterial, make_ca};
pub use broker::Broker;
pub use connection::serve;
pub use event::{Failure, RequestEvent, Totals, Verdict};
pub use roots::Roots;
pub use rules::{HeaderSource, Match, SecretHeader, Transform};

/// What is wrong with a policy's transforms, secrets or certificates. The text never has a secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid(pub String);

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}
