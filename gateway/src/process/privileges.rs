//! Gives up all privileges, before the first byte from a sandbox is read.

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// `UID:GID`
    pub fn parse(text: &str) -> Option<Self> {
        let (uid, gid) = text.split_once(':')?;
        Some(Self {
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
        })
    }
}

const MOST_FILES: u64 = 1 << 20;

/// Must run before other threads exist: capabilities belong to threads.
pub fn give_up(user: Option<User>) -> io::Result<()> {
    raise_open_files();
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    if let Some(User { uid, gid }) = user {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
    }
    drop_capabilities()?;
    prctl::set_no_new_privs()?;
    // After the change of user, which resets it.
    prctl::set_dumpable(false)?;
    Ok(())
}

/// As far as this process may. Each connection needs up to six descriptors.
fn raise_open_files() {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    let wanted = MOST_FILES.max(hard);
    if setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_err() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

fn drop_capabilities() -> io::Result<()> {
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let none = [Sets {
        effective: 0,
        permitted: 0,
        inheritable: 0,
    }; 2];
    // SAFETY: both pointers are to what capset(2) reads with this version.
    match unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
