//! The mount namespace of a shim and its runtime, as far as it is the same for every sandbox. The host's
//! mounts do not change, and everything disappears with the last process that uses it.
//!
//! ```text
//! /proc             of the shim's pid namespace: the runtime finds its children there
//! stage/            tmpfs, visible in this namespace only; the working directory from now on
//!   program         the runtime, on its own read-only mount: see `prepared`
//!   runtime/        the runtime's state, which disappears with the shim
//!   runner          the runner's binary, for the sandbox: see `Runner`
//!   empty           an empty file to cover others
//!   config.json     a pipe; the runtime waits on it until there is a sandbox to start
//! ```
//!
//! `mounts` later adds the layers, the disk, `rootfs/` and the sources of bind mounts.

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

/// Names of the runtime and the runner in the stage.
pub const RUNTIME: &str = "program";
const RUNNER: &str = "runner";
const EMPTY: &str = "empty";
pub const CONFIG: &str = "config.json";

const FLAGS: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// Changes the mount namespace and working directory of the calling process for good.
pub fn make(setup: &Setup) -> Result<(), Failure> {
    // SAFETY: takes flags; this process has one thread.
    at(
        "mount namespace",
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) }),
    )?;
    // Mounts do not propagate to the host. Unmounts of the host propagate here, so no disk stays busy
    // because of a sandbox that does not use it.
    at(
        "mount namespace",
        mount("none", "/", "", libc::MS_REC | libc::MS_SLAVE, ""),
    )?;
    for path in &setup.hide {
        // Cover instead of unmounting, because an unmount waits for every processor.
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

/// The sandbox can read the sources of its mounts (`/proc/self/mountinfo`), and a bind mount shows its path
/// on the host. So the runner is shown through an overlay of its folder, in which it is at the top.
struct Runner {
    name: String,
    folder: OwnedFd,
    file: OwnedFd,
}

const RUNNER_FLAGS: u64 = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV;

impl Runner {
    /// Opens the folder before the stage may cover it.
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

    /// Some file systems cannot be below an overlay. Then the path is visible.
    fn show(&self, account: bool) -> io::Result<()> {
        match self.overlay(account) {
            Ok(tree) => place(&tree, RUNNER),
            Err(_) => place(&self.file, RUNNER),
        }
    }

    /// The sandbox can read these names, which are those in the stage.
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
