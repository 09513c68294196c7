//! Finds and signals all processes that carry a mark (`marks`), by reading `/proc`. This runs only for a
//! signal or a timeout; a command that ends by itself costs nothing here.
//!
//! Processes can fork during a pass over `/proc`. SIGKILL still reaches all of them: a process with a pending
//! SIGKILL cannot complete a fork. So when a complete pass finds only processes that were killed before it
//! began, none is left. A process that exits between listing and inspection may leave an unlisted child. So
//! zombies count as found, and a pass in which a process vanished is incomplete. Signalling a zombie is correct:
//! its other threads may still run.
//!
//! Descendants of a match are matches too, because a mark can be missing or lowered. Descent is visible only
//! while the parents live, so `descendants` is called before the leader is signalled.
//!
//! If the runner is not PID 1, `/proc` also lists unrelated processes: those of other runners with the same
//! marks, and users with a real group in the range. The runner adopts orphans, so everything it started is below
//! it, and it signals nothing else.
//!
//! A pid could be recycled between inspection and signal only if all pids were used up in between.

use crate::process::marks::{self, MarkSet};
use crate::process::start_time::StartTime;
use crate::sys::kill;
use crate::sys::procfs::{group, groups, is_stopped, number, pids, read};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// The longest time that one call may block the event loop.
const MAX_BLOCKING: Duration = Duration::from_millis(50);
/// Unrelated processes vanish too. After this many incomplete passes without a new match, give up.
const MAX_INCOMPLETE_PASSES: u32 = 8;
/// A signal other than SIGKILL cannot outrun a process that keeps forking.
const MAX_SIGNAL_PASSES: usize = 4;

/// A process that carries the mark, or a descendant of one.
struct Match {
    pid: u32,
    parent: u32,
    group: u32,
}

/// One pass over all processes.
struct Pass {
    found: Vec<Match>,
    /// No process vanished before it was inspected.
    complete: bool,
}

/// The process and all its descendants.
pub fn descendants(leader: u32) -> HashSet<u32> {
    let found = scan(None, &HashSet::from([leader])).found;
    found.into_iter().map(|process| process.pid).collect()
}

/// Sends SIGKILL to all processes with the mark, all `known` ones and their descendants. Returns false if
/// some may be left; then call it again.
pub fn kill_all(mark: Option<u32>, known: HashSet<u32>) -> bool {
    kill_until_none_is_new(known, |known| scan(mark, known))
}

/// Sends another signal once to each of them, except to members of `group`, which already received it.
pub fn signal_all(mark: Option<u32>, known: &HashSet<u32>, group: Option<u32>, signal: i32) {
    let mut signalled = HashSet::new();
    for _ in 0..MAX_SIGNAL_PASSES {
        let new: Vec<_> = scan(mark, known)
            .found
            .into_iter()
            .filter(|process| Some(process.group) != group && signalled.insert(process.pid))
            .collect();
        if new.is_empty() {
            return;
        }
        new.iter().for_each(|process| kill(process.pid as i32, signal));
    }
}

/// Kills what one shell command started: processes with the shell's mark that started after `since`. Spares
/// the shell and new children of older background jobs. An orphan has no parent that proves where it came
/// from, so it counts as the command's.
pub fn kill_since(mark: u32, since: StartTime, shell: Option<i32>) {
    kill_until_none_is_new(HashSet::new(), |_| {
        let Pass { found, complete } = scan(Some(mark), &HashSet::new());
        let shell = shell.map(|pid| pid as u32);
        let known: HashMap<u32, (u32, bool)> = found
            .iter()
            .map(|process| (process.pid, (process.parent, since.is_before(process.pid))))
            .collect();
        let ours = |process: &Match| started_by_command(process.pid, shell, &known);
        Pass {
            found: found.into_iter().filter(ours).collect(),
            complete,
        }
    });
}

