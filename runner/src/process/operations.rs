//! Operations on processes (start, attach, wait, signal, resize, list, forget) and their timeouts.

use crate::process::launch::Launch;
use crate::process::pending_start::Opener;
use crate::process::task::{DEFAULT_RING, Exit, MAX_RING, Reader, Task, What};
use crate::serve::connection::Use;
use crate::serve::epoll_token::Token;
use crate::serve::incoming::Outcome;
use crate::serve::server::{Owner, Server};
use crate::serve::source_sink::{Finish, Sink, Source};
use crate::serve::timers::Alarm;
use crate::sys::{self, pty, spawn};
use crate::wire::cbor::{Fields, Value};
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
/// 1000 hours.
pub const MAX_TIMEOUT_MS: u64 = 3_600_000_000;

/// How long a program with a full ring waits for its first reader. The reader's request arrives after the
/// start, and a fast program could overwrite any ring meanwhile.
const FIRST_READER: Duration = Duration::from_secs(2);

impl Server {
    pub fn op_start(&mut self, conn: u32, stream: u32, request: &Request) -> OpResult<Outcome> {
        let id = request.id("id")?;
        let detached = request.bool("detached")?;
        let bound = request.bool("bound")?;
        let reader = reader(conn, stream, request)?;
        let existing = match self.tasks.find(id) {
            Ok(key) => Some(key),
            Err(error) if error.code == "gone" => return Err(error),
            Err(_) => None,
        };
        let (key, existed) = match existing {
            Some(key) => (key, true),
            None => (self.start(id, request)?, false),
        };
        let task = self.tasks.map.get_mut(&key).expect("found or inserted just now");
        let What::Process { pid, .. } = task.what else {
            return Err(OpError::new(
                "exists",
                format!("'{id}' is already the id of a shell command"),
            ));
        };
        let facts = Fields::new().int("pid", pid).bool("existed", existed);
        let starting = task.starting;
        if starting {
            task.openers.push(Opener {
                conn,
                stream,
                existed,
                only: detached,
            });
        }
        if !existed && (detached || !reader.pace) && task.ring.capacity() > 0 {
            task.expects_reader = true;
            self.timers.after(FIRST_READER, Alarm::FirstReader(key));
        }
        if detached && starting {
            return Ok(Outcome::Stream(Use::Start { task: Some(key) }, None));
        }
        if detached {
            return Ok(Outcome::Done(facts));
        }
        if bound && !existed {
            task.bound = Some(conn);
        }
        if task.stdin_owner.is_none() && task.stdin.is_some() {
            task.stdin_owner = Some((conn, stream));
        }
        task.readers.push(reader);
        Ok(Outcome::Stream(
            Use::Output { task: key },
            Some(facts).filter(|_| !starting),
        ))
    }

    fn start(&mut self, id: &str, request: &Request) -> OpResult<u32> {
        if self.stopping {
            return Err(OpError::new("shutting_down", "the runner is stopping"));
        }
        let launch = Launch::parse(request, &self.config)?;
        let argv = request.cstrings("argv")?;
        if argv.first().is_none_or(|program| program.is_empty()) {
            return Err(OpError::invalid("argv: must contain a program"));
        }
        let has_terminal = request.bool("tty")?;
        let has_stdin = !request.bool("detached")? && request.bool("stdin")?;
        let timeout = request.maybe_uint("timeoutMs", MAX_TIMEOUT_MS)?;
        let grace = request.maybe_uint("graceMs", MAX_TIMEOUT_MS)?.unwrap_or(1000);
        let ring = ring_bytes(request)?;
        let failed = |error: std::io::Error| OpError::io(&error, "start");

        let streams = match has_terminal {
            true => terminal(&launch, has_stdin),
            false => pipes(has_stdin, request.bool("merged")?),
        }
        .map_err(failed)?;
        let mut command = launch.command(argv, streams.fds, streams.terminal);
        command.mark = self.new_mark(launch.user.as_ref());
        let key = self.tasks.key();
        let mut task = Task::new(
            id,
            What::Process {
                pid: 0,
                terminal: has_terminal,
            },
            ring,
        );
        task.grace_ms = grace;
        task.mark = command.mark;
        for (fd, channel) in streams.outputs {
            let source = Source::new(fd, channel).map_err(failed)?;
            self.epoll
                .add(source.fd.as_raw_fd(), Token::TaskOut { task: key, channel })
                .map_err(failed)?;
            task.sources.push(source);
        }
        if let Some((fd, finish)) = streams.input {
            self.epoll
                .add(fd.as_raw_fd(), Token::TaskIn(key))
                .map_err(failed)?;
            task.stdin = Some(Sink::new(fd, finish).map_err(failed)?);
        }
        let pid = self.begin_start(command, Owner::Task(key))?;
        task.what = What::Process {
            pid,
            terminal: has_terminal,
        };
        task.starting = true;
        self.tasks.insert(key, task);
        if let Some(timeout) = timeout {
            self.timers
                .after(Duration::from_millis(timeout), Alarm::Kill { task: key, step: 0 });
        }
        Ok(key)
    }

