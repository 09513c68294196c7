//! Marks identify all processes that a command started, even after they leave its process group, session or
//! parent.
//!
//! Each process and shell that the runner starts gets a unique supplementary group, its *mark*. Children inherit
//! it, and removing it needs CAP_SETGID, which commands of other users than the runner's do not have.
//!
//! A runner that may not set groups (not root, or the only user of its namespace), or whose commands are root, uses the hard limit of file
//! locks instead. The kernel ignores that limit but passes it to children. A process can lower it but not raise
//! it. If neither works (unmapped ids), the command runs without a mark, and signals reach only its process group
//! and its descendants. Such processes run as the runner's own user and end with the runner (`reaper`).
//!
//! Rejected: an environment variable (programs can clear it, and reading it needs more privileges), a control
//! group per command (the runner may not create one), ptrace (slow and visible).

use std::sync::OnceLock;

/// Group ids that are marks: below the ids that systems allocate, and twice the default process limit of a
/// sandbox. `etc.ts` in the engine names these groups in the image `host`; keep both in sync.
pub const FIRST: u32 = 40_000;
pub const COUNT: u32 = 1024;

/// `RLIMIT_LOCKS`, which has this number on all supported architectures.
pub const LIMIT: u32 = 10;

pub fn is_mark(id: u32) -> bool {
    bit_of(id).is_some()
}

static BY_LIMIT: OnceLock<bool> = OnceLock::new();

/// Uses the limit although the runner may set groups. For commands that may change groups, too: programs such as
/// `su` and apt drop groups without any intent to hide. Call it before the first command.
pub fn prefer_limit() {
    let _ = BY_LIMIT.set(true);
}

/// Whether this runner uses the limit instead of a group.
pub fn by_limit() -> bool {
    *BY_LIMIT.get_or_init(|| {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        read("setgroups").trim() == "deny" || !may_set_groups(&read("status"))
    })
}

/// The command has no mark, or can lower it.
pub fn can_be_evaded(mark: Option<u32>) -> bool {
    mark.is_none() || by_limit()
}

fn may_set_groups(status: &str) -> bool {
    const SETGID: u64 = 1 << 6;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|sets| u64::from_str_radix(sets.trim(), 16).ok())
        .is_some_and(|set| set & SETGID != 0)
}

/// Allocates marks in order. Background processes can carry a mark indefinitely, so each round starts with a
/// scan for marks in use.
#[derive(Default)]
pub struct Marks {
    next: u32,
    /// In use when this round began.
    busy: MarkSet,
    /// Real groups of users in this range, which are never marks.
    foreign: MarkSet,
}

#[derive(Clone, Copy, Default)]
pub struct MarkSet([u64; COUNT as usize / 64]);

impl Marks {
    /// Returns the next free mark. Calls `in_use` once per round.
    pub fn take(&mut self, in_use: impl FnOnce() -> MarkSet) -> Option<u32> {
        self.rest_of_round().or_else(|| {
            self.busy = in_use();
            self.next = 0;
            self.rest_of_round()
        })
    }

    /// Excludes groups that a user really has.
    pub fn reserve(&mut self, groups: &[u32]) {
        groups.iter().for_each(|group| self.foreign.insert(*group));
    }

    fn rest_of_round(&mut self) -> Option<u32> {
        while self.next < COUNT {
            let mark = FIRST + self.next;
            self.next += 1;
            if !self.busy.contains(mark) && !self.foreign.contains(mark) {
                return Some(mark);
            }
        }
        None
    }
}

impl MarkSet {
    /// Ignores ids outside the range.
    pub fn insert(&mut self, id: u32) {
        if let Some((word, bit)) = bit_of(id) {
            self.0[word] |= bit;
        }
    }

    pub fn contains(&self, id: u32) -> bool {
        bit_of(id).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }
}

fn bit_of(id: u32) -> Option<(usize, u64)> {
    let index = id.checked_sub(FIRST).filter(|index| *index < COUNT)?;
    Some((index as usize / 64, 1 << (index % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_reused_only_after_its_processes_ended() {
        let mut marks = Marks::default();
        marks.reserve(&[1000, FIRST + 1]);
        let mut first_round = Vec::new();
        for _ in 0..COUNT - 1 {
            first_round.extend(marks.take(|| unreachable!("the round is not over")));
        }
        assert_eq!(&first_round[..2], &[FIRST, FIRST + 2]);
        let mut busy = MarkSet::default();
        busy.insert(FIRST);
        busy.insert(FIRST + 3);
        assert_eq!(marks.take(|| busy), Some(FIRST + 2));
        assert_eq!(marks.take(|| unreachable!()), Some(FIRST + 4));
    }

    #[test]
    fn the_right_to_set_groups_is_read_from_the_capabilities() {
        assert!(may_set_groups("Name:\tx\nCapEff:\t00000000000000e0\n"));
        assert!(!may_set_groups("CapEff:\t00000000000000a0\n") && !may_set_groups(""));
    }

    #[test]
    fn take_returns_none_when_all_marks_are_in_use() {
        let mut all = MarkSet::default();
        (FIRST - 5..FIRST + COUNT + 5).for_each(|id| all.insert(id));
        assert!(!all.contains(FIRST - 1) && !all.contains(FIRST + COUNT));
        let mut marks = Marks {
            next: COUNT,
            ..Marks::default()
        };
        assert_eq!(marks.take(|| all), None);
        assert_eq!(marks.take(MarkSet::default), Some(FIRST));
    }
}
