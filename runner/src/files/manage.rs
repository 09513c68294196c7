//! `fs.stat`, `fs.mkdir`, `fs.rename`, `fs.chmod`.

use super::dir::{read_link, stat_at};
use super::{Paths, Work, c_path, io_error, metadata};
use crate::sys::{self, check};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::path::Path;

pub fn stat(paths: &Paths, request: &Request) -> OpResult<Work> {
    let path = paths.get(request, "path")?;
    let follow = !request.bool("noFollow")?;
    Ok(Box::new(move |_| {
        let name = c_path(&path)?;
        let stat = stat_at(libc::AT_FDCWD, &name, follow).map_err(io_error("stat"))?;
        let fields = metadata::fields(&stat);
        match metadata::kind(stat.st_mode) {
            "symlink" => {
                let target = read_link(libc::AT_FDCWD, &name).map_err(io_error("readlink"))?;
                Ok(fields.bytes("target", &target))
            }
            _ => Ok(fields),
        }
    }))
}

pub fn mkdir(paths: &Paths, request: &Request) -> OpResult<Work> {
    let path = paths.get(request, "path")?;
    let parents = request.bool("parents")?;
    let mode = request.maybe_uint("mode", 0o7777)?.unwrap_or(0o755) as u32;
    Ok(Box::new(move |_| {
        let created = match parents {
            true => make_path(&path, mode)?,
            false => {
                make_one(&path, mode).map_err(io_error("mkdir"))?;
                true
            }
        };
        Ok(Fields::new().bool("created", created))
    }))
}

pub fn rename(paths: &Paths, request: &Request) -> OpResult<Work> {
    let (from, to) = (paths.get(request, "from")?, paths.get(request, "to")?);
    let exclusive = request.bool("exclusive")?;
    Ok(Box::new(move |_| {
        let (from, to) = (c_path(&from)?, c_path(&to)?);
        let flags = if exclusive { libc::RENAME_NOREPLACE } else { 0 };
        let at = libc::AT_FDCWD;
        // SAFETY: both are C strings that outlive the call.
        let result = unsafe { libc::syscall(libc::SYS_renameat2, at, from.as_ptr(), at, to.as_ptr(), flags) };
        check(result as i32).map_err(io_error("rename"))?;
        Ok(Fields::new())
    }))
}

pub fn chmod(paths: &Paths, request: &Request) -> OpResult<Work> {
    let path = paths.get(request, "path")?;
    let mode = request.uint("mode", 0o7777)? as u32;
    Ok(Box::new(move |_| {
        let name = c_path(&path)?;
        // SAFETY: a C string that outlives the call.
        check(unsafe { libc::chmod(name.as_ptr(), mode) }).map_err(io_error("chmod"))?;
        Ok(Fields::new())
    }))
}

/// Like `mkdir -p`. Returns true if the last directory is new. `mode` applies to it; its new parents get
/// 0755.
pub fn make_path(path: &Path, mode: u32) -> OpResult<bool> {
    let mut missing = Vec::new();
    let mut step = path;
    let first = loop {
        match make_one(step, if step == path { mode } else { 0o755 }) {
            Ok(()) => break true,
            Err(error) => match (error.raw_os_error(), step.parent()) {
                (Some(libc::ENOENT), Some(parent)) if !parent.as_os_str().is_empty() => {
                    missing.push(step);
                    step = parent;
                }
                (Some(libc::EEXIST), _) => {
                    let stat = stat_at(libc::AT_FDCWD, &c_path(step)?, true).map_err(io_error("mkdir"))?;
                    if metadata::kind(stat.st_mode) != "directory" {
                        return Err(OpError::errno(libc::ENOTDIR, "mkdir"));
                    }
                    break false;
                }
                _ => return Err(OpError::io(&error, "mkdir")),
            },
        }
    };
    let mut created = first;
    for step in missing.into_iter().rev() {
        match make_one(step, if step == path { mode } else { 0o755 }) {
            Ok(()) => created = true,
            // Another process created it first.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => created = false,
            Err(error) => return Err(OpError::io(&error, "mkdir")),
        }
    }
    Ok(created)
}

fn make_one(path: &Path, mode: u32) -> std::io::Result<()> {
    let name = c_path(path).map_err(|_| std::io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: a C string that outlives the calls.
    unsafe {
        check(libc::mkdir(name.as_ptr(), mode))?;
        // The umask may have removed requested bits.
        if libc::chmod(name.as_ptr(), mode) < 0 {
            return Err(std::io::Error::from_raw_os_error(sys::errno()));
        }
    }
    Ok(())
}
