//! Commands of a shell, one after another: queue, check, run, report, interrupt.

use crate::process::marked_processes;
use crate::process::operations::{MAX_TIMEOUT_MS, STDERR, STDOUT, null, reader, size};
use crate::process::start_time::StartTime;
use crate::process::task::{DEFAULT_RING, Exit, MAX_RING, Task, What};
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
/// Reads of one descriptor in one turn of the loop.
const READS: usize = 16;
/// What a shell may say on its status socket without finishing a report: a folder and two numbers fit many times.
const MAX_REPORT: usize = 64 * 1024;
/// What is kept of the controlling terminal: enough for the last words of a shell.
const MAX_HEARD: usize = 8 * 1024;

/// What a shell says of a command that an interrupt has ended.
const INTERRUPTED: i32 = 128 + libc::SIGINT;

/// The command that a shell is running.
pub struct Current {
    pub task: u32,
    spec: Spec,
    pub nonce: String,
    /// A fresh shell was started for it.
    restarted: bool,
    /// Why that is no login shell, though one was asked for.
    login_skipped: Option<&'static str>,
    /// Kept open until the end, so that the terminal is never without a slave before the shell has opened it.
    slaves: Vec<OwnedFd>,
    /// Waiting for the syntax check, and its process.
    checking: bool,
    pub check: Option<libc::pid_t>,
    /// It is being ended: a second request for that changes nothing.
    pub interrupting: bool,
    /// When it was typed: what of the shell is younger was started by it.
    pub begun: Option<StartTime>,
    /// Shortly before an interrupt was last sent to the shell itself.
    pub struck: Option<StartTime>,
}

impl Current {
    /// Kills what the command started, wherever it is, if it is being ended. After a normal end its background jobs live on.
    pub fn end_strays(&self, mark: Option<u32>, shell: Option<libc::pid_t>) {
        if let (true, Some(mark), Some(begun)) = (self.interrupting, mark, self.begun) {
            marked_processes::kill_since(mark, begun, shell);
        }
    }

    /// A bash that is interrupted between starting a program and waiting for it forgets the program, says that the command has ended, and before it begins the
    /// next one waits for the program, for as long as that runs. So what it started just before it was struck is ended too.
    fn end_forgotten(&self, mark: Option<u32>, shell: libc::pid_t, status: i32) {
        if let (INTERRUPTED, Some(mark), Some(struck)) = (status, mark, self.struck) {
            marked_processes::kill_since(mark, struck, Some(shell));
        }
    }
}

