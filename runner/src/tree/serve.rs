//! `runner tree serve`: serves tree commands, because forking from the engine's large process is slow. It reads
//!
//! ```text
//! id (u32) │ length (u32) │ the arguments, each terminated by NUL
//! ```
//!
//! and writes
//!
//! ```text
//! id (u32) │ length (u32) │ the response line
//! ```
//!
//! Numbers are big-endian. Each request runs in its own process, so requests do not wait for each other. When the
//! engine ends, this process and all running requests end.

use super::{answer, line};
use crate::sys::{self, check};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

const MAX_REQUEST: usize = 4 * 1024 * 1024;
/// A pipe write up to this size is atomic, so responses do not interleave.
const MAX_ANSWER: usize = 4096 - 8;

pub fn serve() -> io::Result<()> {
    // SAFETY: takes numbers. Ignoring SIGCHLD lets the kernel reap the children.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    loop {
        let mut header = [0; 8];
        if sys::read_full(0, &mut header)? < header.len() {
            return Ok(());
        }
        let number =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (id, length) = (number(0), number(4) as usize);
        if length > MAX_REQUEST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut words = vec![0; length];
        if sys::read_full(0, &mut words)? < length {
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
    // SAFETY: takes numbers. The parent check covers a parent that died before prctl.
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
        r#"{"error":"the error message is too long","errno":5}"#
    } else {
        text
    };
    let mut frame = id.to_be_bytes().to_vec();
    frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
    frame.extend_from_slice(text.as_bytes());
    // One atomic write. The engine may be gone.
    let _ = sys::write(1, &frame);
}
