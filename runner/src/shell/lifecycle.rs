//! The life of a shell: open, restart, close. A shell is a bash (or sh, if there is no bash) that keeps
//! running between commands.
//!
//! ```text
//!            control (socket) ─► ┌──────┐ ─► /dev/pts/7 ─► ring of command 1 and its background jobs
//!   runner                       │ bash │ ─► /dev/pts/8 ─► ring of command 2
//!            status  (socket) ◄─ └──────┘
//!                                    └─ controlling terminal: job control, prompts, notices; discarded
//! ```
//!
//! Commands queue per shell, and one runs at a time (`commands`).

use crate::process::launch::Launch;
use crate::process::marked_processes;
use crate::process::pending_start::Opener;
use crate::process::start_time::StartTime;
use crate::process::task::{Exit, status_facts};
use crate::serve::connection::Use;
use crate::serve::epoll_token::Token;
use crate::serve::incoming::Outcome;
use crate::serve::server::{Owner, Server};
use crate::serve::source_sink::{Finish, Sink};
use crate::serve::timers::Alarm;
use crate::shell::commands::Current;
use crate::shell::login::{self, Login};
use crate::shell::script::{Flavour, last_cwd_report};
use crate::sys::{self, is_there, kill, pty};
use crate::wire::cbor::{Fields, Value};
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const MAX_SHELLS: usize = 64;
const CLOSE_GRACE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Shells {
    pub map: HashMap<u32, Shell>,
    pub ids: HashMap<String, u32>,
    /// Shells with more to read than one turn allows.
    pub unread: BTreeSet<u32>,
    next: u32,
}

pub struct Shell {
    pub id: String,
    pub launch: Launch,
    wanted: Option<Flavour>,
    login: bool,
    login_ms: u64,
    /// Identifies its processes. Restarted shell processes keep it.
    pub mark: Option<u32>,
    pub live: Option<Live>,
    /// A process of this shell has run before, so the next one counts as a restart.
    pub started_before: bool,
    /// The next command is the first one after a restart.
    pub fresh: bool,
    /// Why this is not the requested login shell. Reported once.
    pub login_skipped: Option<&'static str>,
    pub last_cwd: Option<Vec<u8>>,
    pub last_status: i32,
    pub queue: VecDeque<u32>,
    pub current: Option<Current>,
    /// Requests that wait for the start.
    openers: Vec<Opener>,
    /// The working directory of the start in progress.
    starting_cwd: Option<CString>,
    pub closing: bool,
}

/// The running shell process.
pub struct Live {
    pub pid: libc::pid_t,
    /// The shell program is not executed yet.
    pub starting: bool,
    pub flavour: Flavour,
    pub nonce: String,
    pub terminal: OwnedFd,
    pub control: Sink,
    pub status: OwnedFd,
    pub reports: Vec<u8>,
    /// The latest output of the controlling terminal.
    pub terminal_tail: Vec<u8>,
    /// Set until the profile is finished.
    pub login: Option<Login>,
}

impl Live {
    /// The foreground process group, unless it is the shell itself.
    pub fn job(&self, mark: Option<u32>, current: Option<&Current>) -> Option<libc::pid_t> {
        match pty::foreground(self.terminal.as_raw_fd()) {
            // An ended job can stay in the foreground until the shell notices.
            Ok(group) => group.filter(|group| *group != self.pid && is_there(-*group)),
            Err(_) => marked_processes::foreground_job(mark?, self.pid, Some(current?.begun?)),
        }
    }
}

impl Shells {
    pub fn live(&mut self, key: u32) -> Option<&mut Live> {
        self.map.get_mut(&key)?.live.as_mut()
    }

    pub fn find(&self, id: &str) -> OpResult<u32> {
        self.ids
            .get(id)
            .copied()
            .ok_or_else(|| OpError::new("not_found", format!("no shell '{id}'")))
    }
}

