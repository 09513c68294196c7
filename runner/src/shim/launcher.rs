//! `runner launcher`: starts shims for one engine, because it is small.
//!
//! Starting a process copies the page tables of whoever starts it. For a Node program of a hundred megabytes that is milliseconds, during
//! which it does nothing else; for this one it is a fraction of one. The engine starts a launcher once and then writes to it
//!
//! ```text
//! id (u32) │ length of log path (u32) │ length of task (u32) │ log path │ task        and reads        id (u32) │ length (u32) │ the shim's line
//! ```
//!
//! all numbers big-endian. Each task is handed to a `runner shim` of its own; what that says first is passed on. When the engine goes, its
//! launcher goes; the shims stay, as they do without one.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::json::Json;

const HEADER: usize = 12;
/// As much as a shim takes.
const MAX_LENGTH: usize = super::MAX_TASK as usize;

struct Pending {
    id: u32,
    child: Child,
    output: ChildStdout,
    answer: Vec<u8>,
}

pub fn run() -> Result<(), String> {
    let mut input = Vec::new();
    let mut pending: Vec<Pending> = Vec::new();
    let mut ended: Vec<Child> = Vec::new();
    loop {
        let ready = wait_for(&pending).map_err(|error| format!("poll: {error}"))?;
        for at in ready.answers.into_iter().rev() {
            let mut one = pending.swap_remove(at);
            if receive(&mut one) {
                reply(one.id, &one.answer)?;
                ended.push(one.child);
            } else {
                pending.push(one);
            }
        }
        if ready.input {
            let mut chunk = [0; 65536];
            let length = std::io::stdin()
                .read(&mut chunk)
                .map_err(|error| format!("standard input: {error}"))?;
            if length == 0 {
                return Ok(());
            }
            input.extend_from_slice(&chunk[..length]);
            while let Some((id, log, task, used)) = next_request(&input)? {
                match start(log, task) {
                    Ok((child, output)) => pending.push(Pending {
                        id,
                        child,
                        output,
                        answer: Vec::new(),
                    }),
                    Err(error) => {
                        let line =
                            Json::Map(vec![("error".into(), Json::Text(format!("shim: {error}")))]).line();
                        reply(id, line.as_bytes())?;
                    }
                }
                input.drain(..used);
            }
        }
        ended.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}

type Request<'a> = (u32, &'a [u8], &'a [u8], usize);

/// The first whole request, and how long it is.
fn next_request(input: &[u8]) -> Result<Option<Request<'_>>, String> {
    let number =
        |at: usize| -> Option<u32> { Some(u32::from_be_bytes(input.get(at..at + 4)?.try_into().ok()?)) };
    let (Some(id), Some(log), Some(task)) = (number(0), number(4), number(8)) else {
        return Ok(None);
    };
    let (log, task) = (log as usize, task as usize);
    if log > MAX_LENGTH || task > MAX_LENGTH {
        return Err("a request that is too long".to_owned());
    }
    let end = HEADER + log + task;
    Ok(input
        .get(..end)
        .map(|all| (id, &all[HEADER..HEADER + log], &all[HEADER + log..], end)))
}

fn start(log: &[u8], task: &[u8]) -> std::io::Result<(Child, ChildStdout)> {
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(std::ffi::OsStr::from_bytes(log))?;
    let mut child = Command::new("/proc/self/exe")
        .arg0("runner")
        .arg("shim")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let output = child.stdout.take().expect("it was asked for as a pipe");
    // It reads all of it before it does anything; one that died instead says so by ending its output.
    let _ = child
        .stdin
        .take()
        .expect("it was asked for as a pipe")
        .write_all(task);
    Ok((child, output))
}

/// True when the line is whole, or will not come.
fn receive(one: &mut Pending) -> bool {
    let mut chunk = [0; 4096];
    match one.output.read(&mut chunk) {
        Ok(0) | Err(_) => true,
        Ok(length) => {
            one.answer.extend_from_slice(&chunk[..length]);
            chunk[..length].contains(&b'\n') || one.answer.len() > MAX_LENGTH
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
    input: bool,
    /// Ascending.
    answers: Vec<usize>,
}

fn wait_for(pending: &[Pending]) -> std::io::Result<Ready> {
    let watch = |fd: RawFd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = vec![watch(0)];
    fds.extend(pending.iter().map(|one| watch(one.output.as_raw_fd())));
    // SAFETY: the pointer and the length are those of one vector, which outlives the call.
    if unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) } < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(Ready {
        input: fds[0].revents != 0,
        answers: (0..pending.len()).filter(|at| fds[at + 1].revents != 0).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::next_request;

    #[test]
    fn takes_whole_requests_only_and_refuses_long_ones() {
        let mut input = Vec::new();
        for number in [7u32, 2, 3] {
            input.extend_from_slice(&number.to_be_bytes());
        }
        input.extend_from_slice(b"ab");
        assert_eq!(next_request(&input), Ok(None));
        input.extend_from_slice(b"xyz+more");
        assert_eq!(next_request(&input), Ok(Some((7, &b"ab"[..], &b"xyz"[..], 17))));
        assert!(next_request(&[0xff; 12]).is_err());
        assert_eq!(next_request(&[0; 11]), Ok(None));
    }
}
