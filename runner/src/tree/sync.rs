//! What survives a power cut from now on: these files and trees, or everything on a file system.
//!
//! Of a tree it is only the tree: what its neighbours have written meanwhile, gigabytes perhaps, is no part of somebody's snapshot. All of it is sent on its way
//! first, and then waited for; where the file system keeps a journal, the first wait brings what the others wait for. A tree of many files is
//! left to the kernel, which knows better than we what of it is still to be written.

use super::node::open;
use super::{Identity, Outcome, climb, doing, is_folder};
use crate::files::dir::{Dir, open_folder, stat_at};
use crate::sys::check;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// More than this are many.
const MANY: usize = 256;

/// Of a folder, its own name in the folder above too.
pub fn sync(paths: &[CString]) -> Outcome<()> {
    let mut found = Vec::new();
    for path in paths {
        let what = path.to_bytes();
        let stat = doing("syncing", what, stat_at(libc::AT_FDCWD, path, false))?;
        if !is_folder(&stat) {
            found.push(doing("syncing", what, open(libc::AT_FDCWD, path, &stat))?);
        } else if !collect(path, &mut found)? {
            return all(path);
        }
    }
    let write = |fd: &OwnedFd| {
        // SAFETY: takes an open descriptor and numbers. What is wrong is said below.
        unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    };
    found.iter().for_each(write);
    for fd in &found {
        doing("syncing", b"a file", flush(fd))?;
    }
    Ok(())
}

/// Everything written to its file system so far, and its own name in the folder above.
pub fn all(path: &CStr) -> Outcome<()> {
    let what = path.to_bytes();
    let folder = doing("syncing", what, open_folder(libc::AT_FDCWD, path))?;
    let above = doing("syncing", what, open_folder(folder.as_raw_fd(), c".."))?;
    // SAFETY: takes an open descriptor.
    let everything = check(unsafe { libc::syncfs(folder.as_raw_fd()) });
    let result = everything
        .and_then(|_| flush(&folder))
        .and_then(|()| flush(&above));
    doing("syncing", what, result)
}

fn flush(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes an open descriptor.
    check(unsafe { libc::fsync(fd.as_raw_fd()) }).map(drop)
}

/// All folders and files of a tree, and the folder above it; false when they are many. What else has a name is safe with its folder.
fn collect(root: &CStr, found: &mut Vec<OwnedFd>) -> Outcome<bool> {
    let top = doing("syncing", root.to_bytes(), open_folder(libc::AT_FDCWD, root))?;
    found.push(doing("syncing", b"..", open_folder(top.as_raw_fd(), c".."))?);
    let mut dir = doing("syncing", root.to_bytes(), Dir::new(top))?;
    let mut above: Vec<(Identity, Vec<CString>)> = Vec::new();
    let mut folders = list(&mut dir, found)?;
    loop {
        if found.len() > MANY {
            return Ok(false);
        }
        if let Some(name) = folders.pop() {
            let child = Identity::of(dir.fd()).and_then(|here| Ok((here, Dir::open(dir.fd(), &name)?)));
            let (here, child) = doing("syncing", name.to_bytes(), child)?;
            above.push((here, folders));
            dir = child;
            folders = list(&mut dir, found)?;
        } else if let Some((parent, rest)) = above.pop() {
            dir = doing("syncing", b"..", climb(dir.fd(), parent).and_then(Dir::new))?;
            folders = rest;
        } else {
            return Ok(true);
        }
    }
}

/// The folder itself and its files, as far as they are not too many anyway; returns the names of its folders.
fn list(dir: &mut Dir, found: &mut Vec<OwnedFd>) -> Outcome<Vec<CString>> {
    let mut folders = Vec::new();
    found.push(doing("syncing", b".", open_folder(dir.fd(), c"."))?);
    while let Some(name) = doing("syncing", b".", dir.next())? {
        let stat = doing("syncing", name.to_bytes(), stat_at(dir.fd(), &name, false))?;
        if is_folder(&stat) {
            folders.push(name);
        } else if stat.st_mode & libc::S_IFMT == libc::S_IFREG && found.len() <= MANY {
            found.push(doing("syncing", name.to_bytes(), open(dir.fd(), &name, &stat))?);
        }
    }
    Ok(folders)
}
