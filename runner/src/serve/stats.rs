//! `stats`: resource usage of the runner and its sandbox. A number that is not available is omitted.

use crate::serve::incoming::Outcome;
use crate::serve::server::Server;
use crate::wire::cbor::Fields;
use crate::wire::error::OpResult;

impl Server {
    pub fn op_stats(&mut self) -> OpResult<Outcome> {
        let running = self.tasks.map.values().filter(|task| task.exit.is_none()).count();
        let fields = Fields::new()
            .int("uptimeMs", self.started.elapsed().as_millis())
            .maybe_int("rssBytes", own_memory())
            .int("connections", self.conns.len() as u64 + 1)
            .int("tasks", self.tasks.count() as u64)
            .int("running", running as u64)
            .int("shells", self.shells.ids.len() as u64)
            .maybe_int("processes", processes())
            .maybe_int(
                "memoryBytes",
                cgroup(&["memory.current", "memory/memory.usage_in_bytes"], None),
            )
            .maybe_int(
                "memoryLimitBytes",
                cgroup(&["memory.max", "memory/memory.limit_in_bytes"], None),
            )
            .maybe_int(
                "cpuUsec",
                cgroup(&["cpu.stat"], Some("usage_usec")).or_else(cpu_v1),
            )
            .maybe_int(
                "oomKills",
                cgroup(&["memory.events", "memory/memory.oom_control"], Some("oom_kill")),
            );
        Ok(Outcome::Done(fields))
    }
}

fn own_memory() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: asks for a constant.
    Some(pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
}

/// Processes in this pid namespace, including the runner.
fn processes() -> Option<i64> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let numeric = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    Some(
        entries
            .flatten()
            .filter(|entry| numeric(&entry.file_name()))
            .count() as i64,
    )
}

/// Reads the first existing file (cgroup v2 or v1 layout): the line with this key, or the whole file.
fn cgroup(files: &[&str], line: Option<&str>) -> Option<i64> {
    files.iter().find_map(|file| {
        let text =
            String::from_utf8(crate::sys::read_file(&format!("/sys/fs/cgroup/{file}"), 64 * 1024).ok()?)
                .ok()?;
        match line {
            None => text.trim().parse().ok(),
            Some(key) => text
                .lines()
                .find_map(|line| line.strip_prefix(key)?.trim().parse().ok()),
        }
    })
}

fn cpu_v1() -> Option<i64> {
    cgroup(&["cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage"], None)
        .map(|nanoseconds| nanoseconds / 1000)
}