impl Server {
    pub fn op_shell_open(&mut self, conn: u32, stream: u32, request: &Request) -> OpResult<Outcome> {
        let id = request.id("id")?;
        if let Some(key) = self.shells.ids.get(id) {
            return Ok(self.wait_for_shell(*key, conn, stream, true));
        }
        if self.stopping {
            return Err(OpError::new("shutting_down", "the runner is stopping"));
        }
        if self.shells.map.len() >= MAX_SHELLS {
            return Err(OpError::new(
                "limit",
                format!("{MAX_SHELLS} shells are open, which is the maximum"),
            ));
        }
        let wanted = match request.maybe_text("shell")? {
            None => None,
            Some("bash") => Some(Flavour::Bash),
            Some("sh") => Some(Flavour::Sh),
            Some(_) => return Err(OpError::invalid("shell: must be 'bash' or 'sh'")),
        };
        let mut launch = Launch::parse(request, &self.config)?;
        // A pager or full-screen program would wait for a key press.
        for (name, value) in [
            ("TERM", "dumb"),
            ("PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            ("MANPAGER", "cat"),
        ] {
            launch.default_env(name, value);
        }
        let mut shell = Shell {
            id: id.to_owned(),
            launch,
            wanted,
            login: request.bool("login")?,
            login_ms: request
                .maybe_uint("loginTimeoutMs", login::MAX_LOGIN_MS)?
                .unwrap_or(login::LOGIN_MS),
            mark: None,
            live: None,
            started_before: false,
            fresh: false,
            login_skipped: None,
            last_cwd: None,
            last_status: 0,
            queue: VecDeque::new(),
            current: None,
            openers: Vec::new(),
            starting_cwd: None,
            closing: false,
        };
        shell.mark = self.new_mark(shell.launch.user.as_ref());
        self.shells.next += 1;
        let key = self.shells.next;
        self.shells.map.insert(key, shell);
        if let Err(error) = self.shell_start(key) {
            self.shells.map.remove(&key);
            return Err(error);
        }
        self.shells.ids.insert(id.to_owned(), key);
        Ok(self.wait_for_shell(key, conn, stream, false))
    }

    fn wait_for_shell(&mut self, key: u32, conn: u32, stream: u32, existed: bool) -> Outcome {
        match self.shells.map.get_mut(&key) {
            Some(shell) if shell.live.as_ref().is_some_and(|live| live.starting) => {
                shell.openers.push(Opener {
                    conn,
                    stream,
                    existed,
                    only: true,
                });
                Outcome::Stream(Use::Start { task: None }, None)
            }
            Some(shell) => Outcome::Done(opened(shell, existed)),
            None => Outcome::Done(Fields::new()),
        }
    }

    /// Starts the shell's process in its last working directory.
    pub fn shell_start(&mut self, key: u32) -> OpResult<()> {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return Ok(());
        };
        let last = shell.last_cwd.clone().and_then(|cwd| CString::new(cwd).ok());
        shell.fresh |= shell.started_before;
        let cwd = last.or_else(|| shell.launch.cwd.clone());
        let flavour = shell.wanted.unwrap_or(Flavour::Bash);
        self.shell_start_in(key, flavour, cwd)
    }

