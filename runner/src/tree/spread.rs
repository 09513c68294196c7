//! Marks folders with many short-lived subfolders, so that ext4 spreads the subfolders over the disk.
//!
//! By default ext4 allocates inodes close to the parent, and does not reuse an inode for minutes after it
//! was freed. So each allocation skips more and more inodes. Spread out, each subfolder has its own block
//! group. Measured: 10 ms instead of 24 ms per sandbox, after some hundred sandboxes.

use crate::files::dir::open_folder;
use std::ffi::CString;
use std::os::fd::AsRawFd;

/// The flag of `chattr +T`.
const FS_TOPDIR_FL: libc::c_long = 0x0002_0000;

/// Does nothing on other file systems.
pub fn spread(paths: &[CString]) {
    for path in paths {
        let Ok(folder) = open_folder(libc::AT_FDCWD, path) else {
            continue;
        };
        let mut flags: libc::c_long = 0;
        // SAFETY: both take an open descriptor and a pointer to a number that outlives the call.
        unsafe {
            if libc::ioctl(folder.as_raw_fd(), libc::FS_IOC_GETFLAGS, &mut flags) == 0 {
                flags |= FS_TOPDIR_FL;
                libc::ioctl(folder.as_raw_fd(), libc::FS_IOC_SETFLAGS, &flags);
            }
        }
    }
}
