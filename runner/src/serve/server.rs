//! The event loop: one thread, one epoll instance, all state in one struct.
//!
//! ```text
//!            epoll ──► event ──► read output, receive frames, reap ──► mark connections dirty
//!              ▲                                                              │
//!              └──────────────── serve: ring/pipe → frames → socket ◄─────────┘
//! ```
//!
//! One thread, because PID 1 must be small and because sequential events need no locks: no process is reaped
//! between the lookup of its pid and the signal, so a recycled pid is never signalled. Only file operations run
//! on threads (`files::worker`), because they can block.
//!
//! A panic must not end PID 1 and everything below it. Each step runs inside `catch_unwind`: a panic is printed
//! to stderr and ends the connection or event that caused it. Connections are removed from the table while they
//! are served, so a broken one is not put back.

use crate::process::marks::Marks;
use crate::process::reaper::has_children;
use crate::process::task::Tasks;
use crate::serve::acceptor::{Accepted, Acceptor};
use crate::serve::connection::{Conn, Use};
use crate::serve::epoll_token::{CONN_MASK, Token};
use crate::serve::timers::{Alarm, Timers};
use crate::shell::lifecycle::Shells;
use crate::sys::epoll::{Epoll, Ready};
use crate::sys::spawn::Starting;
use crate::sys::user::User;
use crate::sys::{self, kill};
use crate::wire::frame::Violation;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

const MAX_CONNECTIONS: usize = 64;
const HELLO_TIME: Duration = Duration::from_secs(10);
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What a child belongs to. Children without an owner are orphans that the runner adopted.
#[derive(Clone, Copy, PartialEq)]
pub enum Owner {
    Task(u32),
    Shell(u32),
    /// A syntax check before a command of this shell.
    Check(u32),
}

pub struct Config {
    /// The default user of processes, shells and file operations.
    pub user: Option<User>,
    /// The default working directory.
    pub cwd: Option<CString>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
}

pub struct Server {
    pub config: Config,
    pub epoll: Epoll,
    acceptor: Acceptor,
    pub signals: OwnedFd,
    /// An eventfd: a worker has an OPEN body.
    wake_up: OwnedFd,
    pub conns: HashMap<u32, Conn>,
    next_conn: u32,
    pub tasks: Tasks,
    pub shells: Shells,
    pub pids: HashMap<libc::pid_t, Owner>,
    pub starts: HashMap<libc::pid_t, Starting>,
    pub timers: Timers,
    pub marks: Marks,
    /// Connections to serve in this turn.
    pub dirty: BTreeSet<u32>,
    /// Tasks with more output to read than one turn allows.
    pub unread_tasks: BTreeSet<u32>,
    pub scratch: Vec<u8>,
    pub boot: [u8; 16],
    pub started: Instant,
    /// Listening ports as last reported, while a client watches them.
    pub ports: Option<Vec<crate::ports::listening::Port>>,
    /// The runner received SIGTERM or SIGINT: it refuses new work and exits after its last child.
    pub stopping: bool,
    /// No children are left, and the runner is closing connections.
    ending: bool,
}

impl Server {
    pub fn new(config: Config, acceptor: Acceptor, signals: OwnedFd) -> io::Result<Server> {
        let epoll = Epoll::new()?;
        epoll.add(acceptor.as_raw_fd(), Token::Listener)?;
        epoll.add(signals.as_raw_fd(), Token::Signals)?;
        let wake_up = crate::files::worker::wake_up()?;
        epoll.add(wake_up.as_raw_fd(), Token::WorkerOpened)?;
        let mut boot = [0; 16];
        sys::random(&mut boot);
        Ok(Server {
            config,
            epoll,
            acceptor,
            signals,
            wake_up,
            conns: HashMap::new(),
            next_conn: 0,
            tasks: Tasks::default(),
            shells: Shells::default(),
            pids: HashMap::new(),
            starts: HashMap::new(),
            timers: Timers::default(),
            marks: Marks::default(),
            dirty: BTreeSet::new(),
            unread_tasks: BTreeSet::new(),
            scratch: vec![0; 64 * 1024],
            boot,
            started: Instant::now(),
            ports: None,
            stopping: false,
            ending: false,
        })
    }

    /// Serves until the runner is told to stop and no child is left.
    pub fn run(&mut self) {
        let mut ready: Vec<Ready> = Vec::with_capacity(64);
        loop {
            let busy =
                !(self.unread_tasks.is_empty() && self.dirty.is_empty() && self.shells.unread.is_empty());
            if self.stopping && !busy && self.pids.is_empty() && !has_children() {
                // All results are sent: tell the clients why the connection ends.
                if self.conns.is_empty() {
                    return;
                }
                if !self.ending {
                    self.ending = true;
                    for (key, conn) in &mut self.conns {
                        conn.goodbye(&Violation::new("stopping", "the runner is stopping"));
                        self.dirty.insert(*key);
                    }
                    continue;
                }
            }
            self.epoll
                .wait(&mut ready, if busy { 0 } else { self.timers.wait_ms() });
            for event in &ready {
                self.guarded(|server| server.handle(*event));
            }
            while let Some(alarm) = self.timers.due() {
                self.guarded(|server| server.alarm(alarm));
            }
            for task in std::mem::take(&mut self.unread_tasks) {
                self.guarded(|server| server.read_output(task));
            }
            for shell in std::mem::take(&mut self.shells.unread) {
                self.guarded(|server| {
                    server.shell_status(shell);
                    server.shell_terminal(shell);
                });
            }
            for conn in std::mem::take(&mut self.dirty) {
                if !self.guarded(|server| server.serve(conn)) {
                    self.detach(conn);
                }
            }
        }
    }

