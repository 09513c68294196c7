//! Finding and signalling everything that carries a mark (`mark`), by reading `/proc`. Only where somebody asked for a signal or time ran out:
//! a command that ends by itself costs nothing here.
//!
//! Programs may fork while we look. For KILL that is a race which we win: a process with a deadly signal pending cannot finish a fork,
//! so once a whole pass finds only processes that were killed before the pass began, nobody is left who could have made another. A process
//! that ends between being listed and being looked at may have left a child that was not listed; so a zombie counts as found, and
//! a pass in which somebody vanished is not a whole one. (To signal a zombie is harmless, and right: its other threads may live.)
//!
//! Who is below somebody found is found too: a mark may be missing, or have been lowered. That holds only while the parents live, so who is below a
//! command is looked up before its leader is signalled (`below`).
//!
//! Where we are not PID 1, `/proc` has more than what we started: other runners of the same account with the same marks, and groups that are
//! somebody's real ones. But orphans come to us, so what we started always has us above it, and nobody else is ever signalled.
//!
//! A process is known by what the kernel says about it at this moment, and signalled in the next; for the number to mean another
//! process by then, all numbers would have to be used up in between.

use crate::process::marks::{self, Set};
use crate::process::start_time::StartTime;
use crate::sys::kill;
use crate::sys::procfs::{group, groups, is_stopped, number, pids, read};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// How long one hunt may hold up everything else that the runner does.
const PATIENCE: Duration = Duration::from_millis(50);
/// Strangers come and go too. After so many passes in which somebody vanished and nobody was found, it was strangers.
const BROKEN_PASSES: u32 = 8;
/// Asking politely is not repeated for ever: who forks faster than that is not polite.
const POLITE_PASSES: usize = 4;

/// A process that carries the mark, or is below one that does.
struct Carrier {
    pid: u32,
    parent: u32,
    group: u32,
}

/// One look at all processes.
struct Pass {
    found: Vec<Carrier>,
    /// Nobody vanished before it could be looked at.
    whole: bool,
}

/// A process and everything below it now.
pub fn below(leader: u32) -> HashSet<u32> {
    let found = look(None, &HashSet::from([leader])).found;
    found.into_iter().map(|carrier| carrier.pid).collect()
}

/// KILL to all that carry the mark, and to all who are `known` or below one of these. False when some may be left: then it is to be done again.
pub fn kill_all(mark: Option<u32>, known: HashSet<u32>) -> bool {
    until_nobody_is_new(known, |known| look(mark, known))
}

/// Any other signal, once to each of them outside of `group`, which has had it already.
pub fn signal_all(mark: Option<u32>, known: &HashSet<u32>, group: Option<u32>, signal: i32) {
    let mut told = HashSet::new();
    for _ in 0..POLITE_PASSES {
        let new: Vec<_> = look(mark, known)
            .found
            .into_iter()
            .filter(|carrier| Some(carrier.group) != group && told.insert(carrier.pid))
            .collect();
        if new.is_empty() {
            return;
        }
        new.iter().for_each(|carrier| kill(carrier.pid as i32, signal));
    }
}

/// KILL to what one command of a shell started: carriers of the shell's mark that are younger than `since`, except the shell itself and
/// what an older background job has started meanwhile. (A daemon that such a job sets free meanwhile has no parent to be known by, and counts as
/// the command's.)
pub fn kill_since(mark: u32, since: StartTime, shell: Option<i32>) {
    until_nobody_is_new(HashSet::new(), |_| {
        let Pass { found, whole } = look(Some(mark), &HashSet::new());
        let shell = shell.map(|pid| pid as u32);
        let known: HashMap<u32, (u32, bool)> = found
            .iter()
            .map(|carrier| (carrier.pid, (carrier.parent, since.is_before(carrier.pid))))
            .collect();
        let ours = |carrier: &Carrier| belongs(carrier.pid, shell, &known);
        Pass {
            found: found.into_iter().filter(ours).collect(),
            whole,
        }
    });
}

/// The process group that is in the foreground of a terminal, as far as it can be told where the kernel does not: of the jobs of `leader` the one that was
/// begun last, after `since`, and goes on; of a shell that is one, its own job. None when the leader has no such job.
pub fn job(mark: u32, leader: i32, since: Option<StartTime>) -> Option<i32> {
    let found = look(Some(mark), &HashSet::new()).found;
    let goes_on = |pid: u32| {
        since.is_none_or(|since| since.is_before(pid))
            && read(pid, "stat").is_some_and(|stat| !is_stopped(&stat))
    };
    let mut at = leader as u32;
    let mut job = None;
    for _ in 0..found.len() {
        let own = |carrier: &&Carrier| carrier.parent == at && carrier.group == carrier.pid;
        let Some(last) = found
            .iter()
            .filter(own)
            .filter(|one| goes_on(one.pid))
            .max_by_key(|one| one.pid)
        else {
            break;
        };
        at = last.pid;
        job = Some(last.group as i32);
    }
    job
}

/// Is it, and is every ancestor below the shell, younger than the command?
fn belongs(pid: u32, shell: Option<u32>, known: &HashMap<u32, (u32, bool)>) -> bool {
    let mut at = pid;
    if Some(at) == shell {
        return false;
    }
    // As many steps as there are processes: a chain of parents that changed while it was read could be a ring.
    for _ in 0..=known.len() {
        match known.get(&at) {
            Some((parent, true)) if Some(*parent) != shell => at = *parent,
            Some((_, young)) => return *young,
            None => return true,
        }
    }
    false
}

