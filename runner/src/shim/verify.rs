//! PID 1 is what was asked for, as the kernel tells it. A runtime that ignored a field of `config.json` (the filter travels in an
//! annotation, which another version may not know) must not go unnoticed: without these there is no sandbox.

use super::host::{HostProc, field};
use super::task::Task;
use std::fs;

pub fn verify(task: &Task, account: bool, host: &HostProc, pid: u32) -> Result<(), String> {
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
        if field(&status, name) != Some(&capabilities) {
            return Err(format!(
                "PID 1 runs with {name} {}, not {capabilities}",
                has(name)
            ));
        }
    }
    for name in ["CapInh", "CapAmb"] {
        if field(&status, name) != Some("0000000000000000") {
            return Err(format!("PID 1 runs with {name} {}, not none", has(name)));
        }
    }
    for name in ["Uid", "Gid"] {
        if !field(&status, name).is_some_and(|ids| ids.split_ascii_whitespace().all(|id| id == first)) {
            return Err(format!("PID 1 runs with {name} {}, not {first}", has(name)));
        }
    }
    // An account with a range has dropped its own groups; one without may not, and says so.
    let stranger = |group: &str| group != first;
    if account && task.ids > 1 && has("Groups").split_ascii_whitespace().any(stranger) {
        return Err(format!("PID 1 has the groups {}", has("Groups")));
    }
    let mine = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    let its = |name: &str| fs::read_link(host.path(format_args!("{pid}/ns/{name}"))).ok();
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        if its(name).is_none() || its(name) == mine(name) {
            return Err(format!("PID 1 is in our {name} namespace"));
        }
    }
    Ok(())
}
