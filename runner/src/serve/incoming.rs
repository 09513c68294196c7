//! Receives frames from a connection and dispatches requests. A protocol violation ends the connection with
//! a reason. A request that fails is answered with an error and affects nothing else.

use crate::process::task::What;
use crate::process::terminal_signals;
use crate::serve::connection::{Conn, IN_QUEUED, MAX_STREAMS, OUT_HIGH, Relay, Stream, Use};
use crate::serve::server::Server;
use crate::serve::timers::Alarm;
use crate::sys;
use crate::wire::cbor::{self, Fields, Value};
use crate::wire::error::{OpError, OpResult};
use crate::wire::frame::{self, Frame, Kind, Violation};
use crate::wire::request::Request;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long a client may take to close after a GOODBYE.
const LINGER: Duration = Duration::from_secs(1);

/// What follows an accepted request.
pub enum Outcome {
    Done(Fields),
    /// A stream, with an OPEN body unless the worker sends its own.
    Stream(Use, Option<Fields>),
}

impl Server {
    /// Receives, handles and sends as much as possible without blocking.
    pub fn serve(&mut self, key: u32) {
        let Some(mut conn) = self.conns.remove(&key) else {
            return;
        };
        let open = self.receive(key, &mut conn);
        if conn.closing && !conn.lingering {
            conn.lingering = true;
            conn.streams.clear();
            self.release_tasks(key);
            self.timers.after(LINGER, Alarm::Linger(key));
        }
        self.send(key, &mut conn);
        let sent = flush(&mut conn);
        if conn.lingering && conn.backlog() == 0 && !conn.shut {
            conn.shut = true;
            // SAFETY: acts on a descriptor that is open.
            unsafe { libc::shutdown(conn.fd.as_raw_fd(), libc::SHUT_WR) };
        }
        if !open || !sent || conn.client_left {
            drop(conn);
            self.detach(key);
        } else {
            self.conns.insert(key, conn);
        }
    }

    /// Removes an ended connection. Tasks keep running, except those that are bound to the connection.
    pub fn detach(&mut self, key: u32) {
        self.conns.remove(&key);
        self.release_tasks(key);
    }

    fn release_tasks(&mut self, key: u32) {
        let mut unblocked = Vec::new();
        let mut bound = Vec::new();
        for (task_key, task) in &mut self.tasks.map {
            if task.bound == Some(key) && task.exit.is_none() {
                // Connection keys are reused, so clear it.
                task.bound = None;
                bound.push(*task_key);
            }
            let before = task.readers.len();
            task.readers.retain(|reader| reader.conn != key);
            task.stdin_owner = task.stdin_owner.filter(|(conn, _)| *conn != key);
            if task.readers.len() != before {
                unblocked.push(*task_key);
            }
        }
        // This reader may have slowed these tasks down.
        unblocked.into_iter().for_each(|task| self.read_output(task));
        bound.into_iter().for_each(|task| self.end_bound(task));
    }

    /// Kills a task whose connection is gone.
    fn end_bound(&mut self, key: u32) {
        let Some(task) = self.tasks.map.get(&key) else {
            return;
        };
        // Fails only if the task has just ended.
        match task.what {
            What::Command { shell } => drop(self.signal_command(shell, key, libc::SIGKILL)),
            What::Process { .. } => drop(self.signal_process(key, libc::SIGKILL, true)),
        }
    }

    fn receive(&mut self, key: u32, conn: &mut Conn) -> bool {
        let mut budget = 8;
        while conn.lingering && conn.readable {
            match sys::read(conn.fd.as_raw_fd(), &mut self.scratch) {
                Ok(Some(1..)) if budget > 0 => budget -= 1,
                Ok(Some(1..)) => {
                    self.dirty.insert(key);
                    return true;
                }
                Ok(None) => conn.readable = false,
                _ => return false,
            }
        }
        while conn.readable && !conn.closing && conn.backlog() < OUT_HIGH && conn.queued() < IN_QUEUED {
            if budget == 0 {
                self.dirty.insert(key);
                return true;
            }
            budget -= 1;
            match sys::read(conn.fd.as_raw_fd(), &mut self.scratch) {
                Ok(Some(0)) if conn.input.is_empty() => return false,
                Ok(Some(0)) => {
                    conn.goodbye(&Violation::new("torn", "the connection ended inside a frame"));
                    conn.readable = false;
                }
                Ok(Some(count)) => {
                    let mut input = std::mem::take(&mut conn.input);
                    input.extend_from_slice(&self.scratch[..count]);
                    let used = self.frames(key, conn, &input);
                    input.drain(..used);
                    if input.is_empty() && input.capacity() > 128 * 1024 {
                        input = Vec::new();
                    }
                    conn.input = input;
                }
                Ok(None) => conn.readable = false,
                Err(_) => return false,
            }
        }
        true
    }

