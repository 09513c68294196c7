//! Finding and signalling everything that carries a mark (`mark`), by reading `/proc`. Only where somebody asked for a signal or time ran out:
//! a command that ends by itself costs nothing here.
//!
//! Programs may fork while we look. For KILL that is a race which we win: a process with a deadly signal pending cannot finish a fork,
//! so once a whole pass finds only processes that were killed before the pass began, nobody is left who could have made another. A process
//! that ends between being listed and being looked at may have left a child that was not listed; so a zombie counts as found, and
//! a pass in which somebody vanished is not a whole one. (To signal a zombie is harmless, and right: its other threads may live.)
//!
//! A process is known by what the kernel says about it at this moment, and signalled in the next; for the number to mean another
//! process by then, all numbers would have to be used up in between.

use crate::mark::{self, Set};
use crate::moment::Moment;
use crate::server::kill;
use crate::sys::procfs::{group, groups, is_stopped, number, pids, read};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How long one hunt may hold up everything else that the runner does.
const PATIENCE: Duration = Duration::from_millis(50);
/// Strangers come and go too. After so many passes in which somebody vanished and nobody was found, it was strangers.
const BROKEN_PASSES: u32 = 8;
/// Asking politely is not repeated for ever: who forks faster than that is not polite.
const POLITE_PASSES: usize = 4;

/// A process that carries the mark.
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

/// KILL to all that carry the mark. False when some may be left: then it is to be done again.
pub fn kill_all(mark: u32) -> bool {
    until_nobody_is_new(|| look(mark))
}

/// Any other signal, once to each carrier outside of `group`, which has had it already.
pub fn signal_all(mark: u32, group: i32, signal: i32) {
    let mut told = HashSet::new();
    for _ in 0..POLITE_PASSES {
        let new: Vec<_> = look(mark)
            .found
            .into_iter()
            .filter(|carrier| carrier.group != group as u32 && told.insert(carrier.pid))
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
pub fn kill_since(mark: u32, since: Moment, shell: Option<i32>) {
    until_nobody_is_new(|| {
        let Pass { found, whole } = look(mark);
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
pub fn job(mark: u32, leader: i32, since: Option<Moment>) -> Option<i32> {
    let found = look(mark).found;
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

/// Marks that some process carries.
pub fn in_use() -> Set {
    let mut set = Set::default();
    for pid in pids() {
        if mark::by_limit() {
            limit_mark(pid).into_iter().for_each(|mark| set.insert(mark));
        } else if let Some(status) = read(pid, "status") {
            groups(&status).for_each(|group| set.insert(group));
        }
    }
    set
}

fn until_nobody_is_new(look: impl Fn() -> Pass) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let (mut killed, mut broken) = (HashSet::new(), 0);
    loop {
        let Pass { found, whole } = look();
        let mut new = false;
        for carrier in found {
            kill(carrier.pid as i32, libc::SIGKILL);
            new |= killed.insert(carrier.pid);
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

fn look(mark: u32) -> Pass {
    let us = std::process::id();
    let mut pass = Pass {
        found: Vec::new(),
        whole: true,
    };
    for pid in pids().filter(|pid| *pid != us) {
        let Some(status) = read(pid, "status") else {
            pass.whole = false;
            continue;
        };
        let parent = number(&status, "PPid:").unwrap_or(0);
        let carries = if mark::by_limit() {
            limit_mark(pid) == Some(mark)
        } else {
            groups(&status).any(|group| group == mark)
        };
        if carries && (us == 1 || below(parent, us)) {
            pass.found.push(Carrier {
                pid,
                parent,
                group: number(&status, "NSpgid:")
                    // gVisor's kernel does not say it here.
                    .or_else(|| group(&read(pid, "stat")?))
                    .unwrap_or(0),
            });
        }
    }
    pass
}

/// Where we are not PID 1, `/proc` has more than what we started, and the mark may be somebody's real group. But orphans come to us,
/// so what we started always has us above it.
fn below(parent: u32, us: u32) -> bool {
    let mut at = parent;
    while at > 1 && at != us {
        let Some(parent) = read(at, "status").and_then(|status| number(&status, "PPid:")) else {
            return false;
        };
        at = parent;
    }
    at == us
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
