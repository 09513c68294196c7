//! Worker threads for file operations.
//!
//! A file system can block indefinitely (a dead network mount, a slow disk), so the event loop never touches
//! files. Each operation gets a thread with a small stack and up to two pipes: output and input. The pipes
//! provide flow control (bounded by the kernel), wake-up (epoll) and cancellation (closed pipe), so
//! operations are plain blocking code. When the output pipe ends, the result is available.
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

/// Concurrent operations of all connections. A thread that hangs on a dead mount counts until it returns.
const MAX_OPERATIONS: usize = 64;
const STACK: usize = 256 * 1024;
const WIDE_PIPE: i32 = 512 * 1024;

static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// An eventfd that wakes the event loop. Lives as long as the process.
static WAKE_UP: AtomicI32 = AtomicI32::new(-1);

pub fn wake_up() -> std::io::Result<OwnedFd> {
    // SAFETY: takes numbers, returns a descriptor.
    let wake_up = sys::own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    WAKE_UP.store(wake_up.as_raw_fd(), Ordering::Release);
    Ok(wake_up)
}

#[derive(Default)]
struct Shared {
    open: Mutex<Option<Vec<u8>>>,
    result: Mutex<Option<OpResult<Vec<u8>>>>,
    input_complete: AtomicBool,
}

/// The event loop's side.
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Returns the worker's OPEN body, once.
    pub fn take_open(&self) -> Option<Vec<u8>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the result. Call it when the output pipe has ended.
    pub fn take_result(&self) -> OpResult<Vec<u8>> {
        let result = self
            .0
            .result
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        result.unwrap_or_else(|| Err(OpError::new("internal", "the operation ended without a result")))
    }

    /// The client sent END and all its data is in the pipe. Without this call, the end of the pipe means
    /// that the client is gone.
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
    /// Sends the OPEN body. Wakes the event loop, because the first byte may follow much later.
    pub fn open(&self, body: Fields) {
        *self.shared.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(body.encode());
        let wake_up = WAKE_UP.load(Ordering::Acquire);
        if wake_up >= 0 {
            // Fails only when a wake-up is already pending.
            let _ = sys::write(wake_up, &1u64.to_ne_bytes());
        }
    }

    /// Sends all of `bytes`. Blocks while the client does not read.
    pub fn emit(&self, mut bytes: &[u8]) -> OpResult<()> {
        while !bytes.is_empty() {
            match sys::write(self.output.as_raw_fd(), bytes) {
                Ok(count) => bytes = &bytes[count.unwrap_or(0)..],
                Err(_) => return Err(cancelled()),
            }
        }
        Ok(())
    }

    /// Splices up to `most` bytes of a file from its current offset into the output. 0: end of file. `None`:
    /// the file does not support splice.
    pub fn emit_file(&self, file: RawFd, most: usize) -> OpResult<Option<usize>> {
        loop {
            let (none, output) = (std::ptr::null_mut(), self.output.as_raw_fd());
            // SAFETY: takes two open descriptors and no offsets; touches no memory of ours.
            let count = unsafe { libc::splice(file, none, output, none, most, libc::SPLICE_F_MOVE) };
            match (count, sys::errno()) {
                (0.., _) => return Ok(Some(count as usize)),
                (_, libc::EINTR) => continue,
                // gVisor does not block on a full pipe if the file is non-blocking.
                (_, libc::EAGAIN) => sys::wait_for(output, libc::POLLOUT),
                (_, libc::EINVAL | libc::ENOSYS | libc::EPERM) => return Ok(None),
                (_, libc::EPIPE) => return Err(cancelled()),
                (_, code) => return Err(OpError::errno(code, "read")),
            }
        }
    }

    /// Enlarges the pipe, if the kernel allows it.
    pub fn widen(&self) {
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(self.output.as_raw_fd(), libc::F_SETPIPE_SZ, WIDE_PIPE) };
    }

    /// Reads from the client. Returns 0 only after END. A disconnect is an error, so that a truncated upload
    /// never counts as complete.
    pub fn next(&self, buffer: &mut [u8]) -> OpResult<usize> {
        let Some(input) = &self.input else { return Ok(0) };
        match sys::read(input.as_raw_fd(), buffer) {
            Ok(Some(0)) | Ok(None) if !self.shared.input_complete.load(Ordering::Acquire) => Err(cancelled()),
            Ok(count) => Ok(count.unwrap_or(0)),
            Err(error) => Err(OpError::io(&error, "input")),
        }
    }

    /// For operations that rarely emit: whether the client is gone or has cancelled.
    pub fn check_cancelled(&self) -> OpResult<()> {
        if sys::poll(self.output.as_raw_fd(), 0, 0) & libc::POLLERR != 0 {
            Err(cancelled())
        } else {
            Ok(())
        }
    }

    /// A descriptor that polls with POLLERR when the client is gone.
    pub fn output(&self) -> i32 {
        self.output.as_raw_fd()
    }
}

pub struct Started {
    pub handle: Handle,
    pub output: OwnedFd,
    pub input: Option<OwnedFd>,
}

/// Runs `work` on a thread with the file system ids of `user`.
pub fn start(
    user: Option<User>,
    takes_input: bool,
    work: impl FnOnce(&Worker) -> OpResult<Fields> + Send + 'static,
) -> OpResult<Started> {
    if RUNNING.fetch_add(1, Ordering::AcqRel) >= MAX_OPERATIONS {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        return Err(OpError::new(
            "limit",
            format!("{MAX_OPERATIONS} file operations are running, which is the maximum"),
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
            Err(_) => Err(OpError::new("internal", "the operation panicked")),
        };
        *worker
            .shared
            .result
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(result);
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        // Dropping `worker` closes the output, and the loop then takes the result.
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
    OpError::new("cancelled", "the client disconnected or cancelled")
}