    /// Handles every complete frame in `input`. Returns how many bytes they occupy.
    fn frames(&mut self, key: u32, conn: &mut Conn, input: &[u8]) -> usize {
        let mut used = 0;
        while !conn.closing {
            let result = match frame::parse(&input[used..]) {
                Ok(None) => break,
                Ok(Some((frame, len))) => {
                    used += len;
                    self.frame(key, conn, &frame)
                }
                Err(violation) => Err(violation),
            };
            if let Err(violation) = result {
                conn.goodbye(&violation);
            }
        }
        used
    }

    fn frame(&mut self, key: u32, conn: &mut Conn, frame: &Frame) -> Result<(), Violation> {
        if !conn.greeted {
            return self.hello(conn, frame);
        }
        let payload = frame.payload;
        match frame.kind {
            Kind::Ping => conn.put(Kind::Pong, 0, payload),
            Kind::Pong => {}
            Kind::Goodbye => {
                conn.closing = true;
                conn.client_left = true;
            }
            Kind::Request => self.request(key, conn, frame)?,
            Kind::Cancel => {
                if is_open(conn, frame.stream)? && !cancel_upload(conn, frame.stream) {
                    if let Some(stream) = conn.streams.get(&frame.stream) {
                        self.leave_task(key, frame.stream, stream);
                    }
                    conn.finish(
                        frame.stream,
                        Err(OpError::new("cancelled", "the client cancelled the request")),
                    );
                }
            }
            Kind::Data => {
                if is_open(conn, frame.stream)? {
                    self.data(key, conn, frame.stream, payload)?;
                }
            }
            Kind::End => {
                if is_open(conn, frame.stream)? {
                    self.data_end(conn, frame.stream)?;
                }
            }
            Kind::Window => {
                if is_open(conn, frame.stream)?
                    && let Some(stream) = conn.streams.get_mut(&frame.stream)
                {
                    let grant = u32::from_be_bytes(payload.try_into().expect("parse checked the length"));
                    stream.grant(grant)?;
                }
            }
            _ => {
                return Err(Violation::out_of_order(format!(
                    "a client must not send {:?}",
                    frame.kind
                )));
            }
        }
        Ok(())
    }

    fn hello(&mut self, conn: &mut Conn, frame: &Frame) -> Result<(), Violation> {
        if frame.kind != Kind::Hello {
            return Err(Violation::out_of_order("the first frame must be HELLO"));
        }
        let (magic, version) = frame.payload.split_at(8);
        if magic != frame::MAGIC {
            return Err(Violation::new(
                "bad_magic",
                "the client does not speak the runner protocol",
            ));
        }
        let major = u16::from_be_bytes([version[0], version[1]]);
        if major != frame::MAJOR {
            let text = format!(
                "the client speaks protocol {major}, this runner speaks {}",
                frame::MAJOR
            );
            return Err(Violation::new("version", text));
        }
        conn.greeted = true;
        let body = Fields::new()
            .int("major", frame::MAJOR)
            .int("minor", frame::MINOR)
            .int("pid", std::process::id())
            .bytes("boot", &self.boot)
            .int("maxStreams", MAX_STREAMS as u64)
            .encode();
        conn.put(Kind::Welcome, 0, &body);
        Ok(())
    }

    fn request(&mut self, key: u32, conn: &mut Conn, frame: &Frame) -> Result<(), Violation> {
        let id = frame.stream;
        if id <= conn.last_stream {
            return Err(Violation::out_of_order(format!(
                "stream {id} opened after stream {}; stream ids must increase",
                conn.last_stream
            )));
        }
        conn.last_stream = id;
        let body = cbor::decode(frame.payload).map_err(|why| Violation::new("malformed", why))?;
        if !matches!(body, Value::Map(_)) {
            return Err(Violation::new("malformed", "a request must be a map"));
        }
        let outcome = match conn.streams.len() {
            MAX_STREAMS.. => Err(OpError::new(
                "limit",
                format!("{MAX_STREAMS} streams are open, which is the maximum"),
            )),
            _ => self.dispatch(key, id, &Request(&body)),
        };
        match outcome {
            Ok(Outcome::Done(fields)) => conn.finish(id, Ok(fields.encode())),
            Ok(Outcome::Stream(what, open)) => {
                if let Some(open) = open {
                    conn.put(Kind::Open, id, &open.encode());
                }
                conn.streams.insert(id, Stream::new(what));
            }
            Err(error) => conn.finish(id, Err(error)),
        }
        Ok(())
    }

