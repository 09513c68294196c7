//! The addresses that the gateway resolved for a sandbox, per name.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::dns::resolver::Family;

const REMEMBERED_FOR: Duration = Duration::from_secs(600);
const MOST_NAMES: usize = 4096;
const MOST_ADDRESSES: usize = 64;

#[derive(Default)]
pub(super) struct Names {
    names: HashMap<String, Remembered>,
}

struct Remembered {
    addresses: Vec<(IpAddr, Instant)>,
    /// The last answers for A and AAAA, and until when they are valid.
    answers: [Option<(Vec<IpAddr>, Instant)>; 2],
    at: Instant,
}

impl Names {
    pub fn remember(&mut self, name: &str, family: Family, addresses: &[IpAddr], ttl: u32) {
        let now = Instant::now();
        if self.names.len() >= MOST_NAMES && !self.names.contains_key(name) {
            self.make_room(now);
        }
        let empty = || Remembered {
            addresses: Vec::new(),
            answers: [None, None],
            at: now,
        };
        let entry = self.names.entry(name.to_owned()).or_insert_with(empty);
        entry.at = now;
        entry
            .addresses
            .retain(|(address, at)| is_recent(*at, now) && !addresses.contains(address));
        entry
            .addresses
            .extend(addresses.iter().map(|address| (*address, now)));
        let surplus = entry.addresses.len().saturating_sub(MOST_ADDRESSES);
        entry.addresses.drain(..surplus);
        let until = now + Duration::from_secs(u64::from(ttl));
        entry.answers[family as usize] = Some((addresses.to_vec(), until));
    }

    /// The last answer, if it is still valid, and for how many seconds.
    pub fn fresh(&self, name: &str, family: Family) -> Option<(Vec<IpAddr>, u32)> {
        let (addresses, until) = self.names.get(name)?.answers[family as usize].as_ref()?;
        let left = until.checked_duration_since(Instant::now())?.as_secs();
        (left > 0).then(|| (addresses.clone(), left as u32))
    }

    /// Answers are no longer valid; addresses stay remembered.
    pub fn expire(&mut self) {
        self.names
            .values_mut()
            .for_each(|entry| entry.answers = [None, None]);
    }

    pub fn holds(&self, name: &str, address: IpAddr) -> bool {
        self.names
            .get(name)
            .is_some_and(|entry| entry.has(address, Instant::now()))
    }

    pub fn names_of(&self, address: IpAddr) -> Vec<String> {
        let now = Instant::now();
        let has = |(name, entry): (&String, &Remembered)| entry.has(address, now).then(|| name.clone());
        let mut names: Vec<_> = self.names.iter().filter_map(has).collect();
        names.sort();
        names
    }

    fn make_room(&mut self, now: Instant) {
        self.names.retain(|_, entry| is_recent(entry.at, now));
        if self.names.len() < MOST_NAMES {
            return;
        }
        let oldest = self
            .names
            .iter()
            .min_by_key(|(_, entry)| entry.at)
            .map(|(name, _)| name.clone());
        oldest.map(|name| self.names.remove(&name));
    }
}

impl Remembered {
    fn has(&self, address: IpAddr, now: Instant) -> bool {
        self.addresses
            .iter()
            .any(|(known, at)| *known == address && is_recent(*at, now))
    }
}

fn is_recent(at: Instant, now: Instant) -> bool {
    now.duration_since(at) < REMEMBERED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn remembers_addresses_beyond_their_answer() {
        let mut names = Names::default();
        names.remember("a.com", Family::V4, &[address("198.51.100.1")], 0);
        names.remember("a.com", Family::V4, &[address("198.51.100.2")], 60);
        assert!(names.holds("a.com", address("198.51.100.1")));
        assert_eq!(
            names.fresh("a.com", Family::V4).map(|answer| answer.0),
            Some(vec![address("198.51.100.2")])
        );
        assert_eq!(names.fresh("a.com", Family::V6), None);
        assert!(!names.holds("b.com", address("198.51.100.1")));
        names.expire();
        assert_eq!(names.fresh("a.com", Family::V4), None);
        assert_eq!(names.names_of(address("198.51.100.2")), ["a.com"]);
    }

    #[test]
    fn is_bounded() {
        let mut names = Names::default();
        let many: Vec<IpAddr> = (0..200).map(|last| IpAddr::from([198, 51, 100, last])).collect();
        for index in 0..MOST_NAMES + 100 {
            names.remember(
                &format!("{index}.com"),
                Family::V4,
                &[address("198.51.100.1")],
                60,
            );
        }
        names.remember("many.com", Family::V4, &many, 60);
        assert_eq!(names.names.len(), MOST_NAMES);
        assert!(!names.holds("0.com", address("198.51.100.1")));
        assert_eq!(names.names["many.com"].addresses.len(), MOST_ADDRESSES);
    }
}