    pub fn op_attach(&mut self, conn: u32, stream: u32, request: &Request) -> OpResult<Outcome> {
        let key = self.tasks.find(request.id("id")?)?;
        let reader = reader(conn, stream, request)?;
        let task = self.tasks.map.get_mut(&key).expect("ids name tasks that exist");
        if reader.seen > task.ring.last() {
            return Err(OpError::invalid(format!(
                "after: the last event is {}",
                task.ring.last()
            )));
        }
        if request.bool("stdin")? {
            if task.stdin.as_ref().is_none_or(|sink| sink.closed()) {
                return Err(OpError::invalid("stdin: not open"));
            }
            if task.stdin_owner.is_some() {
                return Err(OpError::new("busy", "stdin: already owned by another stream"));
            }
            task.stdin_owner = Some((conn, stream));
            // Drop the count that belongs to the previous sender.
            task.stdin_consumed = 0;
        }
        let facts = Fields::new()
            .bool("running", task.exit.is_none())
            .int("first", task.ring.first())
            .int("last", task.ring.last());
        task.ring.freeze(task.ring.last());
        task.expects_reader &= !reader.pace;
        task.readers.push(reader);
        Ok(Outcome::Stream(Use::Output { task: key }, Some(facts)))
    }

    /// No reader attached in time: new output now replaces the oldest.
    pub fn stop_expecting_reader(&mut self, key: u32) {
        if let Some(task) = self.tasks.map.get_mut(&key) {
            task.expects_reader = false;
            self.read_output(key);
        }
    }

    pub fn op_wait(&mut self, conn: u32, request: &Request) -> OpResult<Outcome> {
        let key = self.tasks.find(request.id("id")?)?;
        let task = self.tasks.map.get_mut(&key).expect("ids name tasks that exist");
        task.waiters.push(conn);
        Ok(Outcome::Stream(Use::Wait { task: key }, None))
    }

    pub fn op_signal(&mut self, request: &Request) -> OpResult<Outcome> {
        let key = self.tasks.find(request.id("id")?)?;
        let name = request.text("signal")?;
        let signal = sys::signal_number(name)
            .ok_or_else(|| OpError::invalid(format!("signal: unknown signal '{name}'")))?;
        let group = request.bool("group")?;
        let task = &self.tasks.map[&key];
        if let What::Command { shell } = task.what {
            self.signal_command(shell, key, signal)?;
        } else {
            self.signal_process(key, signal, group)
                .map_err(|errno| OpError::errno(errno, "signal"))?;
        }
        Ok(Outcome::Done(Fields::new()))
    }

    pub fn op_resize(&mut self, request: &Request) -> OpResult<Outcome> {
        let key = self.tasks.find(request.id("id")?)?;
        let size = size(request)?.ok_or_else(|| OpError::invalid("cols and rows: missing"))?;
        let task = &self.tasks.map[&key];
        let master = match task.what {
            What::Process { terminal: false, .. } => {
                return Err(OpError::invalid("the process has no terminal"));
            }
            _ => task
                .sources
                .first()
                .ok_or_else(|| OpError::new("not_found", "the terminal is closed"))?,
        };
        pty::resize(master.fd.as_raw_fd(), size).map_err(|error| OpError::io(&error, "resize"))?;
        Ok(Outcome::Done(Fields::new()))
    }

    pub fn op_list(&mut self) -> OpResult<Outcome> {
        let mut keys: Vec<_> = self.tasks.listed().collect();
        keys.sort_unstable();
        let mut tasks = Vec::new();
        for key in keys {
            tasks.extend(self.tasks.map.get_mut(&key).map(|task| task.summary()));
        }
        Ok(Outcome::Done(Fields::new().set("tasks", Value::Array(tasks))))
    }

    pub fn op_forget(&mut self, request: &Request) -> OpResult<Outcome> {
        let key = self.tasks.find(request.id("id")?)?;
        if self.tasks.map[&key].exit.is_none() {
            return Err(OpError::new("busy", "the task is still running"));
        }
        self.dirty
            .extend(self.tasks.map[&key].readers.iter().map(|reader| reader.conn));
        self.tasks.forget(key);
        Ok(Outcome::Done(Fields::new()))
    }

    /// Reads output into the task's ring and schedules its readers.
    pub fn read_output(&mut self, key: u32) {
        let Some(task) = self.tasks.map.get_mut(&key) else {
            return;
        };
        if task.read_output(&mut self.scratch) {
            self.unread_tasks.insert(key);
        }
        self.dirty.extend(task.readers.iter().map(|reader| reader.conn));
        self.tasks.tidy(key);
    }

