//! What `serve` reports to its caller.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Denied,
    Error,
}

/// One request, when its answer begins.
#[derive(Debug, Clone)]
pub struct RequestEvent {
    pub method: String,
    /// Without the query, and at most 1,024 characters.
    pub path: String,
    pub status: u16,
    pub verdict: Verdict,
    /// One of the reasons in `protocol/egress.md`.
    pub reason: Option<&'static str>,
    /// Until the answer began.
    pub duration: Duration,
}

/// Bytes of the sandbox's side of a connection, with TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub requests: u64,
    /// To the sandbox.
    pub bytes_in: u64,
    /// From the sandbox.
    pub bytes_out: u64,
}

/// The connection ended with an error of the sandbox's side.
#[derive(Debug, Clone)]
pub struct Failure {
    pub totals: Totals,
    pub reason: &'static str,
    pub message: String,
}
