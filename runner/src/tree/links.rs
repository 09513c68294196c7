//! Hard links. The first copy of a file gets an extra name in a folder beside the new tree, and further
//! names link to that. A path to the first copy could be too long for the kernel, and open descriptors could
//! be too many. The last name is the extra name itself, moved, because file systems limit the number of
//! links.

use super::{Outcome, os};
use crate::files::dir::open_folder;
use crate::sys::check;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub struct Links {
    path: CString,
    folder: Option<OwnedFd>,
    known: HashMap<(u64, u64), Known>,
}

struct Known {
    name: CString,
    left: u64,
}

impl Links {
    pub fn beside(to: &CStr) -> Links {
        let mut path = to.to_bytes().to_vec();
        while path.len() > 1 && path.ends_with(b"/") {
            path.pop();
        }
        path.extend_from_slice(b".links");
        Links {
            path: CString::new(path).expect("no NUL was added"),
            folder: None,
            known: HashMap::new(),
        }
    }

    /// Links the name to an earlier copy. Returns false if there is no earlier copy.
    pub fn again(&mut self, stat: &libc::stat64, to: RawFd, name: &CStr) -> io::Result<bool> {
        let key = (stat.st_dev, stat.st_ino);
        let (Some(folder), Some(known)) = (&self.folder, self.known.get_mut(&key)) else {
            return Ok(false);
        };
        let from = folder.as_raw_fd();
        // SAFETY: C strings that outlive the calls.
        if known.left > 1 {
            check(unsafe { libc::linkat(from, known.name.as_ptr(), to, name.as_ptr(), 0) })?;
            known.left -= 1;
        } else {
            check(unsafe { libc::renameat(from, known.name.as_ptr(), to, name.as_ptr()) })?;
            self.known.remove(&key);
        }
        Ok(true)
    }

    /// Remembers the first copy of a file with more names.
    pub fn first(&mut self, stat: &libc::stat64, to: RawFd, name: &CStr) -> io::Result<()> {
        if stat.st_nlink < 2 {
            return Ok(());
        }
        let folder = match &self.folder {
            Some(folder) => folder,
            None => {
                // SAFETY: a C string that outlives the call.
                check(unsafe { libc::mkdir(self.path.as_ptr(), 0o700) })?;
                self.folder.insert(open_folder(libc::AT_FDCWD, &self.path)?)
            }
        };
        let mark =
            CString::new(format!("{:x}-{:x}", stat.st_dev, stat.st_ino)).map_err(|_| os(libc::EINVAL))?;
        // SAFETY: C strings that outlive the call.
        check(unsafe { libc::linkat(to, name.as_ptr(), folder.as_raw_fd(), mark.as_ptr(), 0) })?;
        let known = Known {
            name: mark,
            // libc has 32 bits for it on arm64.
            #[allow(clippy::useless_conversion)]
            left: u64::from(stat.st_nlink) - 1,
        };
        self.known.insert((stat.st_dev, stat.st_ino), known);
        Ok(())
    }

    /// Removes extra names of files whose other names were not part of the tree.
    pub fn finish(self) -> Outcome<()> {
        if self.folder.is_none() {
            return Ok(());
        }
        drop(self.folder);
        super::remove::remove(&self.path)
    }
}
