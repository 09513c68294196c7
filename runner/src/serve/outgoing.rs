//! Sends to one connection: moves bytes from rings, pipes and sockets into frames. Each stream sends one
//! frame per turn, while it has credit and the outgoing buffer is below `OUT_LOW`.

use crate::process::task::Exit;
use crate::serve::connection::{Conn, OUT_LOW, Relay, Stream, Use};
use crate::serve::server::Server;
use crate::serve::source_sink::Pulled;
use crate::serve::splice::Spliced;
use crate::wire::cbor::Fields;
use crate::wire::error::OpError;
use crate::wire::frame::{self, Kind, MAX_DATA};
use std::ops::Bound;

/// Spliced frames per call. They do not count as backlog, so they need their own limit.
const MAX_SPLICED_FRAMES: usize = 16;

enum Turn {
    /// The stream sent something and may have more.
    Progress,
    Idle,
    /// The stream is over.
    Finish(Result<Vec<u8>, OpError>),
}

impl Turn {
    fn gone() -> Turn {
        Turn::Finish(Err(OpError::new("gone", "the record of the task was dropped")))
    }
}

impl Server {
    pub fn send(&mut self, key: u32, conn: &mut Conn) {
        let mut idle_streams = 0;
        let mut spliced_frames = 0;
        while idle_streams < conn.streams.len() {
            if conn.backlog() >= OUT_LOW || spliced_frames >= MAX_SPLICED_FRAMES {
                // Continue after the next writable event, or in the next turn of the loop if the socket is
                // still writable.
                if conn.writable {
                    self.dirty.insert(key);
                }
                return;
            }
            let after = (Bound::Excluded(conn.cursor), Bound::Unbounded);
            let next = conn
                .streams
                .range(after)
                .next()
                .or_else(|| conn.streams.iter().next());
            let Some((&id, _)) = next else { return };
            conn.cursor = id;
            let Some(mut stream) = conn.streams.remove(&id) else {
                return;
            };
            let turn = match conn.send_spliced(id, &mut stream) {
                Spliced::Sent => {
                    spliced_frames += 1;
                    Turn::Progress
                }
                Spliced::Later => {
                    // Continue after the flush.
                    if conn.writable && conn.backlog() > 0 {
                        self.dirty.insert(key);
                    }
                    Turn::Idle
                }
                Spliced::Unsuitable => self.turn(key, id, &mut stream, &mut conn.out),
            };
            match turn {
                Turn::Progress => {
                    idle_streams = 0;
                    conn.streams.insert(id, stream);
                }
                Turn::Idle => {
                    idle_streams += 1;
                    conn.streams.insert(id, stream);
                }
                Turn::Finish(result) => {
                    idle_streams = 0;
                    self.leave_task(key, id, &stream);
                    conn.finish(id, result);
                }
            }
        }
    }

    fn turn(&mut self, key: u32, id: u32, stream: &mut Stream, out: &mut Vec<u8>) -> Turn {
        match &mut stream.what {
            Use::Output { task } => {
                let task = *task;
                self.turn_output(key, id, task, stream, out)
            }
            Use::Wait { task } => match self.tasks.map.get(task).map(|task| task.exit.clone()) {
                Some(Some(exit)) => Turn::Finish(exit.result()),
                Some(None) => Turn::Idle,
                None => Turn::gone(),
            },
            Use::Relay(relay) if relay.connecting.is_some() => match self.dial_step(key, id, relay) {
                Ok(true) => {
                    frame::put(out, Kind::Open, id, &Fields::new().encode());
                    Turn::Progress
                }
                Ok(false) => Turn::Idle,
                Err(error) => Turn::Finish(Err(error)),
            },
            Use::Relay(_) => self.turn_relay(id, stream, out),
            Use::Start { .. } | Use::Ports => Turn::Idle,
        }
    }

    fn turn_output(
        &mut self,
        key: u32,
        id: u32,
        task_key: u32,
        stream: &mut Stream,
        out: &mut Vec<u8>,
    ) -> Turn {
        let Some(task) = self.tasks.map.get_mut(&task_key) else {
            return Turn::gone();
        };
        if task.starting {
            return Turn::Idle;
        }
        if task.stdin_owner == Some((key, id)) {
            let idle = task.stdin.as_ref().is_none_or(|sink| sink.queued() == 0);
            stream.consume(std::mem::take(&mut task.stdin_consumed), idle, id, out);
        }
        if task.dropped() {
            return Turn::gone();
        }
        let Some(reader) = task.readers.iter_mut().find(|r| (r.conn, r.stream) == (key, id)) else {
            return Turn::Finish(Err(OpError::new("internal", "the stream has no reader")));
        };
        if let (Some(Exit::Facts(facts)), Some(last), false) = (&task.exit, task.settled, reader.until_end)
            && reader.seen >= last
        {
            // Later output of background processes is for readers that ask for it (`until_end`).
            return Turn::Finish(Ok(facts.clone().int("last", last).encode()));
        }
        let next = (reader.seen + 1).max(task.ring.first());
        if next <= task.ring.last() {
            let (channel, head, tail) = task.ring.event(next);
            let len = head.len() + tail.len();
            // An event is never split, so the credit must cover all of it.
            if len as u64 > stream.credit {
                return Turn::Idle;
            }
            // Report lost events only together with the next event, so that a slow reader gets one report
            // instead of one per lost event.
            if next > reader.seen + 1 {
                let body = Fields::new()
                    .text("event", "gone")
                    .int("from", reader.seen + 1)
                    .int("to", next);
                frame::put(out, Kind::Event, id, &body.encode());
            }
            frame::put_output(out, id, channel, next, head, tail);
            reader.seen = next;
            stream.credit -= len as u64;
            let paced = reader.pace;
            task.ring.freeze(next);
            if paced && task.sources.iter().any(|source| source.readable) {
                // The task may be waiting for this reader.
                self.read_output(task_key);
            }
            return Turn::Progress;
        }
        match &task.exit {
            Some(Exit::Failed(error)) => Turn::Finish(Err(error.clone())),
            Some(Exit::Facts(facts)) if reader.until_end && task.sources.is_empty() => {
                Turn::Finish(Ok(facts.clone().int("last", reader.seen).encode()))
            }
            _ => Turn::Idle,
        }
    }

