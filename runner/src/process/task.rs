//! A task is what a caller's id names: a process, or one command of a shell. It owns the numbered output, how it ended, and
//! who is reading. The table keeps finished tasks for a while, so that a reader that was cut off finds them again.

use crate::process::output_ring::{MAX_EVENT, Ring};
use crate::process::pending_start::Opener;
use crate::serve::source_sink::{Sink, Source};
use crate::shell::commands::Spec;
use crate::sys;
use crate::wire::cbor::{Fields, Value};
use crate::wire::error::OpError;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

pub const DEFAULT_RING: usize = 256 * 1024;
pub const MAX_RING: usize = 16 * 1024 * 1024;
/// Finished tasks that are kept, and the memory that their output may hold together.
const MAX_FINISHED: usize = 256;
const MAX_FINISHED_BYTES: usize = 4 * 1024 * 1024;
/// Ids that are remembered after their task was dropped, so that a late retry does not run the command twice.
const MAX_TOMBSTONES: usize = 4096;
/// Dropped tasks whose output some background process still holds open.
const MAX_LINGERING: usize = 256;

pub enum What {
    Process {
        pid: libc::pid_t,
        terminal: bool,
    },
    /// A command of the shell with this key.
    Command {
        shell: u32,
    },
}

/// Someone who is sent the output.
pub struct Reader {
    pub conn: u32,
    pub stream: u32,
    /// The last event it was sent.
    pub seen: u64,
    /// The task waits for this reader instead of overtaking it.
    pub pace: bool,
    /// Goes on until the last writer has closed the output, not only until the task has ended.
    pub until_end: bool,
}

pub struct Task {
    pub id: String,
    pub what: What,
    pub ring: Ring,
    pub sources: Vec<Source>,
    pub stdin: Option<Sink>,
    /// The one stream that may write to stdin.
    pub stdin_owner: Option<(u32, u32)>,
    /// Bytes of it that were passed on and are to be announced to their sender.
    pub stdin_consumed: usize,
    pub readers: Vec<Reader>,
    /// Connections with a stream that waits for the end.
    pub waiters: Vec<u32>,
    /// The connection that it ends with.
    pub bound: Option<u32>,
    pub started: Instant,
    /// It has not become its program yet. Nothing is said of it meanwhile.
    pub starting: bool,
    /// Who asked for it, and waits for that.
    pub openers: Vec<Opener>,
    /// Its starter reads the output, but not yet: meanwhile it waits, rather than lose its beginning.
    pub expects_reader: bool,
    pub timed_out: bool,
    /// What everything that it started is known by. A command of a shell has its shell's.
    pub mark: Option<u32>,
    pub grace_ms: u64,
    /// Facts about the end, in wire form; `None` while it runs.
    pub exit: Option<Exit>,
    /// A shell command that has not begun.
    pub command: Option<Spec>,
    /// Set once everything that was written before the end is in the ring: its last event.
    pub settled: Option<u64>,
    /// The record was dropped; only the output is still drained, so that whoever holds it open does not die of it.
    lingering: bool,
}

#[derive(Clone)]
pub enum Exit {
    Facts(Fields),
    Failed(OpError),
}

impl Task {
    pub fn new(id: &str, what: What, ring: usize) -> Task {
        Task {
            id: id.to_owned(),
            what,
            ring: Ring::new(ring),
            sources: Vec::new(),
            stdin: None,
            stdin_owner: None,
            stdin_consumed: 0,
            readers: Vec::new(),
            waiters: Vec::new(),
            bound: None,
            started: Instant::now(),
            starting: false,
            openers: Vec::new(),
            expects_reader: false,
            timed_out: false,
            mark: None,
            grace_ms: 1000,
            exit: None,
            command: None,
            settled: None,
            lingering: false,
        }
    }

    /// How much may be read now without taking bytes from a paced reader, or from the first one who is about to come.
    pub fn room(&self) -> usize {
        match self
            .readers
            .iter()
            .filter(|reader| reader.pace)
            .map(|reader| reader.seen)
            .min()
        {
            Some(seen) => self.ring.room(seen),
            None if self.expects_reader => self.ring.room(0),
            None => usize::MAX,
        }
    }

    /// Takes one step of reading into the ring. True when there may be more to do now.
    pub fn fill(&mut self, scratch: &mut [u8]) -> bool {
        use crate::serve::source_sink::Pulled::*;
        let mut budget = 8;
        while let Some(index) = self.sources.iter().position(|source| source.readable) {
            // A fraction of the ring at a time: events go whole, and most of the newest output must stay.
            let most = scratch
                .len()
                .min(MAX_EVENT)
                .min((self.ring.capacity() / 4).max(1024));
            let room = self.room().min(most);
            if room == 0 {
                return false;
            }
            if budget == 0 {
                return true;
            }
            budget -= 1;
            let source = &mut self.sources[index];
            match source.pull(&mut scratch[..room]) {
                Bytes(count) => {
                    let channel = source.channel;
                    self.ring.append(channel, &scratch[..count]);
                    // Take turns, so that a flood on one channel does not hide the other.
                    self.sources.rotate_left(1);
                }
                Nothing => {}
                Ended => drop(self.sources.remove(index)),
            }
        }
        if self.exit.is_some() && self.settled.is_none() {
            self.settled = Some(self.ring.last());
            self.ring.shrink();
        }
        false
    }

