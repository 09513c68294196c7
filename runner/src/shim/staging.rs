//! The mount namespace of a shim and its runtime, as far as it is the same for every sandbox. The host's mount table is never touched, and
//! everything here is gone with the last process that uses it.
//!
//! ```text
//! /proc             of our pid namespace: the runtime finds its children by number in there
//! stage/            tmpfs, in this namespace only, and the current folder from now on
//!   program         the runtime itself, on a read-only mount of its own: see `waiting`
//!   runtime/        the runtime's own state: vanishes with us, so there is nothing to delete afterwards
//!   runner          the runner's binary, for the sandbox: see `runner`
//!   empty           a file that covers others
//!   config.json     a pipe, on which the runtime waits until there is a sandbox to start
//! ```
//!
//! What `mounts` adds once there is one: the layers, the disk, `rootfs/`, sources of bind mounts.

use super::failure::{Failure, at};
use super::mounts::{
    ATTR_NODEV, ATTR_NOSUID, ATTR_RDONLY, clone_tree, forbid_writing, mount, place, set_attributes,
};
use super::setup::Setup;
use crate::sys::check;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;

/// The runtime's name on the stage, and the runner's.
pub const RUNTIME: &str = "program";
const RUNNER: &str = "runner";
/// An empty file, to cover others with.
const EMPTY: &str = "empty";
pub const CONFIG: &str = "config.json";

const FLAGS: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// The calling process changes its mount namespace and its folder for good.
pub fn make(setup: &Setup) -> Result<(), Failure> {
    // SAFETY: takes flags; this process has one thread.
    at(
        "mount namespace",
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) }),
    )?;
    // Nothing of ours reaches the host. What the host unmounts goes here too: no disk stays busy because of a sandbox that does not use it.
    at(
        "mount namespace",
        mount("none", "/", "", libc::MS_REC | libc::MS_SLAVE, ""),
    )?;
    for path in &setup.hide {
        // Covered, not unmounted: unmounting waits for every processor of the machine.
        at(
            path,
            mount("hidden", path, "tmpfs", FLAGS | libc::MS_RDONLY, "size=0"),
        )?;
    }
    for path in &setup.read_only {
        at(path, forbid_writing(path))?;
    }
    let runtime = at(&setup.runtime, clone_tree(&setup.runtime))?;
    at(
        &setup.runtime,
        set_attributes(&runtime, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, None),
    )?;
    let runner = at(&setup.runner, Runner::open(setup))?;
    at("/proc", mount("proc", "/proc", "proc", FLAGS, ""))?;
    let options = "mode=0755,size=8m,nr_inodes=1k";
    at(
        &setup.stage,
        mount("stage", &setup.stage, "tmpfs", FLAGS, options),
    )?;
    at(&setup.stage, std::env::set_current_dir(&setup.stage))?;
    at(&setup.runtime, place(&runtime, RUNTIME))?;
    at(&setup.runner, runner.show(setup.account))?;
    at(EMPTY, fs::write(EMPTY, ""))?;
    at("runtime", fs::DirBuilder::new().mode(0o700).create("runtime"))?;
    // SAFETY: a C string constant.
    at(
        CONFIG,
        check(unsafe { libc::mkfifo(c"config.json".as_ptr(), 0o600) }),
    )?;
    Ok(())
}

/// Every process in the sandbox may read where its mounts come from (`/proc/self/mountinfo`), and a bind mount shows its path on the host. So the runner comes
/// from an overlay of its folder, in which it is a file at the top.
struct Runner {
    name: String,
    folder: OwnedFd,
    file: OwnedFd,
}

const RUNNER_FLAGS: u64 = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV;

impl Runner {
    /// Before the stage covers what may be its folder.
    fn open(setup: &Setup) -> io::Result<Runner> {
        let (folder, name) = setup.runner.rsplit_once('/').unwrap_or(("", &setup.runner));
        let folder = clone_tree(if folder.is_empty() { "/" } else { folder })?;
        let file = clone_tree(&setup.runner)?;
        for tree in [&folder, &file] {
            set_attributes(tree, RUNNER_FLAGS, None)?;
        }
        Ok(Runner {
            name: name.to_owned(),
            folder,
            file,
        })
    }

    /// Not every file system can be below an overlay. Then its path shows.
    fn show(&self, account: bool) -> io::Result<()> {
        match self.overlay(account) {
            Ok(tree) => place(&tree, RUNNER),
            Err(_) => place(&self.file, RUNNER),
        }
    }

    /// The names are on the stage: they are all that the sandbox gets to read.
    fn overlay(&self, account: bool) -> io::Result<OwnedFd> {
        place(&self.folder, "runner-folder")?;
        for name in ["runner-empty", "runner-shown"] {
            fs::create_dir(name)?;
        }
        let options = format!(
            "lowerdir=runner-folder:runner-empty{}",
            if account { ",userxattr" } else { "" }
        );
        let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV;
        mount("runner", "runner-shown", "overlay", flags, &options)?;
        let tree = clone_tree(&format!("runner-shown/{}", self.name))?;
        set_attributes(&tree, RUNNER_FLAGS, None)?;
        Ok(tree)
    }
}