    fn shell_start_in(&mut self, key: u32, flavour: Flavour, cwd: Option<CString>) -> OpResult<()> {
        let Some(shell) = self.shells.map.get(&key) else {
            return Ok(());
        };
        let (mut launch, login, mark) = (shell.launch.clone(), shell.login, shell.mark);
        launch.cwd = cwd.clone();
        let live = self.start_process(key, &launch, flavour, login, mark)?;
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return Ok(());
        };
        shell.starting_cwd = cwd;
        let (pid, patience) = (live.login.is_some().then_some(live.pid), shell.login_ms);
        shell.live = Some(live);
        self.shell_control(key, true);
        if let Some(pid) = pid {
            self.expect_login(key, pid, patience);
        }
        Ok(())
    }

    /// Handles the result of a start. A failed start may be retried in another directory or with sh.
    pub fn shell_started(&mut self, key: u32, pid: libc::pid_t, result: OpResult<()>) {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        let Some(live) = shell.live.as_mut().filter(|live| live.pid == pid) else {
            return;
        };
        let Err(error) = result else {
            live.starting = false;
            shell.started_before |= live.login.is_none();
            shell.last_status = 0;
            let closing = shell.closing;
            for opener in std::mem::take(&mut shell.openers) {
                let answer = match self.shells.map.get(&key) {
                    Some(shell) if !closing => Ok(opened(shell, opener.existed)),
                    _ => Err(closed()),
                };
                self.answer_opener(opener, answer);
            }
            return self.shell_next(key);
        };
        let (flavour, first) = (live.flavour, shell.launch.cwd.clone());
        shell.live = None;
        let again = if shell.closing {
            Err(error)
        } else if error.step == Some("cwd") && shell.starting_cwd != first {
            // The last directory is gone, so use the initial one.
            self.shell_start_in(key, flavour, first)
        } else if error.code == "not_found" && flavour == Flavour::Bash && shell.wanted.is_none() {
            let cwd = shell.starting_cwd.clone();
            self.shell_start_in(key, Flavour::Sh, cwd)
        } else {
            Err(error)
        };
        if let Err(error) = again {
            self.shell_not_started(key, error);
        }
    }

    /// A new shell is removed. An existing shell fails the command that it was started for.
    fn shell_not_started(&mut self, key: u32, error: OpError) {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        let (openers, old) = (std::mem::take(&mut shell.openers), shell.started_before);
        for opener in openers {
            self.answer_opener(opener, Err(error.clone()));
        }
        if old && !self.shells.map[&key].closing {
            self.fail_next(key, error);
            return self.shell_next(key);
        }
        if let Some(shell) = self.shells.map.get_mut(&key) {
            self.shells.ids.remove(&shell.id);
        }
        self.shell_remove(key);
    }

    /// Fails the next queued command.
    pub fn fail_next(&mut self, key: u32, error: OpError) {
        let first = self
            .shells
            .map
            .get_mut(&key)
            .and_then(|shell| shell.queue.pop_front());
        if let Some(task) = first {
            self.end_task(task, Exit::Failed(error));
        }
    }

    /// The shell process exited: by `exit`, `exec`, `set -e` or a signal.
    pub fn shell_exited(&mut self, key: u32, pid: libc::pid_t, status: i32) {
        // Handle reports that were written before the exit.
        self.shell_status(key);
        self.shell_terminal(key);
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        let Some(live) = shell.live.take_if(|live| live.pid == pid) else {
            return;
        };
        if let Some(cwd) =
            last_cwd_report(&live.terminal_tail, &live.nonce).filter(|cwd| cwd.starts_with(b"/"))
        {
            shell.last_cwd = Some(cwd);
        }
        if let Some(current) = shell.current.take() {
            current.kill_started_processes(shell.mark, None);
            let cwd = shell.last_cwd.clone();
            let facts = self
                .command_facts(&current, status_facts(status), cwd)
                .bool("shellExited", true);
            self.end_task(current.task, Exit::Facts(facts));
        }
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        if shell.closing {
            return self.shell_remove(key);
        }
        if let Some(login) = &live.login {
            shell.login_skipped = Some(login::clean_up(login, shell.mark));
            shell.login = false;
        }
        self.shell_next(key);
    }

    pub fn op_shell_close(&mut self, request: &Request) -> OpResult<Outcome> {
        let key = self.shells.find(request.id("id")?)?;
        self.close_shell(key);
        Ok(Outcome::Done(Fields::new()))
    }

    fn close_shell(&mut self, key: u32) {
        let Some(shell) = self.shells.map.get_mut(&key) else {
            return;
        };
        shell.closing = true;
        self.shells.ids.remove(&shell.id);
        let waiting: Vec<_> = shell.queue.drain(..).collect();
        match &mut shell.live {
            None => self.shell_remove(key),
            Some(live) => {
                if let Some(group) = live
                    .job(shell.mark, shell.current.as_ref())
                    .filter(|_| shell.current.is_some())
                {
                    kill(-group, libc::SIGKILL);
                }
                // An idle shell exits at the end of its input. A busy one gets SIGHUP.
                live.control.end();
                live.control.flush();
                shell
                    .current
                    .iter_mut()
                    .for_each(|current| current.interrupting = true);
                kill(live.pid, libc::SIGHUP);
                self.timers.after(
                    CLOSE_GRACE,
                    Alarm::ShellKill {
                        shell: key,
                        pid: live.pid,
                    },
                );
            }
        }
        for task in waiting {
            self.end_task(task, Exit::Failed(closed()));
        }
    }

    fn shell_remove(&mut self, key: u32) {
        if let Some(shell) = self.shells.map.remove(&key) {
            for task in shell.queue {
                self.end_task(task, Exit::Failed(closed()));
            }
        }
    }

    /// Shells ignore SIGTERM but exit at the end of their input.
    pub fn close_idle_shells(&mut self) {
        let keys: Vec<_> = self.shells.map.keys().copied().collect();
        keys.into_iter().for_each(|key| self.close_shell(key));
    }

    pub fn op_shell_list(&mut self) -> OpResult<Outcome> {
        let mut keys: Vec<_> = self.shells.ids.values().copied().collect();
        keys.sort_unstable();
        let describe = |key: &u32| {
            let shell = &self.shells.map[key];
            let running = shell
                .current
                .as_ref()
                .and_then(|c| self.tasks.map.get(&c.task))
                .map(|t| t.id.as_str());
            opened(shell, true)
                .text("id", &shell.id)
                .maybe_text("running", running)
                .int("queued", shell.queue.len() as u64)
                .value()
        };
        Ok(Outcome::Done(Fields::new().set(
            "shells",
            Value::Array(keys.iter().map(describe).collect()),
        )))
    }
}

