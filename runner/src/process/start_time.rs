//! Before or after: whether a process was there when a command of a shell began.

use crate::sys::procfs::{read, start_tick};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// What the kernel counts a process's start in, per second; a constant of its interface.
const TICKS: u64 = 100;
/// More processes than this are never started in one tick.
const PIDS_IN_A_TICK: u32 = 4096;

/// When a command began: the clock, as coarse as the kernel tells a process's start, and the process that was started last.
#[derive(Clone, Copy, Debug)]
pub struct StartTime {
    tick: u64,
    last_pid: u32,
}

impl StartTime {
    pub fn now() -> StartTime {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid for the call to write to.
        unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
        StartTime {
            tick: time.tv_sec as u64 * TICKS + time.tv_nsec as u64 * TICKS / 1_000_000_000,
            last_pid: last_pid().unwrap_or(0),
        }
    }

    /// Some time earlier.
    pub fn minus(self, time: std::time::Duration) -> StartTime {
        let ticks = time.as_millis() as u64 * TICKS / 1000;
        StartTime {
            tick: self.tick.saturating_sub(ticks),
            // Within that tick everybody counts as younger.
            last_pid: 0,
        }
    }

    pub fn later(self, other: StartTime) -> StartTime {
        if other.tick > self.tick { other } else { self }
    }

    /// Was the process started after it? One that is gone by now counts as old.
    pub fn is_before(self, pid: u32) -> bool {
        read(pid, "stat")
            .and_then(|stat| start_tick(&stat))
            .is_some_and(|tick| self.compare(tick, pid))
    }

    fn compare(self, tick: u64, pid: u32) -> bool {
        // Within one tick numbers tell, unless they have begun anew: then the younger has the far smaller one.
        let older_number = pid <= self.last_pid && self.last_pid - pid < PIDS_IN_A_TICK;
        tick > self.tick || (tick == self.tick && !older_number)
    }
}

/// The process that was started last in our pid namespace. Asked before every command of a shell, so the file stays open.
fn last_pid() -> Option<u32> {
    static LOADAVG: OnceLock<Option<File>> = OnceLock::new();
    let file = LOADAVG.get_or_init(|| File::open("/proc/loadavg").ok());
    let mut text = [0; 128];
    let count = file.as_ref()?.read_at(&mut text, 0).ok()?;
    let words = std::str::from_utf8(&text[..count]).ok()?;
    words.split_ascii_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_start_lies_before_now_and_not_after_it() {
        let now = StartTime::now();
        let us = std::process::id();
        assert!(!now.is_before(us));
        assert!(StartTime { tick: 0, last_pid: 0 }.is_before(us));
        assert!(now.last_pid > 0);
    }

    #[test]
    fn an_earlier_moment_lies_before_what_came_in_between() {
        let begun = StartTime {
            tick: 50,
            last_pid: 30_000,
        };
        let earlier = begun.minus(std::time::Duration::from_millis(50));
        assert!(earlier.compare(45, 29_000) && earlier.compare(50, 7) && !earlier.compare(44, 31_000));
    }

    #[test]
    fn within_a_tick_the_number_tells_who_came_first() {
        let begun = StartTime {
            tick: 50,
            last_pid: 30_000,
        };
        assert!(!begun.compare(49, 30_001) && begun.compare(51, 3));
        assert!(!begun.compare(50, 30_000) && !begun.compare(50, 29_000) && begun.compare(50, 30_001));
        // Numbers began anew in between.
        assert!(begun.compare(50, 310));
    }
}
