//! Tells whether a process started before or after a shell command began.

use crate::sys::procfs::{read, start_tick};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Unit of process start times in `/proc`, per second. Fixed by the kernel's interface.
const TICKS: u64 = 100;
/// An upper bound of process starts per tick.
const PIDS_IN_A_TICK: u32 = 4096;

/// A point in time: the clock in ticks, and the newest pid at that time.
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

    pub fn minus(self, time: std::time::Duration) -> StartTime {
        let ticks = time.as_millis() as u64 * TICKS / 1000;
        StartTime {
            tick: self.tick.saturating_sub(ticks),
            // All processes of that tick count as newer.
            last_pid: 0,
        }
    }

    pub fn later(self, other: StartTime) -> StartTime {
        if other.tick > self.tick { other } else { self }
    }

    /// Whether the process started later. False if it is gone.
    pub fn is_before(self, pid: u32) -> bool {
        read(pid, "stat")
            .and_then(|stat| start_tick(&stat))
            .is_some_and(|tick| self.compare(tick, pid))
    }

    fn compare(self, tick: u64, pid: u32) -> bool {
        // Within one tick, pids decide. A much smaller pid is newer, because pids wrapped around.
        let older_number = pid <= self.last_pid && self.last_pid - pid < PIDS_IN_A_TICK;
        tick > self.tick || (tick == self.tick && !older_number)
    }
}

/// The newest pid of this pid namespace. Called before every shell command, so the file stays open.
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
    fn this_process_started_before_now() {
        let now = StartTime::now();
        let us = std::process::id();
        assert!(!now.is_before(us));
        assert!(StartTime { tick: 0, last_pid: 0 }.is_before(us));
        assert!(now.last_pid > 0);
    }

    #[test]
    fn an_earlier_time_precedes_later_processes() {
        let begun = StartTime {
            tick: 50,
            last_pid: 30_000,
        };
        let earlier = begun.minus(std::time::Duration::from_millis(50));
        assert!(earlier.compare(45, 29_000) && earlier.compare(50, 7) && !earlier.compare(44, 31_000));
    }

    #[test]
    fn within_a_tick_the_pid_decides() {
        let begun = StartTime {
            tick: 50,
            last_pid: 30_000,
        };
        assert!(!begun.compare(49, 30_001) && begun.compare(51, 3));
        assert!(!begun.compare(50, 30_000) && !begun.compare(50, 29_000) && begun.compare(50, 30_001));
        // Pids wrapped around.
        assert!(begun.compare(50, 310));
    }
}
