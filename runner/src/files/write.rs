//! `fs.write`: a file appears completely or not at all.
//!
//! The data goes to a temporary file beside the target, which is renamed after END. If the client
//! disconnects earlier, the old file stays. Symlinks are followed. A target that is not a regular file is
//! rejected. Appending happens in place, so it is not atomic.

use super::dir::{open_folder, stat_at, unlink};
use super::read::open_regular;
use super::{Paths, Work, c_path, io_error, manage, metadata, split};
use crate::files::worker::Worker;
use crate::sys::{self, check, own};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub fn prepare(paths: &Paths, request: &Request) -> OpResult<Work> {
    let path = paths.get(request, "path")?;
    let mode = request.maybe_uint("mode", 0o7777)?.map(|mode| mode as u32);
    let (append, exclusive) = (request.bool("append")?, request.bool("exclusive")?);
    let parents = request.bool("parents")?;
    if append && exclusive {
        return Err(OpError::invalid("append and exclusive cannot be combined"));
    }
    Ok(Box::new(move |worker| {
        if parents && let Some(parent) = path.parent() {
            manage::make_path(parent, 0o755)?;
        }
        if append {
            append_to(worker, &path, mode)
        } else {
            replace(worker, &path, mode, exclusive)
        }
    }))
}

fn append_to(worker: &Worker, path: &Path, mode: Option<u32>) -> OpResult<Fields> {
    let (file, _) = open_regular(path, libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT)?;
    if let Some(mode) = mode {
        set_mode(file.as_raw_fd(), mode)?;
    }
    worker.open(Fields::new());
    let bytes = copy_in(worker, file.as_raw_fd())?;
    Ok(Fields::new().int("bytes", bytes))
}

fn replace(worker: &Worker, path: &Path, mode: Option<u32>, exclusive: bool) -> OpResult<Fields> {
    let target = if exclusive {
        path.to_owned()
    } else {
        through_links(path)?
    };
    let (parent, name) = split(&target)?;
    let folder = folder(&parent)?;
    let existing = match stat_at(folder.as_raw_fd(), &name, false) {
        Ok(_) if exclusive => return Err(OpError::errno(libc::EEXIST, "write")),
        Ok(stat) => match metadata::kind(stat.st_mode) {
            "file" => Some(stat),
            "directory" => return Err(OpError::errno(libc::EISDIR, "write")),
            _ => return Err(OpError::invalid("not a regular file")),
        },
        Err(_) => None,
    };
    let draft = Draft::new(folder.as_raw_fd())?;
    worker.open(Fields::new());
    let bytes = copy_in(worker, draft.file.as_raw_fd())?;
    let old_mode = existing.as_ref().map(|stat| stat.st_mode & 0o7777);
    if let Some(stat) = existing {
        // Best effort: only root may change the owner.
        // SAFETY: takes a descriptor and numbers.
        unsafe { libc::fchown(draft.file.as_raw_fd(), stat.st_uid, stat.st_gid) };
    }
    set_mode(draft.file.as_raw_fd(), mode.or(old_mode).unwrap_or(0o644))?;
    draft.publish(&name, exclusive)?;
    Ok(Fields::new().int("bytes", bytes))
}

/// A temporary file with a random name beside its target. Removed unless published.
pub struct Draft {
    pub file: OwnedFd,
    folder: RawFd,
    name: CString,
    published: bool,
}

impl Draft {
    /// `folder` must stay open while the draft exists.
    pub fn new(folder: RawFd) -> OpResult<Draft> {
        let name = CString::new(format!(".{}.part", sys::nonce())).expect("hexadecimal digits have no NUL");
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: `name` is a C string that outlives the call.
        let file =
            own(unsafe { libc::openat(folder, name.as_ptr(), flags, 0o600) }).map_err(io_error("create"))?;
        Ok(Draft {
            file,
            folder,
            name,
            published: false,
        })
    }

    pub fn publish(mut self, target: &CStr, exclusive: bool) -> OpResult<()> {
        // SAFETY: both names are C strings that outlive the calls.
        let result = unsafe {
            match exclusive {
                // A link fails if the name exists; a rename would replace it.
                true => libc::linkat(self.folder, self.name.as_ptr(), self.folder, target.as_ptr(), 0),
                false => libc::renameat(self.folder, self.name.as_ptr(), self.folder, target.as_ptr()),
            }
        };
        check(result).map_err(io_error("rename"))?;
        self.published = !exclusive;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            let _ = unlink(self.folder, &self.name, 0);
        }
    }
}

pub fn folder(path: &Path) -> OpResult<OwnedFd> {
    let name = c_path(path)?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: `name` is a C string that outlives the call.
    own(unsafe { libc::open(name.as_ptr(), flags) }).map_err(io_error("open"))
}

pub fn set_mode(file: RawFd, mode: u32) -> OpResult<()> {
    // SAFETY: takes a descriptor and a number.
    check(unsafe { libc::fchmod(file, mode) })
        .map(drop)
        .map_err(io_error("chmod"))
}

pub fn write_all(file: RawFd, mut bytes: &[u8]) -> OpResult<()> {
    while !bytes.is_empty() {
        let count = sys::write(file, bytes).map_err(io_error("write"))?.unwrap_or(0);
        bytes = &bytes[count..];
    }
    Ok(())
}

fn copy_in(worker: &Worker, file: RawFd) -> OpResult<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        match worker.next(&mut buffer)? {
            0 => return Ok(total),
            count => {
                write_all(file, &buffer[..count])?;
                total += count as u64;
            }
        }
    }
}

/// Resolves a chain of symlinks, one readlink(2) per step, up to the kernel's limit.
fn through_links(path: &Path) -> OpResult<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        let (parent, name) = split(&path)?;
        let Ok(folder) = open_folder(libc::AT_FDCWD, &c_path(&parent.join("."))?) else {
            return Ok(path);
        };
        match super::dir::read_link(folder.as_raw_fd(), &name) {
            Ok(target) => path = parent.join(OsStr::from_bytes(&target)),
            Err(_) => return Ok(path),
        }
    }
    Err(OpError::errno(libc::ELOOP, "write"))
}
