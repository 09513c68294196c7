//! Replaces secrets in what a server sends with as many `*`.

mod forms;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::Invalid;

const MASK: u8 = b'*';
/// Of a secret, in a stream that pauses within it.
const MAX_SHOWN: usize = 8;
/// Above this, the faster automaton would take more than about 10 MB.
const MAX_DFA_BYTES: usize = 32 * 1024;

/// A stream that pauses longer than this gets the end of what it sent so far.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Scrubber {
    /// Says quickly that there is nothing to do, which is the rule.
    quick: AhoCorasick,
    all: AhoCorasick,
    /// Names of headers arrive in lower case.
    names: AhoCorasick,
    patterns: Vec<Zeroizing<Vec<u8>>>,
}

impl Scrubber {
    /// Finds the values of `secrets` in all their forms, and `texts` as they are. `None` if there is nothing to find.
    pub fn new<'a>(
        secrets: impl Iterator<Item = &'a SecretString>,
        texts: Vec<Zeroizing<Vec<u8>>>,
    ) -> Result<Option<Arc<Scrubber>>, Invalid> {
        let mut patterns = texts;
        let mut lower = Vec::new();
        for secret in secrets {
            forms::add(secret, &mut patterns);
            lower.push(forms::lower_case(secret));
        }
        patterns.sort_by(|a, b| a.as_slice().cmp(b.as_slice()));
        patterns.dedup();
        if patterns.is_empty() {
            return Ok(None);
        }
        let size: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        let kind = (size > MAX_DFA_BYTES).then_some(AhoCorasickKind::ContiguousNFA);
        let build = |match_kind, patterns: &[Zeroizing<Vec<u8>>]| {
            AhoCorasick::builder()
                .match_kind(match_kind)
                .kind(kind)
                .build(patterns.iter().map(|p| p.as_slice()))
                .map_err(|error| Invalid(format!("cannot search for the secrets: {error}")))
        };
        Ok(Some(Arc::new(Scrubber {
            quick: build(MatchKind::LeftmostFirst, &patterns)?,
            all: build(MatchKind::Standard, &patterns)?,
            names: build(MatchKind::LeftmostFirst, &lower)?,
            patterns,
        })))
    }

    /// A header whose name repeats a secret is removed; in values, secrets are replaced.
    pub fn headers(&self, headers: &mut HeaderMap) {
        let named: Vec<HeaderName> = headers
            .keys()
            .filter(|name| self.names.is_match(name.as_str()))
            .cloned()
            .collect();
        for name in named {
            headers.remove(name);
        }
        for value in headers.values_mut() {
            if self.quick.is_match(value.as_bytes()) {
                let mut text = value.as_bytes().to_vec();
                self.whole(&mut text);
                *value = HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static("*"));
            }
        }
    }

    /// Masks a text that is complete.
    pub fn whole(&self, text: &mut [u8]) {
        if self.quick.is_match(&*text) {
            self.mask(&text.to_vec(), text);
        }
    }

    /// Masks in `out` what is found in `text`, of the same length. Matches may overlap, so all are masked.
    fn mask(&self, text: &[u8], out: &mut [u8]) {
        for found in self.all.find_overlapping_iter(text) {
            out[found.range()].fill(MASK);
        }
    }

    /// The length of the longest end of `text` that is the beginning of a pattern.
    fn unfinished(&self, text: &[u8]) -> usize {
        self.patterns
            .iter()
            .map(|pattern| unfinished(text, pattern))
            .max()
            .unwrap_or(0)
    }

    /// Whether the end of `text` tells so little of each pattern that it may be shown.
    fn tells_little(&self, text: &[u8]) -> bool {
        self.patterns
            .iter()
            .all(|pattern| unfinished(text, pattern) <= MAX_SHOWN.min(pattern.len() / 4))
    }
}

fn unfinished(text: &[u8], pattern: &[u8]) -> usize {
    let longest = text.len().min(pattern.len() - 1);
    (1..=longest)
        .rev()
        .find(|&length| text.ends_with(&pattern[..length]))
        .unwrap_or(0)
}

/// One body. Holds back only an end that may be the beginning of a secret.
pub(super) struct Stream {
    scrubber: Arc<Scrubber>,
    held: BytesMut,
    /// The same, with matches masked: a match can end in what begins another one.
    masked: BytesMut,
    /// How much of it `release` has returned already.
    shown: usize,
}

impl Stream {
    pub fn new(scrubber: Arc<Scrubber>) -> Stream {
        Stream {
            scrubber,
            held: BytesMut::new(),
            masked: BytesMut::new(),
            shown: 0,
        }
    }

    /// Takes a piece of the body, and returns what can be sent. It may be empty.
    pub fn push(&mut self, piece: Bytes) -> Bytes {
        let scrubber = Arc::clone(&self.scrubber);
        if self.held.is_empty() && !scrubber.quick.is_match(&piece) {
            let ready = piece.len() - scrubber.unfinished(&piece);
            self.held.extend_from_slice(&piece[ready..]);
            self.masked.extend_from_slice(&piece[ready..]);
            return piece.slice(..ready);
        }
        self.held.extend_from_slice(&piece);
        self.masked.extend_from_slice(&piece);
        scrubber.mask(&self.held, &mut self.masked);
        let ready = self.held.len() - scrubber.unfinished(&self.held);
        self.take(ready)
    }

    /// The number of bytes that are held back.
    pub fn held(&self) -> usize {
        self.held.len() - self.shown
    }

    /// Whether `release` may be called: something is held back, and it is at most a quarter of a secret and at most
    /// 8 bytes.
    pub fn releasable(&self) -> bool {
        self.held() > 0 && self.scrubber.tells_little(&self.held)
    }

    /// Returns what is held back. For streams that pause: the end of a message must not wait for the next message.
    pub fn release(&mut self) -> Bytes {
        let ready = Bytes::copy_from_slice(&self.masked[self.shown..]);
        self.shown = self.held.len();
        ready
    }

    /// The rest, at the end of the body.
    pub fn finish(&mut self) -> Bytes {
        self.take(self.held.len())
    }

    fn take(&mut self, ready: usize) -> Bytes {
        drop(self.held.split_to(ready));
        let masked = self.masked.split_to(ready).freeze();
        let shown = self.shown.min(ready);
        self.shown -= shown;
        masked.slice(shown..)
    }
}
