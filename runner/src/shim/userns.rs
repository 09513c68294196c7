//! `runner within`: lets an ordinary account run the engine. It creates a user namespace in which the
//! account is root and the sandboxes' ids are mapped:
//!
//! ```text
//! sandbox          within              host
//! 0 … 65535   ─►   1 … 65536   ─►     the account's subordinate range (/etc/subuid)      mode `range`
//!                  0           ─►     the account itself, which no sandbox has an id for
//!
//! 1000        ─►   0           ─►     the account itself                                 mode `own`
//! ```
//!
//! Image layers are created and removed with another map, in which the sandboxes' ids are unchanged and the
//! account follows them.
//!
//! A range needs the administrator's permission, so the setuid programs `newuidmap` and `newgidmap` write that
//! map. Any process may map its own single id, but can then never change groups. Launcher, shims and runtimes
//! inherit the namespace and run unchanged, except that mounts cannot be id-mapped.

use crate::sys::{check, pipe, read, write};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

const USAGE: &str = "usage: runner within --uids INSIDE:OUTSIDE:COUNT[,…] --gids … -- program …";

#[derive(Debug, PartialEq, Clone, Copy)]
struct Extent {
    inside: u32,
    outside: u32,
    count: u32,
}

#[derive(Debug, PartialEq)]
struct Options {
    uids: Vec<Extent>,
    gids: Vec<Extent>,
    program: Vec<OsString>,
}

/// Returns only on failure, with the reason.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    if options.uids.len() == 1 && options.gids.len() == 1 {
        enter_alone(&options)?;
    } else {
        enter_with_range(&options)?;
    }
    check_map()?;
    let (program, rest) = options.program.split_first().ok_or(USAGE)?;
    let error = Command::new(program).args(rest).exec();
    Err(format!("{}: {error}", program.to_string_lossy()))
}

/// The caller must be root of a namespace that does not map the host's root. The host's root inside a
/// sandbox would defeat all other protections.
pub fn check_map() -> Result<(), String> {
    for name in ["uid_map", "gid_map"] {
        let text =
            fs::read_to_string(format!("/proc/self/{name}")).map_err(|error| format!("{name}: {error}"))?;
        let mut extents = text.lines().map(|line| {
            let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
            match (numbers.next(), numbers.next(), numbers.next()) {
                (Some(Ok(inside)), Some(Ok(outside)), Some(Ok(count))) => Ok(Extent {
                    inside,
                    outside,
                    count,
                }),
                _ => Err(format!("{name}: unexpected line: {line}")),
            }
        });
        let mut root = false;
        while let Some(extent) = extents.next().transpose()? {
            if extent.outside == 0 {
                return Err(format!("{name}: must not contain root of the host"));
            }
            root |= extent.inside == 0;
        }
        if !root {
            return Err(format!("{name}: has no root"));
        }
    }
    Ok(())
}

fn enter_alone(options: &Options) -> Result<(), String> {
    unshare()?;
    let wrote = fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", line(options.uids[0])))
        .and_then(|()| fs::write("/proc/self/gid_map", line(options.gids[0])));
    wrote.map_err(|error| format!("user namespace: {error}"))
}

fn enter_with_range(options: &Options) -> Result<(), String> {
    let at = |error: io::Error| format!("user namespace: {error}");
    let me = std::process::id().to_string();
    let (turn, our_turn) = pipe().map_err(at)?;
    // SAFETY: this process has one thread, so the child may use everything that the parent may.
    let child = check(unsafe { libc::fork() }).map_err(at)?;
    if child == 0 {
        drop(our_turn);
        // Outside of the namespace, because a process inside may map only its own id.
        let code = match read(turn.as_raw_fd(), &mut [0; 1]) {
            Ok(Some(1)) => {
                map("newuidmap", &me, &options.uids).and_then(|()| map("newgidmap", &me, &options.gids))
            }
            _ => Err(String::new()),
        };
        let said = code.inspect_err(|message| eprintln!("{message}"));
        // SAFETY: leaves without running the parent's destructors.
        unsafe { libc::_exit(i32::from(said.is_err())) };
    }
    unshare()?;
    write(our_turn.as_raw_fd(), b"x").map_err(at)?;
    let mut status = 0;
    // SAFETY: the out-parameter is valid for the call; the child is ours.
    check(unsafe { libc::waitpid(child, &mut status, 0) }).map_err(at)?;
    if status != 0 {
        return Err("user namespace: the range could not be mapped".to_owned());
    }
    // Sandboxes must not have access through the account's groups.
    // SAFETY: no list is read when it has no length.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })
        .map_err(|error| format!("cannot drop groups: {error}"))?;
    // If the account is not id 0 inside, become root there.
    // SAFETY: numbers only.
    check(unsafe { libc::setresgid(0, 0, 0) })
        .and_then(|_| check(unsafe { libc::setresuid(0, 0, 0) }))
        .map_err(|error| format!("cannot become root of the user namespace: {error}"))?;
    Ok(())
}

fn map(tool: &str, pid: &str, extents: &[Extent]) -> Result<(), String> {
    let numbers = extents
        .iter()
        .flat_map(|one| [one.inside, one.outside, one.count]);
    let status = Command::new(tool)
        .arg(pid)
        .args(numbers.map(|number| number.to_string()))
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .status()
        .map_err(|error| format!("{tool}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{tool}: {status}"))
    }
}

fn unshare() -> Result<(), String> {
    // SAFETY: takes flags; this process has one thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })
        .map(|_| ())
        .map_err(|error| format!("user namespace: {error}"))
}

fn line(
    Extent {
        inside,
        outside,
        count,
    }: Extent,
) -> String {
    format!("{inside} {outside} {count}\n")
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
        let mut named = |name: &str| -> Result<Vec<Extent>, String> {
            if arguments.next().is_none_or(|given| given != name) {
                return Err(USAGE.to_owned());
            }
            let list = arguments.next().and_then(|list| list.into_string().ok());
            list.ok_or(USAGE)?.split(',').map(extent).collect()
        };
        let (uids, gids) = (named("--uids")?, named("--gids")?);
        if arguments.next().is_none_or(|given| given != "--") {
            return Err(USAGE.to_owned());
        }
        let program: Vec<OsString> = arguments.collect();
        if program.is_empty() {
            return Err(USAGE.to_owned());
        }
        Ok(Options { uids, gids, program })
    }
}

fn extent(text: &str) -> Result<Extent, String> {
    let numbers: Vec<u32> = text.split(':').filter_map(|number| number.parse().ok()).collect();
    match numbers[..] {
        [inside, outside, count] if outside > 0 && count > 0 => Ok(Extent {
            inside,
            outside,
            count,
        }),
        _ => Err(format!("{text}: {USAGE}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn maps_are_parsed_and_root_of_the_host_is_rejected() {
        let options = parse("--uids 0:1001:1,1:100000:65536 --gids 0:1001:1 -- rm -rf x").unwrap();
        assert_eq!(
            options.uids[1],
            Extent {
                inside: 1,
                outside: 100_000,
                count: 65536
            }
        );
        assert_eq!(options.program, ["rm", "-rf", "x"]);
        for bad in [
            "--uids 0:0:1 --gids 0:1001:1 -- x",
            "--uids 0:1001:1 --gids 0:1001:0 -- x",
            "--uids 0:1001 --gids 0:1001:1 -- x",
            "--gids 0:1001:1 --uids 0:1001:1 -- x",
            "--uids 0:1001:1 --gids 0:1001:1 x",
            "--uids 0:1001:1 --gids 0:1001:1 --",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
