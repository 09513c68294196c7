//! The file systems of one sandbox, made on the stage (see `stage`):
//!
//! ```text
//! stage/
//!   skeleton/       on the stage's own tmpfs: /etc/hosts and the like, made anew for each life
//!   layer-0 …       read-only, id-mapped: owner 0 on the disk shows as the sandbox's owner 0
//!   limited/        where the disk has a limit: its own file system
//!   disk/           the sandbox's own upper and work folder, id-mapped likewise
//!   rootfs/         overlay of all of these
//!   <bind>          a source for a bind mount of config.json
//! ```
//!
//! Everything that is kept is kept with the owners that the sandbox sees, whatever its range: so what one sandbox wrote can be a layer of
//! another. An overlay uses its upper folder as whoever mounted it, and the host's root has no name in an id-mapped mount (EOVERFLOW): so it is
//! mounted as the sandbox's root, with our capabilities.
//!
//! Sources are staged because the runtime's child, which is nobody on the host, could not walk through the private folders that lead to them.

use super::failure::{Failure, at};
use super::idmap::Unmapped;
use super::limited_disk;
use super::task::{Bind, Entry, Owners, Task};
use crate::sys::{check, own};
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, chown};

const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC as libc::c_uint;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
pub const ATTR_RDONLY: u64 = 0x1;
pub const ATTR_NOSUID: u64 = 0x2;
pub const ATTR_NODEV: u64 = 0x4;
const ATTR_IDMAP: u64 = 0x0010_0000;

/// Everything up to the moment the runtime can be told to go on. The current folder is the stage. In an account's user namespace (no `users`) nothing
/// is id-mapped: there every sandbox has the same ids, and the files on the disk have them too.
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
        // Nothing is flushed when it is unmounted: a stop costs the same whatever was written. Power loss may cost the disk's content.
        if task.volatile { ",volatile" } else { "" },
        // Only root of the host may use the overlay's usual attributes.
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
        at(
            &bind.source,
            bind_tree(bind, task.first_id, users).and_then(|tree| place(&tree, &bind.name)),
        )?;
    }
    Ok(())
}

/// Where it cannot make a folder that it needs, overlayfs mounts what can only be read, and says why to nobody. Trying the same tells.
fn writable(path: &str, work: &str) -> io::Result<()> {
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
    Err(io::Error::other("it can only be read"))
}

/// The engine, which is the account, has made the disk; here we may give it to the sandbox's root, and take away what the last mount has left in the
/// folder that the sandbox never sees.
fn own_disk(task: &Task) -> Result<(), Failure> {
    let (upper, work) = ("disk/upper", "disk/work");
    at(&task.disk, chown(upper, Some(task.first_id), Some(task.first_id)))?;
    let emptied = match fs::remove_dir_all(work) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    at(&task.disk, emptied.and_then(|()| fs::create_dir(work)))
}

/// Small files for this life only, owned by the sandbox's ids: a tmpfs needs no map.
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
    for Entry { path, text, owner } in &task.skeleton {
        let name = format!("skeleton/{path}");
        let made = match text {
            Some(text) => fs::write(&name, text),
            None => fs::create_dir(&name),
        };
        at(path, made.and_then(|()| owned(&name, *owner)))?;
    }
    Ok(())
}

/// Does something as this user and group of the file system, with all our capabilities: changing the user takes some of them away.
fn as_owner<T>(id: u32, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let become_user = |id: u32| {
        // SAFETY: numbers only; they say nothing of failure, which for one who may change users cannot be.
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

/// A mount, id-mapped where there is a map, of a folder under a fresh name on the stage.
fn mapped(path: &str, name: &str, attributes: u64, users: Option<&OwnedFd>) -> io::Result<()> {
    let tree = clone_tree(path)?;
    let map = if users.is_some() { ATTR_IDMAP } else { 0 };
    set_attributes(&tree, attributes | map, users)?;
    fs::create_dir(name)?;
    attach(&tree, name)
}

fn bind_tree(bind: &Bind, first_id: u32, users: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let tree = if bind.exact {
        clone_exactly(&bind.source)?
    } else {
        clone_tree(&bind.source)?
    };
    let access = if bind.read_only { ATTR_RDONLY } else { 0 };
    set_attributes(&tree, access | ATTR_NOSUID | ATTR_NODEV, None)?;
    // In an account's user namespace the kernel maps no owners.
    let Some(users) = users else { return Ok(tree) };
    match bind.owners {
        Owners::Host => {}
        Owners::Range => match set_attributes(&tree, ATTR_IDMAP, Some(users)) {
            // A file system without id mapping, or already mapped: its owners show as nobody, which is less handy and no less safe.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => {}
            result => result?,
        },
        Owners::Folder { uid, gid } => {
            let owner = owner_of(&tree)?;
            let map = Unmapped::make()?.map_one((owner.0, first_id + uid), (owner.1, first_id + gid))?;
            // Without the map, files would belong to an id of the sandbox's range: refuse.
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

/// Who owns what is mounted. Asked of the mount itself: its path may lead somewhere else by now.
fn owner_of(tree: &OwnedFd) -> io::Result<(u32, u32)> {
    let facts = fs::metadata(format!("/proc/self/fd/{}", tree.as_raw_fd()))?;
    Ok((facts.uid(), facts.gid()))
}

/// Attaches a tree under a fresh name in the current folder; a file needs a file to cover.
pub fn place(tree: &OwnedFd, name: &str) -> io::Result<()> {
    if fs::metadata(format!("/proc/self/fd/{}", tree.as_raw_fd()))?.is_dir() {
        fs::create_dir(name)?;
    } else {
        fs::write(name, "")?;
    }
    attach(tree, name)
}

/// A private copy of one mount, without what is mounted below it.
pub fn clone_tree(path: &str) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
    // SAFETY: `path` is a C string that outlives the call.
    own(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) as libc::c_int })
}

/// The same, without following any symbolic link: a sandbox that writes to a folder of the host could put one into another's way.
fn clone_exactly(path: &str) -> io::Result<OwnedFd> {
    const RESOLVE_NO_SYMLINKS: u64 = 4;
    let path = CString::new(path)?;
    let how = [(libc::O_PATH | libc::O_CLOEXEC) as u64, 0, RESOLVE_NO_SYMLINKS];
    // SAFETY: a C string that outlives the call; `how` has the layout and size of struct open_how: flags, mode, resolve.
    let opened = own(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            how.as_ptr(),
            size_of_val(&how),
        ) as libc::c_int
    })?;
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

/// In this mount namespace: whatever is mounted at a folder, and below it, cannot be written to any more.
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
