//! `runner tree …`: work on whole folder trees, for the engine and on the host: the writable folders of sandboxes, as layers.
//!
//! ```text
//! runner tree copy    FROM TO                      a faithful copy; TO must not be there
//! runner tree copy    --disk FILE TO               the same of the folder `upper` in a file with a file system in it
//! runner tree squash  [--user] TO LAYER… [--onto LAYER…]
//!                                                  the layers, uppermost first, as one that shows the same on what lies below
//! runner tree remove  PATH…                        nothing left, however deep
//! runner tree measure PATH                         what it takes up
//! runner tree sync    PATH…                        survives a power cut from now on
//! runner tree sync    --all PATH                   so does everything on its file system
//! runner tree spread  PATH…                        folders in which folders come and go
//! runner tree serve                                any of these, one after the other: see `serve`
//! ```
//!
//! These trees were written by hostile programs, and we are root. So no path in them is ever looked up as a whole: every step is one name,
//! relative to an open folder, and never through a symlink. No step needs the program's stack, and a path may be longer than the kernel
//! takes. The answer is one line of JSON, also for an error: `{"error":"…","errno":28}`.

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
    // What is made for somebody who has died is nobody's, and is being removed while we would go on.
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

/// The answer, and whether it is a good one.
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

/// What a tree takes up on the disk; a file with several names counts once.
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
        // Names are a hostile program's: printable characters only.
        Failure {
            what: format!("{what} {}: {reason}", name.escape_ascii()),
            errno,
        }
    }
}

type Outcome<T> = Result<T, Failure>;

/// `result`, or a failure that says what was being done to which name.
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

/// A folder's place in the kernel's books: enough to know it again after going down and up.
#[derive(PartialEq, Clone, Copy)]
struct Identity(u64, u64);

impl Identity {
    fn of(fd: RawFd) -> io::Result<Identity> {
        let stat = crate::files::dir::stat_fd(fd)?;
        Ok(Identity(stat.st_dev, stat.st_ino))
    }
}

/// Up again, into the very folder that we came down from.
fn climb(from: RawFd, expected: Identity) -> io::Result<std::os::fd::OwnedFd> {
    let above = crate::files::dir::open_folder(from, c"..")?;
    if Identity::of(above.as_raw_fd())? == expected {
        Ok(above)
    } else {
        // Somebody moved folders while we walked.
        Err(os(libc::EBUSY))
    }
}

fn is_folder(stat: &libc::stat64) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFDIR
}
