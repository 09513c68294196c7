//! Moves bytes between two connections inside the kernel.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::pipe2;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::io::Meter;
use crate::lock;

const PIPE_BYTES: i32 = 256 * 1024;
const IDLE_PIPES: usize = 64;

/// Until both sides have sent their end. An error of one side ends both.
pub async fn both(client: &TcpStream, upstream: &TcpStream, meter: &Meter) -> io::Result<()> {
    let sent = one(client, upstream, meter, |bytes| meter.sent(bytes));
    let received = one(upstream, client, meter, |bytes| meter.received(bytes));
    tokio::try_join!(sent, received).map(|_| ())
}

async fn one(from: &TcpStream, to: &TcpStream, meter: &Meter, count: impl Fn(usize)) -> io::Result<()> {
    loop {
        tokio::task::consume_budget().await;
        from.readable().await?;
        let chunk = meter.turn().await?;
        let pipe = Pipe::take()?;
        let read = from.try_io(Interest::READABLE, || transfer(from, &pipe.write, chunk));
        match read {
            Ok(0) => {
                pipe.give_back();
                return Ok(shutdown(to.as_raw_fd(), Shutdown::Write)?);
            }
            Ok(bytes) => {
                count(bytes);
                drain(&pipe, to, bytes).await?;
                pipe.give_back();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => pipe.give_back(),
            Err(error) => return Err(error),
        }
    }
}

async fn drain(pipe: &Pipe, to: &TcpStream, mut left: usize) -> io::Result<()> {
    while left > 0 {
        to.writable().await?;
        match to.try_io(Interest::WRITABLE, || transfer(&pipe.read, to, left)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => left -= bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn transfer(from: &impl std::os::fd::AsFd, to: &impl std::os::fd::AsFd, bytes: usize) -> io::Result<usize> {
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    loop {
        match splice(from, None, to, None, bytes, flags) {
            Err(Errno::EINTR) => {}
            result => return Ok(result?),
        }
    }
}

/// A pipe belongs to a connection only while it holds that connection's bytes, so idle connections need none.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

static IDLE: Mutex<Vec<Pipe>> = Mutex::new(Vec::new());

impl Pipe {
    fn take() -> io::Result<Self> {
        if let Some(pipe) = lock(&IDLE).pop() {
            return Ok(pipe);
        }
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // Beyond the user's limit, pipes stay small.
        let _ = fcntl(&write, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        Ok(Self { read, write })
    }

    /// Only for an empty pipe: its bytes would reach another connection.
    fn give_back(self) {
        let mut idle = lock(&IDLE);
        if idle.len() < IDLE_PIPES {
            idle.push(self);
        }
    }
}
