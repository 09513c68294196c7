//! What one connection is sent: from rings, pipes and sockets into frames, one frame per stream and turn, while the client
//! has granted credit and the outgoing buffer is low. After a flush that emptied the buffer the caller is asked to come again.

use crate::process::task::Exit;
use crate::serve::connection::{Conn, OUT_LOW, Relay, Stream, Use};
use crate::serve::server::Server;
use crate::serve::source_sink::Pulled;
use crate::serve::splice::Direct;
use crate::wire::cbor::Fields;
use crate::wire::error::OpError;
use crate::wire::frame::{self, Kind, MAX_DATA};
use std::ops::Bound;

/// Frames that went the short way before others have their turn: there is no backlog that would tell.
const DIRECT: usize = 16;

enum Turn {
    /// Something was sent, more may follow.
    Progress,
    Idle,
    /// The stream's last word.
    Finish(Result<Vec<u8>, OpError>),
}

impl Server {
    pub fn pump(&mut self, key: u32, conn: &mut Conn) {
        let mut idle_streams = 0;
        let mut direct = 0;
        while idle_streams < conn.streams.len() {
            if conn.backlog() >= OUT_LOW || direct >= DIRECT {
                // Room comes with the next writable event, or at once when the socket takes it all.
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
            let turn = match conn.send_directly(id, &mut stream) {
                Direct::Sent => {
                    direct += 1;
                    Turn::Progress
                }
                Direct::Later => {
                    // Comes again once that is flushed.
                    if conn.writable && conn.backlog() > 0 {
                        self.dirty.insert(key);
                    }
                    Turn::Idle
                }
                Direct::No => self.turn(key, id, &mut stream, &mut conn.out),
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
                None => Turn::Finish(Err(OpError::new("gone", "the record was dropped"))),
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
            return Turn::Finish(Err(OpError::new("gone", "the record was dropped")));
        };
        if task.starting {
            return Turn::Idle;
        }
        if task.stdin_owner == Some((key, id)) {
            let idle = task.stdin.as_ref().is_none_or(|sink| sink.queued() == 0);
            stream.consume(std::mem::take(&mut task.stdin_consumed), idle, id, out);
        }
        if task.dropped() {
            return Turn::Finish(Err(OpError::new("gone", "the record was dropped")));
        }
        let Some(reader) = task.readers.iter_mut().find(|r| (r.conn, r.stream) == (key, id)) else {
            return Turn::Finish(Err(OpError::new("internal", "a stream without its reader")));
        };
        if let (Some(Exit::Facts(facts)), Some(last), false) = (&task.exit, task.settled, reader.until_end)
            && reader.seen >= last
        {
            // What background processes write from here on is for whoever asks for it.
            return Turn::Finish(Ok(facts.clone().int("last", last).encode()));
        }
        let next = (reader.seen + 1).max(task.ring.first());
        if next <= task.ring.last() {
            let (channel, head, tail) = task.ring.event(next);
            let len = head.len() + tail.len();
            // An event is sent whole, so the credit must cover it.
            if len as u64 > stream.credit {
                return Turn::Idle;
            }
            // Said only together with what follows: a reader that is far behind hears it once and not for every loss.
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
                // The task may have been waiting for this reader.
                self.fill(task_key);
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
            // Said before the pipe is closed, and not before all is in it: should this connection be cut while some is still queued here, the worker must
            // not take what it has for all there is.
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
        // Before looking at the pipe: a worker says OPEN before its first byte.
        send_open(relay, id, out);
        let Some(source) = relay
            .source
            .as_mut()
            .filter(|source| source.readable && credit > 0)
        else {
            return after_relay(relay, id, ended, out);
        };
        let most = MAX_DATA.min(credit as usize);
        // The frame is made around the bytes where they are read to: much content comes this way.
        let start = out.len();
        out.resize(start + frame::HEADER + most, 0);
        let pulled = source.pull(&mut out[start + frame::HEADER..]);
        match pulled {
            Pulled::Bytes(count) => {
                out.truncate(start + frame::HEADER + count);
                if let Some(open) = take_open(relay) {
                    // It has to be said before the first byte.
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
                after_relay(relay, id, ended, out)
            }
            Pulled::Ended => {
                out.truncate(start);
                relay.source = None;
                send_open(relay, id, out);
                match &relay.job {
                    Some(job) => Turn::Finish(job.take_result()),
                    None => after_relay(relay, id, ended, out),
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
            self.fill(task);
        }
    }
}

fn send_open(relay: &mut Relay, id: u32, out: &mut Vec<u8>) {
    if let Some(open) = take_open(relay) {
        frame::put(out, Kind::Open, id, &open);
    }
}

/// What a worker says when it has begun, once.
fn take_open(relay: &mut Relay) -> Option<Vec<u8>> {
    if relay.opened {
        return None;
    }
    let open = relay.job.as_ref().and_then(|job| job.take_open());
    relay.opened = open.is_some();
    open
}

/// A dialled socket ends one direction at a time; the stream ends with the second.
fn after_relay(relay: &mut Relay, id: u32, ended: bool, out: &mut Vec<u8>) -> Turn {
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
