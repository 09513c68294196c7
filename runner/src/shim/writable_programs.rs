//! The host's `/usr` as a lower layer that the sandbox's root can write above: for the image `host` with
//! `user: root`. Other sandboxes get the folder as a read-only bind mount.
//!
//! ```text
//!   disk/upper/usr        what the sandbox has written; part of its disk, so snapshots include it
//!   layer-0/usr …         the same of the snapshots that it started from
//!   <bind>-covered        whiteouts: paths of the host that the image hides
//!   <bind>-folders        the public folders of the host's /usr, empty, owned by the sandbox's root
//!   <bind>-host           the host's /usr, read-only, with owners that do not exist inside
//! ```
//!
//! The owners of the host's files do not exist inside, so the sandbox's root may read only what every user of the host
//! may read. It may replace and delete files, because the folders are its own, but not change one in place:
//! overlayfs cannot copy a file whose owner has no id on the disk.
//!
//! The overlay is mounted *by the sandbox's root*, in its own user namespace: overlayfs checks each access to a
//! layer with the rights of the process that mounted it. So a folder that the host closes stays closed, although
//! `<bind>-folders` may still have an open folder of that name.

use super::mounts::{
    ATTR_NODEV, ATTR_NOSUID, ATTR_RDONLY, as_owner, attach, clone_tree, mapped, mount, set_attributes,
    writable,
};
use super::task::{Bind, Programs, Task};
use crate::sys::{check, pass, socket_pair};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::chown;

const NO_RIGHTS: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV;

/// Mounts it in the stage under the name of the bind.
pub fn make(task: &Task, bind: &Bind, programs: &Programs, users: &OwnedFd) -> io::Result<()> {
    let top = &programs.folder;
    let mut lower: Vec<String> = (0..task.written)
        .map(|index| format!("layer-{index}/{top}"))
        .filter(|path| is_folder(path))
        .collect();
    let covered = format!("{}-covered", bind.name);
    cover(task, &covered, &programs.hidden)?;
    let folders = format!("{}-folders", bind.name);
    let closed = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV;
    mapped(&programs.folders, &folders, closed, Some(users))?;
    let host = format!("{}-host", bind.name);
    let tree = clone_tree(&bind.source)?;
    set_attributes(&tree, closed, None)?;
    fs::create_dir(&host)?;
    attach(&tree, &host)?;
    lower.extend([covered, folders, host]);

    let (upper, work) = (format!("disk/upper/{top}"), format!("disk/work-{top}"));
    as_owner(task.first_id, || {
        if fs::symlink_metadata(&upper).is_err() {
            fs::create_dir(&upper)?;
        }
        // Left by the last mount, as `disk/work` is.
        match fs::remove_dir_all(&work) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(&work)
    })?;
    // What a sandbox left there is hostile. No sandbox runs on this disk now, so the check stays true.
    if !is_folder(&upper) {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let options = format!(
        "lowerdir={},upperdir={upper},workdir={work},xino=off,index=off,metacopy=off,redirect_dir=nofollow,userxattr{}",
        lower.join(":"),
        if task.volatile { ",volatile" } else { "" },
    );
    fs::create_dir(&bind.name)?;
    let tree = mount_as_root_of(users, &options, &bind.name, &work)?;
    set_attributes(&tree, ATTR_NOSUID | ATTR_NODEV, None)?;
    attach(&tree, &bind.name)
}

/// A real folder, not a link to one.
fn is_folder(path: &str) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir())
}

/// Whiteouts at these paths.
fn cover(task: &Task, name: &str, hidden: &[String]) -> io::Result<()> {
    let folder = |path: &str| {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            result => result?,
        }
        chown(path, Some(task.first_id), Some(task.first_id))
    };
    folder(name)?;
    for path in hidden {
        let mut at = name.to_owned();
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            at = format!("{at}/{part}");
            if parts.peek().is_some() {
                folder(&at)?;
                continue;
            }
            let target = CString::new(at.as_str())?;
            // SAFETY: a C string that outlives the call. A whiteout is a character device with the number 0.
            check(unsafe { libc::mknod(target.as_ptr(), libc::S_IFCHR, 0) })?;
        }
    }
    Ok(())
}

/// Mounts an overlay with the rights of root of this user namespace, and returns it detached. A process with one
/// thread must call this.
fn mount_as_root_of(users: &OwnedFd, options: &str, target: &str, work: &str) -> io::Result<OwnedFd> {
    let (ours, theirs) = socket_pair()?;
    // SAFETY: this process has one thread, so the child may use everything that the parent may.
    let child = check(unsafe { libc::fork() })?;
    if child == 0 {
        let sent = enter(users)
            .and_then(|()| mount("overlay", target, "overlay", NO_RIGHTS, options))
            .and_then(|()| writable(target, work))
            .and_then(|()| clone_tree(target))
            .and_then(|tree| pass::send(&theirs, &tree));
        let errno = sent
            .err()
            .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        // SAFETY: leaves this process without running any of the parent's destructors.
        unsafe { libc::_exit(errno) };
    }
    drop(theirs);
    let tree = pass::receive(&ours);
    let mut status = 0;
    // SAFETY: an unreaped child of this process; the status is a number that the call fills.
    check(unsafe { libc::waitpid(child, &raw mut status, 0) })?;
    match (tree, libc::WEXITSTATUS(status)) {
        (Ok(Some(tree)), 0) => Ok(tree),
        (_, 0) => Err(io::ErrorKind::BrokenPipe.into()),
        (_, errno) => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Becomes root of the namespace, with no group of the host, in a mount namespace that belongs to it.
fn enter(users: &OwnedFd) -> io::Result<()> {
    // SAFETY: numbers only; this process has one thread.
    unsafe {
        check(libc::setgroups(0, std::ptr::null()))?;
        check(libc::setns(users.as_raw_fd(), libc::CLONE_NEWUSER))?;
        check(libc::setresgid(0, 0, 0))?;
        check(libc::setresuid(0, 0, 0))?;
        check(libc::unshare(libc::CLONE_NEWNS))?;
    }
    Ok(())
}
