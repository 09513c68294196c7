//! The loop: one thread, one epoll, everything the runner knows in one struct.
//!
//! ```text
//!            epoll ──► event ──► fill rings, read frames, reap ──► mark connections dirty
//!              ▲                                                          │
//!              └──────────────── pump: ring/pipe → frames → socket ◄──────┘
//! ```
//!
//! One thread because PID 1 must be small (a thread's stack and heap cost more than a connection) and because one order
//! of events needs no locks: a process cannot be reaped between looking up its pid and signalling it, so a recycled pid is
//! never signalled. Files alone have threads (`job`), since files alone can block.
//!
//! A defect must not take PID 1, and everything below it, down silently. Each event is handled behind a barrier: a panic is
//! written to stderr and ends the connection that caused it (or only that event), then the loop goes on. Every step
//! leaves the tables usable: connections are taken out while they are worked on, so a broken one is simply not put back.

use crate::process::marks::Marks;
use crate::process::reaper::has_children;
use crate::process::task::Tasks;
use crate::serve::acceptor::{Caller, Door};
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

/// Whose pid it is. Any other child was adopted: it is reaped and forgotten.
#[derive(Clone, Copy, PartialEq)]
pub enum Owner {
    Task(u32),
    Shell(u32),
    /// A syntax check before a command of this shell.
    Check(u32),
}

pub struct Config {
    /// Who processes, shells and file operations run as unless a request says otherwise.
    pub user: Option<User>,
    /// Where they start.
    pub cwd: Option<CString>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
}

pub struct Server {
    pub config: Config,
    pub epoll: Epoll,
    door: Door,
    pub signals: OwnedFd,
    /// Rung by workers that have something to say before their first byte.
    bell: OwnedFd,
    pub conns: HashMap<u32, Conn>,
    next_conn: u32,
    pub tasks: Tasks,
    pub shells: Shells,
    pub pids: HashMap<libc::pid_t, Owner>,
    pub starts: HashMap<libc::pid_t, Starting>,
    pub timers: Timers,
    pub marks: Marks,
    /// Connections with something to send or to read.
    pub dirty: BTreeSet<u32>,
    /// Tasks whose output has more to read than one turn allows.
    pub again: BTreeSet<u32>,
    pub scratch: Vec<u8>,
    pub boot: [u8; 16],
    pub started: Instant,
    /// Listening ports as last announced, while someone watches.
    pub ports: Option<Vec<crate::ports::listening::Port>>,
    /// Told to stop: no new work, and the end when the last child has gone.
    pub stopping: bool,
    /// Nothing is left to run, and connections are being closed.
    ending: bool,
}

impl Server {
    pub fn new(config: Config, door: Door, signals: OwnedFd) -> io::Result<Server> {
        let epoll = Epoll::new()?;
        epoll.add(door.as_raw_fd(), Token::Listener.pack())?;
        epoll.add(signals.as_raw_fd(), Token::Signals.pack())?;
        let bell = crate::files::worker::bell()?;
        epoll.add(bell.as_raw_fd(), Token::Bell.pack())?;
        let mut boot = [0; 16];
        sys::random(&mut boot);
        Ok(Server {
            config,
            epoll,
            door,
            signals,
            bell,
            conns: HashMap::new(),
            next_conn: 0,
            tasks: Tasks::default(),
            shells: Shells::default(),
            pids: HashMap::new(),
            starts: HashMap::new(),
            timers: Timers::default(),
            marks: Marks::default(),
            dirty: BTreeSet::new(),
            again: BTreeSet::new(),
            scratch: vec![0; 64 * 1024],
            boot,
            started: Instant::now(),
            ports: None,
            stopping: false,
            ending: false,
        })
    }

    /// Serves until a stop was asked for and no child is left.
    pub fn run(&mut self) {
        let mut ready: Vec<Ready> = Vec::with_capacity(64);
        loop {
            let busy = !(self.again.is_empty() && self.dirty.is_empty() && self.shells.again.is_empty());
            if self.stopping && !busy && self.pids.is_empty() && !has_children() {
                // What the last children left was told; now clients hear why it ends, and close.
                if self.conns.is_empty() {
                    return;
                }
                if !self.ending {
                    self.ending = true;
                    for (key, conn) in &mut self.conns {
                        conn.goodbye(&Violation::new("stopping", "the runner was told to stop"));
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
            for task in std::mem::take(&mut self.again) {
                self.guarded(|server| server.fill(task));
            }
            for shell in std::mem::take(&mut self.shells.again) {
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

    /// False when the step panicked; the panic hook has then written where and why to stderr.
    fn guarded(&mut self, step: impl FnOnce(&mut Server)) -> bool {
        catch_unwind(AssertUnwindSafe(|| step(self))).is_ok()
    }

    fn handle(&mut self, event: Ready) {
        match Token::unpack(event.token) {
            Some(Token::Listener) => self.accept(),
            Some(Token::Signals) => self.signalled(),
            Some(Token::Bell) => {
                let _ = sys::read(self.bell.as_raw_fd(), &mut [0; 8]);
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
                    self.fill(task);
                }
            }
            Some(Token::TaskIn(task)) => {
                if let Some(sink) = self.tasks.map.get_mut(&task).and_then(|task| task.stdin.as_mut()) {
                    sink.writable |= event.writable;
                    self.feed(task);
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
                    conn.goodbye(&Violation::new("timeout", "no hello in time"));
                    self.dirty.insert(key);
                }
            }
            Alarm::Accept => self.accept(),
            Alarm::Linger(key) => self.detach(key),
            Alarm::FirstReader(task) => self.expect_no_reader(task),
            Alarm::Kill { task, step } => self.over_time(task, step),
            Alarm::Hunt { mark, left } => self.hunt(Some(mark), HashSet::new(), left),
            Alarm::EndAll => self.end_all(),
            Alarm::ShellKill { shell, pid } => {
                // Only while that very process is still unreaped, hence still ours.
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
            let fd = match self.door.next() {
                Caller::Here(fd) => fd,
                Caller::None => return,
                Caller::Gone => continue,
                Caller::Later => return self.timers.after(ACCEPT_AGAIN, Alarm::Accept),
            };
            loop {
                self.next_conn = (self.next_conn + 1) & CONN_MASK;
                if !self.conns.contains_key(&self.next_conn) {
                    break;
                }
            }
            let key = self.next_conn;
            if self.epoll.add(fd.as_raw_fd(), Token::Conn(key).pack()).is_err() {
                continue;
            }
            if self.conns.len() >= 2 * MAX_CONNECTIONS {
                // Too many even to be told so.
                continue;
            }
            let mut conn = Conn::new(fd);
            if self.ending {
                conn.goodbye(&Violation::new("stopping", "the runner was told to stop"));
            }
            if self.conns.len() >= MAX_CONNECTIONS {
                conn.goodbye(&Violation::new(
                    "limit",
                    format!("{MAX_CONNECTIONS} connections are open"),
                ));
            }
            self.conns.insert(key, conn);
            self.timers.after(HELLO_TIME, Alarm::Hello(key));
            self.dirty.insert(key);
        }
    }
}
