//! Creates files with system calls that take an open folder and one name, never a path.

use crate::sys::{self, check, own};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub const OPAQUE: &CStr = c"trusted.overlay.opaque";
/// The same for an overlay that is mounted in a user namespace (`userxattr`).
pub const USER_OPAQUE: &CStr = c"user.overlay.opaque";

/// Opens a folder below `root` as if `root` were `/` (RESOLVE_IN_ROOT, Linux 5.6): symlinks are followed but
/// cannot escape.
pub fn open_inside(root: RawFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    sys::open_resolved(
        root,
        path,
        flags,
        sys::RESOLVE_IN_ROOT | sys::RESOLVE_NO_MAGICLINKS,
    )
}

pub fn folder(at: RawFd, name: &CStr) -> io::Result<()> {
    // SAFETY: a C string that outlives the call.
    check(unsafe { libc::mkdirat(at, name.as_ptr(), 0o755) }).map(drop)
}

/// A new file, open for writing.
pub fn file(at: RawFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a C string that outlives the call.
    own(unsafe { libc::openat(at, name.as_ptr(), flags, 0o600) })
}

pub fn symlink(at: RawFd, name: &CStr, target: &CStr) -> io::Result<()> {
    // SAFETY: C strings that outlive the call.
    check(unsafe { libc::symlinkat(target.as_ptr(), at, name.as_ptr()) }).map(drop)
}

pub fn hard_link(from: RawFd, old: &CStr, at: RawFd, name: &CStr) -> io::Result<()> {
    // SAFETY: C strings that outlive the call; without AT_SYMLINK_FOLLOW a symlink is linked, not followed.
    check(unsafe { libc::linkat(from, old.as_ptr(), at, name.as_ptr(), 0) }).map(drop)
}

/// `kind` is S_IFCHR, S_IFBLK or S_IFIFO.
pub fn node(at: RawFd, name: &CStr, kind: u32, device: (u64, u64)) -> io::Result<()> {
    let (major, minor) = (u32::try_from(device.0), u32::try_from(device.1));
    let (Ok(major), Ok(minor)) = (major, minor) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    // SAFETY: a C string that outlives the call.
    check(unsafe { libc::mknodat(at, name.as_ptr(), kind | 0o600, libc::makedev(major, minor)) }).map(drop)
}

/// Sets owner and mode of a name that was just created and is not reachable by others, so it is not a
/// symlink. The owner comes first, because changing it clears mode bits.
pub fn own_by_name(at: RawFd, name: &CStr, owner: (u32, u32), mode: Option<u32>) -> io::Result<()> {
    // SAFETY: C strings that outlive the calls.
    unsafe {
        check(libc::fchownat(
            at,
            name.as_ptr(),
            owner.0,
            owner.1,
            libc::AT_SYMLINK_NOFOLLOW,
        ))?;
        if let Some(mode) = mode {
            check(libc::fchmodat(at, name.as_ptr(), mode, 0))?;
        }
    }
    Ok(())
}

pub fn own_open(file: &OwnedFd, owner: (u32, u32), mode: u32) -> io::Result<()> {
    // SAFETY: takes a descriptor and numbers.
    unsafe {
        check(libc::fchown(file.as_raw_fd(), owner.0, owner.1))?;
        check(libc::fchmod(file.as_raw_fd(), mode))?;
    }
    Ok(())
}

pub fn allow(file: &OwnedFd, mode: u32) -> io::Result<()> {
    // SAFETY: takes a descriptor and a number.
    check(unsafe { libc::fchmod(file.as_raw_fd(), mode) }).map(drop)
}

/// Sets modification and access time, of the name or of the open file.
pub fn set_time(at: RawFd, name: Option<&CStr>, time: (i64, i64)) -> io::Result<()> {
    let time = libc::timespec {
        tv_sec: time.0,
        tv_nsec: time.1,
    };
    let times = [time, time];
    // SAFETY: two valid timespecs and a C string that outlive the calls.
    check(unsafe {
        match name {
            Some(name) => libc::utimensat(at, name.as_ptr(), times.as_ptr(), libc::AT_SYMLINK_NOFOLLOW),
            None => libc::futimens(at, times.as_ptr()),
        }
    })
    .map(drop)
}

pub fn set_attribute(file: &OwnedFd, name: &CStr, value: &[u8]) -> io::Result<()> {
    // SAFETY: a C string, and a pointer and length that describe `value`.
    check(unsafe {
        libc::fsetxattr(
            file.as_raw_fd(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    })
    .map(drop)
}
