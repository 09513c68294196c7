//! A disk that is a file with a file system. It is mounted in a private namespace, so the mount disappears
//! with this process.

use super::{Outcome, Tally, doing, merge};
use crate::shim::limited_disk;
use crate::shim::mounts::mount;
use crate::sys::check;
use std::ffi::{CStr, CString};
use std::io;

/// The file must not be mounted elsewhere, because two mounts would corrupt it.
pub fn copy(file: &CStr, to: &CStr) -> Outcome<Tally> {
    let place = format!("{}.disk", to.to_string_lossy());
    let upper = CString::new(format!("{place}/upper")).expect("no NUL was added");
    doing("mounting", file.to_bytes(), attach(file, &place))?;
    let copied = merge::copy(&upper, to);
    // Ignore errors: the mount ends with this process, and the folder is removed with the draft.
    if let Ok(name) = CString::new(place) {
        // SAFETY: a C string that outlives the calls.
        unsafe {
            libc::umount2(name.as_ptr(), libc::MNT_DETACH);
            libc::rmdir(name.as_ptr());
        }
    }
    copied
}

fn attach(file: &CStr, place: &str) -> io::Result<()> {
    // SAFETY: takes flags; this process has one thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, "")?;
    limited_disk::attach(&file.to_string_lossy(), place)
}
