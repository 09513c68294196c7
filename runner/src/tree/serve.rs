//! `runner tree serve`: the same, for an engine whose own process is too large to start another one quickly. It reads
//!
//! ```text
//! id (u32) │ length (u32) │ the words, each ended by a NUL byte          and writes          id (u32) │ length (u32) │ the line
//! ```
//!
//! all numbers big-endian. Each request is a process of its own, so they neither wait for each other nor share what one of them breaks. When the
//! engine goes, so does this one, and with it everything that it was doing.

use super::{answer, line};
use crate::sys::check;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

/// Paths, and not many.
const MAX_REQUEST: usize = 4 * 1024 * 1024;
/// What a pipe takes as a whole, so that answers never mix.
const MAX_ANSWER: usize = 4096 - 8;

pub fn serve() -> io::Result<()> {
    // SAFETY: takes numbers. Children that have ended are nobody's concern: what they had to say, they said.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    loop {
        let mut header = [0; 8];
        if fill(&mut header)? < header.len() {
            return Ok(());
        }
        let number =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (id, length) = (number(0), number(4) as usize);
        if length > MAX_REQUEST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut words = vec![0; length];
        if fill(&mut words)? < length {
            return Ok(());
        }
        // SAFETY: this process has one thread, so the child may use everything that the parent may.
        match check(unsafe { libc::fork() }) {
            Ok(0) => {
                work(id, &words);
                // SAFETY: leaves without running the parent's destructors.
                unsafe { libc::_exit(0) };
            }
            Ok(_) => {}
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                reply(id, &format!(r#"{{"error":"fork: {error}","errno":{errno}}}"#));
            }
        }
    }
}

fn work(id: u32, words: &[u8]) {
    // SAFETY: takes numbers. Had our parent died before this, nobody would end us: then it is no longer our parent.
    unsafe {
        let parent = libc::getppid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent || parent == 1 {
            return;
        }
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
    let words = words.strip_suffix(&[0]).unwrap_or(words);
    let words = words
        .split(|byte| *byte == 0)
        .map(|word| OsString::from_vec(word.to_vec()));
    let (text, _) = line(answer(words));
    reply(id, &text);
}

fn reply(id: u32, text: &str) {
    let text = if text.len() > MAX_ANSWER {
        r#"{"error":"something with a long name","errno":5}"#
    } else {
        text
    };
    let mut frame = id.to_be_bytes().to_vec();
    frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
    frame.extend_from_slice(text.as_bytes());
    // One write, which the pipe takes whole. An engine that has gone needs no answer.
    let _ = crate::sys::write(1, &frame);
}

/// How much of it was there before the input ended.
fn fill(bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match crate::sys::read(0, &mut bytes[filled..])? {
            Some(0) | None => break,
            Some(count) => filled += count,
        }
    }
    Ok(filled)
}
