//! What one connection says: from bytes to frames to streams. A violation ends this connection with a reason; a request
//! that cannot be done is answered with an error and ends nothing.

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

/// How long a connection that was told goodbye may take to close.
const LINGER: Duration = Duration::from_secs(1);

/// How a request goes on after it was accepted.
pub enum Outcome {
    Done(Fields),
    /// A stream; with an OPEN body, unless the worker will send one of its own.
    Stream(Use, Option<Fields>),
}

impl Server {
    /// Reads, acts and sends for one connection, as far as it goes without waiting.
    pub fn serve(&mut self, key: u32) {
        let Some(mut conn) = self.conns.remove(&key) else {
            return;
        };
        let open = self.receive(key, &mut conn);
        if conn.closing && !conn.lingering {
            conn.lingering = true;
            conn.streams.clear();
            self.release(key);
            self.timers.after(LINGER, Alarm::Linger(key));
        }
        self.pump(key, &mut conn);
        let sent = flush(&mut conn);
        if conn.lingering && conn.backlog() == 0 && !conn.shut {
            conn.shut = true;
            // SAFETY: acts on a descriptor that is open.
            unsafe { libc::shutdown(conn.fd.as_raw_fd(), libc::SHUT_WR) };
        }
        if !open || !sent || conn.left {
            drop(conn);
            self.detach(key);
        } else {
            self.conns.insert(key, conn);
        }
    }

    /// Forgets a connection that has ended. Nothing that it started ends with it, but what was bound to it.
    pub fn detach(&mut self, key: u32) {
        self.conns.remove(&key);
        self.release(key);
    }

    /// Its readers and writers no longer count.
    fn release(&mut self, key: u32) {
        let mut freed = Vec::new();
        let mut bound = Vec::new();
        for (task_key, task) in &mut self.tasks.map {
            if task.bound == Some(key) && task.exit.is_none() {
                // Once: the number may be a later connection's.
                task.bound = None;
                bound.push(*task_key);
            }
            let before = task.readers.len();
            task.readers.retain(|reader| reader.conn != key);
            task.stdin_owner = task.stdin_owner.filter(|(conn, _)| *conn != key);
            if task.readers.len() != before {
                freed.push(*task_key);
            }
        }
        // Whoever was held back by this reader goes on.
        freed.into_iter().for_each(|task| self.fill(task));
        bound.into_iter().for_each(|task| self.end_bound(task));
    }

    /// Nobody is left who could hear how it ends.
    fn end_bound(&mut self, key: u32) {
        let Some(task) = self.tasks.map.get(&key) else {
            return;
        };
        // Fails only when it has just ended by itself.
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
                    conn.goodbye(&Violation::new("torn", "the connection ended within a frame"));
                    conn.readable = false;
                }
                Ok(Some(count)) => {
                    // The usual case: whole frames, parsed where they lie.
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

    /// Acts on every whole frame in `input`; returns how many bytes they took.
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
                conn.left = true;
            }
            Kind::Request => self.request(key, conn, frame)?,
            Kind::Cancel => {
                if known(conn, frame.stream)? && !tear(conn, frame.stream) {
                    if let Some(stream) = conn.streams.get(&frame.stream) {
                        self.leave_task(key, frame.stream, stream);
                    }
                    conn.finish(frame.stream, Err(OpError::new("cancelled", "cancelled")));
                }
            }
            Kind::Data => {
                if known(conn, frame.stream)? {
                    self.data(key, conn, frame.stream, payload)?;
                }
            }
            Kind::End => {
                if known(conn, frame.stream)? {
                    self.data_end(conn, frame.stream)?;
                }
            }
            Kind::Window => {
                if known(conn, frame.stream)?
                    && let Some(stream) = conn.streams.get_mut(&frame.stream)
                {
                    let grant = u32::from_be_bytes(payload.try_into().expect("parse has checked the length"));
                    stream.grant(grant)?;
                }
            }
            _ => {
                return Err(Violation::new(
                    "out_of_order",
                    format!("{:?} is not for clients to send", frame.kind),
                ));
            }
        }
        Ok(())
    }

    fn hello(&mut self, conn: &mut Conn, frame: &Frame) -> Result<(), Violation> {
        if frame.kind != Kind::Hello {
            return Err(Violation::new("out_of_order", "the first frame must be HELLO"));
        }
        let (magic, version) = frame.payload.split_at(8);
        if magic != frame::MAGIC {
            return Err(Violation::new("bad_magic", "this is not the runner's protocol"));
        }
        let major = u16::from_be_bytes([version[0], version[1]]);
        if major != frame::MAJOR {
            let text = format!(
                "protocol {major} was asked for, this runner speaks {}",
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
            return Err(Violation::new(
                "out_of_order",
                format!("stream {id} after stream {}", conn.last_stream),
            ));
        }
        conn.last_stream = id;
        let body = cbor::decode(frame.payload).map_err(|why| Violation::new("malformed", why))?;
        if !matches!(body, Value::Map(_)) {
            return Err(Violation::new("malformed", "a request must be a map"));
        }
        let outcome = match conn.streams.len() {
            MAX_STREAMS.. => Err(OpError::new("limit", format!("{MAX_STREAMS} streams are open"))),
            _ => self.act(key, id, &Request(&body)),
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
                    return Err(Violation::new("out_of_order", "data on a stream that takes none"));
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
                    // The process no longer reads; its sender must not wait for it.
                    None => task.stdin_consumed += bytes.len(),
                }
                self.feed(task_key);
            }
            Use::Relay(relay) => match relay.sink.as_mut() {
                Some(sink) if !sink.closed() => sink.push(bytes),
                Some(_) => stream.consume(bytes.len(), true, id, &mut conn.out),
                None => return Err(Violation::new("out_of_order", "data on a stream that takes none")),
            },
            _ => return Err(Violation::new("out_of_order", "data on a stream that takes none")),
        }
        Ok(())
    }

    fn data_end(&mut self, conn: &mut Conn, id: u32) -> Result<(), Violation> {
        let Some(stream) = conn.streams.get_mut(&id) else {
            return Ok(());
        };
        if stream.ended {
            return Err(Violation::new("out_of_order", "a second end of a stream"));
        }
        stream.ended = true;
        match &mut stream.what {
            Use::Output { task } => {
                let task = *task;
                if let Some(sink) = self.tasks.map.get_mut(&task).and_then(|task| task.stdin.as_mut()) {
                    sink.end();
                }
                self.feed(task);
            }
            Use::Relay(relay) => {
                relay.sink.iter_mut().for_each(|sink| sink.end());
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes what waits for a process's stdin, and remembers what to announce to its sender.
    pub fn feed(&mut self, key: u32) {
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

    /// Dispatch: the whole list of what can be asked of a runner.
    fn act(&mut self, key: u32, id: u32, request: &Request) -> OpResult<Outcome> {
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

/// Is the stream open? One that has just ended may still be spoken to by a client that does not know yet; one that never began
/// may not.
/// Ends the input of a worker that is being fed, and says whether there was one. It then answers by itself, when it has taken away what it began: a
/// client that has its answer finds nothing half-made.
fn tear(conn: &mut Conn, id: u32) -> bool {
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

fn known(conn: &Conn, id: u32) -> Result<bool, Violation> {
    if id > conn.last_stream {
        return Err(Violation::new(
            "out_of_order",
            format!("stream {id} was never opened"),
        ));
    }
    Ok(conn.streams.contains_key(&id))
}

/// False when the socket is broken.
pub fn flush(conn: &mut Conn) -> bool {
    if conn.send_rest().is_err() {
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
