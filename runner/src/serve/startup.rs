//! `runner serve`: from arguments to a listening socket. Where the runner makes it, it takes its name only when it listens, so a client that
//! finds the name can connect: there is no moment at which it is there and refuses. Where the socket is handed in, nothing in here leads to it.

use crate::process::limits;
use crate::process::reaper::signal_descriptor;
use crate::serve::acceptor::Door;
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

/// Variables that are for the runner and not for what it runs.
const OUR_PREFIX: &[u8] = b"SANDKASTEN_RUNNER_";

#[derive(Debug, Default, PartialEq)]
pub struct Options {
    pub socket: Option<PathBuf>,
    /// A socket that listens already, instead of a path.
    pub listen_fd: Option<i32>,
    /// A socket over which connections are handed in, instead of either.
    pub handed_fd: Option<i32>,
    /// Gets the byte `\n` when the socket listens, and is then closed.
    pub ready_fd: Option<i32>,
    /// Who processes, shells and file operations run as by default.
    pub user: Option<String>,
    /// Where they start by default.
    pub cwd: Option<PathBuf>,
    /// What their files are made with. Default 022.
    pub umask: Option<u32>,
    /// Of the runner and everything that it starts.
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
                .ok_or_else(|| format!("{name}: a value is missing"))?;
            let text = || {
                value
                    .to_str()
                    .map(str::to_owned)
                    .ok_or_else(|| format!("{name}: not UTF-8"))
            };
            match name.as_str() {
                "--socket" => options.socket = Some(value.into()),
                "--cwd" => options.cwd = Some(value.into()),
                "--user" => options.user = Some(text()?),
                "--umask" => {
                    let mask = u32::from_str_radix(&text()?, 8)
                        .ok()
                        .filter(|mask| *mask <= 0o777);
                    options.umask = Some(mask.ok_or_else(|| format!("{name}: an octal number up to 777"))?);
                }
                "--limit" => {
                    let limit = limits::parse(&text()?);
                    options
                        .limits
                        .push(limit.ok_or_else(|| format!("{name}: a known name, = and a number"))?);
                }
                "--ready-fd" | "--listen-fd" | "--handed-fd" => {
                    let fd = text()?.parse().ok().filter(|fd| *fd > 2);
                    let fd = fd.ok_or_else(|| format!("{name}: a number above 2"))?;
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
            .ok_or_else(|| "--socket or SANDKASTEN_RUNNER_SOCKET is needed".to_owned())
    }
}

/// Serves until told to stop.
pub fn serve(options: &Options) -> Result<(), String> {
    let given = options.listen_fd.or(options.handed_fd);
    let socket = match given {
        Some(_) => None,
        None => Some(options.socket()?),
    };
    prepare_process([options.ready_fd, given], options.umask.unwrap_or(0o022))
        .map_err(|error| format!("preparing: {error}"))?;
    for (resource, value) in &options.limits {
        limits::lower(*resource, *value).map_err(|error| format!("limit {resource}: {error}"))?;
    }
    let user = options
        .user
        .as_deref()
        .map(User::resolve)
        .transpose()
        .map_err(|error| error.message)?;
    let c_string = |path: &PathBuf| CString::new(path.clone().into_os_string().into_vec());
    let cwd = options
        .cwd
        .as_ref()
        .map(c_string)
        .transpose()
        .map_err(|_| "--cwd: a NUL byte".to_owned())?;
    let env = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .filter(|(name, _)| !name.starts_with(OUR_PREFIX))
        .collect();
    let signals = signal_descriptor().map_err(|error| format!("signals: {error}"))?;
    let door = match (&socket, given) {
        (Some(socket), _) => {
            Door::Listens(listen(socket).map_err(|error| format!("{}: {error}", socket.display()))?)
        }
        (None, Some(fd)) => {
            // Whoever handed it on may have changed this: a runtime written in Go does.
            crate::sys::set_nonblocking(fd).map_err(|error| format!("descriptor {fd}: {error}"))?;
            // SAFETY: the caller gave us this descriptor to keep, and it is open (`prepare_process` looked); nothing else here has its number.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            if options.listen_fd.is_some() {
                Door::Listens(socket)
            } else {
                Door::Hands(socket)
            }
        }
        (None, None) => return Err("no socket".to_owned()),
    };
    let mut server = Server::new(Config { user, cwd, env }, door, signals)
        .map_err(|error| format!("starting: {error}"))?;
    if let Some(fd) = options.ready_fd {
        // A launcher that has gone meanwhile is no reason not to serve.
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
        // Descriptors that our parent left open are for nobody below us.
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        // Standard streams exist, so that no socket of ours ever becomes somebody's standard output.
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                check(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR))?;
            }
        }
        for fd in given.into_iter().flatten() {
            check(libc::fcntl(fd, libc::F_GETFD))?;
        }
        // Orphans come to us also where we are not PID 1.
        check(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1))?;
        // A process of our own user may neither trace us nor read our memory, environment or descriptors.
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0))?;
        libc::umask(umask);
        // One arena for all threads, large buffers straight back to the kernel: small before fast.
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
            "another runner answers there",
        ));
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let _ = std::fs::remove_file(&draft);
    let listener = UnixListener::bind(&draft)?;
    listener.set_nonblocking(true)?;
    // Whoever may connect may do everything: only our own user (and root) may.
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