    /// Its record was dropped; nothing of it can be read any more.
    pub fn dropped(&self) -> bool {
        self.lingering
    }

    /// What `list` says about it.
    pub fn summary(&mut self) -> Value {
        self.ring.freeze(self.ring.last());
        let (kind, pid) = match self.what {
            What::Process { pid, .. } => ("process", Some(pid)),
            What::Command { .. } => ("command", None),
        };
        let fields = Fields::new()
            .text("id", &self.id)
            .text("kind", kind)
            .maybe_int("pid", pid)
            .bool("running", self.exit.is_none())
            .int("first", self.ring.first())
            .int("last", self.ring.last());
        match &self.exit {
            Some(Exit::Facts(facts)) => fields.set("exit", facts.clone().value()).value(),
            _ => fields.value(),
        }
    }
}

impl Exit {
    pub fn result(self) -> Result<Vec<u8>, OpError> {
        match self {
            Exit::Facts(facts) => Ok(facts.encode()),
            Exit::Failed(error) => Err(error),
        }
    }
}

/// How a process ended, as the kernel tells it: exit code or signal, never one dressed as the other.
pub fn exit_facts(status: i32, usage: &libc::rusage, task: &Task) -> Fields {
    let ms = |time: &libc::timeval| time.tv_sec * 1000 + time.tv_usec / 1000;
    status_facts(status)
        .bool("timedOut", task.timed_out)
        .int("durationMs", task.started.elapsed().as_millis())
        .int("userMs", ms(&usage.ru_utime))
        .int("systemMs", ms(&usage.ru_stime))
        .int("maxRssKb", usage.ru_maxrss)
}

pub fn status_facts(status: i32) -> Fields {
    if libc::WIFSIGNALED(status) {
        Fields::new().text("signal", &sys::signal_name(libc::WTERMSIG(status)))
    } else {
        Fields::new().int("exitCode", libc::WEXITSTATUS(status))
    }
}

#[derive(Default)]
pub struct Tasks {
    pub map: HashMap<u32, Task>,
    ids: HashMap<String, u32>,
    next: u32,
    finished: VecDeque<u32>,
    lingering: VecDeque<u32>,
    tombstones: VecDeque<String>,
    buried: HashSet<String>,
}

impl Tasks {
    pub fn find(&self, id: &str) -> Result<u32, OpError> {
        match self.ids.get(id) {
            Some(key) => Ok(*key),
            None if self.buried.contains(id) => Err(OpError::new(
                "gone",
                format!("'{id}' has ended and its record was dropped"),
            )),
            None => Err(OpError::new("not_found", format!("no process or command '{id}'"))),
        }
    }

    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Keys of the tasks that have an id, hence not of dropped ones.
    pub fn listed(&self) -> impl Iterator<Item = u32> {
        self.ids.values().copied()
    }

    /// Reserves a key before the descriptors that carry it are registered.
    pub fn key(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    pub fn insert(&mut self, key: u32, task: Task) {
        self.ids.insert(task.id.clone(), key);
        self.map.insert(key, task);
    }

    /// The task has ended: it joins the queue of those that are kept for a while.
    pub fn finish(&mut self, key: u32) {
        self.finished.push_back(key);
        let mut held: usize = self
            .finished
            .iter()
            .filter_map(|key| self.map.get(key))
            .map(|t| t.ring.held())
            .sum();
        let mut index = 0;
        while (self.finished.len() > MAX_FINISHED || held > MAX_FINISHED_BYTES) && index < self.finished.len()
        {
            let oldest = self.finished[index];
            match self.map.get(&oldest) {
                Some(task) if !task.readers.is_empty() || oldest == key => index += 1,
                Some(task) => {
                    held -= task.ring.held();
                    self.forget(oldest);
                }
                None => drop(self.finished.remove(index)),
            }
        }
    }

    /// A task that never was.
    pub fn remove(&mut self, key: u32) {
        if let Some(task) = self.map.remove(&key) {
            self.ids.remove(&task.id);
        }
    }

    /// Drops a finished task's record and remembers its id.
    pub fn forget(&mut self, key: u32) {
        self.finished.retain(|other| *other != key);
        let Some(task) = self.map.get_mut(&key) else {
            return;
        };
        self.ids.remove(&task.id);
        if self.buried.insert(task.id.clone()) {
            self.tombstones.push_back(task.id.clone());
        }
        if self.tombstones.len() > MAX_TOMBSTONES
            && let Some(id) = self.tombstones.pop_front()
        {
            self.buried.remove(&id);
        }
        if task.sources.is_empty() {
            self.map.remove(&key);
            return;
        }
        task.ring.discard();
        task.lingering = true;
        self.lingering.push_back(key);
        if self.lingering.len() > MAX_LINGERING
            && let Some(oldest) = self.lingering.pop_front()
        {
            self.map.remove(&oldest);
        }
    }

    /// Lets go of a dropped task once nobody holds its output open any more.
    pub fn tidy(&mut self, key: u32) {
        if self
            .map
            .get(&key)
            .is_some_and(|task| task.lingering && task.sources.is_empty())
        {
            self.map.remove(&key);
            self.lingering.retain(|other| *other != key);
        }
    }
}
