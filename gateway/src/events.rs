//! What was decided: the last events of each sandbox, and a live stream of all of them.

use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast;

use crate::lock;
use crate::policy::{Reason, Verdict};

const KEPT_EVENTS: usize = 1000;
/// Events of removed sandboxes stay readable for a while.
const KEPT_REMOVED: usize = 64;
const REMOVED_FOR: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Tcp,
    Tls,
    Http,
    Dns,
    Udp,
    Icmp,
    Other,
}

/// An event without its number, time and sandbox.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Draft {
    pub kind: Kind,
    pub host: Option<String>,
    pub address: Option<String>,
    pub port: u16,
    pub verdict: &'static str,
    pub rule: Option<String>,
    pub reason: Option<&'static str>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub duration_ms: u64,
    pub method: Option<String>,
    pub path: Option<String>,
    pub status: Option<u16>,
}

impl Draft {
    pub fn new(kind: Kind, port: u16, verdict: &Verdict) -> Self {
        let mut draft = Self {
            kind,
            host: None,
            address: None,
            port,
            verdict: "allowed",
            rule: None,
            reason: None,
            bytes_in: 0,
            bytes_out: 0,
            duration_ms: 0,
            method: None,
            path: None,
            status: None,
        };
        draft.judge(verdict);
        draft
    }

    pub fn judge(&mut self, verdict: &Verdict) {
        let (word, reason, rule) = match verdict {
            Verdict::Allowed(rule) => ("allowed", None, Some(rule.clone())),
            Verdict::Audit(reason) => ("audit", Some(*reason), None),
            Verdict::Denied { reason, rule } => ("denied", Some(*reason), rule.clone()),
        };
        self.verdict = word;
        self.reason = reason.map(Reason::word);
        self.rule = rule;
    }
}

#[derive(Debug, Serialize)]
pub struct Event {
    pub seq: u64,
    pub sandbox: Arc<str>,
    pub at: u64,
    #[serde(flatten)]
    pub draft: Draft,
}

pub struct Events {
    log: Mutex<Log>,
    live: broadcast::Sender<Arc<Event>>,
}

struct Log {
    last: u64,
    rings: HashMap<Arc<str>, Ring>,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Arc<Event>>,
    dropped: u64,
    removed: Option<Instant>,
}

impl Events {
    /// Numbers start at the time, so they grow over restarts of the gateway, too.
    pub fn new() -> Self {
        let log = Log {
            last: now_ms() * 1000,
            rings: HashMap::new(),
        };
        Self {
            log: Mutex::new(log),
            live: broadcast::channel(4096).0,
        }
    }

    pub fn add_sandbox(&self, sandbox: &Arc<str>) {
        lock(&self.log).rings.entry(sandbox.clone()).or_default().removed = None;
    }

    pub fn remove_sandbox(&self, sandbox: &str) {
        let mut log = lock(&self.log);
        let now = Instant::now();
        if let Some(ring) = log.rings.get_mut(sandbox) {
            ring.removed = Some(now);
        }
        log.rings
            .retain(|_, ring| ring.removed.is_none_or(|at| now.duration_since(at) < REMOVED_FOR));
        let mut removed: Vec<_> = log
            .rings
            .iter()
            .filter_map(|(name, ring)| Some((ring.removed?, name.clone())))
            .collect();
        removed.sort();
        let surplus = removed.len().saturating_sub(KEPT_REMOVED);
        for (_, name) in removed.into_iter().take(surplus) {
            log.rings.remove(&name);
        }
    }

    pub fn record(&self, sandbox: &Arc<str>, draft: Draft) {
        let mut log = lock(&self.log);
        log.last += 1;
        let event = Arc::new(Event {
            seq: log.last,
            sandbox: sandbox.clone(),
            at: now_ms(),
            draft,
        });
        if let Some(ring) = log.rings.get_mut(sandbox) {
            if ring.events.len() == KEPT_EVENTS {
                ring.events.pop_front();
                ring.dropped += 1;
            }
            ring.events.push_back(event.clone());
        }
        let _ = self.live.send(event);
    }

    /// The kept events after `after`, the number to pass next time, and the stream that goes on from there.
    pub fn read(
        &self,
        sandbox: Option<&str>,
        after: u64,
    ) -> (Vec<Arc<Event>>, u64, broadcast::Receiver<Arc<Event>>) {
        let log = lock(&self.log);
        let wanted = log
            .rings
            .iter()
            .filter(|(name, _)| sandbox.is_none_or(|sandbox| sandbox == name.as_ref()));
        let mut events: Vec<_> = wanted
            .flat_map(|(_, ring)| ring.events.iter().filter(|event| event.seq > after).cloned())
            .collect();
        events.sort_by_key(|event| event.seq);
        (events, log.last, self.live.subscribe())
    }

    /// How many events of a sandbox are no longer kept.
    pub fn dropped(&self, sandbox: &str) -> u64 {
        lock(&self.log).rings.get(sandbox).map_or(0, |ring| ring.dropped)
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
