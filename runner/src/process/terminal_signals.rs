//! Signals that are typed into a terminal, as Control-C. They are the kernel's to make, and gVisor's does not; nor does it tell who is in the foreground.
//! There we do what it would have done: the character is taken out of the input, and the signal goes to the job that was begun last, or to the
//! terminal's own program where there is none or where that program is editing a line. (So in a shell that edits no lines, Control-C
//! at the prompt reaches a job in the background.)

use crate::process::marked_processes;
use crate::sys::kill;
use crate::sys::pty::{Typing, foreground};
use std::borrow::Cow;
use std::os::fd::RawFd;

/// What is left to be written to the terminal.
pub fn signals(master: RawFd, leader: libc::pid_t, mark: Option<u32>, bytes: &[u8]) -> Cow<'_, [u8]> {
    // The usual keys, before any system call.
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
                    .and_then(|mark| marked_processes::job(mark, leader, None));
                kill(-job.unwrap_or(leader), signal);
            }
            None => rest.push(*byte),
        }
    }
    rest.into()
}
