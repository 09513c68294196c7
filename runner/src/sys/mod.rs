//! Thin wrappers of system calls, so that the rest of the runner is safe Rust.

pub mod epoll;
pub mod pass;
pub mod procfs;
pub mod pty;
mod raw;
pub mod spawn;
pub mod user;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Takes ownership of a descriptor that a system call returned.
pub fn own(result: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor that nothing else owns.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

pub const RESOLVE_NO_MAGICLINKS: u64 = 2;
pub const RESOLVE_NO_SYMLINKS: u64 = 4;
pub const RESOLVE_BENEATH: u64 = 8;
pub const RESOLVE_IN_ROOT: u64 = 16;

/// openat2(2), close-on-exec. `resolve` restricts how the kernel resolves `path`.
pub fn open_resolved(at: RawFd, path: &CStr, flags: libc::c_int, resolve: u64) -> io::Result<OwnedFd> {
    let how = [(flags | libc::O_CLOEXEC) as u64, 0, resolve];
    let size = std::mem::size_of_val(&how);
    // SAFETY: a C string that outlives the call; `how` has the layout and size of struct open_how.
    own(unsafe { libc::syscall(libc::SYS_openat2, at, path.as_ptr(), how.as_ptr(), size) } as i32)
}

/// A blocking pipe, close-on-exec; read end first.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors that the call writes.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok((own(ends[0])?, own(ends[1])?))
}

/// Two connected blocking sockets, close-on-exec. Unlike a pipe, another process of the same user cannot
/// open a socket through `/proc/<pid>/fd`.
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has room for the two descriptors that the call writes.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    Ok((own(ends[0])?, own(ends[1])?))
}

/// Reads at most `most` bytes of a file that code in the sandbox may have replaced. Does not block on a
/// fifo.
pub fn read_file(path: &str, most: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: fcntl with these commands touches no memory of ours.
    unsafe {
        let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
        check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
    }
    Ok(())
}

pub fn duplicate(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: duplicating a borrowed (hence open) descriptor touches no memory.
    own(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) })
}

/// One read. `None`: would block. `Some(0)`: end.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        // SAFETY: the pointer and length describe `buffer`, which outlives the call.
        let count = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
        if count >= 0 {
            return Ok(Some(count as usize));
        }
        match errno() {
            libc::EINTR => continue,
            libc::EAGAIN => return Ok(None),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Fills `bytes` from a blocking descriptor. Returns how many bytes arrived before the end.
pub fn read_full(fd: RawFd, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match read(fd, &mut bytes[filled..])? {
            Some(0) => break,
            Some(count) => filled += count,
            None => return Err(io::ErrorKind::WouldBlock.into()),
        }
    }
    Ok(filled)
}

/// One write. `None`: would block. The runner ignores SIGPIPE.
pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    loop {
        // SAFETY: the pointer and length describe `bytes`, which outlives the call.
        let count = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if count >= 0 {
            return Ok(Some(count as usize));
        }
        match errno() {
            libc::EINTR => continue,
            libc::EAGAIN => return Ok(None),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Enlarges the send buffer, as far as the kernel allows.
pub fn widen_socket(fd: RawFd, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let size = size_of_val(&bytes) as libc::socklen_t;
    // SAFETY: the pointer and the size are those of one number, which outlives the call. The call fails
    // without an effect if the descriptor is not a socket.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const bytes).cast(),
            size,
        )
    };
}

/// Blocks until one of these events or a hang-up.
pub fn wait_for(fd: RawFd, events: i16) {
    poll(fd, events, -1);
}

/// The pending events of a descriptor, including errors and hang-ups.
pub fn poll(fd: RawFd, events: i16, timeout_ms: i32) -> i16 {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one entry, valid for the call.
    unsafe { libc::poll(&mut entry, 1, timeout_ms) };
    entry.revents
}

/// An anonymous file with this content, at offset 0.
pub fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string constant.
    let file = own(unsafe { libc::memfd_create(c"runner".as_ptr(), libc::MFD_CLOEXEC) })?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = write(file.as_raw_fd(), rest)?.unwrap_or(0);
        rest = &rest[count..];
    }
    // SAFETY: seeking touches no memory.
    unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_SET) };
    Ok(file)
}

pub fn random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: the pointer and length describe `rest`.
        let count = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        if count > 0 {
            filled += count as usize;
        }
    }
}

/// 128 random bits in hexadecimal.
pub fn nonce() -> String {
    let mut random = [0; 16];
    self::random(&mut random);
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a signal name with or without `SIG`.
pub fn signal_number(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    SIGNALS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number)
}

pub fn signal_name(number: i32) -> String {
    match SIGNALS.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => format!("SIG{name}"),
        None => format!("SIG{number}"),
    }
}

const SIGNALS: [(&str, i32); 31] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// Whether the process exists, or the group for a negative number.
pub fn is_there(pid: libc::pid_t) -> bool {
    // SAFETY: takes integers, and sends nothing.
    unsafe { libc::kill(pid, 0) == 0 || errno() == libc::EPERM }
}

pub fn kill(pid: libc::pid_t, signal: i32) {
    // SAFETY: takes integers. A process that is already gone is not an error.
    unsafe { libc::kill(pid, signal) };
}
