//! `runner tree …`: operations on folder trees on the host, for the engine: the writable folders of
//! sandboxes, used as layers.
//!
//! ```text
//! runner tree copy    FROM TO                 a faithful copy; TO must not exist
//! runner tree copy    --disk FILE TO          the same for the folder `upper` of a disk that is a file
//! runner tree squash  [--user] TO LAYER… [--onto LAYER…]
//!                                             merges layers, uppermost first, into one that shows the same
//! runner tree remove  PATH…                   removes trees of any depth
//! runner tree measure PATH                    disk usage
//! runner tree sync    PATH…                   flushes trees to disk
//! runner tree sync    --all PATH              flushes the whole file system
//! runner tree spread  PATH…                   prepares folders for many short-lived subfolders
//! runner tree serve                           serves these commands: see `serve`
//! ```
//!
//! Hostile programs wrote these trees, and this process is root. So it never resolves a whole path in them: each
//! step is one name relative to an open folder, and never follows a symlink. No step recurses, and a path may be
//! longer than the kernel accepts. The response is one line of JSON, also for an error:
//! `{"error":"…","errno":28}`.

pub(crate) mod content;
mod disk;
mod links;
mod measure;
mod merge;
mod node;
mod remove;
mod serve;
mod spread;
mod sync;
mod xattr;

use crate::files::dir::Identity;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.peekable();
    if arguments.peek().is_some_and(|word| word == "serve") {
        return serve::serve().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    // When the caller dies, its result is being removed, so stop.
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let (line, worked) = line(answer(arguments));
    println!("{line}");
    if worked {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The response line, and whether it is a success.
fn line(outcome: Outcome<Tally>) -> (String, bool) {
    match outcome {
        Ok(tally) => (
            format!(r#"{{"bytes":{},"files":{}}}"#, tally.bytes, tally.files),
            true,
        ),
        Err(Failure { what, errno }) => {
            let what = what.replace('\\', r"\\").replace('"', r#"\""#);
            (format!(r#"{{"error":"{what}","errno":{errno}}}"#), false)
        }
    }
}

/// Disk usage of a tree. Hard-linked files count once.
#[derive(Default, Clone, Copy)]
pub struct Tally {
    pub bytes: u64,
    pub files: u64,
}

impl Tally {
    fn count(&mut self, stat: &libc::stat64) {
        self.bytes += stat.st_blocks as u64 * 512;
        self.files += 1;
    }
}

pub struct Failure {
    what: String,
    errno: i32,
}

impl Failure {
    fn new(what: &str, name: &[u8], error: &io::Error) -> Failure {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let reason = io::Error::from_raw_os_error(errno);
        // Hostile programs choose the names, so escape them.
        Failure {
            what: format!("{what} {}: {reason}", name.escape_ascii()),
            errno,
        }
    }
}

type Outcome<T> = Result<T, Failure>;

/// Adds the operation and the name to an error.
fn doing<T>(what: &str, name: &[u8], result: io::Result<T>) -> Outcome<T> {
    result.map_err(|error| Failure::new(what, name, &error))
}

fn os(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

fn answer(arguments: impl Iterator<Item = OsString>) -> Outcome<Tally> {
    let usage = || {
        Failure {
        what: "usage: runner tree copy|squash|remove|measure|sync|spread [--all] [--user] [--disk] PATH… [--onto PATH…]"
            .to_owned(),
        errno: libc::EINVAL,
    }
    };
    let (mut words, mut onto, mut all, mut user, mut disk) = (Vec::new(), None, false, false, false);
    for word in arguments {
        match word.to_str() {
            Some("--all") => all = true,
            Some("--user") => user = true,
            Some("--disk") => disk = true,
            Some("--onto") => drop(onto.get_or_insert_with(Vec::new)),
            _ => {
                let list = onto.as_mut().unwrap_or(&mut words);
                list.push(CString::new(word.into_vec()).map_err(|_| usage())?);
            }
        }
    }
    let Some((command, paths)) = words.split_first() else {
        return Err(usage());
    };
    match (command.to_bytes(), paths) {
        (b"copy", [file, to]) if disk => disk::copy(file, to),
        (b"copy", [from, to]) => merge::copy(from, to),
        (b"squash", [to, layers @ ..]) if !layers.is_empty() => {
            merge::squash(layers, onto.as_deref(), to, user)
        }
        (b"remove", [_, ..]) => {
            for path in paths {
                remove::remove(path)?;
            }
            Ok(Tally::default())
        }
        (b"measure", [path]) => measure::measure(path),
        (b"sync", [path]) if all => sync::all(path).map(|()| Tally::default()),
        (b"sync", [_, ..]) if !all => sync::sync(paths).map(|()| Tally::default()),
        (b"spread", [_, ..]) => {
            spread::spread(paths);
            Ok(Tally::default())
        }
        _ => Err(usage()),
    }
}

/// Ascends into the folder that the walk came from.
fn ascend(from: RawFd, expected: Identity) -> io::Result<std::os::fd::OwnedFd> {
    let above = crate::files::dir::open_folder(from, c"..")?;
    if Identity::of(above.as_raw_fd())? == expected {
        Ok(above)
    } else {
        // The tree was moved during the walk.
        Err(os(libc::EBUSY))
    }
}

fn is_folder(stat: &libc::stat64) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFDIR
}
