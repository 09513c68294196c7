//! A heap of deadlines. Timers are never cancelled: a timer whose object is gone does nothing. Deadlines use
//! the monotonic clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// The client has not sent HELLO.
    Hello(u32),
    /// Retry an accept that failed for lack of descriptors.
    Accept,
    /// A connection did not close after GOODBYE.
    Linger(u32),
    /// A task has no reader yet.
    FirstReader(u32),
    /// The next step of ending a task.
    Kill { task: u32, step: u32 },
    /// Retry killing the processes with this mark.
    KillMarked { mark: u32, retries: u32 },
    /// Retry killing all processes after the second stop signal.
    EndAll,
    /// A shell did not exit after it was closed.
    ShellKill { shell: u32, pid: i32 },
    /// A login shell has not finished its profile.
    ShellLogin { shell: u32, pid: i32 },
    /// Check for new listening ports.
    Ports,
}

#[derive(Default)]
pub struct Timers(BinaryHeap<Reverse<(Instant, Alarm)>>);

impl Timers {
    pub fn after(&mut self, delay: Duration, alarm: Alarm) {
        // A deadline beyond the range of the clock never fires.
        if let Some(at) = Instant::now().checked_add(delay) {
            self.0.push(Reverse((at, alarm)));
        }
    }

    /// Milliseconds until the next deadline, rounded up; -1 without a deadline.
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
