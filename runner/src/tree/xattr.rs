//! Extended attributes of a name in an open folder, through `/proc/self/fd`. The supported kernels have no
//! other way to reach a symlink or socket without following or opening it.

use super::os;
use crate::sys::check;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::RawFd;

pub fn list(at: RawFd, name: &CStr) -> io::Result<Vec<CString>> {
    let path = path(at, name)?;
    // SAFETY: pointer and length describe the buffer; a length of 0 asks only for the size.
    let names = sized(|buffer, length| unsafe { libc::llistxattr(path.as_ptr(), buffer.cast(), length) });
    match names {
        Err(error) if error.raw_os_error() == Some(libc::ENOTSUP) => Ok(Vec::new()),
        names => names?
            .split_inclusive(|byte| *byte == 0)
            .map(|name| {
                CStr::from_bytes_with_nul(name)
                    .map(CStr::to_owned)
                    .map_err(|_| os(libc::EIO))
            })
            .collect(),
    }
}

/// `None` if the attribute does not exist.
pub fn get(at: RawFd, name: &CStr, attribute: &CStr) -> io::Result<Option<Vec<u8>>> {
    let path = path(at, name)?;
    // SAFETY: two C strings; pointer and length describe the buffer.
    let value = sized(|buffer, length| unsafe {
        libc::lgetxattr(path.as_ptr(), attribute.as_ptr(), buffer.cast(), length)
    });
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODATA | libc::ENOTSUP)) => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn set(at: RawFd, name: &CStr, attribute: &CStr, value: &[u8]) -> io::Result<()> {
    let path = path(at, name)?;
    // SAFETY: two C strings; pointer and length describe the value.
    check(unsafe {
        libc::lsetxattr(
            path.as_ptr(),
            attribute.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    })
    .map(drop)
}

/// Copies the attributes that `keep` selects.
pub fn copy(
    (from, from_name): (RawFd, &CStr),
    (to, to_name): (RawFd, &CStr),
    keep: impl Fn(&CStr) -> bool,
) -> io::Result<()> {
    for attribute in list(from, from_name)? {
        if keep(&attribute)
            && let Some(value) = get(from, from_name, &attribute)?
        {
            set(to, to_name, &attribute, &value)?;
        }
    }
    Ok(())
}

fn path(at: RawFd, name: &CStr) -> io::Result<CString> {
    let mut path = format!("/proc/self/fd/{at}/").into_bytes();
    path.extend_from_slice(name.to_bytes());
    Ok(CString::new(path)?)
}

fn sized(call: impl Fn(*mut u8, usize) -> isize) -> io::Result<Vec<u8>> {
    loop {
        let length = call(std::ptr::null_mut(), 0);
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        if length == 0 {
            return Ok(Vec::new());
        }
        let mut buffer = vec![0; length as usize];
        let filled = call(buffer.as_mut_ptr(), buffer.len());
        if filled >= 0 {
            buffer.truncate(filled as usize);
            return Ok(buffer);
        }
        // The attribute grew between the two calls.
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) {
            return Err(error);
        }
    }
}
