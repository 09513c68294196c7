//! The commands of a shell, one at a time: queue, syntax check, run, report.

use crate::process::marked_processes;
use crate::process::operations::{MAX_TIMEOUT_MS, STDERR, STDOUT, null, reader, ring_bytes, size};
use crate::process::start_time::StartTime;
use crate::process::task::{Exit, Task, What};
use crate::serve::connection::Use;
use crate::serve::epoll_token::Token;
use crate::serve::incoming::Outcome;
use crate::serve::server::{Owner, Server};
use crate::serve::source_sink::Source;
use crate::serve::timers::Alarm;
use crate::shell::script::{Report, take_report};
use crate::sys::{self, pty};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const MAX_QUEUE: usize = 64;
/// Reads of one descriptor per turn of the loop.
const READS: usize = 16;
/// Limit of an incomplete report on the status socket. A real report is much smaller.
const MAX_REPORT: usize = 64 * 1024;
/// How much of the controlling terminal's output is kept: enough for the report of the EXIT trap.
const MAX_TERMINAL_TAIL: usize = 8 * 1024;

/// The status that a shell reports for an interrupted command.
const INTERRUPTED: i32 = 128 + libc::SIGINT;

/// The command that a shell is running.
pub struct Current {
    pub task: u32,
    spec: Spec,
    pub nonce: String,
    /// A new shell process was started for it.
    restarted: bool,
    /// Why that shell is not the requested login shell.
    login_skipped: Option<&'static str>,
    /// Kept open until the end, because a terminal without an open slave reports end-of-file.
    slaves: Vec<OwnedFd>,
    /// Waiting for the syntax check.
    checking: bool,
    pub check: Option<libc::pid_t>,
    /// The command is being ended. Further requests to end it have no effect.
    pub interrupting: bool,
    /// When the command was typed. The shell's processes that started later belong to it.
    pub begun: Option<StartTime>,
    /// Shortly before SIGINT was last sent to the shell itself.
    pub interrupted_since: Option<StartTime>,
}

impl Current {
    /// Kills everything that the command started, if the command is being ended. After a normal end its
    /// background jobs live on.
    pub fn kill_started_processes(&self, mark: Option<u32>, shell: Option<libc::pid_t>) {
        if let (true, Some(mark), Some(begun)) = (self.interrupting, mark, self.begun) {
            marked_processes::kill_since(mark, begun, shell);
        }
    }

    /// If SIGINT arrives between fork and wait, bash reports the command as finished but the program keeps
    /// running, and the next command waits for it. So kill what bash started just before the SIGINT.
    fn kill_forgotten_program(&self, mark: Option<u32>, shell: libc::pid_t, status: i32) {
        if let (INTERRUPTED, Some(mark), Some(interrupted_since)) = (status, mark, self.interrupted_since) {
            marked_processes::kill_since(mark, interrupted_since, Some(shell));
        }
    }
}

/// A queued command.
#[derive(Clone)]
pub struct Spec {
    text: Vec<u8>,
    timeout_ms: Option<u64>,
    separate: bool,
    size: Option<pty::Size>,
}

impl Server {
    pub fn op_shell_exec(&mut self, conn: u32, stream: u32, request: &Request) -> OpResult<Outcome> {
        let id = request.id("id")?;
        let bound = request.bool("bound")?;
        let reader = reader(conn, stream, request)?;
        let (key, existed) = match self.tasks.find(id) {
            Ok(key) => (key, true),
            Err(error) if error.code == "gone" => return Err(error),
            Err(_) => (self.enqueue(id, request)?, false),
        };
        let Some(task) = self
            .tasks
            .map
            .get_mut(&key)
            .filter(|task| matches!(task.what, What::Command { .. }))
        else {
            return Err(OpError::new(
                "exists",
                format!("'{id}' is already the id of a process"),
            ));
        };
        if bound && !existed {
            task.bound = Some(conn);
        }
        task.readers.push(reader);
        Ok(Outcome::Stream(
            Use::Output { task: key },
            Some(Fields::new().bool("existed", existed)),
        ))
    }

