//! The file systems of one sandbox, mounted in the stage (`staging`):
//!
//! ```text
//! stage/
//!   skeleton/       on the stage's tmpfs: /etc/hosts and similar files, created for each start
//!   layer-0 …       read-only, id-mapped: owner 0 on disk is the sandbox's owner 0
//!   limited/        the disk's own file system, if it has a size limit
//!   disk/           the sandbox's upper and work folders, id-mapped
//!   rootfs/         overlay of all of these
//!   <bind>          the source of a bind mount of config.json
//!   <bind>-disk/    the file system of a volume with a size limit
//! ```
//!
//! Files on disk have the owners that the sandbox sees, whatever its id range. So the files of one sandbox can be
//! a layer of another. Overlayfs accesses the upper folder as the user that mounted it, and the host's root has
//! no id in an id-mapped mount (EOVERFLOW). So the shim mounts it as the sandbox's root, with its own
//! capabilities.
//!
//! Bind sources are staged because the runtime's child is unprivileged on the host and could not pass the
//! private folders above them.

use super::failure::{Failure, at};
use super::idmap::Unmapped;
use super::limited_disk;
use super::task::{Bind, Entry, Owners, Task};
use super::writable_programs;
use crate::sys::{self, check, own};
use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};

/// The engine names no larger file; more of one would only fill the machine's memory.
const MAX_SOURCE: u64 = 2 * 1024 * 1024;

const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC as libc::c_uint;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
pub const ATTR_RDONLY: u64 = 0x1;
pub const ATTR_NOSUID: u64 = 0x2;
pub const ATTR_NODEV: u64 = 0x4;
const ATTR_IDMAP: u64 = 0x0010_0000;

/// Mounts everything that the runtime needs. The working directory is the stage. In an account's user
/// namespace (no `users`) nothing is id-mapped: all its sandboxes have the same ids, and so have their files
/// on disk.
pub fn make(task: &Task, users: Option<&OwnedFd>) -> Result<(), Failure> {
    skeleton(task)?;
    // Relative names keep the overlay's options short: they must fit into one page.
    let mut lower: Vec<String> = Vec::new();
    for (index, path) in task.layers.iter().enumerate() {
        if index == task.written {
            lower.push("skeleton".to_owned());
        }
        let name = format!("layer-{index}");
        let attributes = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV;
        at(path, mapped(path, &name, attributes, users))?;
        lower.push(name);
    }
    if task.written == task.layers.len() {
        lower.push("skeleton".to_owned());
    }
    let disk = match &task.template {
        Some(template) => {
            let made = limited_disk::provide(&task.disk, template);
            at(
                &task.disk,
                made.and_then(|()| limited_disk::attach(&task.disk, "limited")),
            )?;
            "limited"
        }
        None => &task.disk,
    };
    at(disk, mapped(disk, "disk", ATTR_NOSUID | ATTR_NODEV, users))?;
    if users.is_none() {
        own_disk(task)?;
    }
    let options = format!(
        "lowerdir={},upperdir=disk/upper,workdir=disk/work,xino=off,index=off,metacopy=off,redirect_dir=nofollow{}{}",
        lower.join(":"),
        // `volatile`: the unmount does not flush, so a stop is fast. A power loss can destroy the disk's
        // content.
        if task.volatile { ",volatile" } else { "" },
        // Only root of the host may use the overlay's trusted attributes.
        if users.is_none() { ",userxattr" } else { "" }
    );
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    at("overlay", fs::create_dir("rootfs"))?;
    let overlay = || {
        mount("overlay", "rootfs", "overlay", flags, &options).and_then(|()| writable("rootfs", "disk/work"))
    };
    at(
        "overlay",
        match users {
            Some(_) => as_owner(task.first_id, overlay),
            None => overlay(),
        },
    )?;
    for bind in &task.binds {
        if let Some(programs) = &bind.programs {
            let made = users
                .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
                .and_then(|users| writable_programs::make(task, bind, programs, users));
            at(&bind.source, made)?;
            continue;
        }
        at(
            &bind.source,
            bind_tree(bind, task.first_id, users).and_then(|tree| place(&tree, &bind.name)),
        )?;
    }
    Ok(())
}

