//! Copies one file, link, socket, fifo, device or whiteout with its metadata.

use super::content::CopyMethods;
use super::{os, xattr};
use crate::files::dir::{read_link, stat_fd};
use crate::sys::{check, own};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Copies anything except a folder.
pub fn copy(
    from: RawFd,
    to: RawFd,
    name: &CStr,
    stat: &libc::stat64,
    ways: &mut CopyMethods,
    keep: impl Fn(&CStr) -> bool,
) -> io::Result<()> {
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => {
            let source = open(from, name, stat)?;
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            // SAFETY: a C string that outlives the call.
            let target = own(unsafe { libc::openat(to, name.as_ptr(), flags, 0o600) })?;
            ways.copy(source.as_raw_fd(), target.as_raw_fd(), stat.st_size)?;
        }
        libc::S_IFLNK => {
            let target = CString::new(read_link(from, name)?)?;
            // SAFETY: C strings that outlive the call.
            check(unsafe { libc::symlinkat(target.as_ptr(), to, name.as_ptr()) })?;
        }
        kind => {
            // SAFETY: a C string that outlives the call.
            check(unsafe { libc::mknodat(to, name.as_ptr(), kind | 0o600, stat.st_rdev) })?;
        }
    }
    facts((from, name), (to, name), stat, keep)
}

/// Sets owner, attributes, mode and times, in this order, because a new owner clears the setuid bit and file
/// capabilities.
pub fn facts(
    from: (RawFd, &CStr),
    (to, name): (RawFd, &CStr),
    stat: &libc::stat64,
    keep: impl Fn(&CStr) -> bool,
) -> io::Result<()> {
    let times = [
        time(stat.st_atime, stat.st_atime_nsec),
        time(stat.st_mtime, stat.st_mtime_nsec),
    ];
    let nofollow = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: C strings and an array of two times, all of which outlive the calls.
    unsafe {
        check(libc::fchownat(
            to,
            name.as_ptr(),
            stat.st_uid,
            stat.st_gid,
            nofollow,
        ))?;
        xattr::copy(from, (to, name), keep)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
            check(libc::fchmodat(to, name.as_ptr(), stat.st_mode & 0o7777, 0))?;
        }
        check(libc::utimensat(to, name.as_ptr(), times.as_ptr(), nofollow))?;
    }
    Ok(())
}

/// Opens exactly the file that was inspected, without blocking and, if permitted, without updating its
/// access time.
pub fn open(at: RawFd, name: &CStr, expected: &libc::stat64) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: a C string that outlives the calls.
    let file = own(unsafe { libc::openat(at, name.as_ptr(), flags | libc::O_NOATIME) })
        .or_else(|_| own(unsafe { libc::openat(at, name.as_ptr(), flags) }))?;
    let stat = stat_fd(file.as_raw_fd())?;
    if (stat.st_dev, stat.st_ino) == (expected.st_dev, expected.st_ino) {
        Ok(file)
    } else {
        Err(os(libc::EBUSY))
    }
}

fn time(seconds: i64, nanoseconds: i64) -> libc::timespec {
    libc::timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    }
}
