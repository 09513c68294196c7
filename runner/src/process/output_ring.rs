//! Numbered output in bounded memory.
//!
//! Output is a sequence of events, numbered from 1 without gaps. An event is a chunk of one channel. The ring
//! keeps the newest `capacity` bytes; a reader of older events is told that they are gone. An event number means
//! the same bytes to every reader, so an event can grow only until it is read (`freeze`). Growing matters: a
//! program that writes single bytes without a reader costs one event per 64 KiB, not one per byte.
//!
//! ```text
//!      first                        last
//!   ...  41  |  42 (err) |    43   | 44          events: (end offset, channel)
//!   ─────────┴───────────┴─────────┴────►        offset in bytes since the start of the task
//! ```

use std::collections::VecDeque;

const MAX_EVENTS: usize = 8192;
/// An event fits into one frame.
pub const MAX_EVENT: usize = crate::wire::frame::MAX_DATA;

pub struct Ring {
    bytes: VecDeque<u8>,
    events: VecDeque<(u64, u8)>,
    last: u64,
    /// Events up to this number must not change.
    frozen: u64,
    /// Bytes appended so far.
    total: u64,
    capacity: usize,
}

impl Ring {
    pub fn new(capacity: usize) -> Ring {
        Ring {
            bytes: VecDeque::new(),
            events: VecDeque::new(),
            last: 0,
            frozen: 0,
            total: 0,
            capacity,
        }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The oldest kept event; `last + 1` if no event is kept.
    pub fn first(&self) -> u64 {
        self.last + 1 - self.events.len() as u64
    }

    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// How many bytes fit without evicting an event after `seen`.
    pub fn room(&self, seen: u64) -> usize {
        let unseen = match seen >= self.first() {
            true => {
                self.total
                    - self
                        .events
                        .get((seen - self.first()) as usize)
                        .map_or(self.total, |event| event.0)
            }
            false => self.bytes.len() as u64,
        };
        self.capacity.saturating_sub(unseen as usize)
    }

    /// Fixes all events up to `number`, because a reader has seen them or their number.
    pub fn freeze(&mut self, number: u64) {
        self.frozen = self.frozen.max(number);
    }

    /// `data` must fit into one event and into the ring.
    pub fn append(&mut self, channel: u8, data: &[u8]) {
        debug_assert!(data.len() <= MAX_EVENT && (data.len() <= self.capacity || self.capacity == 0));
        self.total += data.len() as u64;
        // Limit an event to a quarter of the ring, so that evicting one event keeps most of the output.
        let grown = self.total - self.begin_of_last() <= MAX_EVENT.min(self.capacity / 4) as u64;
        match self.events.back_mut() {
            Some((end, last)) if *last == channel && self.last > self.frozen && grown => *end = self.total,
            _ => {
                self.events.push_back((self.total, channel));
                self.last += 1;
            }
        }
        if self.capacity == 0 {
            self.events.clear();
            return;
        }
        while self.bytes.len() + data.len() > self.capacity || self.events.len() > MAX_EVENTS {
            let start = self.total - (self.bytes.len() + data.len()) as u64;
            let (end, _) = self.events.pop_front().expect("the newest event fits");
            self.bytes.drain(..(end - start) as usize);
        }
        if self.bytes.capacity() < self.bytes.len() + data.len() {
            // Double, up to the capacity.
            let want = (self.bytes.len() + data.len())
                .next_power_of_two()
                .clamp(256, self.capacity.max(256));
            self.bytes.reserve_exact(want - self.bytes.len());
        }
        self.bytes.extend(data);
    }

    /// The channel of a kept event, and its bytes in two slices.
    pub fn event(&self, number: u64) -> (u8, &[u8], &[u8]) {
        debug_assert!(number >= self.first() && number <= self.last);
        let index = (number - self.first()) as usize;
        let start = self.total - self.bytes.len() as u64;
        let from = if index == 0 {
            0
        } else {
            (self.events[index - 1].0 - start) as usize
        };
        let to = (self.events[index].0 - start) as usize;
        let (head, tail) = self.bytes.as_slices();
        let cut = head.len();
        (
            self.events[index].1,
            &head[from.min(cut)..to.min(cut)],
            &tail[from.max(cut) - cut..to.max(cut) - cut],
        )
    }

    /// Returns unused memory when no more output is expected.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.events.shrink_to_fit();
    }