    fn enqueue(&mut self, id: &str, request: &Request) -> OpResult<u32> {
        let shell_key = self.shells.find(request.id("shell")?)?;
        let spec = Spec {
            text: request.cstring("command")?.into_bytes(),
            timeout_ms: request.maybe_uint("timeoutMs", MAX_TIMEOUT_MS)?,
            separate: request.bool("separate")?,
            size: size(request)?,
        };
        let ring = ring_bytes(request)?;
        let shell = &self.shells.map[&shell_key];
        if shell.queue.len() >= MAX_QUEUE {
            return Err(OpError::new(
                "limit",
                format!("{MAX_QUEUE} commands are queued for this shell, which is the maximum"),
            ));
        }
        let key = self.tasks.key();
        let mut task = Task::new(id, What::Command { shell: shell_key }, ring);
        task.command = Some(spec);
        self.tasks.insert(key, task);
        if let Some(shell) = self.shells.map.get_mut(&shell_key) {
            shell.queue.push_back(key);
        }
        self.shell_next(shell_key);
        Ok(key)
    }

    /// Starts the next queued command if the shell is idle.
    pub fn shell_next(&mut self, key: u32) {
        while let Some(shell) = self
            .shells
            .map
            .get_mut(&key)
            .filter(|shell| shell.current.is_none())
        {
            match &shell.live {
                // Commands also wait for the profile of a login shell.
                Some(live) if live.starting || live.login.is_some() => return,
                Some(_) => {}
                None if shell.queue.is_empty() || shell.closing => return,
                // `shell_started` continues.
                None => match self.shell_start(key) {
                    Ok(()) => return,
                    Err(error) => {
                        self.fail_next(key, error);
                        continue;
                    }
                },
            }
            let Some(task_key) = shell.queue.pop_front() else {
                return;
            };
            let Some(spec) = self
                .tasks
                .map
                .get_mut(&task_key)
                .and_then(|task| task.command.take())
            else {
                continue;
            };
            let restarted = std::mem::take(&mut shell.fresh);
            let timeout = spec.timeout_ms;
            let login_skipped = shell.login_skipped.take();
            let checking = spec.text.windows(2).any(|pair| pair == b"<<");
            let mut current = Current {
                task: task_key,
                spec,
                nonce: sys::nonce(),
                restarted,
                login_skipped,
                slaves: Vec::new(),
                checking,
                check: None,
                interrupting: false,
                begun: None,
                interrupted_since: None,
            };
            let begun = match checking {
                true => self.check(key, &current.spec.text).map(|pid| current.check = pid),
                false => Ok(()),
            };
            if let Some(shell) = self.shells.map.get_mut(&key) {
                shell.current = Some(current);
            }
            // The timeout starts when the command starts, not when it is queued.
            if let Some(task) = self.tasks.map.get_mut(&task_key) {
                task.started = std::time::Instant::now();
            }
            if let Some(timeout) = timeout {
                let alarm = Alarm::Kill {
                    task: task_key,
                    step: 0,
                };
                self.timers.after(Duration::from_millis(timeout), alarm);
            }
            let begun = if checking { begun } else { self.begin(key) };
            if let Err(error) = begun {
                self.abandon(key, Exit::Failed(error));
            }
        }
    }

    /// A shell takes the end of its input as the end of an open heredoc, and runs it. So text with `<<` is
    /// first passed to `sh -n` with an extra line `)`. That line is a syntax error, unless an open construct
    /// swallows it.
    fn check(&mut self, key: u32, text: &[u8]) -> OpResult<Option<libc::pid_t>> {
        let Some(live) = self.shells.map.get(&key).and_then(|shell| shell.live.as_ref()) else {
            return Ok(None);
        };
        let failed = |error: std::io::Error| OpError::io(&error, "check");
        let (flavour, launch) = (live.flavour, self.shells.map[&key].launch.clone());
        let file = sys::memory_file(&[text, b"\n)\n"].concat()).map_err(failed)?;
        let null = null().map_err(failed)?;
        let fds = vec![
            (file.as_raw_fd(), 0),
            (null.as_raw_fd(), 1),
            (null.as_raw_fd(), 2),
        ];
        let argv =
            [flavour.program(), "-n"].map(|arg| std::ffi::CString::new(arg).expect("constants have no NUL"));
        let mut command = launch.command(argv.to_vec(), fds, None);
        command.cwd = None;
        self.begin_start(command, Owner::Check(key)).map(Some)
    }