    /// Returns false when the step panicked. The panic hook has printed the cause to stderr.
    fn guarded(&mut self, step: impl FnOnce(&mut Server)) -> bool {
        catch_unwind(AssertUnwindSafe(|| step(self))).is_ok()
    }

    fn handle(&mut self, event: Ready) {
        match Token::unpack(event.token) {
            Some(Token::Listener) => self.accept(),
            Some(Token::Signals) => self.signalled(),
            Some(Token::WorkerOpened) => {
                let _ = sys::read(self.wake_up.as_raw_fd(), &mut [0; 8]);
                let waits = |conn: &Conn| conn.streams.values().any(|stream| stream.waits_to_open());
                self.dirty.extend(
                    self.conns
                        .iter()
                        .filter(|(_, conn)| waits(conn))
                        .map(|(key, _)| *key),
                );
            }
            Some(Token::Conn(key)) => {
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.readable |= event.readable;
                    conn.writable |= event.writable;
                    self.dirty.insert(key);
                }
            }
            Some(Token::TaskOut { task, channel }) => {
                if let Some(found) = self.tasks.map.get_mut(&task) {
                    found
                        .sources
                        .iter_mut()
                        .filter(|s| s.channel == channel)
                        .for_each(|s| s.readable |= event.readable);
                    self.read_output(task);
                }
            }
            Some(Token::TaskIn(task)) => {
                if let Some(sink) = self.tasks.map.get_mut(&task).and_then(|task| task.stdin.as_mut()) {
                    sink.writable |= event.writable;
                    self.write_stdin(task);
                }
            }
            Some(Token::RelayIn { conn, stream } | Token::RelayOut { conn, stream }) => {
                if let Some(found) = self
                    .conns
                    .get_mut(&conn)
                    .and_then(|conn| conn.streams.get_mut(&stream))
                    && let Use::Relay(relay) = &mut found.what
                {
                    relay
                        .source
                        .iter_mut()
                        .for_each(|source| source.readable |= event.readable);
                    relay
                        .sink
                        .iter_mut()
                        .for_each(|sink| sink.writable |= event.writable);
                    self.dirty.insert(conn);
                }
            }
            Some(Token::ShellStatus(shell)) => self.shell_status(shell),
            Some(Token::ShellControl(shell)) => self.shell_control(shell, event.writable),
            Some(Token::ShellTerminal(shell)) => self.shell_terminal(shell),
            Some(Token::Start(pid)) => self.start_is_over(pid as libc::pid_t),
            None => {}
        }
    }

    fn alarm(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Hello(key) => {
                if let Some(conn) = self.conns.get_mut(&key).filter(|conn| !conn.greeted) {
                    conn.goodbye(&Violation::new("timeout", "no HELLO within 10 seconds"));
                    self.dirty.insert(key);
                }
            }
            Alarm::Accept => self.accept(),
            Alarm::Linger(key) => self.detach(key),
            Alarm::FirstReader(task) => self.stop_expecting_reader(task),
            Alarm::Kill { task, step } => self.handle_timeout(task, step),
            Alarm::KillMarked { mark, retries } => self.kill_marked(Some(mark), HashSet::new(), retries),
            Alarm::EndAll => self.end_all(),
            Alarm::ShellKill { shell, pid } => {
                // A pid that is still in the table is not reaped yet, so it cannot be recycled.
                if self.pids.get(&pid) == Some(&Owner::Shell(shell)) {
                    kill(pid, libc::SIGKILL);
                }
            }
            Alarm::ShellLogin { shell, pid } => self.give_up_login(shell, pid, "timeout"),
            Alarm::Ports => self.watch_ports(),
        }
    }

    fn accept(&mut self) {
        loop {
            let fd = match self.acceptor.next() {
                Accepted::Connection(fd) => fd,
                Accepted::None => return,
                Accepted::Aborted => continue,
                Accepted::RetryLater => return self.timers.after(ACCEPT_AGAIN, Alarm::Accept),
            };
            loop {
                self.next_conn = (self.next_conn + 1) & CONN_MASK;
                if !self.conns.contains_key(&self.next_conn) {
                    break;
                }
            }
            let key = self.next_conn;
            if self.epoll.add(fd.as_raw_fd(), Token::Conn(key)).is_err() {
                continue;
            }
            if self.conns.len() >= 2 * MAX_CONNECTIONS {
                continue;
            }
            let mut conn = Conn::new(fd);
            if self.ending {
                conn.goodbye(&Violation::new("stopping", "the runner is stopping"));
            }
            if self.conns.len() >= MAX_CONNECTIONS {
                conn.goodbye(&Violation::new(
                    "limit",
                    format!("{MAX_CONNECTIONS} connections are open, which is the maximum"),
                ));
            }
            self.conns.insert(key, conn);
            self.timers.after(HELLO_TIME, Alarm::Hello(key));
            self.dirty.insert(key);
        }
    }
}
