//! Pseudo-terminals.

use super::user::{User, as_user};
use super::{check, own};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

#[derive(Clone, Copy)]
pub struct Size {
    pub cols: u16,
    pub rows: u16,
}

impl Default for Size {
    fn default() -> Self {
        Size { cols: 80, rows: 24 }
    }
}

pub struct Pty {
    pub master: OwnedFd,
    pub slave: OwnedFd,
    /// The slave's path in the sandbox.
    pub path: CString,
}

/// How the terminal processes bytes.
#[derive(Clone, Copy, PartialEq)]
pub enum Discipline {
    /// The default of terminals: line editing, echo, signals, `\n` becomes `\r\n`.
    Cooked,
    /// Output is unchanged and input is not echoed. Signals and line endings on input remain, for job
    /// control.
    Plain,
}

/// Opens a pair. Gives the slave to `user`, because devpts gives it to the process that opened the master.
pub fn open(user: Option<&User>, size: Size, discipline: Discipline) -> io::Result<Pty> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path is a C string constant.
    let master = as_user(user, || own(unsafe { libc::open(c"/dev/ptmx".as_ptr(), flags) }))??;
    let (mut number, unlock) = (0 as libc::c_int, 0 as libc::c_int);
    // SAFETY: both ioctls read or write one int, which these are.
    unsafe {
        check(libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &unlock))?;
        check(libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &mut number))?;
    }
    let path = CString::new(format!("/dev/pts/{number}")).expect("digits contain no NUL");
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // Opened through the master, not by path, so that no other devpts instance can be used.
    // SAFETY: TIOCGPTPEER takes open flags and returns a descriptor.
    let slave = match own(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) }) {
        // gVisor lacks TIOCGPTPEER. It has one devpts instance only.
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
            // SAFETY: a C string that outlives the call.
            as_user(user, || own(unsafe { libc::open(path.as_ptr(), flags) }))??
        }
        result => result?,
    };
    set_discipline(slave.as_raw_fd(), discipline)?;
    resize(master.as_raw_fd(), size)?;
    Ok(Pty { master, slave, path })
}

pub fn resize(master: RawFd, size: Size) -> io::Result<()> {
    let window = libc::winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: `window` lives through the call.
    check(unsafe { libc::ioctl(master, libc::TIOCSWINSZ, &window) })?;
    Ok(())
}

/// The foreground process group of the terminal. An error if the kernel does not report it (gVisor).
pub fn foreground(master: RawFd) -> io::Result<Option<libc::pid_t>> {
    let mut group: libc::pid_t = 0;
    // SAFETY: the ioctl writes one pid_t.
    check(unsafe { libc::ioctl(master, libc::TIOCGPGRP, &mut group) })?;
    Ok(Some(group).filter(|group| *group > 0))
}

/// The terminal's current input settings.
pub struct Typing(libc::termios);

impl Typing {
    pub fn of(master: RawFd) -> io::Result<Typing> {
        // SAFETY: termios is plain data, filled by tcgetattr before it is read.
        unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            check(libc::tcgetattr(master, &mut settings))?;
            Ok(Typing(settings))
        }
    }

    /// The signal that this character sends.
    pub fn signal(&self, byte: u8) -> Option<i32> {
        let signals = [
            (libc::VINTR, libc::SIGINT),
            (libc::VQUIT, libc::SIGQUIT),
            (libc::VSUSP, libc::SIGTSTP),
        ];
        let stands = |(at, _): &&(usize, i32)| byte != 0 && self.0.c_cc[*at] == byte;
        let found = signals
            .iter()
            .find(stands)
            .filter(|_| self.0.c_lflag & libc::ISIG != 0);
        found.map(|(_, signal)| *signal)
    }

    /// The terminal delivers whole lines, so no program edits them itself, as a shell does at its prompt.
    pub fn is_by_lines(&self) -> bool {
        self.0.c_lflag & libc::ICANON != 0
    }
}

fn set_discipline(slave: RawFd, discipline: Discipline) -> io::Result<()> {
    // SAFETY: termios is plain data, filled by tcgetattr before it is read.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        check(libc::tcgetattr(slave, &mut settings))?;
        settings.c_iflag |= libc::IUTF8;
        if discipline == Discipline::Plain {
            settings.c_oflag &= !libc::OPOST;
            settings.c_lflag &= !(libc::ECHO | libc::ECHOE | libc::ECHOK | libc::ECHONL);
        }
        check(libc::tcsetattr(slave, libc::TCSANOW, &settings))?;
    }
    Ok(())
}