/// Marks that some process of ours carries. Those of other runners are no concern of ours.
pub fn in_use() -> Set {
    let us = std::process::id();
    let mut set = Set::default();
    for pid in pids().filter(|pid| *pid != us) {
        let Some(status) = read(pid, "status") else {
            continue;
        };
        let marks = marks_of(pid, &status).filter(|id| marks::is_one(*id));
        let mut marks = marks.peekable();
        if marks.peek().is_some() && (us == 1 || is_below(parent_of(&status), us)) {
            marks.for_each(|mark| set.insert(mark));
        }
    }
    set
}

fn until_nobody_is_new(mut known: HashSet<u32>, look: impl Fn(&HashSet<u32>) -> Pass) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let (mut killed, mut broken) = (HashSet::new(), 0);
    loop {
        let Pass { found, whole } = look(&known);
        let mut new = false;
        for carrier in found {
            kill(carrier.pid as i32, libc::SIGKILL);
            new |= killed.insert(carrier.pid);
            known.insert(carrier.pid);
        }
        broken = if new { 0 } else { broken + 1 };
        if !new && (whole || broken == BROKEN_PASSES) {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
    }
}

/// A process as it was seen.
struct Seen {
    parent: u32,
    group: u32,
    carries: bool,
}

/// Who carries the mark or is `known`, and everybody below one of these.
fn look(mark: Option<u32>, known: &HashSet<u32>) -> Pass {
    let us = std::process::id();
    let mut whole = true;
    let mut all = BTreeMap::new();
    for pid in pids().filter(|pid| *pid != us) {
        match read(pid, "status") {
            Some(status) => drop(all.insert(pid, seen(pid, &status, mark))),
            None => whole = false,
        }
    }
    let mut found = Vec::new();
    for (pid, one) in &all {
        match belongs_to(*pid, &all, known, us) {
            Some(true) => found.push(Carrier {
                pid: *pid,
                parent: one.parent,
                group: one.group,
            }),
            Some(false) => {}
            None => whole = false,
        }
    }
    Pass { found, whole }
}

fn seen(pid: u32, status: &str, mark: Option<u32>) -> Seen {
    Seen {
        parent: parent_of(status),
        group: number(status, "NSpgid:")
            // gVisor's kernel does not say it here.
            .or_else(|| group(&read(pid, "stat")?))
            .unwrap_or(0),
        carries: mark.is_some_and(|mark| marks_of(pid, status).any(|id| id == mark)),
    }
}

/// Is it, or somebody between it and us, one that is looked for? None when that cannot be told: an ancestor vanished meanwhile.
fn belongs_to(pid: u32, all: &BTreeMap<u32, Seen>, known: &HashSet<u32>, us: u32) -> Option<bool> {
    let (mut at, mut wanted) = (pid, false);
    // As many steps as there are processes: a chain of parents that changed while it was read could be a ring.
    for _ in 0..=all.len() {
        wanted |= known.contains(&at);
        match all.get(&at) {
            _ if at == us => return Some(wanted),
            // Beyond everybody: of PID 1 that is everything, of others a stranger.
            _ if at <= 1 => return Some(wanted && us == 1),
            Some(one) => {
                wanted |= one.carries;
                at = one.parent;
            }
            None => return None,
        }
    }
    None
}

fn is_below(parent: u32, us: u32) -> bool {
    let mut at = parent;
    while at > 1 && at != us {
        let Some(status) = read(at, "status") else {
            return false;
        };
        at = parent_of(&status);
    }
    at == us
}

fn parent_of(status: &str) -> u32 {
    number(status, "PPid:").unwrap_or(0)
}

/// Its groups, or its limit.
fn marks_of(pid: u32, status: &str) -> impl Iterator<Item = u32> {
    let by_limit = marks::by_limit();
    let limit = by_limit.then(|| limit_mark(pid)).flatten();
    groups(if by_limit { "" } else { status }).chain(limit)
}

/// Its hard limit of file locks, where that is a number.
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
    fn a_mark_is_read_from_the_limits() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax file locks            7                    40003                locks\n";
        assert_eq!(limit_in(limits), Some(40003));
        assert_eq!(
            limit_in("Max file locks            unlimited            unlimited            locks\n"),
            None
        );
    }

    #[test]
    fn who_is_below_somebody_found_is_found_and_strangers_are_not() {
        let seen = |parent, carries| Seen {
            parent,
            group: 0,
            carries,
        };
        // We are 5. 10 carries the mark, 11 and 12 below it do not; 20 is ours without it; 30 is another runner's, 31 has the same mark there.
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
            let ours = |pid: &u32| belongs_to(*pid, &all, &known, 5) == Some(true);
            all.keys().copied().filter(ours).collect()
        };
        assert_eq!(found(&[]), [10, 11, 12]);
        assert_eq!(found(&[20, 30]), [10, 11, 12, 20]);
        assert_eq!(found(&[5]), [10, 11, 12, 20]);
        // Its parent has vanished: nobody knows.
        assert_eq!(belongs_to(40, &all, &HashSet::new(), 5), None);
        // To PID 1 everything belongs.
        assert_eq!(belongs_to(31, &all, &HashSet::new(), 1), Some(true));
    }

    #[test]
    fn an_older_job_keeps_its_children() {
        // 10 is the shell, 20 an older job with a new child 21; 30 is the command's, 31 its child, 40 an orphan.
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
            .filter(|pid| belongs(*pid, Some(10), &known))
            .collect();
        assert_eq!(found, [30, 31, 40]);
    }
}