/// Guesses the foreground process group of a terminal where the kernel does not report it (gVisor): the
/// newest running job of `leader` that started after `since`. If that job is a shell, its own job counts.
pub fn foreground_job(mark: u32, leader: i32, since: Option<StartTime>) -> Option<i32> {
    let found = scan(Some(mark), &HashSet::new()).found;
    let is_running = |pid: u32| {
        since.is_none_or(|since| since.is_before(pid))
            && read(pid, "stat").is_some_and(|stat| !is_stopped(&stat))
    };
    let mut at = leader as u32;
    let mut job = None;
    for _ in 0..found.len() {
        let own = |process: &&Match| process.parent == at && process.group == process.pid;
        let Some(last) = found
            .iter()
            .filter(own)
            .filter(|one| is_running(one.pid))
            .max_by_key(|one| one.pid)
        else {
            break;
        };
        at = last.pid;
        job = Some(last.group as i32);
    }
    job
}

/// Whether the process and all its ancestors below the shell started after the command.
fn started_by_command(pid: u32, shell: Option<u32>, known: &HashMap<u32, (u32, bool)>) -> bool {
    let mut at = pid;
    if Some(at) == shell {
        return false;
    }
    // Bounded, because parents that change during the pass could form a cycle.
    for _ in 0..=known.len() {
        match known.get(&at) {
            Some((parent, true)) if Some(*parent) != shell => at = *parent,
            Some((_, young)) => return *young,
            None => return true,
        }
    }
    false
}

/// Marks of processes below this runner.
pub fn in_use() -> MarkSet {
    let own_pid = std::process::id();
    let mut set = MarkSet::default();
    for pid in pids().filter(|pid| *pid != own_pid) {
        let Some(status) = read(pid, "status") else {
            continue;
        };
        let marks = marks_of(pid, &status).filter(|id| marks::is_mark(*id));
        let mut marks = marks.peekable();
        if marks.peek().is_some() && (own_pid == 1 || is_below(parent_of(&status), own_pid)) {
            marks.for_each(|mark| set.insert(mark));
        }
    }
    set
}

