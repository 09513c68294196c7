//! Flushes files and trees, or a whole file system, to disk.
//!
//! A tree is flushed alone, because its neighbours may have gigabytes of unrelated dirty data. The flush
//! first starts the writes of all files and then waits; with a journal, the first wait covers most of the
//! rest. A tree with many files is flushed with syncfs.

use super::node::open;
use super::{Identity, Outcome, ascend, doing, is_folder};
use crate::files::dir::{Dir, open_folder, stat_at};
use crate::sys::check;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Trees with more files use syncfs.
const MAX_SYNCED_FILES: usize = 256;

/// Also flushes a folder's own entry in its parent.
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
        // SAFETY: takes an open descriptor and numbers. The sync below reports errors.
        unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    };
    found.iter().for_each(write);
    for fd in &found {
        doing("syncing", b"a file", flush(fd))?;
    }
    Ok(())
}

/// Flushes the whole file system, and the folder's own entry in its parent.
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

/// Opens all folders and files of a tree, and its parent. Returns false if there are too many. Other file
/// types are flushed with their folder.
fn collect(root: &CStr, found: &mut Vec<OwnedFd>) -> Outcome<bool> {
    let top = doing("syncing", root.to_bytes(), open_folder(libc::AT_FDCWD, root))?;
    found.push(doing("syncing", b"..", open_folder(top.as_raw_fd(), c".."))?);
    let mut dir = doing("syncing", root.to_bytes(), Dir::new(top))?;
    let mut above: Vec<(Identity, Vec<CString>)> = Vec::new();
    let mut folders = list(&mut dir, found)?;
    loop {
        if found.len() > MAX_SYNCED_FILES {
            return Ok(false);
        }
        if let Some(name) = folders.pop() {
            let child = Identity::of(dir.fd()).and_then(|here| Ok((here, Dir::open(dir.fd(), &name)?)));
            let (here, child) = doing("syncing", name.to_bytes(), child)?;
            above.push((here, folders));
            dir = child;
            folders = list(&mut dir, found)?;
        } else if let Some((parent, rest)) = above.pop() {
            dir = doing("syncing", b"..", ascend(dir.fd(), parent).and_then(Dir::new))?;
            folders = rest;
        } else {
            return Ok(true);
        }
    }
}

/// Opens the folder and its files, up to the limit. Returns the names of its subfolders.
fn list(dir: &mut Dir, found: &mut Vec<OwnedFd>) -> Outcome<Vec<CString>> {
    let mut folders = Vec::new();
    found.push(doing("syncing", b".", open_folder(dir.fd(), c"."))?);
    while let Some(name) = doing("syncing", b".", dir.next())? {
        let stat = doing("syncing", name.to_bytes(), stat_at(dir.fd(), &name, false))?;
        if is_folder(&stat) {
            folders.push(name);
        } else if stat.st_mode & libc::S_IFMT == libc::S_IFREG && found.len() <= MAX_SYNCED_FILES {
            found.push(doing("syncing", name.to_bytes(), open(dir.fd(), &name, &stat))?);
        }
    }
    Ok(folders)
}