    fn data(&mut self, key: u32, conn: &mut Conn, id: u32, bytes: &[u8]) -> Result<(), Violation> {
        let Some(stream) = conn.streams.get_mut(&id) else {
            return Ok(());
        };
        stream.receive(bytes.len())?;
        match &mut stream.what {
            Use::Output { task } => {
                let task_key = *task;
                let Some(task) = self.tasks.map.get_mut(&task_key) else {
                    return Ok(());
                };
                if task.stdin_owner != Some((key, id)) {
                    return Err(Violation::out_of_order("DATA on a stream that accepts none"));
                }
                let leader = match task.what {
                    What::Process { pid, terminal: true } => Some(pid),
                    _ => None,
                };
                let mark = task.mark;
                match task.stdin.as_mut().filter(|sink| !sink.closed()) {
                    Some(sink) => {
                        let rest = match (sink.raw(), leader) {
                            (Some(master), Some(leader)) => {
                                terminal_signals::signals(master, leader, mark, bytes)
                            }
                            _ => bytes.into(),
                        };
                        task.stdin_consumed += bytes.len() - rest.len();
                        sink.push(&rest);
                    }
                    // The process closed its stdin: discard the data, so that the sender does not wait.
                    None => task.stdin_consumed += bytes.len(),
                }
                self.write_stdin(task_key);
            }
            Use::Relay(relay) => match relay.sink.as_mut() {
                Some(sink) if !sink.closed() => sink.push(bytes),
                Some(_) => stream.consume(bytes.len(), true, id, &mut conn.out),
                None => {
                    return Err(Violation::out_of_order("DATA on a stream that accepts none"));
                }
            },
            _ => {
                return Err(Violation::out_of_order("DATA on a stream that accepts none"));
            }
        }
        Ok(())
    }

    fn data_end(&mut self, conn: &mut Conn, id: u32) -> Result<(), Violation> {
        let Some(stream) = conn.streams.get_mut(&id) else {
            return Ok(());
        };
        if stream.ended {
            return Err(Violation::out_of_order("a second END on a stream"));
        }
        stream.ended = true;
        match &mut stream.what {
            Use::Output { task } => {
                let task = *task;
                if let Some(sink) = self.tasks.map.get_mut(&task).and_then(|task| task.stdin.as_mut()) {
                    sink.end();
                }
                self.write_stdin(task);
            }
            Use::Relay(relay) => {
                relay.sink.iter_mut().for_each(|sink| sink.end());
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes queued stdin, and counts the written bytes for the next WINDOW frame.
    pub fn write_stdin(&mut self, key: u32) {
        let Some(task) = self.tasks.map.get_mut(&key) else {
            return;
        };
        if let Some(sink) = &mut task.stdin {
            let before = sink.queued();
            sink.flush();
            task.stdin_consumed += before - sink.queued();
        }
        if let Some((conn, _)) = task.stdin_owner {
            self.dirty.insert(conn);
        }
    }

    fn dispatch(&mut self, key: u32, id: u32, request: &Request) -> OpResult<Outcome> {
        match request.text("op")? {
            "start" => self.op_start(key, id, request),
            "attach" => self.op_attach(key, id, request),
            "wait" => self.op_wait(key, request),
            "signal" => self.op_signal(request),
            "resize" => self.op_resize(request),
            "list" => self.op_list(),
            "forget" => self.op_forget(request),
            "shell.open" => self.op_shell_open(key, id, request),
            "shell.exec" => self.op_shell_exec(key, id, request),
            "shell.close" => self.op_shell_close(request),
            "shell.list" => self.op_shell_list(),
            "dial" => self.op_dial(key, id, request),
            "ports" => self.op_ports(),
            "ports.watch" => self.op_ports_watch(),
            "stats" => self.op_stats(),
            op => match crate::files::find(op) {
                Some(operation) => self.op_file(key, id, operation, request),
                None => Err(OpError::new("unsupported", format!("no operation '{op}'"))),
            },
        }
    }
}

/// Cancels an upload by closing the worker's input. Returns whether there was one. The worker then removes
/// its partial result and answers by itself, so the client finds nothing partial after the response.
fn cancel_upload(conn: &mut Conn, id: u32) -> bool {
    match conn.streams.get_mut(&id) {
        Some(Stream {
            ended: false,
            what:
                Use::Relay(Relay {
                    sink: Some(sink),
                    job: Some(_),
                    ..
                }),
            ..
        }) if !sink.closed() => {
            sink.abandon();
            true
        }
        _ => false,
    }
}

fn is_open(conn: &Conn, id: u32) -> Result<bool, Violation> {
    if id > conn.last_stream {
        return Err(Violation::out_of_order(format!("stream {id} is not open")));
    }
    Ok(conn.streams.contains_key(&id))
}

/// Returns false when the socket is broken.
pub fn flush(conn: &mut Conn) -> bool {
    if conn.send_partial().is_err() {
        return false;
    }
    while conn.writable && conn.backlog() > 0 {
        match sys::write(conn.fd.as_raw_fd(), &conn.out[conn.sent..]) {
            Ok(Some(count)) => conn.sent += count,
            Ok(None) => conn.writable = false,
            Err(_) => return false,
        }
    }
    if conn.backlog() == 0 {
        conn.sent = 0;
        conn.out.clear();
        conn.out.shrink_to(64 * 1024);
    } else if conn.sent > crate::serve::connection::OUT_LOW {
        conn.out.drain(..conn.sent);
        conn.sent = 0;
    }
    true
}
