//! Users and groups. The runner parses `/etc/passwd` itself, because libc's lookup needs shared libraries at
//! run time, which a static binary in an arbitrary image does not have.
//!
//! There are two ways to act as a user. A child changes all its ids (`spawn`). A worker thread temporarily
//! changes its *file system* ids (`as_user`), with raw system calls, which affect one thread; libc's
//! wrappers change all threads. The real ids stay, so processes of that user cannot signal or trace the
//! runner. gVisor has no file system ids. There the thread changes its *effective* ids and keeps the real
//! and saved ids, which decide who may signal and trace.

use crate::wire::error::{OpError, OpResult};
use std::io;

/// Size limit of `/etc/passwd` and `/etc/group`.
const MAX_ACCOUNTS: u64 = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub name: Option<String>,
    pub home: Option<Vec<u8>>,
    pub shell: Option<Vec<u8>>,
}

impl User {
    /// Resolves `name`, `uid`, `name:group` or `uid:gid` inside the sandbox.
    pub fn resolve(spec: &str) -> OpResult<User> {
        let (who, group) = match spec.split_once(':') {
            Some((who, group)) => (who, Some(group)),
            None => (spec, None),
        };
        let passwd = super::read_file("/etc/passwd", MAX_ACCOUNTS).unwrap_or_default();
        let groups = super::read_file("/etc/group", MAX_ACCOUNTS).unwrap_or_default();
        resolve_in(who, group, &passwd, &groups)
            .ok_or_else(|| OpError::new("not_found", format!("user: unknown user or group in '{spec}'")))
    }

    pub fn is_current(&self) -> bool {
        // SAFETY: these calls cannot fail and touch no memory.
        unsafe { libc::geteuid() == self.uid && libc::getegid() == self.gid }
    }
}

/// The supplementary groups of this thread.
pub fn current_groups() -> Vec<u32> {
    let mut groups = vec![0u32; 256];
    // SAFETY: the call writes at most the given number of entries.
    let count = unsafe { libc::getgroups(groups.len() as i32, groups.as_mut_ptr()) };
    groups.truncate(count.max(0) as usize);
    groups
}

/// Runs `work` with the file system ids of `user` on this thread. If the kernel refuses the change, `work`
/// does not run.
pub fn as_user<T>(user: Option<&User>, work: impl FnOnce() -> T) -> io::Result<T> {
    let Some(user) = user.filter(|user| !user.is_current()) else {
        return Ok(work());
    };
    let borrowed = Borrowed::take(user)?;
    let result = work();
    drop(borrowed);
    Ok(result)
}

/// Ids and groups that this thread changed. Dropping restores them.
struct Borrowed {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Borrowed {
    fn take(user: &User) -> io::Result<Borrowed> {
        // SAFETY: these calls cannot fail and touch no memory.
        let before = unsafe {
            Borrowed {
                uid: libc::geteuid(),
                gid: libc::getegid(),
                groups: current_groups(),
            }
        };
        set_groups(&user.groups)?;
        // Group first: after the user is changed, groups cannot change any more.
        if set_id(&GROUP, user.gid) && set_id(&USER, user.uid) {
            Ok(before)
        } else {
            drop(before);
            Err(io::Error::from_raw_os_error(libc::EPERM))
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        set_id(&USER, self.uid);
        set_id(&GROUP, self.gid);
        // Cannot fail, because the change was allowed before.
        let _ = set_groups(&self.groups);
    }
}

fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: pointer and length describe `groups`. The raw call acts on this thread only.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// System calls that change an id of one thread.
struct Id {
    file_system: libc::c_long,
    /// Real, effective and saved.
    all: libc::c_long,
}

const USER: Id = Id {
    file_system: libc::SYS_setfsuid,
    all: libc::SYS_setresuid,
};
const GROUP: Id = Id {
    file_system: libc::SYS_setfsgid,
    all: libc::SYS_setresgid,
};

/// setfsuid reports no error, so a second call with an invalid id reads the result. Without setfsuid
/// (gVisor) change the effective id: the kernel removes and restores capabilities with it.
fn set_id(calls: &Id, id: u32) -> bool {
    // SAFETY: takes and returns integers; acts on this thread only.
    unsafe {
        if libc::syscall(calls.file_system, id) == -1 && super::errno() == libc::ENOSYS {
            let unchanged: libc::c_long = -1;
            return libc::syscall(calls.all, unchanged, id, unchanged) == 0;
        }
        libc::syscall(calls.file_system, u32::MAX) as u32 == id
    }
}

/// Works on the raw bytes, because `/etc/group` can be long and delays the start.
fn resolve_in(who: &str, group: Option<&str>, passwd: &[u8], groups: &[u8]) -> Option<User> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|id| *id != u32::MAX);
    let id = |field: &[u8]| number(std::str::from_utf8(field).ok()?);
    let entry = lines::<7>(passwd)
        .find(|f| f[0] == who.as_bytes() || number(who).is_some_and(|number| id(f[2]) == Some(number)));
    let name = entry.and_then(|f| String::from_utf8(f[0].to_vec()).ok());
    let uid = entry.and_then(|f| id(f[2])).or(number(who))?;
    let gid = match group {
        Some(group) => number(group).or_else(|| {
            let line = lines::<4>(groups).find(|f| f[0] == group.as_bytes())?;
            id(line[2])
        })?,
        // An unknown number uses the group of the same number, like containers do.
        None => entry.and_then(|f| id(f[3])).unwrap_or(uid),
    };
    let mut all = vec![gid];
    for line in lines::<4>(groups).filter(|f| !f[3].is_empty()) {
        let member = name
            .as_ref()
            .is_some_and(|n| line[3].split(|b| *b == b',').any(|m| m == n.as_bytes()));
        if let (true, Some(id)) = (member, id(line[2]))
            && !all.contains(&id)
        {
            all.push(id);
        }
    }
    let field = |index: usize| entry.map(|f| f[index].to_vec()).filter(|f| !f.is_empty());
    Some(User {
        uid,
        gid,
        groups: all,
        name,
        home: field(5),
        shell: field(6),
    })
}

/// The first `N` fields of every line that has at least as many.
fn lines<const N: usize>(file: &[u8]) -> impl Iterator<Item = [&[u8]; N]> {
    file.split(|b| *b == b'\n').filter_map(|line| {
        let mut fields = [&line[..0]; N];
        let mut parts = line.split(|b| *b == b':');
        for field in &mut fields {
            *field = parts.next()?;
        }
        Some(fields)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1001:,,,:/home/ann:/bin/bash\nbroken\n";
    const GROUP: &[u8] = b"root:x:0:\nann:x:1001:\nwheel:x:10:bob,ann\n";

    #[test]
    fn names_numbers_and_groups() {
        let ann = resolve_in("ann", None, PASSWD, GROUP).unwrap();
        assert_eq!(
            (ann.uid, ann.gid, ann.groups.clone()),
            (1000, 1001, vec![1001, 10])
        );
        assert_eq!(resolve_in("1000", None, PASSWD, GROUP).unwrap(), ann);
        let unknown = resolve_in("4242", Some("wheel"), PASSWD, GROUP).unwrap();
        assert_eq!((unknown.uid, unknown.gid, unknown.name), (4242, 10, None));
        assert!(resolve_in("nobody-here", None, PASSWD, GROUP).is_none());
        assert!(resolve_in("ann", Some("no-group"), PASSWD, GROUP).is_none());
        assert!(resolve_in("4294967295", None, PASSWD, GROUP).is_none());
    }
}