fn closed() -> OpError {
    OpError::new("cancelled", "the shell was closed")
}

fn opened(shell: &Shell, existed: bool) -> Fields {
    let fields = Fields::new().bool("existed", existed);
    let fields = match &shell.live {
        Some(live) => fields.int("pid", live.pid).text("shell", live.flavour.program()),
        None => fields,
    };
    fields.maybe_bytes("cwd", shell.last_cwd.as_deref())
}

impl Server {
    fn start_process(
        &mut self,
        key: u32,
        launch: &Launch,
        flavour: Flavour,
        login: bool,
        mark: Option<u32>,
    ) -> OpResult<Live> {
        let failed = |error: std::io::Error| OpError::io(&error, "shell");
        let terminal = pty::open(
            launch.user.as_ref(),
            launch.size.unwrap_or_default(),
            pty::Discipline::Plain,
        )
        .map_err(failed)?;
        let (control_child, control) = sys::socket_pair().map_err(failed)?;
        let (status, status_child) = sys::socket_pair().map_err(failed)?;
        sys::set_nonblocking(status.as_raw_fd()).map_err(failed)?;
        let slave = terminal.slave.as_raw_fd();
        let fds = vec![
            (control_child.as_raw_fd(), 0),
            (slave, 1),
            (slave, 2),
            (status_child.as_raw_fd(), flavour.status_fd()),
        ];
        let arguments = flavour.arguments(login);
        let argv = arguments
            .iter()
            .map(|arg| CString::new(*arg).expect("constants have no NUL"))
            .collect();
        let mut command = launch.command(argv, fds, Some(slave));
        let program = CString::new(flavour.program()).expect("constants have no NUL");
        command.program = Some(program);
        command.mark = mark;
        let nonce = sys::nonce();
        let mut control = Sink::new(control, Finish::Close).map_err(failed)?;
        control.push(&flavour.prologue(&nonce));
        let register = |fd: i32, token: Token| self.epoll.add(fd, token);
        register(status.as_raw_fd(), Token::ShellStatus(key))
            .and_then(|()| register(terminal.master.as_raw_fd(), Token::ShellTerminal(key)))
            .and_then(|()| {
                control
                    .raw()
                    .map_or(Ok(()), |fd| register(fd, Token::ShellControl(key)))
            })
            .map_err(failed)?;
        let begun = StartTime::now();
        let pid = self.begin_start(command, Owner::Shell(key))?;
        let login = login.then(|| Login::new(sys::nonce(), begun));
        if let Some(login) = &login {
            let (env, cwd) = (&launch.env, launch.cwd.as_deref());
            control.push(&login::check_text(flavour, &login.nonce, pid, env, cwd));
        }
        Ok(Live {
            pid,
            starting: true,
            flavour,
            nonce,
            terminal: terminal.master,
            control,
            status,
            reports: Vec::new(),
            terminal_tail: Vec::new(),
            login,
        })
    }
}
