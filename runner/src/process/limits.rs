//! Resource limits by name, for commands and for the runner itself.

use crate::sys::check;
use std::io;

const KNOWN: [(&str, u32); 11] = [
    ("cpuSeconds", libc::RLIMIT_CPU),
    ("addressBytes", libc::RLIMIT_AS),
    ("dataBytes", libc::RLIMIT_DATA),
    ("stackBytes", libc::RLIMIT_STACK),
    ("fileBytes", libc::RLIMIT_FSIZE),
    ("coreBytes", libc::RLIMIT_CORE),
    ("openFiles", libc::RLIMIT_NOFILE),
    ("processes", libc::RLIMIT_NPROC),
    ("pendingSignals", libc::RLIMIT_SIGPENDING),
    ("queueBytes", libc::RLIMIT_MSGQUEUE),
    ("lockedBytes", libc::RLIMIT_MEMLOCK),
];

pub fn find(name: &str) -> Option<u32> {
    let found = KNOWN.iter().find(|(known, _)| *known == name);
    found.map(|(_, resource)| *resource)
}

/// Parses `name=value`.
pub fn parse(text: &str) -> Option<(u32, u64)> {
    let (name, value) = text.split_once('=')?;
    Some((find(name)?, value.parse().ok()?))
}

/// Lowers a limit of this process and everything it starts. Never raises one.
///
/// The kernel counts processes, pending signals and message queue bytes per user *and user namespace*. A
/// limit that is set outside the sandbox's user namespace also counts what the namespace's owner uses
/// elsewhere, so one sandbox could exhaust the limit of another. So the runner sets these limits inside.
pub fn lower(resource: u32, value: u64) -> io::Result<()> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is valid for both calls.
    unsafe {
        check(libc::getrlimit64(resource, &mut limit))?;
        limit.rlim_max = limit.rlim_max.min(value);
        limit.rlim_cur = limit.rlim_max;
        check(libc::setrlimit64(resource, &limit))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed_or_rejected() {
        assert_eq!(parse("processes=40"), Some((libc::RLIMIT_NPROC, 40)));
        for bad in ["processes", "processes=", "processes=-1", "rss=1", "=1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_limit_is_lowered_and_never_raised() {
        lower(libc::RLIMIT_MSGQUEUE, 5000).unwrap();
        lower(libc::RLIMIT_MSGQUEUE, 9000).unwrap();
        let mut limit = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the structure is valid for the call.
        unsafe { libc::getrlimit64(libc::RLIMIT_MSGQUEUE, &mut limit) };
        assert_eq!((limit.rlim_cur, limit.rlim_max), (5000, 5000));
    }
}