    /// Drops all bytes and continues to count.
    pub fn discard(&mut self) {
        *self = Ring {
            last: self.last,
            frozen: self.last,
            total: self.total,
            ..Ring::new(0)
        };
    }

    fn begin_of_last(&self) -> u64 {
        match self.events.len() {
            0 => self.total,
            1 => self.total.min(self.events[0].0) - self.bytes.len() as u64,
            len => self.events[len - 2].0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ring: &Ring) -> Vec<(u64, u8, String)> {
        (ring.first()..=ring.last())
            .map(|number| {
                let (channel, head, tail) = ring.event(number);
                (number, channel, String::from_utf8([head, tail].concat()).unwrap())
            })
            .collect()
    }

    #[test]
    fn events_grow_until_they_are_read() {
        let mut ring = Ring::new(64);
        ring.append(1, b"ab");
        ring.append(1, b"c");
        ring.append(2, b"E");
        assert_eq!(all(&ring), [(1, 1, "abc".into()), (2, 2, "E".into())]);
        ring.freeze(2);
        ring.append(2, b"F");
        assert_eq!(all(&ring)[2], (3, 2, "F".into()));
    }

    #[test]
    fn whole_events_are_evicted_and_numbers_are_kept() {
        let mut ring = Ring::new(8);
        for text in ["abcd", "ef", "gh", "ij"] {
            ring.append(1, text.as_bytes());
            ring.freeze(ring.last());
        }
        assert_eq!(
            all(&ring),
            [(2, 1, "ef".into()), (3, 1, "gh".into()), (4, 1, "ij".into())]
        );
        assert_eq!(
            (ring.room(4), ring.room(3), ring.room(1), ring.room(0)),
            (8, 6, 2, 2)
        );
        ring.append(1, b"12345678");
        assert_eq!(all(&ring), [(5, 1, "12345678".into())]);
    }

    #[test]
    fn eviction_never_splits_an_event() {
        let mut ring = Ring::new(16);
        for _ in 0..20 {
            ring.append(1, b"ab");
        }
        assert_eq!((ring.first(), ring.last()), (7, 10));
        assert!(all(&ring).iter().all(|(_, _, text)| text == "abab"));
    }

    #[test]
    fn random_appends_replay_the_kept_output() {
        let (mut seed, mut ring) = (42u64, Ring::new(300));
        let mut written: Vec<u8> = Vec::new();
        for _ in 0..20_000 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let (len, channel) = ((seed >> 33) as usize % 300 + 1, 1 + (seed >> 60) as u8 % 2);
            let data: Vec<u8> = (0..len).map(|index| (seed as usize + index) as u8).collect();
            ring.append(channel, &data);
            written.extend(&data);
            if seed >> 62 == 0 {
                ring.freeze(ring.last());
            }
            let kept: Vec<u8> = (ring.first()..=ring.last())
                .flat_map(|number| {
                    let (_, head, tail) = ring.event(number);
                    [head, tail].concat()
                })
                .collect();
            assert!(written.ends_with(&kept), "seed {seed}");
            assert!(!kept.is_empty() && kept.len() <= 300);
        }
    }

    #[test]
    fn memory_follows_the_output_up_to_the_capacity() {
        let mut ring = Ring::new(64 * 1024);
        assert_eq!(ring.held(), 0);
        ring.append(1, b"hello");
        assert!(ring.held() <= 512);
        for index in 0..100_000u32 {
            ring.append(1 + (index % 2) as u8, b"x");
        }
        assert!(ring.events.len() <= MAX_EVENTS);
        for _ in 0..1000 {
            ring.append(1, &[7; 5000]);
        }
        assert!(ring.held() <= 64 * 1024, "{}", ring.held());
    }
}
