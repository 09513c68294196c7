//! Verifies PID 1 through the kernel's view. A runtime may silently ignore a field of `config.json` (the
//! seccomp filter is in an annotation, which another version may not know). Then the sandbox must not start.

use super::host_proc::{HostProc, field};
use super::task::Task;
use std::fs;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// The runner.
    Root,
    /// The runner in an account's user namespace.
    Account,
    /// gVisor's sentry, which isolates the sandbox.
    Sentry,
}

pub fn verify(task: &Task, kind: Kind, host: &HostProc, pid: u32) -> Result<(), String> {
    let status = host.status(pid)?;
    let first = task.first_id.to_string();
    let capabilities = format!("{:016x}", task.capabilities);
    let has = |name: &str| field(&status, name).unwrap_or("none").to_owned();
    for (name, expected) in [("Seccomp", "2"), ("NoNewPrivs", "1")] {
        if field(&status, name) != Some(expected) {
            return Err(format!("PID 1 runs with {name} {}, not {expected}", has(name)));
        }
    }
    for name in ["CapBnd", "CapPrm", "CapEff"] {
        // The sentry's capabilities depend on its version.
        let fits = match kind {
            Kind::Sentry => {
                u64::from_str_radix(&has(name), 16).is_ok_and(|set| set & !task.capabilities == 0)
            }
            _ => has(name) == capabilities,
        };
        if !fits {
            return Err(format!(
                "PID 1 runs with {name} {}, not {capabilities}",
                has(name)
            ));
        }
    }
    for name in ["CapInh", "CapAmb"] {
        if field(&status, name) != Some("0000000000000000") {
            return Err(format!("PID 1 runs with {name} {}, not 0", has(name)));
        }
    }
    for name in ["Uid", "Gid"] {
        if !field(&status, name).is_some_and(|ids| ids.split_ascii_whitespace().all(|id| id == first)) {
            return Err(format!("PID 1 runs with {name} {}, not {first}", has(name)));
        }
    }
    // An account with a range has dropped its own groups. One without a range may not drop them.
    let stranger = |group: &str| group != first;
    if kind == Kind::Account && task.ids > 1 && has("Groups").split_ascii_whitespace().any(stranger) {
        return Err(format!("PID 1 has unexpected groups: {}", has("Groups")));
    }
    let mine = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    let its = |name: &str| fs::read_link(host.path(format_args!("{pid}/ns/{name}"))).ok();
    // The sentry numbers its processes itself, and sees neither control groups nor mounts of the host.
    let namespaces: &[&str] = match kind {
        Kind::Sentry => &["user", "mnt", "net", "ipc", "uts"],
        _ => &["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"],
    };
    for name in namespaces {
        if its(name).is_none() || its(name) == mine(name) {
            return Err(format!("PID 1 is in the {name} namespace of the shim"));
        }
    }
    Ok(())
}
