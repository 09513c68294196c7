//! Marks: how a command's processes are known, wherever they went.
//!
//! Every process and every shell that the runner starts gets one more supplementary group, a *mark*, which nothing else has. A process may
//! leave its process group, its session and its parent; its supplementary groups it passes on to every child, and only
//! CAP_SETGID, which no command of another user than the runner's own has, changes them. So whoever carries the mark was started by that command (`hunt`).
//!
//! A runner that may not change groups (it is not root, or the only user of its namespace) marks by a limit instead: the hard limit of file locks, which the
//! kernel has not looked at for twenty years, but hands on to every child; nobody raises it again. It can be lowered; and where neither is
//! possible (ids that are not mapped), a command runs without its mark. Then signals reach its process group, and who is still below its leader; who
//! wants to hide can. There, what runs is the runner's own user anyway, and goes with the runner (`reaper`).
//!
//! Rejected: a variable in the environment (a program may wipe it, and reading it takes more rights), a control group for each command (not
//! ours to make inside the sandbox), following forks by ptrace (slow, and visible).

use std::sync::OnceLock;

/// Ids inside the sandbox that are marks: below those that systems give out by themselves, and twice as many as a sandbox has processes
/// unless asked for more. The image `host` has names for them, so keep `etc.ts` in step.
pub const FIRST: u32 = 40_000;
pub const COUNT: u32 = 1024;

/// `RLIMIT_LOCKS`, the same number on every architecture that we run on.
pub const LIMIT: u32 = 10;

pub fn is_one(id: u32) -> bool {
    place(id).is_some()
}

/// Whether this runner marks by a limit.
pub fn by_limit() -> bool {
    static BY_LIMIT: OnceLock<bool> = OnceLock::new();
    *BY_LIMIT.get_or_init(|| {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        read("setgroups").trim() == "deny" || !may_set_groups(&read("status"))
    })
}

/// A command that has no mark, or one that it can lower.
pub fn may_be_lost(mark: Option<u32>) -> bool {
    mark.is_none() || by_limit()
}

fn may_set_groups(status: &str) -> bool {
    const SETGID: u64 = 1 << 6;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|sets| u64::from_str_radix(sets.trim(), 16).ok())
        .is_some_and(|set| set & SETGID != 0)
}

/// Marks in order, round and round. A command may leave programs behind that carry its mark for ever, so before each round
/// somebody has to look which are still in use; during a round a mark can come into use only by being handed out.
#[derive(Default)]
pub struct Marks {
    next: u32,
    /// In use since before this round.
    busy: Set,
    /// Real groups of users that happen to lie in our range: never marks.
    foreign: Set,
}

/// A set of marks.
#[derive(Clone, Copy, Default)]
pub struct Set([u64; COUNT as usize / 64]);

impl Marks {
    /// The next free one. `in_use` is asked once in a round.
    pub fn take(&mut self, in_use: impl FnOnce() -> Set) -> Option<u32> {
        self.rest_of_round().or_else(|| {
            self.busy = in_use();
            self.next = 0;
            self.rest_of_round()
        })
    }

    /// Groups that somebody has anyway.
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

impl Set {
    /// Ids that are not marks are left out.
    pub fn insert(&mut self, id: u32) {
        if let Some((word, bit)) = place(id) {
            self.0[word] |= bit;
        }
    }

    pub fn contains(&self, id: u32) -> bool {
        place(id).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }
}

fn place(id: u32) -> Option<(usize, u64)> {
    let index = id.checked_sub(FIRST).filter(|index| *index < COUNT)?;
    Some((index as usize / 64, 1 << (index % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_again_only_when_nobody_carries_it() {
        let mut marks = Marks::default();
        marks.reserve(&[1000, FIRST + 1]);
        let mut first_round = Vec::new();
        for _ in 0..COUNT - 1 {
            first_round.extend(marks.take(|| unreachable!("the round is not over")));
        }
        assert_eq!(&first_round[..2], &[FIRST, FIRST + 2]);
        let mut busy = Set::default();
        busy.insert(FIRST);
        busy.insert(FIRST + 3);
        assert_eq!(marks.take(|| busy), Some(FIRST + 2));
        assert_eq!(marks.take(|| unreachable!()), Some(FIRST + 4));
    }

    #[test]
    fn who_may_change_groups_is_read_from_the_capabilities() {
        assert!(may_set_groups("Name:\tx\nCapEff:\t00000000000000e0\n"));
        assert!(!may_set_groups("CapEff:\t00000000000000a0\n") && !may_set_groups(""));
    }

    #[test]
    fn when_all_are_in_use_there_is_none() {
        let mut all = Set::default();
        (FIRST - 5..FIRST + COUNT + 5).for_each(|id| all.insert(id));
        assert!(!all.contains(FIRST - 1) && !all.contains(FIRST + COUNT));
        let mut marks = Marks {
            next: COUNT,
            ..Marks::default()
        };
        assert_eq!(marks.take(|| all), None);
        assert_eq!(marks.take(Set::default), Some(FIRST));
    }
}