fn kill_until_none_is_new(mut known: HashSet<u32>, scan: impl Fn(&HashSet<u32>) -> Pass) -> bool {
    let deadline = Instant::now() + MAX_BLOCKING;
    let (mut killed, mut incomplete) = (HashSet::new(), 0);
    loop {
        let Pass { found, complete } = scan(&known);
        let mut new = false;
        for process in found {
            kill(process.pid as i32, libc::SIGKILL);
            new |= killed.insert(process.pid);
            known.insert(process.pid);
        }
        incomplete = if new { 0 } else { incomplete + 1 };
        if !new && (complete || incomplete == MAX_INCOMPLETE_PASSES) {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
    }
}

struct Seen {
    parent: u32,
    group: u32,
    carries: bool,
}

/// Finds processes that carry the mark or are `known`, and their descendants.
fn scan(mark: Option<u32>, known: &HashSet<u32>) -> Pass {
    let own_pid = std::process::id();
    let mut complete = true;
    let mut all = BTreeMap::new();
    for pid in pids().filter(|pid| *pid != own_pid) {
        match read(pid, "status") {
            Some(status) => drop(all.insert(pid, seen(pid, &status, mark))),
            None => complete = false,
        }
    }
    let mut found = Vec::new();
    for (pid, one) in &all {
        match is_wanted(*pid, &all, known, own_pid) {
            Some(true) => found.push(Match {
                pid: *pid,
                parent: one.parent,
                group: one.group,
            }),
            Some(false) => {}
            None => complete = false,
        }
    }
    Pass { found, complete }
}

fn seen(pid: u32, status: &str, mark: Option<u32>) -> Seen {
    Seen {
        parent: parent_of(status),
        group: number(status, "NSpgid:")
            // gVisor has no NSpgid.
            .or_else(|| group(&read(pid, "stat")?))
            .unwrap_or(0),
        carries: mark.is_some_and(|mark| marks_of(pid, status).any(|id| id == mark)),
    }
}

/// Whether the process or one of its ancestors below the runner is wanted. `None` if an ancestor vanished.
fn is_wanted(pid: u32, all: &BTreeMap<u32, Seen>, known: &HashSet<u32>, own_pid: u32) -> Option<bool> {
    let (mut at, mut wanted) = (pid, false);
    // Bounded, because parents that change during the pass could form a cycle.
    for _ in 0..=all.len() {
        wanted |= known.contains(&at);
        match all.get(&at) {
            _ if at == own_pid => return Some(wanted),
            // The chain ends outside. Everything belongs to PID 1; to another runner nothing does.
            _ if at <= 1 => return Some(wanted && own_pid == 1),
            Some(one) => {
                wanted |= one.carries;
                at = one.parent;
            }
            None => return None,
        }
    }
    None
}

fn is_below(parent: u32, own_pid: u32) -> bool {
    let mut at = parent;
    while at > 1 && at != own_pid {
        let Some(status) = read(at, "status") else {
            return false;
        };
        at = parent_of(&status);
    }
    at == own_pid
}

fn parent_of(status: &str) -> u32 {
    number(status, "PPid:").unwrap_or(0)
}

fn marks_of(pid: u32, status: &str) -> impl Iterator<Item = u32> {
    let by_limit = marks::by_limit();
    let limit = by_limit.then(|| limit_mark(pid)).flatten();
    groups(if by_limit { "" } else { status }).chain(limit)
}

/// The hard limit of file locks, if it is a number.
fn limit_mark(pid: u32) -> Option<u32> {
    limit_in(&read(pid, "limits")?)
}

fn limit_in(limits: &str) -> Option<u32> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max file locks"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_parsed_from_the_limits() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax file locks            7                    40003                locks\n";
        assert_eq!(limit_in(limits), Some(40003));
        assert_eq!(
            limit_in("Max file locks            unlimited            unlimited            locks\n"),
            None
        );
    }

    #[test]
    fn descendants_match_and_unrelated_processes_do_not() {
        let seen = |parent, carries| Seen {
            parent,
            group: 0,
            carries,
        };
        // The runner is 5. 10 has the mark, 11 and 12 are below it. 20 is the runner's, without the mark. 30
        // and 31 belong to another runner, and 31 has the same mark.
        let all = BTreeMap::from([
            (2, seen(1, false)),
            (10, seen(5, true)),
            (11, seen(10, false)),
            (12, seen(11, false)),
            (20, seen(5, false)),
            (30, seen(2, false)),
            (31, seen(30, true)),
            (40, seen(39, true)),
        ]);
        let found = |known: &[u32]| -> Vec<u32> {
            let known = known.iter().copied().collect();
            let ours = |pid: &u32| is_wanted(*pid, &all, &known, 5) == Some(true);
            all.keys().copied().filter(ours).collect()
        };
        assert_eq!(found(&[]), [10, 11, 12]);
        assert_eq!(found(&[20, 30]), [10, 11, 12, 20]);
        assert_eq!(found(&[5]), [10, 11, 12, 20]);
        // Its parent vanished.
        assert_eq!(is_wanted(40, &all, &HashSet::new(), 5), None);
        assert_eq!(is_wanted(31, &all, &HashSet::new(), 1), Some(true));
    }

    #[test]
    fn children_of_an_older_job_are_spared() {
        // 10 is the shell, 20 an older job with a new child 21. 30 is the command's, 31 its child, 40 an
        // orphan.
        let known = HashMap::from([
            (10, (1, false)),
            (20, (10, false)),
            (21, (20, true)),
            (30, (10, true)),
            (31, (30, true)),
            (40, (1, true)),
        ]);
        let found: Vec<u32> = [10, 20, 21, 30, 31, 40]
            .into_iter()
            .filter(|pid| started_by_command(*pid, Some(10), &known))
            .collect();
        assert_eq!(found, [30, 31, 40]);
    }
}
