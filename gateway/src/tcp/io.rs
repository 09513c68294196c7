//! A connection's stream with what was read from it already, counted and paced.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::record::Counts;
use super::socket;
use crate::sandbox::Sandbox;

/// Counts the bytes of one connection, for itself and for its sandbox.
#[derive(Clone)]
pub struct Meter {
    pub sandbox: Arc<Sandbox>,
    pub counts: Arc<Counts>,
}

impl Meter {
    pub fn sent(&self, bytes: usize) {
        self.counts.bytes_out.fetch_add(bytes as u64, Relaxed);
        self.sandbox.traffic.bytes_out.fetch_add(bytes as u64, Relaxed);
        self.sandbox.traffic.charge(bytes);
    }

    pub fn received(&self, bytes: usize) {
        self.counts.bytes_in.fetch_add(bytes as u64, Relaxed);
        self.sandbox.traffic.bytes_in.fetch_add(bytes as u64, Relaxed);
        self.sandbox.traffic.charge(bytes);
    }

    /// Waits until bytes may move, and says how many.
    pub async fn turn(&self) -> io::Result<usize> {
        while let Some(pause) = self.sandbox.traffic.pause() {
            sleep(pause).await;
        }
        self.check()?;
        Ok(self.sandbox.traffic.chunk())
    }

    fn check(&self) -> io::Result<()> {
        match self.sandbox.traffic.is_exhausted() {
            true => Err(io::Error::other("the sandbox has used up its bytes")),
            false => Ok(()),
        }
    }
}

/// The first reads from a sandbox that are acknowledged at once. A client that sends its request right after the TLS
/// handshake waits for this acknowledgement, because the gateway has nothing to send that would carry it.
const ACKNOWLEDGED_READS: u8 = 4;

pub struct Io {
    stream: TcpStream,
    head: Vec<u8>,
    head_read: usize,
    /// Of the side that is outside.
    meter: Option<Meter>,
    pause: Option<Pin<Box<Sleep>>>,
    acknowledged: u8,
}

impl Io {
    pub fn new(stream: TcpStream, head: Vec<u8>, meter: Option<Meter>) -> Self {
        Self {
            stream,
            head,
            head_read: 0,
            meter,
            pause: None,
            acknowledged: 0,
        }
    }

    /// The stream, and what was read from it and not used.
    pub fn into_parts(mut self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.head.split_off(self.head_read))
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(meter) = &self.meter else {
            return Poll::Ready(Ok(usize::MAX));
        };
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match meter.sandbox.traffic.pause() {
                Some(pause) => self.pause = Some(Box::pin(sleep(pause))),
                None => return Poll::Ready(meter.check().map(|()| meter.sandbox.traffic.chunk())),
            }
        }
    }

    fn count_sent(&self, bytes: usize) {
        if let Some(meter) = &self.meter {
            meter.sent(bytes);
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.head_read < this.head.len() {
            let bytes = buffer.remaining().min(this.head.len() - this.head_read);
            buffer.put_slice(&this.head[this.head_read..this.head_read + bytes]);
            this.head_read += bytes;
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_turn(context))?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        match &this.meter {
            Some(meter) => meter.received(buffer.filled().len() - before),
            None if read.is_ready() && this.acknowledged < ACKNOWLEDGED_READS => {
                this.acknowledged += 1;
                let _ = this.stream.set_quickack(true);
            }
            None => {}
        }
        read
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let chunk = ready!(this.poll_turn(context))?.min(bytes.len());
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, &bytes[..chunk]))?;
        this.count_sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_turn(context))?;
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(context, parts))?;
        this.count_sent(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// An orderly end: what was written is delivered.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        socket::close_gently(&self.stream);
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