/// What a queued command needs to begin.
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
            return Err(OpError::new("exists", format!("'{id}' is a process")));
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
        let ring = request
            .maybe_uint("ringBytes", MAX_RING as u64)?
            .unwrap_or(DEFAULT_RING as u64)
            .max(4096);
        let shell = &self.shells.map[&shell_key];
        if shell.queue.len() >= MAX_QUEUE {
            return Err(OpError::new(
                "limit",
                format!("{MAX_QUEUE} commands are waiting for this shell"),
            ));
        }
        let key = self.tasks.key();
        let mut task = Task::new(id, What::Command { shell: shell_key }, ring as usize);
        task.command = Some(spec);
        self.tasks.insert(key, task);
        if let Some(shell) = self.shells.map.get_mut(&shell_key) {
            shell.queue.push_back(key);
        }
        self.shell_next(shell_key);
        Ok(key)
    }

    /// Begins the next command, if the shell is free and one is waiting.
    pub fn shell_next(&mut self, key: u32) {
        while let Some(shell) = self
            .shells
            .map
            .get_mut(&key)
            .filter(|shell| shell.current.is_none())
        {
            match &shell.live {
                // Commands wait until the shell has read its profile, too.
                Some(live) if live.starting || live.login.is_some() => return,
                Some(_) => {}
                None if shell.queue.is_empty() || shell.closing => return,
                // The command's turn comes when the shell is there.
                None => match self.shell_start(key) {
                    Ok(()) => return,
                    Err(error) => {
                        self.fail_first(key, error);
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
                struck: None,
            };
            let begun = match checking {
                true => self.check(key, &current.spec.text).map(|pid| current.check = pid),
                false => Ok(()),
            };
            if let Some(shell) = self.shells.map.get_mut(&key) {
                shell.current = Some(current);
            }
            // The clock of a command starts when its turn comes, not when it was queued.
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

    /// A shell takes the end of its input for the end of an open heredoc, and runs it. So a text that could have one is
    /// first given to `sh -n` with a line `)` after it: that line is a syntax error, unless something was still open to swallow it.
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

    /// The check could not be started, so neither is the command.
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
            let (task, cwd) = (current.task, shell.last_cwd.clone());
            let Some(current) = shell.current.take() else {
                return;
            };
            let facts = self.command_facts(&current, Fields::new().int("exitCode", INTERRUPTED), cwd);
            self.end_task(task, Exit::Facts(facts));
            return self.shell_next(key);
        }
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
            let message =
                b"syntax error: unexpected end of command: a here-document or a bracket is still open\n";
            let (task_key, cwd) = (current.task, shell.last_cwd.clone());
            shell.last_status = 2;
            let Some(current) = shell.current.take() else {
                return;
            };
            if let Some(task) = self.tasks.map.get_mut(&task_key) {
                task.ring.append(STDERR, message);
            }
            let facts = self.command_facts(&current, Fields::new().int("exitCode", 2), cwd);
            self.end_task(task_key, Exit::Facts(facts));
            return self.shell_next(key);
        }
        if let Err(error) = self.begin(key) {
            self.abandon(key, Exit::Failed(error));
            self.shell_next(key);
        }
    }

    /// Makes the terminal(s) of the current command and types it.
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
            self.epoll
                .add(source.fd.as_raw_fd(), token.pack())
                .map_err(failed)?;
            task.sources.push(source);
            current.slaves.push(pair.slave);
            paths.push(pair.path.into_string().expect("a path of ASCII"));
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

    /// The current command could not be begun.
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

    /// Reads the status socket and acts on every whole report.
    pub fn shell_status(&mut self, key: u32) {
        for _ in 0..READS {
            let Some(live) = self
                .shells
                .map
                .get_mut(&key)
                .and_then(|shell| shell.live.as_mut())
            else {
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
            if let Some(live) = self
                .shells
                .map
                .get_mut(&key)
                .and_then(|shell| shell.live.as_mut())
                && live.reports.len() > MAX_REPORT
            {
                live.reports.clear();
            }
        }
        self.shells.again.insert(key);
    }

    fn next_report(&mut self, key: u32) -> Option<Report> {
        take_report(&mut self.shells.map.get_mut(&key)?.live.as_mut()?.reports)
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
        let folder = Some(report.cwd.clone()).filter(|cwd| cwd.starts_with(b"/"));
        // Without the nonce of the command that runs now, it is an echo of an older one, or a forgery.
        if shell
            .current
            .as_ref()
            .is_none_or(|current| current.nonce.as_bytes() != report.nonce)
        {
            return;
        }
        let (Some(current), Some(status)) = (shell.current.take(), report.status) else {
            return;
        };
        if let Some(live) = &shell.live {
            current.end_strays(shell.mark, Some(live.pid));
            current.end_forgotten(shell.mark, live.pid, status);
        }
        shell.last_status = status;
        shell.last_cwd = folder.or(shell.last_cwd.take());
        let cwd = shell.last_cwd.clone();
        let facts = self.command_facts(&current, Fields::new().int("exitCode", status), cwd);
        let task = current.task;
        // The slaves close first: the end of the output is then to be seen.
        drop(current);
        self.end_task(task, Exit::Facts(facts));
        self.shell_next(key);
    }

    pub fn command_facts(&self, current: &Current, status: Fields, cwd: Option<Vec<u8>>) -> Fields {
        let Some(task) = self.tasks.map.get(&current.task) else {
            return status;
        };
        let facts = status
            .bool("timedOut", task.timed_out)
            .int("durationMs", task.started.elapsed().as_millis())
            .bool("restarted", current.restarted)
            .maybe_text("loginSkipped", current.login_skipped);
        match cwd {
            Some(cwd) => facts.bytes("cwd", &cwd),
            None => facts,
        }
    }

    pub fn shell_control(&mut self, key: u32, writable: bool) {
        if let Some(live) = self
            .shells
            .map
            .get_mut(&key)
            .and_then(|shell| shell.live.as_mut())
        {
            live.control.writable |= writable;
            live.control.flush();
        }
    }

    /// The controlling terminal: prompts, notices about jobs, whatever writes to /dev/tty. Nobody's output. For a POSIX sh it has
    /// one use: after an error the rest of our line is lost and a prompt appears, so a prompt means "ask for the status".
    pub fn shell_terminal(&mut self, key: u32) {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        let Some(live) = &mut shell.live else { return };
        let (mut heard, mut reads) = (false, 0);
        while let Ok(Some(count @ 1..)) = sys::read(live.terminal.as_raw_fd(), &mut self.scratch) {
            heard = true;
            live.heard.extend_from_slice(&self.scratch[..count]);
            let excess = live.heard.len().saturating_sub(MAX_HEARD);
            live.heard.drain(..excess);
            reads += 1;
            if reads == READS {
                // A flood of /dev/tty takes its turn like everything else.
                self.shells.again.insert(key);
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
