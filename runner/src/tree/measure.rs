//! Measures the disk usage of a tree. Memory depends on the names of pending folders, not on depth.

use super::{Identity, Outcome, Tally, ascend, doing, is_folder};
use crate::files::dir::{Dir, open_folder, stat_at, stat_fd};
use std::collections::HashSet;
use std::ffi::{CStr, CString};

pub fn measure(root: &CStr) -> Outcome<Tally> {
    let mut tally = Tally::default();
    let mut linked = HashSet::new();
    let open = |at, name: &CStr| open_folder(at, name).and_then(Dir::new);
    let mut dir = doing("measuring", root.to_bytes(), open(libc::AT_FDCWD, root))?;
    let mut above: Vec<(Identity, Vec<CString>)> = Vec::new();
    let mut folders = list(&mut dir, &mut tally, &mut linked)?;
    loop {
        while let Some(name) = folders.pop() {
            let (here, child) = doing(
                "measuring",
                name.to_bytes(),
                Identity::of(dir.fd()).and_then(|here| Ok((here, open(dir.fd(), &name)?))),
            )?;
            above.push((here, folders));
            dir = child;
            folders = list(&mut dir, &mut tally, &mut linked)?;
        }
        let Some((parent, rest)) = above.pop() else {
            return Ok(tally);
        };
        dir = doing("measuring", b"..", ascend(dir.fd(), parent).and_then(Dir::new))?;
        folders = rest;
    }
}

/// Counts a folder and its files. Returns the names of its subfolders.
fn list(dir: &mut Dir, tally: &mut Tally, linked: &mut HashSet<u64>) -> Outcome<Vec<CString>> {
    let mut folders = Vec::new();
    tally.count(&doing("measuring", b".", stat_fd(dir.fd()))?);
    while let Some(name) = doing("measuring", b".", dir.next())? {
        let stat = doing("measuring", name.to_bytes(), stat_at(dir.fd(), &name, false))?;
        if is_folder(&stat) {
            folders.push(name);
        } else if stat.st_nlink < 2 || linked.insert(stat.st_ino) {
            tally.count(&stat);
        }
    }
    Ok(folders)
}
