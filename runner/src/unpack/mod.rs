//! `runner unpack`: extracts a tar archive from standard input into an overlay layer. Runs on the host, as
//! root or as root of a user namespace.
//!
//! Archives are hostile, and this process may write anywhere. So it makes the folder its root directory before it
//! reads the first byte, and opens every folder with `RESOLVE_IN_ROOT`. It rejects absolute names and `..`, and
//! limits entries and bytes. It reads the archive to the end, so that the sender can verify the digest.
//!
//! ```text
//! dir/.wh.name       ─► dir/name, a character device 0:0      overlayfs: hides the name in lower layers
//! dir/.wh..wh..opq   ─► trusted.overlay.opaque=y on dir       overlayfs: hides lower layers of the folder
//!                       (user.overlay.opaque in a user namespace)
//! ```
//!
//! It prints one line of JSON: counts or an error. After a failure the caller removes the folder.

mod counts;
mod entry;
mod input;
mod layer;
mod make;

use crate::sys::{check, own};
use crate::wire::error::{OpError, OpResult};
use input::Input;
use layer::Layer;
use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

#[derive(Debug, PartialEq)]
struct Options {
    folder: CString,
    /// Whiteouts have no special meaning.
    plain: bool,
    /// In a user namespace overlayfs uses other attributes, and devices cannot be created.
    user: bool,
    max_entries: u64,
    max_bytes: u64,
    sync: bool,
}

pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parse(arguments).and_then(|options| unpack(&options)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let errno = error
                .errno
                .map_or(String::new(), |errno| format!(",\"errno\":{errno}"));
            println!(
                "{{\"error\":{},\"code\":{}{errno}}}",
                quoted(&error.message),
                quoted(error.code)
            );
            ExitCode::FAILURE
        }
    }
}

fn unpack(options: &Options) -> OpResult<String> {
    let root = enter(options).map_err(|error| OpError::io(&error, "open the folder"))?;
    let mut layer = Layer::new(&root, Input::new(options.max_bytes), options);
    let counts = layer.run()?;
    if options.sync {
        // Flush before the layer is used.
        // SAFETY: takes a descriptor.
        check(unsafe { libc::syncfs(root.as_raw_fd()) })
            .map_err(|error| OpError::io(&error, "flush to disk"))?;
    }
    Ok(counts.json())
}

/// After this, nothing outside the folder is reachable by path.
fn enter(options: &Options) -> std::io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: C strings that outlive their calls, and numbers.
    unsafe {
        // When the caller dies, its result is being removed, so stop.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        let root = own(libc::open(options.folder.as_ptr(), flags))?;
        check(libc::fchdir(root.as_raw_fd()))?;
        check(libc::chroot(c".".as_ptr()))?;
        check(libc::chdir(c"/".as_ptr()))?;
        libc::umask(0);
        // The archive may have no entry for its root folder.
        if !options.plain {
            check(libc::fchown(root.as_raw_fd(), 0, 0))?;
            check(libc::fchmod(root.as_raw_fd(), 0o755))?;
        }
        Ok(root)
    }
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> OpResult<Options> {
    let usage = || OpError::invalid("unpack: no folder given");
    let folder = arguments.next().ok_or_else(usage)?;
    let mut options = Options {
        folder: CString::new(folder.into_vec()).map_err(|_| usage())?,
        plain: false,
        user: false,
        max_entries: 4_000_000,
        max_bytes: 256 << 30,
        sync: true,
    };
    while let Some(name) = arguments.next() {
        let mut number = || {
            let value = arguments.next().and_then(|value| value.into_string().ok());
            value
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| OpError::invalid("unpack: an option needs a number"))
        };
        match name.to_str() {
            Some("--plain") => options.plain = true,
            Some("--user") => options.user = true,
            Some("--no-sync") => options.sync = false,
            Some("--max-entries") => options.max_entries = number()?,
            Some("--max-bytes") => options.max_bytes = number()?,
            _ => return Err(OpError::invalid("unpack: unknown option")),
        }
    }
    Ok(options)
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", character as u32)),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_applied_or_rejected() {
        let parse = |words: &[&str]| parse(words.iter().map(OsString::from));
        let options = parse(&["/f", "--plain", "--max-entries", "7"]).unwrap();
        assert_eq!((options.plain, options.max_entries), (true, 7));
        assert!(parse(&[]).is_err());
        assert!(parse(&["/f", "--max-bytes"]).is_err());
        assert!(parse(&["/f", "--frobnicate"]).is_err());
    }

    #[test]
    fn messages_are_escaped_as_json() {
        assert_eq!(quoted("a\"b\\c\nd\u{e9}"), "\"a\\\"b\\\\c\\u000ad\u{e9}\"");
    }
}
