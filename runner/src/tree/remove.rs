//! Removes a tree of any depth. The walk holds one open folder and no path. It ascends by `..`, which must
//! be the folder that it came from. `files/remove.rs` is the same walk for a sandbox's own files, which can
//! be cancelled.

use super::{Failure, Identity, Outcome, ascend, doing};
use crate::files::dir::{Dir, open_folder, stat_at, unlink};
use std::ffi::{CStr, CString};

/// A missing path is a success. Several processes may remove the same tree: a walk whose folder vanished
/// starts again.
pub fn remove(path: &CStr) -> Outcome<()> {
    const ATTEMPTS: usize = 1000;
    for attempt in 1.. {
        match once(path) {
            Err(Failure { errno, .. })
                if matches!(errno, libc::ENOENT | libc::ENOTEMPTY | libc::EBUSY) && attempt < ATTEMPTS => {}
            result => return result,
        }
    }
    Ok(())
}

fn once(path: &CStr) -> Outcome<()> {
    let name = path.to_bytes();
    let stat = match stat_at(libc::AT_FDCWD, path, false) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
        stat => doing("removing", name, stat)?,
    };
    if !super::is_folder(&stat) {
        return doing("removing", name, unlink(libc::AT_FDCWD, path, 0));
    }
    empty(path)?;
    doing("removing", name, unlink(libc::AT_FDCWD, path, libc::AT_REMOVEDIR))
}

fn empty(root: &CStr) -> Outcome<()> {
    let mut name = root.to_owned();
    let mut dir = doing(
        "removing",
        name.to_bytes(),
        open_folder(libc::AT_FDCWD, root).and_then(Dir::new),
    )?;
    let mut above: Vec<(Identity, CString)> = Vec::new();
    loop {
        while let Some(entry) = doing("reading", name.to_bytes(), dir.next())? {
            let at = dir.fd();
            match unlink(at, &entry, 0).map_err(|error| error.raw_os_error()) {
                Ok(()) | Err(Some(libc::ENOENT)) => {}
                Err(Some(libc::EISDIR | libc::EPERM)) => {
                    let (here, child) = doing(
                        "removing",
                        entry.to_bytes(),
                        Identity::of(at).and_then(|here| Ok((here, Dir::open(at, &entry)?))),
                    )?;
                    above.push((here, entry.clone()));
                    (dir, name) = (child, entry);
                }
                Err(errno) => {
                    return doing(
                        "removing",
                        entry.to_bytes(),
                        Err(super::os(errno.unwrap_or(libc::EIO))),
                    );
                }
            }
        }
        let Some((parent, child)) = above.pop() else {
            return Ok(());
        };
        let up = ascend(dir.fd(), parent).and_then(|up| {
            dir = Dir::new(up)?;
            unlink(dir.fd(), &child, libc::AT_REMOVEDIR)
        });
        doing("removing", child.to_bytes(), up)?;
    }
}
