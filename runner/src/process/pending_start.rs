//! Starts in progress (`sys::spawn`). The event loop continues meanwhile, and answers the request when the
//! child has executed its program or failed.

use crate::process::operations::start_error;
use crate::process::task::What;
use crate::serve::epoll_token::Token;
use crate::serve::server::{Owner, Server};
use crate::sys::kill;
use crate::sys::spawn::{self, Command};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::frame::Kind;

/// A request that waits for a start.
#[derive(Clone, Copy)]
pub struct Opener {
    pub conn: u32,
    pub stream: u32,
    /// The start was already in progress.
    pub existed: bool,
    /// The response ends the request instead of opening a stream.
    pub only: bool,
}

impl Server {
    /// Starts a process. `start_is_over` reports the result to its owner.
    pub fn begin_start(&mut self, command: Command, owner: Owner) -> OpResult<libc::pid_t> {
        let starting = spawn::spawn(command).map_err(start_error)?;
        let (pid, gate) = (starting.pid, starting.gate());
        // The child uses this memory until it has executed its program, so keep it even on errors.
        self.starts.insert(pid, starting);
        if let Err(error) = self.epoll.add(gate, Token::Start(pid as u32)) {
            kill(pid, libc::SIGKILL);
            return Err(OpError::io(&error, "start"));
        }
        self.pids.insert(pid, owner);
        Ok(pid)
    }

    /// Handles the result of a start: program executed, start failed, or child dead. Does nothing while it
    /// is in progress.
    pub fn start_is_over(&mut self, pid: libc::pid_t) {
        let Some(starting) = self.starts.remove(&pid) else {
            return;
        };
        let result = match starting.outcome() {
            Ok(result) => result.map_err(start_error),
            Err(starting) => return drop(self.starts.insert(pid, starting)),
        };
        let owner = self.pids.get(&pid).copied();
        if result.is_err() {
            // A failed child is already reaped.
            self.pids.remove(&pid);
        }
        match owner {
            Some(Owner::Task(key)) => self.task_started(key, result),
            Some(Owner::Shell(key)) => self.shell_started(key, pid, result),
            Some(Owner::Check(key)) => self.check_started(key, result),
            None => {}
        }
    }

    fn task_started(&mut self, key: u32, result: OpResult<()>) {
        let Some(task) = self.tasks.map.get_mut(&key) else {
            return;
        };
        if let Err(error) = result {
            return self.task_not_started(key, &error);
        }
        task.starting = false;
        let What::Process { pid, .. } = task.what else {
            return;
        };
        self.dirty.extend(task.readers.iter().map(|reader| reader.conn));
        for opener in std::mem::take(&mut task.openers) {
            let facts = Fields::new().int("pid", pid).bool("existed", opener.existed);
            self.answer_opener(opener, Ok(facts));
        }
    }

    /// Sends the error to every request that waits for this task, and frees its id.
    fn task_not_started(&mut self, key: u32, error: &OpError) {
        for (conn_key, conn) in &mut self.conns {
            let waits = |(id, stream): (&u32, &crate::serve::connection::Stream)| {
                (stream.what.task() == Some(key)).then_some(*id)
            };
            let streams: Vec<u32> = conn.streams.iter().filter_map(waits).collect();
            for stream in streams {
                conn.finish(stream, Err(error.clone()));
                self.dirty.insert(*conn_key);
            }
        }
        self.tasks.remove(key);
    }

    pub fn answer_opener(&mut self, opener: Opener, answer: OpResult<Fields>) {
        let Some(conn) = self.conns.get_mut(&opener.conn) else {
            return;
        };
        if !conn.streams.contains_key(&opener.stream) {
            return;
        }
        match answer {
            Ok(facts) if !opener.only => conn.put(Kind::Open, opener.stream, &facts.encode()),
            answer => conn.finish(opener.stream, answer.map(Fields::encode)),
        }
        self.dirty.insert(opener.conn);
    }
}
