//! The first message to a shim, the same for all sandboxes of one engine.
//! `packages/engine/src/isolators/oci/launch/shim-task.ts` writes it.

use super::json::Json;
use super::task::{VERSION, list, number, path, text_item};

#[derive(Debug, PartialEq)]
pub struct Setup {
    pub runtime: String,
    /// Arguments of the runtime. It starts the sandbox of `config.json` in the stage, passes on descriptors
    /// 3 and 4, and exits when the sandbox runs.
    pub arguments: Vec<String>,
    /// The runner's binary, which becomes the sandbox's PID 1.
    pub runner: String,
    /// An empty folder, accessible to everyone, on which the shim mounts its private tmpfs.
    pub stage: String,
    /// Parent folders of the sandbox's control groups, one group in each.
    pub groups: Vec<String>,
    /// Mount points to hide from the runtime.
    pub hide: Vec<String>,
    /// Folders that the runtime may read but not change, including the mounts below them.
    pub read_only: Vec<String>,
    /// The shim is root of an account's user namespace (`userns`), not of the host.
    pub account: bool,
    /// The runtime is gVisor (`gvisor`).
    pub gvisor: bool,
}

impl Setup {
    pub fn parse(text: &str) -> Result<Setup, String> {
        let json = Json::parse(text)?;
        let version = number(&json, "version")?;
        if version != VERSION {
            return Err(format!(
                "setup: version {version} is not supported; this shim supports version {VERSION}"
            ));
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
