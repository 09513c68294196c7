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
    /// Where a process of the sandbox opens the slave end.
    pub path: CString,
}

/// How the slave treats bytes.
#[derive(Clone, Copy, PartialEq)]
pub enum Discipline {
    /// As every terminal program expects: line editing, echo, signals, `\n` shown as `\r\n`.
    Cooked,
    /// Output passes unchanged, nothing is echoed. Signals and line ends on input stay, for job control.
    Plain,
}

/// Opens a pair. The slave belongs to `user`, since devpts gives it to whoever opens the multiplexer.
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
    // Opened through the master, not by path: no other devpts instance can be meant.
    // SAFETY: TIOCGPTPEER takes open flags and returns a descriptor.
    let peer = unsafe {
        libc::ioctl(
            master.as_raw_fd(),
            libc::TIOCGPTPEER,
            libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC,
        )
    };
    let slave = own(peer)?;
    set_discipline(slave.as_raw_fd(), discipline)?;
    resize(master.as_raw_fd(), size)?;
    let path = CString::new(format!("/dev/pts/{number}")).expect("digits contain no NUL");
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

/// The process group in the foreground of the terminal behind `master`.
pub fn foreground(master: RawFd) -> Option<libc::pid_t> {
    let mut group: libc::pid_t = 0;
    // SAFETY: the ioctl writes one pid_t.
    let result = unsafe { libc::ioctl(master, libc::TIOCGPGRP, &mut group) };
    (result == 0 && group > 0).then_some(group)
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