    fn turn_relay(&mut self, id: u32, stream: &mut Stream, out: &mut Vec<u8>) -> Turn {
        let Stream {
            what: Use::Relay(relay),
            ..
        } = &mut *stream
        else {
            return Turn::Idle;
        };
        if let Some(sink) = &mut relay.sink {
            let before = sink.queued();
            sink.write();
            // Announce completeness after the last byte is in the pipe and before the pipe is closed.
            // Otherwise a worker could take a cut-off upload for a complete one.
            if sink.is_complete() {
                relay.job.iter().for_each(|job| job.input_is_complete());
            }
            sink.close_after_last();
            let (consumed, idle) = (before - sink.queued(), sink.queued() == 0);
            stream.consume(consumed, idle, id, out);
        }
        let (credit, ended) = (stream.credit, stream.ended);
        let Stream {
            what: Use::Relay(relay),
            ..
        } = &mut *stream
        else {
            return Turn::Idle;
        };
        // A worker provides OPEN before it writes its first byte, so look for OPEN before reading the pipe.
        send_open(relay, id, out);
        let Some(source) = relay
            .source
            .as_mut()
            .filter(|source| source.readable && credit > 0)
        else {
            return finish_relay(relay, id, ended, out);
        };
        let most = MAX_DATA.min(credit as usize);
        // Read directly into the outgoing buffer, behind room for the header.
        let start = out.len();
        out.resize(start + frame::HEADER + most, 0);
        let pulled = source.pull(&mut out[start + frame::HEADER..]);
        match pulled {
            Pulled::Bytes(count) => {
                out.truncate(start + frame::HEADER + count);
                if let Some(open) = take_open(relay) {
                    // The worker provided OPEN after the check above; it must precede the data.
                    let data = out.split_off(start + frame::HEADER);
                    out.truncate(start);
                    frame::put(out, Kind::Open, id, &open);
                    frame::put(out, Kind::Data, id, &data);
                } else {
                    frame::set_header(&mut out[start..], Kind::Data, id, count);
                }
                stream.credit -= count as u64;
                Turn::Progress
            }
            Pulled::Nothing => {
                out.truncate(start);
                finish_relay(relay, id, ended, out)
            }
            Pulled::Ended => {
                out.truncate(start);
                relay.source = None;
                send_open(relay, id, out);
                match &relay.job {
                    Some(job) => Turn::Finish(job.take_result()),
                    None => finish_relay(relay, id, ended, out),
                }
            }
        }
    }

    pub fn leave_task(&mut self, key: u32, id: u32, stream: &Stream) {
        if let Use::Output { task } = stream.what {
            if let Some(found) = self.tasks.map.get_mut(&task) {
                found
                    .readers
                    .retain(|reader| (reader.conn, reader.stream) != (key, id));
                found.stdin_owner = found.stdin_owner.filter(|owner| *owner != (key, id));
            }
            self.read_output(task);
        }
    }
}

fn send_open(relay: &mut Relay, id: u32, out: &mut Vec<u8>) {
    if let Some(open) = take_open(relay) {
        frame::put(out, Kind::Open, id, &open);
    }
}

/// Returns the worker's OPEN body, once.
fn take_open(relay: &mut Relay) -> Option<Vec<u8>> {
    if relay.opened {
        return None;
    }
    let open = relay.job.as_ref().and_then(|job| job.take_open());
    relay.opened = open.is_some();
    open
}

/// A dialled socket can end in one direction first. The stream ends when both directions have ended.
fn finish_relay(relay: &mut Relay, id: u32, ended: bool, out: &mut Vec<u8>) -> Turn {
    if relay.job.is_some() || relay.source.is_some() {
        return Turn::Idle;
    }
    if !relay.sent_end {
        frame::put(out, Kind::End, id, &[]);
        relay.sent_end = true;
    }
    let written = relay.sink.as_ref().is_none_or(|sink| sink.closed());
    if ended && written {
        Turn::Finish(Ok(Fields::new().encode()))
    } else {
        Turn::Idle
    }
}
