//! Work on files, off the loop.
//!
//! A file system may block for as long as it likes (a dead network mount, a slow disk), so no file is touched on the loop. Each
//! operation gets a thread with a small stack and two ordinary pipes: what it emits, and what it is fed. The pipes are
//! the flow control (the kernel bounds them), the wake-up (epoll sees them) and the cancellation (a closed pipe) in one,
//! and let each operation be straight blocking code. The end of the output pipe says that the result is there.
//!
//! Rejected: a thread pool (saves 30 µs, keeps stacks), io_uring (denied in most sandboxes).

use crate::sys::user::{User, as_user};
use crate::sys::{self};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Operations at work at once, over all connections. A thread that hangs on a dead mount counts until it returns.
const MAX_JOBS: usize = 64;
const STACK: usize = 256 * 1024;
const WIDE_PIPE: i32 = 512 * 1024;

static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// An eventfd of the loop's, which lives as long as the process.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// Makes the bell that workers ring; the loop listens to it.
pub fn bell() -> std::io::Result<OwnedFd> {
    // SAFETY: takes numbers, returns a descriptor.
    let bell = sys::own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    BELL.store(bell.as_raw_fd(), Ordering::Release);
    Ok(bell)
}

#[derive(Default)]
struct Shared {
    open: Mutex<Option<Vec<u8>>>,
    result: Mutex<Option<OpResult<Vec<u8>>>>,
    input_complete: AtomicBool,
}

/// The loop's side.
pub struct Handle(Arc<Shared>);

impl Handle {
    /// The OPEN body, once, when the worker has one.
    pub fn take_open(&self) -> Option<Vec<u8>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The result; to be asked for when the output pipe has ended.
    pub fn take_result(&self) -> OpResult<Vec<u8>> {
        let result = self
            .0
            .result
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        result.unwrap_or_else(|| Err(OpError::new("internal", "the operation ended without a result")))
    }

    /// The client said END, and all of it is in the pipe: the pipe's end means "all of it", not "the client is gone".
    pub fn input_is_complete(&self) {
        self.0.input_complete.store(true, Ordering::Release);
    }
}

/// The worker's side.
pub struct Worker {
    shared: Arc<Shared>,
    input: Option<OwnedFd>,
    output: OwnedFd,
}

