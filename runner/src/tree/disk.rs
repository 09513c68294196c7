//! A disk that is a file with a file system in it. It is mounted where nobody else sees it: what we are killed with goes with us.

use super::{Outcome, Tally, doing, merge};
use crate::shim::limited_disk;
use crate::shim::mounts::mount;
use crate::sys::check;
use std::ffi::{CStr, CString};
use std::io;

/// Nobody else has it mounted: two mounts of one file would each believe to be alone.
pub fn copy(file: &CStr, to: &CStr) -> Outcome<Tally> {
    let place = format!("{}.disk", to.to_string_lossy());
    let upper = CString::new(format!("{place}/upper")).expect("no NUL was added");
    doing("mounting", file.to_bytes(), attach(file, &place))?;
    let copied = merge::copy(&upper, to);
    // Not a reason to fail: the mount goes with this process, and the empty folder with the draft it is in.
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
