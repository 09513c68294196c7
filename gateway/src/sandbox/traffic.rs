//! Bytes of a sandbox: counters, the limit of their sum, and the limit of their rate.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::lock;
use crate::policy::Limits;

/// The most that one connection moves before others have their turn.
const CHUNK: usize = 256 * 1024;
const UNLIMITED: u64 = u64::MAX;

pub struct Traffic {
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    refused: AtomicU64,
    most_bytes: AtomicU64,
    rate: AtomicU64,
    debt: Mutex<Debt>,
}

/// Bytes that were moved before their time, and when this was so.
struct Debt {
    bytes: f64,
    at: Instant,
}

impl Traffic {
    pub fn new(limits: &Limits) -> Self {
        let traffic = Self {
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            most_bytes: AtomicU64::new(UNLIMITED),
            rate: AtomicU64::new(UNLIMITED),
            debt: Mutex::new(Debt {
                bytes: 0.0,
                at: Instant::now(),
            }),
        };
        traffic.set_limits(limits);
        traffic
    }

    pub fn set_limits(&self, limits: &Limits) {
        self.most_bytes.store(limits.bytes.unwrap_or(UNLIMITED), Relaxed);
        self.rate
            .store(limits.bytes_per_second.unwrap_or(UNLIMITED).max(1), Relaxed);
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// The sandbox has used up its bytes.
    pub fn is_exhausted(&self) -> bool {
        self.bytes_in.load(Relaxed) + self.bytes_out.load(Relaxed) >= self.most_bytes.load(Relaxed)
    }

    /// How many bytes may move at once.
    pub fn chunk(&self) -> usize {
        let left = self
            .most_bytes
            .load(Relaxed)
            .saturating_sub(self.bytes_in.load(Relaxed) + self.bytes_out.load(Relaxed));
        let paced = (self.rate.load(Relaxed) / 8).max(1024);
        left.min(paced).clamp(1, CHUNK as u64) as usize
    }

    pub fn charge(&self, bytes: usize) {
        if self.rate.load(Relaxed) != UNLIMITED {
            lock(&self.debt).bytes += bytes as f64;
        }
    }

    /// How long to wait before the next bytes may move.
    pub fn pause(&self) -> Option<Duration> {
        let rate = self.rate.load(Relaxed);
        if rate == UNLIMITED {
            return None;
        }
        let mut debt = lock(&self.debt);
        let now = Instant::now();
        debt.bytes = (debt.bytes - now.duration_since(debt.at).as_secs_f64() * rate as f64).max(0.0);
        debt.at = now;
        // A twentieth of a second may be ahead of its time, so that few large waits replace many short ones.
        let ahead = debt.bytes / rate as f64 - 0.05;
        (ahead > 0.0).then(|| Duration::from_secs_f64(ahead.clamp(0.001, 1.0)))
    }
}
