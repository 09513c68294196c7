//! Copies the content of one file: as a clone if the file system supports it, otherwise only the data, so
//! that holes stay holes.

use crate::sys::check;
use std::io;
use std::os::fd::RawFd;

const FICLONE: u64 = 0x4004_9409;

/// Which methods work between these two file systems.
pub struct CopyMethods {
    clone: bool,
    range: bool,
}

impl Default for CopyMethods {
    fn default() -> CopyMethods {
        CopyMethods {
            clone: true,
            range: true,
        }
    }
}

impl CopyMethods {
    pub fn copy(&mut self, from: RawFd, to: RawFd, size: i64) -> io::Result<()> {
        if size == 0 {
            return Ok(());
        }
        if self.clone {
            // SAFETY: the argument is a descriptor, no memory.
            match check(unsafe { libc::ioctl(to, FICLONE as _, from) }) {
                Ok(_) => return Ok(()),
                Err(error) if is_refusal(&error) => self.clone = false,
                Err(error) => return Err(error),
            }
        }
        // SAFETY: takes numbers.
        check(unsafe { libc::ftruncate64(to, size) })?;
        let mut at = 0;
        while at < size {
            let Some(start) = seek(from, at, libc::SEEK_DATA)? else {
                break;
            };
            let end = seek(from, start, libc::SEEK_HOLE)?.unwrap_or(size).min(size);
            self.stretch(from, to, start, end)?;
            at = end.max(start + 1);
        }
        Ok(())
    }

    fn stretch(&mut self, from: RawFd, to: RawFd, mut start: i64, end: i64) -> io::Result<()> {
        while self.range && start < end {
            let (mut input, mut output) = (start, start);
            let length = (end - start) as usize;
            // SAFETY: the two offsets are ours and outlive the call.
            let count = unsafe { libc::copy_file_range(from, &mut input, to, &mut output, length, 0) };
            match count {
                0 => return Ok(()),
                1.. => start += count as i64,
                _ => match io::Error::last_os_error() {
                    error if error.raw_os_error() == Some(libc::EINTR) => {}
                    error if is_refusal(&error) => self.range = false,
                    error => return Err(error),
                },
            }
        }
        let mut buffer = if start < end {
            vec![0u8; 128 * 1024]
        } else {
            Vec::new()
        };
        while start < end {
            let length = buffer.len().min((end - start) as usize);
            // SAFETY: pointer and length describe the buffer.
            let count = unsafe { libc::pread64(from, buffer.as_mut_ptr().cast(), length, start) };
            match count {
                0 => return Ok(()),
                1.. => write_all(to, &buffer[..count as usize], start)?,
                _ => match io::Error::last_os_error() {
                    error if error.raw_os_error() == Some(libc::EINTR) => continue,
                    error => return Err(error),
                },
            }
            start += count as i64;
        }
        Ok(())
    }
}

fn write_all(to: RawFd, mut bytes: &[u8], mut at: i64) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: pointer and length describe `bytes`.
        let count = unsafe { libc::pwrite64(to, bytes.as_ptr().cast(), bytes.len(), at) };
        if count < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(error);
            }
            continue;
        }
        bytes = &bytes[count as usize..];
        at += count as i64;
    }
    Ok(())
}

/// `None`: no more data. A file system without hole support reports data up to the end.
fn seek(fd: RawFd, from: i64, what: libc::c_int) -> io::Result<Option<i64>> {
    // SAFETY: takes numbers.
    let at = unsafe { libc::lseek64(fd, from, what) };
    if at >= 0 {
        return Ok(Some(at));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENXIO) => Ok(None),
        Some(libc::EINVAL | libc::ENOTSUP) => Ok((what == libc::SEEK_DATA).then_some(from)),
        _ => Err(error),
    }
}

/// The method is not supported here.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EXDEV | libc::EINVAL | libc::ENOSYS | libc::EPERM)
    )
}