/// If overlayfs cannot create its work folder, it mounts read-only without an error. Creating the same
/// folder shows the reason.
pub fn writable(path: &str, work: &str) -> io::Result<()> {
    let path = CString::new(path)?;
    // SAFETY: statvfs is plain data that the call fills; the path is a C string that outlives it.
    let flags = unsafe {
        let mut facts: libc::statvfs = std::mem::zeroed();
        check(libc::statvfs(path.as_ptr(), &raw mut facts))?;
        facts.f_flag
    };
    if flags & libc::ST_RDONLY == 0 {
        return Ok(());
    }
    fs::create_dir(format!("{work}/probe"))?;
    Err(io::Error::other("the overlay is mounted read-only"))
}

/// The engine runs as the account and created the disk. Here the shim can give it to the sandbox's root and
/// remove leftovers of the last mount from `work`.
fn own_disk(task: &Task) -> Result<(), Failure> {
    let (upper, work) = ("disk/upper", "disk/work");
    at(&task.disk, chown(upper, Some(task.first_id), Some(task.first_id)))?;
    let emptied = match fs::remove_dir_all(work) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    at(&task.disk, emptied.and_then(|()| fs::create_dir(work)))
}

/// Small files for this start, owned by ids of the sandbox. A tmpfs needs no id map.
fn skeleton(task: &Task) -> Result<(), Failure> {
    let owned = |path: &str, owner: u32| {
        let id = task.first_id.checked_add(owner).filter(|_| owner < task.ids);
        let id = id.ok_or(io::ErrorKind::InvalidInput)?;
        chown(path, Some(id), Some(id))
    };
    at(
        "skeleton",
        fs::create_dir("skeleton").and_then(|()| owned("skeleton", 0)),
    )?;
    for Entry {
        path,
        text,
        source,
        owner,
        mode,
    } in &task.skeleton
    {
        let name = format!("skeleton/{path}");
        let made = match (text, source) {
            (Some(text), Some(source)) => extended(source, text, &name),
            (Some(text), None) => fs::write(&name, text),
            (None, _) => fs::create_dir(&name),
        };
        let made = made.and_then(|()| owned(&name, *owner));
        at(
            path,
            match mode {
                Some(mode) => {
                    made.and_then(|()| fs::set_permissions(&name, fs::Permissions::from_mode(*mode)))
                }
                None => made,
            },
        )?;
    }
    Ok(())
}

/// Writes a copy of a file of the image, with this text after it. The image does not change, so the engine has already
/// checked that no link is on the way.
fn extended(source: &str, text: &str, name: &str) -> io::Result<()> {
    let mut from = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(source)?;
    if !from.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut to = fs::File::create_new(name)?;
    io::copy(&mut (&mut from).take(MAX_SOURCE), &mut to)?;
    to.write_all(text.as_bytes())
}

/// Runs `act` with these file system ids and all capabilities. Changing the user would drop some of them.
pub fn as_owner<T>(id: u32, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let become_user = |id: u32| {
        // SAFETY: takes numbers. The calls cannot fail for a process that may change users.
        unsafe {
            libc::setfsgid(id);
            libc::setfsuid(id);
        }
        raise_capabilities()
    };
    let result = become_user(id).and_then(|()| act());
    become_user(0)?;
    result
}

/// Makes every permitted capability effective.
pub fn raise_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let mut sets = [Sets::default(); 2];
    // SAFETY: version 3 reads and writes one header and two sets, which these are.
    unsafe {
        check(libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) as libc::c_int)?;
        for set in &mut sets {
            set.effective = set.permitted;
        }
        check(libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) as libc::c_int)?;
    }
    Ok(())
}

/// Mounts a folder under a new name in the stage, id-mapped if there is a map.
pub fn mapped(path: &str, name: &str, attributes: u64, users: Option<&OwnedFd>) -> io::Result<()> {
    let tree = clone_tree(path)?;
    let map = if users.is_some() { ATTR_IDMAP } else { 0 };
    set_attributes(&tree, attributes | map, users)?;
    fs::create_dir(name)?;
    attach(&tree, name)
}

