//! A task is what a caller's id refers to: a process, or one command of a shell. It holds the output, the
//! result and the readers. Finished tasks are kept for a while, so that a disconnected reader can resume.

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
/// Limits of kept finished tasks: their number, and the memory of their output.
const MAX_FINISHED: usize = 256;
const MAX_FINISHED_BYTES: usize = 4 * 1024 * 1024;
/// Ids of dropped tasks that are remembered, so that a late retry does not run a command twice.
const MAX_TOMBSTONES: usize = 4096;
/// Dropped tasks whose output a background process still holds open.
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

/// A stream that receives the output.
pub struct Reader {
    pub conn: u32,
    pub stream: u32,
    /// The last event that was sent to it.
    pub seen: u64,
    /// The task waits for this reader instead of evicting unread output.
    pub pace: bool,
    /// Continues until the last writer closes the output, not only until the task ends.
    pub until_end: bool,
}

pub struct Task {
    pub id: String,
    pub what: What,
    pub ring: Ring,
    pub sources: Vec<Source>,
    pub stdin: Option<Sink>,
    /// The only stream that may write to stdin.
    pub stdin_owner: Option<(u32, u32)>,
    /// Bytes that were written to stdin but not yet announced in a WINDOW frame.
    pub stdin_consumed: usize,
    pub readers: Vec<Reader>,
    /// Connections with a `wait` request for this task.
    pub waiters: Vec<u32>,
    /// The task is killed when this connection ends.
    pub bound: Option<u32>,
    pub started: Instant,
    /// The program is not executed yet, so requests wait.
    pub starting: bool,
    /// Requests that wait for the start.
    pub openers: Vec<Opener>,
    /// A full ring pauses the task until its first reader attaches, so that the start of the output is kept.
    pub expects_reader: bool,
    pub timed_out: bool,
    /// Identifies everything that the task started. Shell commands use the mark of their shell.
    pub mark: Option<u32>,
    pub grace_ms: u64,
    /// `None` while the task runs.
    pub exit: Option<Exit>,
    /// A shell command that has not begun.
    pub command: Option<Spec>,
    /// The last event that was written before the task ended, once all of them are in the ring.
    pub settled: Option<u64>,
    /// The record is dropped. The runner only drains the output, so that background processes do not get
    /// SIGPIPE.
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

    /// How many bytes may be read without evicting output of a paced or expected reader.
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

    /// Reads some output into the ring. Returns true if there may be more to read now.
    pub fn read_output(&mut self, scratch: &mut [u8]) -> bool {
        use crate::serve::source_sink::Pulled::*;
        let mut budget = 8;
        while let Some(index) = self.sources.iter().position(|source| source.readable) {
            // At most a quarter of the ring, so that evicting an event keeps most of the output.
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
                    // Alternate between the channels.
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

    /// The record is dropped, so its output is no longer readable.
    pub fn dropped(&self) -> bool {
        self.lingering
    }

    /// The task's entry in `list`.
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

/// How a process ended: its exit code or its signal.
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
                format!("'{id}' ended and its record was dropped"),
            )),
            None => Err(OpError::new("not_found", format!("no process or command '{id}'"))),
        }
    }

    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Keys of the tasks that are not dropped.
    pub fn listed(&self) -> impl Iterator<Item = u32> {
        self.ids.values().copied()
    }

    /// Reserves a key, so that descriptors can be registered before the insert.
    pub fn key(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    pub fn insert(&mut self, key: u32, task: Task) {
        self.ids.insert(task.id.clone(), key);
        self.map.insert(key, task);
    }

    /// Queues an ended task for eviction, and evicts the oldest beyond the limits.
    pub fn finish(&mut self, key: u32) {
        self.drop_read_commands();
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

    /// Drops finished shell commands that are bound to a connection and have no reader. Only the client that started
    /// such a command knows its id, and that client reads it from the start.
    fn drop_read_commands(&mut self) {
        let read = |task: &Task| {
            task.bound.is_some() && task.readers.is_empty() && matches!(task.what, What::Command { .. })
        };
        let read: Vec<u32> = (self.finished.iter().copied())
            .filter(|key| self.map.get(key).is_some_and(read))
            .collect();
        read.into_iter().for_each(|key| self.forget(key));
    }

    /// Removes a task that could not start.
    pub fn remove(&mut self, key: u32) {
        if let Some(task) = self.map.remove(&key) {
            self.ids.remove(&task.id);
        }
    }

    /// Drops the record of a finished task and remembers its id.
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

    /// Removes a dropped task once its output is closed.
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
