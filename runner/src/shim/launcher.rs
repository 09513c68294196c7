//! `runner launcher`: starts shims for one engine, and keeps one prepared shim in reserve.
//!
//! fork(2) copies the page tables of the parent. That takes milliseconds in a Node process of 100 MB, which
//! blocks meanwhile, and a fraction of one here. The engine starts one launcher. It writes
//!
//! ```text
//! length (u32) │ setup, for all shims          and then          id (u32) │ length (u32) │ task
//! ```
//!
//! and reads
//!
//! ```text
//! id (u32) │ length (u32) │ the first line of the shim's output
//! ```
//!
//! Numbers are big-endian. Each task goes to its own `runner shim`. When the engine ends, its launcher ends and
//! takes the reserve shim with it; the other shims stay.
//!
//! The launcher prepares the reserve only when it is idle; with `--once`, only the first one. Of many concurrent requests it handles a few at a
//! time: the kernel serializes the creation of control groups and networks anyway, and queueing is cheaper than
//! lock contention.

use super::json::Json;
use super::{MAX_MESSAGE, next_message};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const HEADER: usize = 8;
/// About the duration of a first command, also over HTTP.
const REST_MS: i32 = 6;
const AT_ONCE: usize = 4;

/// A shim that has received the setup. Its response, or the end of `output`, follows.
struct Shim {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

struct Pending {
    id: u32,
    child: Child,
    output: ChildStdout,
    answer: Vec<u8>,
}

#[derive(Default)]
struct Launcher {
    setup: Vec<u8>,
    spare: Option<Shim>,
    prepared: VecDeque<(u32, Vec<u8>)>,
    pending: Vec<Pending>,
    ended: Vec<Child>,
    /// The reserve could not be prepared, and nothing has changed since.
    failed: bool,
    /// One sandbox is expected: do not prepare for a next one.
    once: bool,
}

pub fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<(), String> {
    let once = match arguments.next() {
        None => false,
        Some(option) if option == "--once" => true,
        Some(other) => return Err(format!("launcher: unknown option {}", other.display())),
    };
    let mut launcher = Launcher {
        once,
        setup: next_message()?.ok_or("setup: missing")?,
        ..Launcher::default()
    };
    let mut input = Vec::new();
    launcher.refill();
    loop {
        let ready =
            wait_for(&launcher.pending, launcher.rest_ms()).map_err(|error| format!("poll: {error}"))?;
        for at in ready.answers.into_iter().rev() {
            let mut one = launcher.pending.swap_remove(at);
            if receive(&mut one) {
                reply(one.id, &one.answer)?;
                launcher.ended.push(one.child);
            } else {
                launcher.pending.push(one);
            }
        }
        if ready.input {
            let mut chunk = [0; 65536];
            let length = crate::sys::read(0, &mut chunk)
                .map_err(|error| format!("standard input: {error}"))?
                .unwrap_or(0);
            if length == 0 {
                launcher.close();
                return Ok(());
            }
            input.extend_from_slice(&chunk[..length]);
            while let Some((id, task, used)) = next_request(&input)? {
                launcher.prepared.push_back((id, task.to_vec()));
                input.drain(..used);
            }
        }
        launcher.hand_out()?;
        launcher.failed &= ready.quiet;
        if ready.quiet {
            launcher.refill();
        }
        launcher
            .ended
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}

impl Launcher {
    fn hand_out(&mut self) -> Result<(), String> {
        while self.pending.len() < AT_ONCE
            && let Some((id, task)) = self.prepared.pop_front()
        {
            let shim = match self.spare.take() {
                // A shim that responds before its task has failed. Try a new one.
                Some(spare) if has_spoken(&spare.output) => {
                    self.ended.push(spare.child);
                    start(&self.setup)
                }
                Some(spare) => Ok(spare),
                None => start(&self.setup),
            };
            match shim {
                Ok(Shim {
                    child,
                    mut input,
                    output,
                }) => {
                    // A shim that failed to prepare has already responded and does not read this.
                    let _ = send(&mut input, &task);
                    self.pending.push(Pending {
                        id,
                        child,
                        output,
                        answer: Vec::new(),
                    });
                }
                Err(error) => {
                    let text = Json::Text(format!("shim: {error}"));
                    reply(id, Json::Map(vec![("error".into(), text)]).line().as_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// Milliseconds to wait before preparing the reserve; -1 for not at all. Preparing while a sandbox
    /// starts or runs its first command would take the processor from it.
    fn rest_ms(&self) -> i32 {
        let idle = self.spare.is_none() && self.pending.is_empty() && self.prepared.is_empty();
        if idle && !self.failed && !self.once {
            REST_MS
        } else {
            -1
        }
    }

    fn refill(&mut self) {
        // If this fails, the next request fails too and reports why.
        self.spare = start(&self.setup).ok();
        self.failed = self.spare.is_none();
    }

    /// Returns when the reserve shim has cleaned up.
    fn close(&mut self) {
        if let Some(Shim {
            mut child,
            input,
            mut output,
        }) = self.spare.take()
        {
            drop(input);
            let _ = output.read_to_end(&mut Vec::new());
            let _ = child.wait();
        }
    }
}

/// The first complete request and its length.
fn next_request(input: &[u8]) -> Result<Option<(u32, &[u8], usize)>, String> {
    let number =
        |at: usize| -> Option<u32> { Some(u32::from_be_bytes(input.get(at..at + 4)?.try_into().ok()?)) };
    let (Some(id), Some(length)) = (number(0), number(4)) else {
        return Ok(None);
    };
    let end = HEADER + length as usize;
    if end > MAX_MESSAGE {
        return Err("the request is too long".to_owned());
    }
    Ok(input.get(..end).map(|all| (id, &all[HEADER..], end)))
}

fn start(setup: &[u8]) -> std::io::Result<Shim> {
    let mut child = Command::new("/proc/self/exe")
        .arg0("runner")
        .arg("shim")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let mut input = child.stdin.take().expect("stdin is a pipe");
    let output = child.stdout.take().expect("stdout is a pipe");
    let _ = send(&mut input, setup);
    Ok(Shim { child, input, output })
}

fn send(input: &mut ChildStdin, message: &[u8]) -> std::io::Result<()> {
    let mut frame = (message.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(message);
    input.write_all(&frame)
}

fn has_spoken(output: &ChildStdout) -> bool {
    let mut fd = libc::pollfd {
        fd: output.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer is to one entry, which outlives the call.
    unsafe { libc::poll(&raw mut fd, 1, 0) != 0 }
}

/// Returns true when the line is complete or cannot follow.
fn receive(one: &mut Pending) -> bool {
    let mut chunk = [0; 4096];
    match one.output.read(&mut chunk) {
        Ok(0) | Err(_) => true,
        Ok(length) => {
            one.answer.extend_from_slice(&chunk[..length]);
            chunk[..length].contains(&b'\n') || one.answer.len() > MAX_MESSAGE
        }
    }
}

fn reply(id: u32, line: &[u8]) -> Result<(), String> {
    let mut frame = Vec::with_capacity(8 + line.len());
    frame.extend_from_slice(&id.to_be_bytes());
    frame.extend_from_slice(&(line.len() as u32).to_be_bytes());
    frame.extend_from_slice(line);
    let mut out = std::io::stdout().lock();
    out.write_all(&frame)
        .and_then(|()| out.flush())
        .map_err(|error| format!("standard output: {error}"))
}

struct Ready {
    /// The timeout passed without an event.
    quiet: bool,
    input: bool,
    /// In ascending order.
    answers: Vec<usize>,
}

fn wait_for(pending: &[Pending], rest_ms: i32) -> std::io::Result<Ready> {
    let watch = |fd: RawFd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = vec![watch(0)];
    fds.extend(pending.iter().map(|one| watch(one.output.as_raw_fd())));
    // SAFETY: the pointer and the length are those of one vector, which outlives the call.
    let found = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, rest_ms) };
    if found < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(Ready {
        quiet: found == 0,
        input: fds[0].revents != 0,
        answers: (0..pending.len()).filter(|at| fds[at + 1].revents != 0).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::next_request;

    #[test]
    fn incomplete_requests_wait_and_long_ones_are_rejected() {
        let mut input = [7u32, 3].map(u32::to_be_bytes).concat();
        input.extend_from_slice(b"xy");
        assert_eq!(next_request(&input), Ok(None));
        input.extend_from_slice(b"z+more");
        assert_eq!(next_request(&input), Ok(Some((7, &b"xyz"[..], 11))));
        assert!(next_request(&[0xff; 12]).is_err());
        assert_eq!(next_request(&[0; 7]), Ok(None));
    }
}
