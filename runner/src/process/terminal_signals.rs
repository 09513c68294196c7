//! Control characters that send signals, such as Control-C. Linux handles these in the terminal; gVisor does
//! not, and does not report the foreground process group either.
//!
//! In gVisor the runner removes the character from the input and signals the newest job, or the terminal's
//! own program if it has no job or edits lines itself. So in a shell without line editing, Control-C at the
//! prompt reaches a background job.

use crate::process::marked_processes;
use crate::sys::kill;
use crate::sys::pty::{Typing, foreground};
use std::borrow::Cow;
use std::os::fd::RawFd;

/// Returns the bytes to write to the terminal.
pub fn signals(master: RawFd, leader: libc::pid_t, mark: Option<u32>, bytes: &[u8]) -> Cow<'_, [u8]> {
    // Skip the system calls for ordinary keys.
    if !bytes
        .iter()
        .any(|byte| byte.is_ascii_control() && !b"\r\n\t".contains(byte))
        || foreground(master).is_ok()
    {
        return bytes.into();
    }
    let Ok(typing) = Typing::of(master) else {
        return bytes.into();
    };
    let mut rest = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match typing.signal(*byte) {
            Some(signal) => {
                let job = mark
                    .filter(|_| typing.is_by_lines())
                    .and_then(|mark| marked_processes::foreground_job(mark, leader, None));
                kill(-job.unwrap_or(leader), signal);
            }
            None => rest.push(*byte),
        }
    }
    rest.into()
}
