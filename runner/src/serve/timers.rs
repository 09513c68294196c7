//! What is to happen later. A heap of deadlines; an entry whose subject is gone when it fires does nothing, so nothing is ever
//! taken out early. Deadlines are monotonic: the wall clock may jump.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// A connection that has not said hello.
    Hello(u32),
    /// A connection could not be accepted for want of descriptors.
    Accept,
    /// A connection that has been told goodbye.
    Linger(u32),
    /// A task that nobody has read yet.
    FirstReader(u32),
    /// A task over its time: the step of the escalation comes next.
    Kill { task: u32, step: u32 },
    /// What carries this mark could not all be killed at once.
    Hunt { mark: u32, left: u32 },
    /// Told to stop twice: whoever is left is killed.
    EndAll,
    /// A shell that was told to close.
    ShellKill { shell: u32, pid: i32 },
    /// A login shell that may still be busy with its profile.
    ShellLogin { shell: u32, pid: i32 },
    /// Someone watches listening ports.
    Ports,
}

#[derive(Default)]
pub struct Timers(BinaryHeap<Reverse<(Instant, Alarm)>>);

impl Timers {
    pub fn after(&mut self, delay: Duration, alarm: Alarm) {
        // A delay beyond what the clock can count is no deadline at all.
        if let Some(at) = Instant::now().checked_add(delay) {
            self.0.push(Reverse((at, alarm)));
        }
    }

    /// Milliseconds until the next one, rounded up so that it is due on waking; -1 for never.
    pub fn wait_ms(&self) -> i32 {
        match self.0.peek() {
            None => -1,
            Some(Reverse((at, _))) => {
                let left = at.saturating_duration_since(Instant::now());
                left.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32
            }
        }
    }

    pub fn due(&mut self) -> Option<Alarm> {
        let Reverse((at, _)) = self.0.peek()?;
        if *at > Instant::now() {
            return None;
        }
        self.0.pop().map(|Reverse((_, alarm))| alarm)
    }
}
