//! `runner serve`: parses options, opens the socket and runs the server.
//!
//! The runner binds the socket under a temporary name and renames it once it listens, so a client that sees
//! the path can connect. A socket that is passed in has no path inside the sandbox.

use crate::process::reaper::signal_descriptor;
use crate::process::{limits, marks};
use crate::serve::acceptor::Acceptor;
use crate::serve::server::{Config, Server};
use crate::sys::user::User;
use crate::sys::{self, check};
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The runner removes variables with this prefix from the environment of its children.
const OUR_PREFIX: &[u8] = b"SANDKASTEN_RUNNER_";

#[derive(Debug, Default, PartialEq)]
pub struct Options {
    pub socket: Option<PathBuf>,
    /// A listening socket that the caller passes in.
    pub listen_fd: Option<i32>,
    /// A socket over which the caller passes in connections.
    pub handed_fd: Option<i32>,
    /// The runner writes `\n` to it when it listens, and closes it.
    pub ready_fd: Option<i32>,
    /// The default user of processes, shells and file operations.
    pub user: Option<String>,
    /// Their default working directory.
    pub cwd: Option<PathBuf>,
    /// Default 022.
    pub umask: Option<u32>,
    /// Limits of the runner and everything it starts.
    pub limits: Vec<(u32, u64)>,
}

impl Options {
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
        let mut options = Options::default();
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let name = name.to_string_lossy().into_owned();
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name}: the value is missing"))?;
            let text = || {
                value
                    .to_str()
                    .map(str::to_owned)
                    .ok_or_else(|| format!("{name}: the value is not UTF-8"))
            };
            match name.as_str() {
                "--socket" => options.socket = Some(value.into()),
                "--cwd" => options.cwd = Some(value.into()),
                "--user" => options.user = Some(text()?),
                "--umask" => {
                    let mask = u32::from_str_radix(&text()?, 8)
                        .ok()
                        .filter(|mask| *mask <= 0o777);
                    options.umask =
                        Some(mask.ok_or_else(|| format!("{name}: must be an octal number up to 777"))?);
                }
                "--limit" => {
                    let limit = limits::parse(&text()?);
                    options
                        .limits
                        .push(limit.ok_or_else(|| format!("{name}: must be NAME=NUMBER with a known NAME"))?);
                }
                "--ready-fd" | "--listen-fd" | "--handed-fd" => {
                    let fd = text()?.parse().ok().filter(|fd| *fd > 2);
                    let fd = fd.ok_or_else(|| format!("{name}: must be a number above 2"))?;
                    *match name.as_str() {
                        "--ready-fd" => &mut options.ready_fd,
                        "--listen-fd" => &mut options.listen_fd,
                        _ => &mut options.handed_fd,
                    } = Some(fd);
                }
                _ => return Err(format!("{name}: no such option")),
            }
        }
        Ok(options)
    }

    pub fn socket(&self) -> Result<PathBuf, String> {
        let from_env = || std::env::var_os("SANDKASTEN_RUNNER_SOCKET").map(PathBuf::from);
        self.socket
            .clone()
            .or_else(from_env)
            .ok_or_else(|| "no socket; pass --socket or set SANDKASTEN_RUNNER_SOCKET".to_owned())
    }
}

