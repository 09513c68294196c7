//! Process information from `/proc`.

use std::fs::File;
use std::io::Read;

/// All pids in ascending order, including this process.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

pub fn read(pid: u32, name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(2048);
    let mut file = File::open(format!("/proc/{pid}/{name}")).ok()?;
    file.read_to_end(&mut bytes).ok()?;
    // A program name can be any bytes.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A field of `status`. The kernel escapes newlines in the program name, which is in the first line.
pub fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

pub fn number(status: &str, name: &str) -> Option<u32> {
    field(status, name)?.split_ascii_whitespace().next()?.parse().ok()
}

pub fn groups(status: &str) -> impl Iterator<Item = u32> {
    let line = field(status, "Groups:").unwrap_or_default();
    line.split_ascii_whitespace()
        .filter_map(|group| group.parse().ok())
}

/// The process group, from `stat`.
pub fn group(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(2)?
        .parse()
        .ok()
}

/// Whether the process is stopped, for example by Control-Z. From `stat`.
pub fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Field 22 of `stat`, counted from the end of the program name, which can contain spaces and parentheses.
pub fn start_tick(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_and_status_are_parsed() {
        let stat = "7 (a) b) T 1 5 5 0";
        assert!(group(stat) == Some(5) && is_stopped(stat) && !is_stopped("7 (a) S 1 5"));
        let status =
            "Name:\tGroups:\\n 7\nState:\tS (sleeping)\nPPid:\t12\nGroups:\t1000 40003 \nNSpgid:\t33\t4\n";
        assert_eq!(groups(status).collect::<Vec<_>>(), [1000, 40003]);
        assert_eq!(
            (number(status, "PPid:"), number(status, "NSpgid:")),
            (Some(12), Some(33))
        );
        let stat = "5 (a) b) S 1 5 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        assert_eq!(start_tick(stat), Some(4711));
    }
}