fn bind_tree(bind: &Bind, first_id: u32, users: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let tree = if bind.file_system {
        limited_disk::share(&bind.source, &format!("{}-disk", bind.name))?
    } else if bind.exact {
        clone_exactly(&bind.source)?
    } else {
        clone_tree(&bind.source)?
    };
    let access = if bind.read_only { ATTR_RDONLY } else { 0 };
    set_attributes(&tree, access | ATTR_NOSUID | ATTR_NODEV, None)?;
    // An account's user namespace cannot id-map mounts.
    let Some(users) = users else { return Ok(tree) };
    match bind.owners {
        Owners::Host => {}
        Owners::Range => match set_attributes(&tree, ATTR_IDMAP, Some(users)) {
            // The file system does not support id mapping, or is already mapped: its files belong to
            // the user `nobody` inside, which is safe.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => {}
            result => result?,
        },
        Owners::Folder { uid, gid } => {
            let owner = owner_of(&tree)?;
            let map = Unmapped::make()?.map_one((owner.0, first_id + uid), (owner.1, first_id + gid))?;
            // Without the map, new files would belong to an id of the sandbox's range: refuse.
            set_attributes(&tree, ATTR_IDMAP, Some(&map)).map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL | libc::EPERM) => {
                    io::Error::other("its file system cannot map owners (id-mapped mounts)")
                }
                _ => error,
            })?;
        }
    }
    Ok(tree)
}

/// The owner of the mounted folder, read from the mount, because the path may have changed.
fn owner_of(tree: &OwnedFd) -> io::Result<(u32, u32)> {
    let facts = fs::metadata(format!("/proc/self/fd/{}", tree.as_raw_fd()))?;
    Ok((facts.uid(), facts.gid()))
}

/// Mounts a tree under a new name in the working directory. A file needs an existing file as its mount
/// point.
pub fn place(tree: &OwnedFd, name: &str) -> io::Result<()> {
    if fs::metadata(format!("/proc/self/fd/{}", tree.as_raw_fd()))?.is_dir() {
        fs::create_dir(name)?;
    } else {
        fs::write(name, "")?;
    }
    attach(tree, name)
}

/// A private copy of one mount, without the mounts below it.
pub fn clone_tree(path: &str) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
    // SAFETY: `path` is a C string that outlives the call.
    own(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) as libc::c_int })
}

/// The same, without following symlinks: another sandbox that writes to a shared folder could plant one.
fn clone_exactly(path: &str) -> io::Result<OwnedFd> {
    let opened = sys::open_resolved(
        libc::AT_FDCWD,
        &CString::new(path)?,
        libc::O_PATH,
        sys::RESOLVE_NO_SYMLINKS,
    )?;
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as libc::c_uint;
    // SAFETY: an empty C string; the descriptor is open.
    own(unsafe { libc::syscall(libc::SYS_open_tree, opened.as_raw_fd(), c"".as_ptr(), flags) as libc::c_int })
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

pub fn set_attributes(tree: &OwnedFd, set: u64, users: Option<&OwnedFd>) -> io::Result<()> {
    let user_namespace = users.map_or(0, |users| users.as_raw_fd() as u64);
    change_attributes(tree.as_raw_fd(), c"", libc::AT_EMPTY_PATH, set, user_namespace)
}

/// Makes all mounts at and below a folder read-only in this mount namespace.
pub fn forbid_writing(path: &str) -> io::Result<()> {
    change_attributes(
        libc::AT_FDCWD,
        &CString::new(path)?,
        libc::AT_RECURSIVE,
        ATTR_RDONLY,
        0,
    )
}

fn change_attributes(
    fd: RawFd,
    path: &CStr,
    flags: libc::c_int,
    set: u64,
    user_namespace: u64,
) -> io::Result<()> {
    let attributes = MountAttributes {
        set,
        clear: 0,
        propagation: 0,
        user_namespace,
    };
    let size = size_of::<MountAttributes>();
    // SAFETY: the path is a C string that outlives the call; pointer and size describe `attributes`.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size,
        ) as libc::c_int
    })?;
    Ok(())
}

pub fn attach(tree: &OwnedFd, name: &str) -> io::Result<()> {
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

pub fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong, options: &str) -> io::Result<()> {
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
