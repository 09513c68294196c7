//! The sandbox's file systems, made in a mount namespace of their own: the host's mount table is never touched, and everything here
//! is gone with the last process that uses it.
//!
//! ```text
//! stage/            tmpfs, in this namespace only
//!   config.json     with the environment: in memory, not on a disk
//!   program         the runtime itself, on a read-only mount of its own: see `birth`
//!   runtime/        crun's own state: vanishes with crun, so there is nothing to delete afterwards
//!   layer-0 …       the image, read-only, id-mapped: the host's owner 0 shows as the sandbox's owner 0
//!   rootfs/         overlay of the layers and the sandbox's own upper folder
//!   <bind>          a source for a bind mount of config.json
//! ```
//!
//! Only the layers are id-mapped. The upper folder already belongs to the sandbox's ids (an id-mapped upper fails with EOVERFLOW).
//! Sources are opened before the stage covers anything, and staged because the runtime's child, which is nobody on the host, could not
//! walk through the private folders that lead to them.

use super::idmap;
use super::task::{Bind, Task};
use crate::sys::{check, own};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The runtime's name on the stage.
pub const RUNTIME: &str = "program";

const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC as libc::c_uint;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const ATTR_RDONLY: u64 = 0x1;
const ATTR_NOSUID: u64 = 0x2;
const ATTR_NODEV: u64 = 0x4;
const ATTR_IDMAP: u64 = 0x0010_0000;
const STAGE_FLAGS: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// Everything up to the moment the runtime can be started. The calling process changes its mount namespace for good.
pub fn make(task: &Task) -> Result<(), String> {
    // SAFETY: takes flags; this process has one thread.
    at(
        "mount namespace",
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) }),
    )?;
    at(
        "mount namespace",
        mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, ""),
    )?;
    for path in &task.hide {
        // Covered, not unmounted: unmounting waits for every processor of the machine.
        at(
            path,
            mount("hidden", path, "tmpfs", STAGE_FLAGS | libc::MS_RDONLY, "size=0"),
        )?;
    }
    // The shim has a pid namespace of its own; the runtime finds its children by number in /proc, so it needs that namespace's.
    at("/proc", mount("proc", "/proc", "proc", STAGE_FLAGS, ""))?;
    let users = at("user namespace", idmap::namespace(task.first_id, task.ids))?;
    let mut layers = Vec::new();
    for path in &task.layers {
        let tree = at(path, clone_tree(path))?;
        at(
            path,
            set_attributes(
                &tree,
                ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_IDMAP,
                Some(&users),
            ),
        )?;
        layers.push(tree);
    }
    let mut binds = Vec::new();
    for bind in &task.binds {
        binds.push((bind, at(&bind.source, bind_tree(bind, &users))?));
    }
    let runtime = at(&task.runtime, clone_tree(&task.runtime))?;
    at(
        &task.runtime,
        set_attributes(&runtime, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, None),
    )?;
    let upper = at(&task.upper, open_folder(&task.upper))?;
    let work = at(&task.work, open_folder(&task.work))?;

    let stage = Path::new(&task.stage);
    at(
        &task.stage,
        mount(
            "stage",
            &task.stage,
            "tmpfs",
            STAGE_FLAGS,
            "mode=0755,size=8m,nr_inodes=1k",
        ),
    )?;
    // Relative names keep the overlay's options short: they must fit into one page.
    at(&task.stage, std::env::set_current_dir(stage))?;
    let mut lower = String::new();
    for (index, tree) in layers.iter().enumerate() {
        let name = format!("layer-{index}");
        at(&name, fs::create_dir(&name).and_then(|()| attach(tree, &name)))?;
        lower = if lower.is_empty() {
            name
        } else {
            format!("{lower}:{name}")
        };
    }
    let options = format!(
        "lowerdir={lower},upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{},xino=off{}",
        upper.as_raw_fd(),
        work.as_raw_fd(),
        // Nothing is flushed when it is unmounted: a stop costs the same whatever was written. Power loss may cost the disk's content.
        if task.volatile { ",volatile" } else { "" }
    );
    at("overlay", fs::create_dir("rootfs"))?;
    at(
        "overlay",
        mount(
            "overlay",
            "rootfs",
            "overlay",
            libc::MS_NOSUID | libc::MS_NODEV,
            &options,
        ),
    )?;
    for (bind, tree) in &binds {
        at(&bind.source, place(tree, &bind.name))?;
    }
    at(&task.runtime, place(&runtime, RUNTIME))?;
    at("runtime", fs::DirBuilder::new().mode(0o700).create("runtime"))?;
    let mut options = fs::OpenOptions::new();
    let config = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open("config.json");
    at(
        "config.json",
        config.and_then(|mut file| io::Write::write_all(&mut file, task.config.as_bytes())),
    )
}

fn at<T>(what: impl std::fmt::Display, result: io::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

fn bind_tree(bind: &Bind, users: &OwnedFd) -> io::Result<OwnedFd> {
    let tree = clone_tree(&bind.source)?;
    let access = if bind.read_only { ATTR_RDONLY } else { 0 };
    set_attributes(&tree, access | ATTR_NOSUID | ATTR_NODEV, None)?;
    if bind.id_mapped {
        match set_attributes(&tree, ATTR_IDMAP, Some(users)) {
            // A file system without id mapping, or already mapped: its owners show as nobody, which is less handy and no less safe.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => {}
            result => result?,
        }
    }
    Ok(tree)
}

/// Attaches a tree under a fresh name in the current folder; a file needs a file to cover.
fn place(tree: &OwnedFd, name: &str) -> io::Result<()> {
    if fs::metadata(format!("/proc/self/fd/{}", tree.as_raw_fd()))?.is_dir() {
        fs::create_dir(name)?;
    } else {
        fs::write(name, "")?;
    }
    attach(tree, name)
}

/// A private copy of one mount, without what is mounted below it.
fn clone_tree(path: &str) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
    // SAFETY: `path` is a C string that outlives the call.
    own(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) as libc::c_int })
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn set_attributes(tree: &OwnedFd, set: u64, users: Option<&OwnedFd>) -> io::Result<()> {
    let user_namespace = users.map_or(0, |users| users.as_raw_fd() as u64);
    let attributes = MountAttributes {
        set,
        clear: 0,
        propagation: 0,
        user_namespace,
    };
    let (fd, size): (RawFd, usize) = (tree.as_raw_fd(), size_of::<MountAttributes>());
    // SAFETY: the empty path is a C string constant; pointer and size describe `attributes`.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size,
        ) as libc::c_int
    })?;
    Ok(())
}

fn attach(tree: &OwnedFd, name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    let (from, to) = (tree.as_raw_fd(), libc::AT_FDCWD);
    // SAFETY: both paths are C strings that outlive the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            from,
            c"".as_ptr(),
            to,
            name.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        ) as libc::c_int
    })?;
    Ok(())
}

fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong, options: &str) -> io::Result<()> {
    let text = |text: &str| CString::new(text).map_err(io::Error::from);
    let (source, target, kind, options) = (text(source)?, text(target)?, text(kind)?, text(options)?);
    // SAFETY: four C strings that outlive the call; a tmpfs, proc or overlay reads its options as text.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    })?;
    Ok(())
}

fn open_folder(path: &str) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map(OwnedFd::from)
}