    pub fn check_started(&mut self, key: u32, result: OpResult<()>) {
        if let Err(error) = result {
            self.abandon(key, Exit::Failed(error));
            self.shell_next(key);
        }
    }

    pub fn shell_checked(&mut self, key: u32, status: i32) {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        let Some(current) = shell.current.as_mut().filter(|current| current.checking) else {
            return;
        };
        (current.checking, current.check) = (false, None);
        if current.interrupting {
            return self.end_current(key, INTERRUPTED);
        }
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
            let message =
                b"syntax error: unexpected end of command: a here-document or a bracket is still open\n";
            shell.last_status = 2;
            if let Some(task) = self.tasks.map.get_mut(&current.task) {
                task.ring.append(STDERR, message);
            }
            return self.end_current(key, 2);
        }
        if let Err(error) = self.begin(key) {
            self.abandon(key, Exit::Failed(error));
            self.shell_next(key);
        }
    }

    /// Opens the terminals of the current command and types it.
    fn begin(&mut self, key: u32) -> OpResult<()> {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return Ok(());
        };
        let (Some(live), Some(current)) = (&mut shell.live, &mut shell.current) else {
            return Ok(());
        };
        let Some(task) = self.tasks.map.get_mut(&current.task) else {
            return Ok(());
        };
        let failed = |error: std::io::Error| OpError::io(&error, "terminal");
        let size = current.spec.size.or(shell.launch.size).unwrap_or_default();
        let channels: &[u8] = if current.spec.separate {
            &[STDOUT, STDERR]
        } else {
            &[STDOUT]
        };
        let mut paths = Vec::new();
        for channel in channels {
            let pair = pty::open(shell.launch.user.as_ref(), size, pty::Discipline::Plain).map_err(failed)?;
            let source = Source::new(pair.master, *channel).map_err(failed)?;
            let token = Token::TaskOut {
                task: current.task,
                channel: *channel,
            };
            self.epoll.add(source.fd.as_raw_fd(), token).map_err(failed)?;
            task.sources.push(source);
            current.slaves.push(pair.slave);
            paths.push(pair.path.into_string().expect("an ASCII path"));
        }
        let err = paths.get(1).map(String::as_str);
        let line = live.flavour.line(
            &current.spec.text,
            &paths[0],
            err,
            &current.nonce,
            shell.last_status,
        );
        current.spec.text = Vec::new();
        current.begun = Some(StartTime::now());
        live.control.push(&line);
        live.control.flush();
        Ok(())
    }

    /// Ends the current command without an exit code.
    fn abandon(&mut self, key: u32, exit: Exit) {
        if let Some(current) = self
            .shells
            .map
            .get_mut(&key)
            .and_then(|shell| shell.current.take())
        {
            self.end_task(current.task, exit);
        }
    }

    /// Reads the status socket and handles every complete report.
    pub fn shell_status(&mut self, key: u32) {
        for _ in 0..READS {
            let Some(live) = self.shells.live(key) else {
                return;
            };
            let mut chunk = [0; 4096];
            match sys::read(live.status.as_raw_fd(), &mut chunk) {
                Ok(Some(count)) if count > 0 => live.reports.extend_from_slice(&chunk[..count]),
                _ => return,
            }
            while let Some(report) = self.next_report(key) {
                self.reported(key, report);
            }
            if let Some(live) = self.shells.live(key)
                && live.reports.len() > MAX_REPORT
            {
                live.reports.clear();
            }
        }
        self.shells.unread.insert(key);
    }

    fn next_report(&mut self, key: u32) -> Option<Report> {
        take_report(&mut self.shells.live(key)?.reports)
    }

    fn reported(&mut self, key: u32, report: Report) {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        if shell.live.as_ref().is_some_and(|live| live.login.is_some()) && self.login_reported(key, &report) {
            return;
        }
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        // A report without the current nonce is from an older command, or forged.
        let Some(current) = shell
            .current
            .as_ref()
            .filter(|current| current.nonce.as_bytes() == report.nonce)
        else {
            return;
        };
        if let Some(live) = &shell.live {
            current.kill_started_processes(shell.mark, Some(live.pid));
            if let Some(status) = report.status {
                current.kill_forgotten_program(shell.mark, live.pid, status);
            }
        }
        let Some(status) = report.status else {
            // In a POSIX sh, a function named `printf` can change the report.
            let message = "the shell reported an unreadable exit status; check for a function named printf";
            self.abandon(key, Exit::Failed(OpError::new("io", message)));
            return self.shell_next(key);
        };
        shell.last_status = status;
        shell.last_cwd = Some(report.cwd)
            .filter(|cwd| cwd.starts_with(b"/"))
            .or(shell.last_cwd.take());
        self.end_current(key, status);
    }

    /// Ends the current command with this exit code and starts the next one.
    fn end_current(&mut self, key: u32, status: i32) {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        let (current, cwd, closing) = (shell.current.take(), shell.last_cwd.clone(), shell.closing);
        let Some(current) = current else { return };
        let facts = self.command_facts(&current, Fields::new().int("exitCode", status), cwd);
        // The shell may report the command that `close_shell` killed before the shell itself ends.
        let facts = if closing {
            facts.bool("shellExited", true)
        } else {
            facts
        };
        let task = current.task;
        // Close the slaves first, so that the end of the output is visible.
        drop(current);
        self.end_task(task, Exit::Facts(facts));
        self.shell_next(key);
    }

    pub fn command_facts(&self, current: &Current, status: Fields, cwd: Option<Vec<u8>>) -> Fields {
        let Some(task) = self.tasks.map.get(&current.task) else {
            return status;
        };
        status
            .bool("timedOut", task.timed_out)
            .int("durationMs", task.started.elapsed().as_millis())
            .bool("restarted", current.restarted)
            .maybe_text("loginSkipped", current.login_skipped)
            .maybe_bytes("cwd", cwd.as_deref())
    }

    pub fn shell_control(&mut self, key: u32, writable: bool) {
        if let Some(live) = self.shells.live(key) {
            live.control.writable |= writable;
            live.control.flush();
        }
    }

    /// Drains the controlling terminal: prompts, job notices and writes to /dev/tty.
    ///
    /// For a POSIX sh a prompt is meaningful. After an error the shell drops the rest of the typed line and
    /// prompts, so ask for the status again.
    pub fn shell_terminal(&mut self, key: u32) {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        let Some(live) = &mut shell.live else { return };
        let (mut heard, mut reads) = (false, 0);
        while let Ok(Some(count @ 1..)) = sys::read(live.terminal.as_raw_fd(), &mut self.scratch) {
            heard = true;
            live.terminal_tail.extend_from_slice(&self.scratch[..count]);
            let excess = live.terminal_tail.len().saturating_sub(MAX_TERMINAL_TAIL);
            live.terminal_tail.drain(..excess);
            reads += 1;
            if reads == READS {
                // Limit how long a flood on /dev/tty blocks the loop.
                self.shells.unread.insert(key);
                break;
            }
        }
        if heard
            && live.flavour == crate::shell::script::Flavour::Sh
            && let Some(current) = shell.current.as_ref().filter(|current| !current.checking)
            && live.control.queued() == 0
        {
            live.control.push(&live.flavour.report(&current.nonce));
            live.control.flush();
        }
    }
}