    /// Records the result of a task, reads its remaining output, and schedules its readers and waiters.
    pub fn end_task(&mut self, key: u32, exit: Exit) {
        let Some(task) = self.tasks.map.get_mut(&key) else {
            return;
        };
        task.exit = Some(exit);
        task.stdin = None;
        task.sources.iter_mut().for_each(|source| source.readable = true);
        self.dirty.extend(task.waiters.drain(..));
        self.read_output(key);
        self.tasks.finish(key);
    }

    /// Runs one step of ending a task that timed out. A process gets SIGTERM, and SIGKILL after its grace
    /// period.
    pub fn handle_timeout(&mut self, key: u32, step: u32) {
        let Some(task) = self.tasks.map.get_mut(&key).filter(|task| task.exit.is_none()) else {
            return;
        };
        // Later steps can also follow a caller's SIGKILL, which is not a timeout.
        task.timed_out |= step == 0;
        match task.what {
            What::Command { shell } => self.interrupt_command(shell, key, step),
            What::Process { .. } => {
                let (signal, grace) = (
                    if step == 0 { libc::SIGTERM } else { libc::SIGKILL },
                    task.grace_ms,
                );
                // Fails only if no process is left. The exit is then about to be reaped.
                let _ = self.signal_process(key, signal, true);
                if step == 0 {
                    self.timers
                        .after(Duration::from_millis(grace), Alarm::Kill { task: key, step: 1 });
                }
            }
        }
    }
}

pub fn reader(conn: u32, stream: u32, request: &Request) -> OpResult<Reader> {
    let until_end = match request.maybe_text("until")? {
        None | Some("exit") => false,
        Some("end") => true,
        Some(_) => return Err(OpError::invalid("until: must be 'exit' or 'end'")),
    };
    Ok(Reader {
        conn,
        stream,
        seen: request.maybe_uint("after", i64::MAX as u64)?.unwrap_or(0),
        pace: !request.bool("lossy")?,
        until_end,
    })
}

pub fn ring_bytes(request: &Request) -> OpResult<usize> {
    let bytes = request.maybe_uint("ringBytes", MAX_RING as u64)?;
    Ok(bytes.map_or(DEFAULT_RING, |bytes| bytes as usize).max(4096))
}

pub fn size(request: &Request) -> OpResult<Option<pty::Size>> {
    let cols = request.maybe_uint("cols", u16::MAX as u64)?;
    let rows = request.maybe_uint("rows", u16::MAX as u64)?;
    match (cols, rows) {
        (Some(cols), Some(rows)) => Ok(Some(pty::Size {
            cols: cols as u16,
            rows: rows as u16,
        })),
        (None, None) => Ok(None),
        _ => Err(OpError::invalid("cols and rows: set both or neither")),
    }
}

pub fn start_error(failure: spawn::Failure) -> OpError {
    OpError {
        step: Some(failure.step),
        ..OpError::errno(failure.errno, failure.step)
    }
}

/// The standard streams of a child.
struct Streams {
    /// The child's ends and their numbers.
    fds: Vec<(i32, i32)>,
    terminal: Option<i32>,
    outputs: Vec<(OwnedFd, u8)>,
    input: Option<(OwnedFd, Finish)>,
    /// Keeps the child's ends open until it is started.
    _child: Vec<OwnedFd>,
}

/// With `merged`, stdout and stderr are the same pipe, so the order between them is the program's.
fn pipes(has_stdin: bool, merged: bool) -> std::io::Result<Streams> {
    let (out, out_child) = sys::pipe()?;
    let mut outputs = vec![(out, STDOUT)];
    let err_child = match merged {
        true => sys::duplicate(out_child.as_fd())?,
        false => {
            let (err, err_child) = sys::pipe()?;
            outputs.push((err, STDERR));
            err_child
        }
    };
    let (in_child, input) = match has_stdin {
        true => sys::pipe().map(|(read, write)| (read, Some((write, Finish::Close))))?,
        false => (null()?, None),
    };
    let child = vec![in_child, out_child, err_child];
    Ok(Streams {
        fds: child.iter().map(|fd| fd.as_raw_fd()).zip(0..).collect(),
        terminal: None,
        outputs,
        input,
        _child: child,
    })
}

fn terminal(launch: &Launch, has_stdin: bool) -> std::io::Result<Streams> {
    let size = launch.size.unwrap_or_default();
    let pty = pty::open(launch.user.as_ref(), size, pty::Discipline::Cooked)?;
    let input = match has_stdin {
        true => Some((sys::duplicate(pty.master.as_fd())?, Finish::Character)),
        false => None,
    };
    let slave = pty.slave.as_raw_fd();
    Ok(Streams {
        fds: vec![(slave, 0), (slave, 1), (slave, 2)],
        terminal: Some(slave),
        outputs: vec![(pty.master, STDOUT)],
        input,
        _child: vec![pty.slave],
    })
}

pub fn null() -> std::io::Result<OwnedFd> {
    // SAFETY: the path is a C string constant.
    sys::own(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })
}
