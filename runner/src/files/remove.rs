//! `fs.remove`: a file or a tree.
//!
//! A hostile tree can be very deep and can change during the walk. So the walk holds one open directory and
//! no path. It descends by name without following symlinks, and ascends by `..`, which must be the directory
//! that it came from. It stops at the first entry that it cannot remove.

use super::dir::{Dir, Identity, stat_at, unlink};
use super::{Paths, Work, c_path, io_error, metadata};
use crate::files::worker::Worker;
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::ffi::{CStr, CString};

pub fn prepare(paths: &Paths, request: &Request) -> OpResult<Work> {
    let path = paths.get(request, "path")?;
    let (recursive, force) = (request.bool("recursive")?, request.bool("force")?);
    Ok(Box::new(move |worker| {
        let name = c_path(&path)?;
        let stat = match stat_at(libc::AT_FDCWD, &name, false) {
            Err(error) if force && error.raw_os_error() == Some(libc::ENOENT) => {
                return Ok(Fields::new().int("removed", 0));
            }
            stat => stat.map_err(io_error("remove"))?,
        };
        let folder = metadata::kind(stat.st_mode) == "directory";
        let mut removed = if folder && recursive {
            empty(worker, &name)?
        } else {
            0
        };
        unlink(libc::AT_FDCWD, &name, if folder { libc::AT_REMOVEDIR } else { 0 })
            .map_err(io_error("remove"))?;
        removed += 1;
        Ok(Fields::new().int("removed", removed))
    }))
}

fn empty(worker: &Worker, root: &CStr) -> OpResult<u64> {
    let failed = io_error("remove");
    let mut dir = Dir::open(libc::AT_FDCWD, root).map_err(&failed)?;
    let mut above: Vec<(Identity, CString)> = Vec::new();
    let mut removed = 0;
    loop {
        while let Some(name) = dir.next().map_err(&failed)? {
            if removed % 256 == 0 {
                worker.check_cancelled()?;
            }
            match unlink(dir.fd(), &name, 0).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)) {
                Ok(()) => removed += 1,
                Err(libc::ENOENT) => {}
                Err(libc::EISDIR | libc::EPERM) => {
                    above.push((Identity::of(dir.fd()).map_err(&failed)?, name.clone()));
                    dir = Dir::open(dir.fd(), &name).map_err(&failed)?;
                }
                Err(errno) => return Err(OpError::errno(errno, "remove")),
            }
        }
        let Some((parent, child)) = above.pop() else {
            return Ok(removed);
        };
        dir = Dir::open(dir.fd(), c"..").map_err(&failed)?;
        if Identity::of(dir.fd()).map_err(&failed)? != parent {
            return Err(OpError::new("busy", "the tree was moved during the removal"));
        }
        match unlink(dir.fd(), &child, libc::AT_REMOVEDIR) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(failed(error)),
            _ => removed += 1,
        }
        dir.rewind();
    }
}
