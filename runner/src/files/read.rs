//! `fs.read`: streams a file or a part of it.

use super::dir::stat_fd;
use super::{Paths, Work, c_path, io_error, metadata};
use crate::sys::{self, own};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Larger files get a larger pipe.
const LARGE_FILE: i64 = 64 * 1024;
const AT_ONCE: u64 = 1024 * 1024;

pub fn prepare(paths: &Paths, request: &Request) -> OpResult<Work> {
    let path = paths.get(request, "path")?;
    let offset = request.maybe_uint("offset", i64::MAX as u64)?.unwrap_or(0);
    let length = request.maybe_uint("length", i64::MAX as u64)?;
    Ok(Box::new(move |worker| {
        let (file, stat) = open_regular(&path, libc::O_RDONLY)?;
        worker.open(metadata::fields(&stat));
        if offset > 0 {
            // SAFETY: seeking touches no memory.
            let sought = unsafe { libc::lseek64(file.as_raw_fd(), offset as i64, libc::SEEK_SET) };
            if sought < 0 {
                return Err(OpError::errno(sys::errno(), "seek"));
            }
        }
        let mut left = length.unwrap_or(u64::MAX);
        let mut total = 0u64;
        if stat.st_size > LARGE_FILE {
            worker.widen();
        }
        while left > 0 {
            match worker.emit_file(file.as_raw_fd(), AT_ONCE.min(left) as usize)? {
                Some(0) => return Ok(Fields::new().int("bytes", total)),
                Some(count) => {
                    left -= count as u64;
                    total += count as u64;
                }
                // Some files, for example in /proc, cannot be spliced.
                None => break,
            }
        }
        let mut buffer = vec![0; 64 * 1024];
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match sys::read(file.as_raw_fd(), &mut buffer[..most]).map_err(io_error("read"))? {
                None | Some(0) => break,
                Some(count) => {
                    worker.emit(&buffer[..count])?;
                    left -= count as u64;
                    total += count as u64;
                }
            }
        }
        Ok(Fields::new().int("bytes", total))
    }))
}

/// Opens without blocking on a fifo and without acquiring a terminal, then rejects anything but regular
/// files.
pub fn open_regular(path: &Path, flags: i32) -> OpResult<(OwnedFd, libc::stat64)> {
    let name = c_path(path)?;
    let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_LARGEFILE;
    // SAFETY: `name` is a C string that outlives the call.
    let file = own(unsafe { libc::open(name.as_ptr(), flags, 0o644) }).map_err(|error| {
        // ENXIO: the path is a fifo without a reader.
        match error.raw_os_error() {
            Some(libc::ENXIO) => OpError::invalid("not a regular file"),
            _ => OpError::io(&error, "open"),
        }
    })?;
    let stat = stat_fd(file.as_raw_fd()).map_err(io_error("stat"))?;
    match metadata::kind(stat.st_mode) {
        "file" => Ok((file, stat)),
        "directory" => Err(OpError::errno(libc::EISDIR, "open")),
        _ => Err(OpError::invalid("not a regular file")),
    }
}