impl Worker {
    /// Tells the client that the work has begun; the loop is woken, since nothing may follow for long.
    pub fn open(&self, body: Fields) {
        *self.shared.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(body.encode());
        let bell = BELL.load(Ordering::Acquire);
        if bell >= 0 {
            // Full means that it rings already.
            let _ = sys::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// Sends all of `bytes`, waiting for the client as long as it takes.
    pub fn emit(&self, mut bytes: &[u8]) -> OpResult<()> {
        while !bytes.is_empty() {
            match sys::write(self.output.as_raw_fd(), bytes) {
                Ok(count) => bytes = &bytes[count.unwrap_or(0)..],
                Err(_) => return Err(cancelled()),
            }
        }
        Ok(())
    }

    /// Sends up to `most` bytes of a file from where it stands, without looking at them: its pages go into the pipe as they are. 0 is its end;
    /// `None`: this file cannot be sent so.
    pub fn emit_file(&self, file: RawFd, most: usize) -> OpResult<Option<usize>> {
        loop {
            let (none, output) = (std::ptr::null_mut(), self.output.as_raw_fd());
            // SAFETY: takes two open descriptors and no offsets; touches no memory of ours.
            let count = unsafe { libc::splice(file, none, output, none, most, libc::SPLICE_F_MOVE) };
            match (count, sys::errno()) {
                (0.., _) => return Ok(Some(count as usize)),
                (_, libc::EINTR) => continue,
                // gVisor's kernel does not wait for room in the pipe when the file was opened not to wait.
                (_, libc::EAGAIN) => sys::wait_for(output, libc::POLLOUT),
                (_, libc::EINVAL | libc::ENOSYS | libc::EPERM) => return Ok(None),
                (_, libc::EPIPE) => return Err(cancelled()),
                (_, code) => return Err(OpError::errno(code, "read")),
            }
        }
    }

    /// Room for more than the usual in the pipe, where the kernel gives it: fewer turns for much content.
    pub fn widen(&self) {
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(self.output.as_raw_fd(), libc::F_SETPIPE_SZ, WIDE_PIPE) };
    }

    /// The next bytes from the client; 0 only when it said END. A client that went away is an error, so that a torn
    /// upload is never taken for a whole one.
    pub fn next(&self, buffer: &mut [u8]) -> OpResult<usize> {
        let Some(input) = &self.input else { return Ok(0) };
        match sys::read(input.as_raw_fd(), buffer) {
            Ok(Some(0)) | Ok(None) if !self.shared.input_complete.load(Ordering::Acquire) => Err(cancelled()),
            Ok(count) => Ok(count.unwrap_or(0)),
            Err(error) => Err(OpError::io(&error, "input")),
        }
    }

    /// For work that emits nothing for long: has the client gone or cancelled?
    pub fn check_cancelled(&self) -> OpResult<()> {
        let mut poll = libc::pollfd {
            fd: self.output.as_raw_fd(),
            events: 0,
            revents: 0,
        };
        // SAFETY: one entry, valid for the call; a zero timeout does not wait.
        unsafe { libc::poll(&mut poll, 1, 0) };
        if poll.revents & libc::POLLERR != 0 {
            Err(cancelled())
        } else {
            Ok(())
        }
    }

    /// A descriptor that polls as broken when the client has gone.
    pub fn output(&self) -> i32 {
        self.output.as_raw_fd()
    }
}

pub struct Started {
    pub handle: Handle,
    pub output: OwnedFd,
    pub input: Option<OwnedFd>,
}

/// Runs `work` on a thread of its own, with the file system ids of `user`.
pub fn start(
    user: Option<User>,
    takes_input: bool,
    work: impl FnOnce(&Worker) -> OpResult<Fields> + Send + 'static,
) -> OpResult<Started> {
    if RUNNING.fetch_add(1, Ordering::AcqRel) >= MAX_JOBS {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        return Err(OpError::new(
            "limit",
            format!("{MAX_JOBS} file operations are at work"),
        ));
    }
    launch(user, takes_input, work).inspect_err(|_| {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    })
}

fn launch(
    user: Option<User>,
    takes_input: bool,
    work: impl FnOnce(&Worker) -> OpResult<Fields> + Send + 'static,
) -> OpResult<Started> {
    let failed = |error: std::io::Error| OpError::io(&error, "worker");
    let shared = Arc::new(Shared::default());
    let (output, worker_output) = sys::pipe().map_err(failed)?;
    let (worker_input, input) = match takes_input {
        true => sys::pipe()
            .map(|(read, write)| (Some(read), Some(write)))
            .map_err(failed)?,
        false => (None, None),
    };
    let worker = Worker {
        shared: shared.clone(),
        input: worker_input,
        output: worker_output,
    };
    let run = move || {
        let guarded = AssertUnwindSafe(|| as_user(user.as_ref(), || work(&worker)));
        let result = match catch_unwind(guarded) {
            Ok(Ok(result)) => result.map(Fields::encode),
            Ok(Err(error)) => Err(OpError::io(&error, "user")),
            Err(_) => Err(OpError::new("internal", "the operation failed unexpectedly")),
        };
        *worker
            .shared
            .result
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(result);
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        // Dropping `worker` closes the output: only now does the loop look for the result.
    };
    std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(run)
        .map_err(failed)?;
    Ok(Started {
        handle: Handle(shared),
        output,
        input,
    })
}

fn cancelled() -> OpError {
    OpError::new("cancelled", "the client went away or cancelled")
}
