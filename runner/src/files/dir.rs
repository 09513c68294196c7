//! Reads a directory through its descriptor, so that no path is resolved twice.

use crate::sys::{self, own};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

pub struct Dir {
    stream: *mut libc::DIR,
    fd: RawFd,
}

impl Dir {
    pub fn new(fd: OwnedFd) -> io::Result<Dir> {
        let raw = fd.as_raw_fd();
        // SAFETY: on success the stream owns the descriptor, which is given up just below.
        let stream = unsafe { libc::fdopendir(raw) };
        if stream.is_null() {
            return Err(io::Error::last_os_error());
        }
        let fd = fd.into_raw_fd();
        Ok(Dir { stream, fd })
    }

    pub fn open(at: RawFd, name: &CStr) -> io::Result<Dir> {
        Dir::new(open_folder(at, name)?)
    }

    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// The next name, except `.` and `..`.
    pub fn next(&mut self) -> io::Result<Option<CString>> {
        loop {
            // SAFETY: the stream is open until drop. The entry is read before the next call could overwrite it.
            let name = unsafe {
                *libc::__errno_location() = 0;
                let entry = libc::readdir64(self.stream);
                if entry.is_null() {
                    return match sys::errno() {
                        0 => Ok(None),
                        errno => Err(io::Error::from_raw_os_error(errno)),
                    };
                }
                CStr::from_ptr((*entry).d_name.as_ptr()).to_owned()
            };
            if name.as_bytes() != b"." && name.as_bytes() != b".." {
                return Ok(Some(name));
            }
        }
    }

    pub fn rewind(&mut self) {
        // SAFETY: the stream is open until drop.
        unsafe { libc::rewinddir(self.stream) };
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: closes the stream and its descriptor once.
        unsafe { libc::closedir(self.stream) };
    }
}

/// Opens a directory. Does not follow a symlink in the last component.
pub fn open_folder(at: RawFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: `name` is a C string that outlives the call.
    own(unsafe { libc::openat(at, name.as_ptr(), flags) })
}

pub fn stat_at(at: RawFd, name: &CStr, follow: bool) -> io::Result<libc::stat64> {
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: stat64 is plain data that the call fills; `name` is a C string.
    unsafe {
        let mut stat: libc::stat64 = std::mem::zeroed();
        sys::check(libc::fstatat64(at, name.as_ptr(), &mut stat, flags))?;
        Ok(stat)
    }
}

pub fn stat_fd(fd: RawFd) -> io::Result<libc::stat64> {
    // SAFETY: stat64 is plain data that the call fills.
    unsafe {
        let mut stat: libc::stat64 = std::mem::zeroed();
        sys::check(libc::fstat64(fd, &mut stat))?;
        Ok(stat)
    }
}

/// `flags` is 0 or AT_REMOVEDIR.
pub fn unlink(at: RawFd, name: &CStr, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: `name` is a C string that outlives the call.
    sys::check(unsafe { libc::unlinkat(at, name.as_ptr(), flags) }).map(drop)
}

/// Device and inode: identifies a directory when a walk comes back to it.
#[derive(PartialEq, Clone, Copy)]
pub struct Identity(u64, u64);

impl Identity {
    pub fn of(fd: RawFd) -> io::Result<Identity> {
        stat_fd(fd).map(|stat| Identity(stat.st_dev, stat.st_ino))
    }
}

/// Joins components to a path that starts at an open directory.
pub fn path_of(parts: &[CString]) -> CString {
    let names: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let path = names.join(&b'/');
    CString::new(if path.is_empty() { b".".to_vec() } else { path }).expect("made of C strings")
}

pub fn read_link(at: RawFd, name: &CStr) -> io::Result<Vec<u8>> {
    let mut target = vec![0u8; 4096];
    // SAFETY: the call writes at most `target.len()` bytes.
    let count = unsafe { libc::readlinkat(at, name.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    target.truncate(count as usize);
    Ok(target)
}
