//! What a shim is told before it has a sandbox: the same for all sandboxes of one engine (`packages/engine/src/isolators/oci/task.ts` is the writer).

use super::json::Json;
use super::task::{VERSION, list, number, path, text_item};

#[derive(Debug, PartialEq)]
pub struct Setup {
    pub runtime: String,
    /// What it is told, in its own words. It starts the sandbox that `config.json` on the stage describes, hands on the descriptors 3 and 4, and
    /// comes back when it runs.
    pub arguments: Vec<String>,
    /// Our own binary, as the sandbox's PID 1.
    pub runner: String,
    /// An empty folder that everyone may enter, over which the shim mounts its private tmpfs.
    pub stage: String,
    /// Folders in which the sandbox's control groups are made, one in each.
    pub groups: Vec<String>,
    /// Mount points to take away before the runtime looks at them.
    pub hide: Vec<String>,
    /// Folders that the runtime may look at, with all that is mounted below them, and not change.
    pub read_only: Vec<String>,
    /// We are root of an ordinary account's user namespace (see `userns`), not of the host.
    pub account: bool,
    /// The runtime is gVisor's (see `gvisor`).
    pub gvisor: bool,
}

impl Setup {
    pub fn parse(text: &str) -> Result<Setup, String> {
        let json = Json::parse(text)?;
        let version = number(&json, "version")?;
        if version != VERSION {
            return Err(format!("setup: version {version}; this shim knows {VERSION}"));
        }
        Ok(Setup {
            runtime: path(&json, "runtime")?,
            arguments: list(&json, "arguments", text_item)?,
            runner: path(&json, "runner")?,
            stage: path(&json, "stage")?,
            groups: list(&json, "groups", text_item)?,
            hide: list(&json, "hide", text_item)?,
            read_only: list(&json, "readOnly", text_item)?,
            account: json.get("account") == Some(&Json::Bool(true)),
            gvisor: json.get("gvisor") == Some(&Json::Bool(true)),
        })
    }
}