pub fn serve(options: &Options) -> Result<(), String> {
    let given = options.listen_fd.or(options.handed_fd);
    let socket = match given {
        Some(_) => None,
        None => Some(options.socket()?),
    };
    prepare_process([options.ready_fd, given], options.umask.unwrap_or(0o022))
        .map_err(|error| format!("cannot prepare the process: {error}"))?;
    for (resource, value) in &options.limits {
        limits::lower(*resource, *value)
            .map_err(|error| format!("cannot set resource limit {resource}: {error}"))?;
    }
    let user = options
        .user
        .as_deref()
        .map(User::resolve)
        .transpose()
        .map_err(|error| error.message)?;
    if user.as_ref().is_some_and(|user| user.uid == 0) {
        marks::prefer_limit();
    }
    let c_string = |path: &PathBuf| CString::new(path.clone().into_os_string().into_vec());
    let cwd = options
        .cwd
        .as_ref()
        .map(c_string)
        .transpose()
        .map_err(|_| "--cwd: contains a NUL byte".to_owned())?;
    let env = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .filter(|(name, _)| !name.starts_with(OUR_PREFIX))
        .collect();
    let signals = signal_descriptor().map_err(|error| format!("cannot open a signal descriptor: {error}"))?;
    let acceptor = match (&socket, given) {
        (Some(socket), _) => {
            Acceptor::Listening(listen(socket).map_err(|error| format!("{}: {error}", socket.display()))?)
        }
        (None, Some(fd)) => {
            // A runtime written in Go makes descriptors blocking.
            crate::sys::set_nonblocking(fd).map_err(|error| format!("descriptor {fd}: {error}"))?;
            // SAFETY: the caller gave us this descriptor to keep, and it is open (`prepare_process` looked);
            // nothing else here has its number.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            if options.listen_fd.is_some() {
                Acceptor::Listening(socket)
            } else {
                Acceptor::PassedIn(socket)
            }
        }
        (None, None) => return Err("no socket to listen on".to_owned()),
    };
    let mut server = Server::new(Config { user, cwd, env }, acceptor, signals)
        .map_err(|error| format!("cannot start the server: {error}"))?;
    if let Some(fd) = options.ready_fd {
        // The caller may be gone; serve anyway.
        let _ = sys::write(fd, b"\n");
        // SAFETY: the caller gave us this descriptor to use and close; nothing else here has its number.
        unsafe { libc::close(fd) };
    }
    server.run();
    if let Some(socket) = socket {
        let _ = std::fs::remove_file(socket);
    }
    Ok(())
}

fn prepare_process(given: [Option<i32>; 2], umask: u32) -> io::Result<()> {
    // SAFETY: these calls take numbers, and change only this process.
    unsafe {
        // Descriptors that the parent left open must not reach children.
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        // Open missing standard streams, so that a socket never becomes descriptor 0, 1 or 2.
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                check(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR))?;
            }
        }
        for fd in given.into_iter().flatten() {
            check(libc::fcntl(fd, libc::F_GETFD))?;
        }
        // Adopt orphans even when the runner is not PID 1.
        check(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1))?;
        // Processes of the runner's own user must not trace it or read its memory, environment or
        // descriptors.
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0))?;
        libc::umask(umask);
        // Prefer small memory: one arena, and large buffers go back to the kernel.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 * 1024);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 * 1024);
    }
    Ok(())
}

fn listen(path: &Path) -> io::Result<OwnedFd> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another runner already listens there",
        ));
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let _ = std::fs::remove_file(&draft);
    let listener = UnixListener::bind(&draft)?;
    listener.set_nonblocking(true)?;
    // A client may do everything that the runner may, so only the runner's user may connect.
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&draft, path)?;
    Ok(listener.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_applied_or_refused() {
        let parse = |words: &[&str]| Options::parse(words.iter().map(OsString::from));
        let options = parse(&[
            "--socket",
            "/s",
            "--ready-fd",
            "3",
            "--user",
            "1000:1000",
            "--cwd",
            "/w",
            "--umask",
            "077",
        ])
        .unwrap();
        assert_eq!(
            (options.ready_fd, options.user.as_deref(), options.umask),
            (Some(3), Some("1000:1000"), Some(0o077))
        );
        let limited = parse(&["--limit", "processes=40", "--limit", "queueBytes=5"]).unwrap();
        assert_eq!(
            limited.limits,
            [(libc::RLIMIT_NPROC, 40), (libc::RLIMIT_MSGQUEUE, 5)]
        );
        assert!(parse(&["--limit", "processes"]).is_err());
        assert!(parse(&["--umask", "8"]).is_err() && parse(&["--umask", "1777"]).is_err());
        assert!(parse(&["--socket"]).is_err());
        assert!(parse(&["--ready-fd", "1"]).is_err());
        assert!(parse(&["--frobnicate", "1"]).is_err());
    }
}
