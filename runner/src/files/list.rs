//! `fs.list`: the entries of a directory as a stream of records, with `depth` also those of subdirectories.

use super::dir::{Dir, read_link, stat_at};
use super::{Paths, Work, bytes_of, c_path, emit_record, io_error, metadata};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Limit of queued directories, because the runner's memory counts towards the sandbox's limit.
const MAX_PENDING: usize = 65_536;

pub fn prepare(paths: &Paths, request: &Request) -> OpResult<Work> {
    let root = paths.get(request, "path")?;
    let depth = request.maybe_uint("depth", 4096)?.unwrap_or(1);
    Ok(Box::new(move |worker| {
        let mut pending = vec![(PathBuf::new(), 1)];
        let mut count = 0u64;
        while let Some((below, level)) = pending.pop() {
            let opened = super::write::folder(&root.join(&below))
                .and_then(|fd| Dir::new(fd).map_err(io_error("list")));
            let mut dir = match opened {
                Ok(dir) => dir,
                Err(error) if level == 1 => return Err(error),
                // The directory vanished or is not readable; list the rest.
                Err(_) => continue,
            };
            while let Some(name) = dir.next().map_err(io_error("list"))? {
                let Ok(stat) = stat_at(dir.fd(), &name, false) else {
                    continue;
                };
                let kind = metadata::kind(stat.st_mode);
                let path = below.join(OsStr::from_bytes(bytes_of(&name)));
                let mut fields: Fields = metadata::fields(&stat).bytes("path", path.as_os_str().as_bytes());
                if kind == "symlink"
                    && let Ok(target) = read_link(dir.fd(), &name)
                {
                    fields = fields.bytes("target", &target);
                }
                if count == 0 {
                    worker.open(Fields::new());
                }
                emit_record(worker, fields)?;
                count += 1;
                if kind == "directory" && level < depth {
                    // A path that is too long for the kernel cannot be listed.
                    if pending.len() >= MAX_PENDING || c_path(&root.join(&path))?.as_bytes().len() > 4095 {
                        return Err(OpError::new(
                            "limit",
                            "the tree is too wide or too deep to list; use a smaller depth",
                        ));
                    }
                    pending.push((path, level + 1));
                }
            }
        }
        Ok(Fields::new().int("entries", count))
    }))
}
