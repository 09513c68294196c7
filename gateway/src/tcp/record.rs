//! The event of one connection, as it comes to be.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::events::{Draft, Kind};
use crate::policy::{Reason, Verdict};

#[derive(Default)]
pub struct Counts {
    /// To the sandbox.
    pub bytes_in: AtomicU64,
    /// From the sandbox.
    pub bytes_out: AtomicU64,
}

pub struct Record {
    pub counts: Arc<Counts>,
    draft: Draft,
    start: Instant,
    decided: bool,
}

impl Record {
    pub fn new(called: SocketAddr) -> Self {
        let mut draft = Draft::new(Kind::Tcp, called.port(), &Verdict::denied(Reason::NoRule));
        draft.address = Some(called.ip().to_string());
        Self {
            counts: Arc::default(),
            draft,
            start: Instant::now(),
            decided: false,
        }
    }

    pub fn begin(&mut self, kind: Kind, host: Option<String>) {
        self.draft.kind = kind;
        self.draft.host = host;
    }

    pub fn judge(&mut self, verdict: &Verdict) {
        self.decided = true;
        self.draft.judge(verdict);
    }

    /// The connection had to end. It keeps the verdict that let it begin.
    pub fn cut(&mut self, reason: Reason) {
        self.draft.reason = Some(reason.word());
    }

    pub fn fail(&mut self, reason: &'static str) {
        (self.draft.verdict, self.draft.reason) = ("error", Some(reason));
    }

    /// The event of one request on this connection.
    pub fn request(&self) -> Draft {
        Draft {
            kind: Kind::Http,
            ..self.draft.clone()
        }
    }

    /// Nothing is to be recorded, or it is recorded elsewhere.
    pub fn forget(&mut self) {
        self.decided = false;
    }

    pub fn is_decided(&self) -> bool {
        self.decided
    }

    pub fn finish(mut self) -> Option<Draft> {
        self.draft.bytes_in = self.counts.bytes_in.load(Relaxed);
        self.draft.bytes_out = self.counts.bytes_out.load(Relaxed);
        self.draft.duration_ms = self.start.elapsed().as_millis() as u64;
        self.decided.then_some(self.draft)
    }
}
