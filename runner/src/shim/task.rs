//! The second message to a shim: one JSON document on standard input, because argv is readable by every user
//! of the machine. The engine decides (limits, layers, `config.json`) and the shim executes, so all policy
//! is in TypeScript. `packages/engine/src/isolators/oci/launch/shim-task.ts` writes it.

use super::idmap::Limit;
use super::json::Json;
use crate::egress;
use crate::fence::{self, Rule};

pub const VERSION: i64 = 5;
/// Version of the files `state` and `end`, which outlive an engine.
pub const RECORD_VERSION: i64 = 2;

#[derive(Debug, PartialEq)]
pub struct Task {
    /// The shim's own socket.
    pub witness: String,
    /// The runner's socket. It is created outside and passed in, so the sandbox cannot reach its path.
    pub socket: String,
    /// Where the shim identifies itself, and where it records the end.
    pub state: String,
    pub end: String,
    /// First host id of the sandbox's range, the id that it has inside, and the size of the range.
    pub first_id: u32,
    pub first_inside: u32,
    pub ids: u32,
    /// Values of files in `/proc/sys/user` of the sandbox's user namespace.
    pub user_limits: Vec<Limit>,
    pub groups: Vec<Group>,
    /// Lower layers, uppermost first.
    pub layers: Vec<String>,
    /// How many of the layers are above the skeleton, because a sandbox wrote them.
    pub written: usize,
    /// Files above the image that are created for each start.
    pub skeleton: Vec<Entry>,
    /// The folder that contains `upper` and `work`, or a file with a file system that contains them.
    pub disk: String,
    /// An empty file system to copy for a new disk. `None` if the disk is a folder.
    pub template: Option<String>,
    pub volatile: bool,
    pub binds: Vec<Bind>,
    /// The complete `config.json`. It contains the environment, so it is written to memory only.
    pub config: String,
    /// Capabilities that PID 1 may have.
    pub capabilities: u64,
    /// Set for the network `open`.
    pub network: Option<Network>,
    /// Set for a network with a policy. Without both, there is loopback only.
    pub egress: Option<egress::Place>,
    pub ready_timeout_ms: i64,
}

#[derive(Debug, PartialEq)]
pub struct Network {
    /// pasta and its arguments.
    pub argv: Vec<String>,
    /// The id that pasta runs as.
    pub user: u32,
    pub rules: Vec<Rule>,
}

/// Limits and roles of the control group below `parent`.
#[derive(Debug, PartialEq)]
pub struct Group {
    pub parent: String,
    pub files: Vec<Setting>,
    /// This group counts OOM kills.
    pub oom: Option<Version>,
    pub freezer: Option<Version>,
}

#[derive(Debug, PartialEq, Clone, Copy)]
pub enum Version {
    V1,
    V2,
}

#[derive(Debug, PartialEq)]
pub struct Setting {
    pub name: String,
    pub value: String,
    /// Not every kernel has this file (swap limits).
    pub optional: bool,
}

/// A folder, or a file with this text.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// Relative to the sandbox's root.
    pub path: String,
    pub text: Option<String>,
    /// A file of the image, which comes before the text. It is too large for the task.
    pub source: Option<String>,
    /// The id inside the sandbox.
    pub owner: u32,
    /// `None`: 0755 for a folder, 0644 for a file.
    pub mode: Option<u32>,
}

/// The source of a bind mount in `config.json`, mounted in the stage as `name`.
#[derive(Debug, PartialEq)]
pub struct Bind {
    pub name: String,
    pub source: String,
    pub read_only: bool,
    /// Reject symlinks in the source: another sandbox may have planted them.
    pub exact: bool,
    /// The source is a file that contains a file system. Its folder `data` is mounted.
    pub file_system: bool,
    pub owners: Owners,
    /// Set if the sandbox's root may write to it, as a layer above the host's files (`writable_programs`).
    pub programs: Option<Programs>,
}

#[derive(Debug, PartialEq)]
pub struct Programs {
    /// Its name below the sandbox's root, such as `usr`.
    pub folder: String,
    /// A folder with the public folders of the source.
    pub folders: String,
    /// Paths that do not show, relative to the source.
    pub hidden: Vec<String>,
}

/// How file owners of a bind mount appear inside.
#[derive(Debug, PartialEq, Clone, Copy)]
pub enum Owners {
    /// As `nobody`: the host's ids are not mapped.
    Host,
    /// Owner n on the host is owner n in the sandbox.
    Range,
    /// The owner of the folder appears as this user and group of the sandbox; all others as `nobody`.
    Folder { uid: u32, gid: u32 },
}

impl Task {
    /// In an account's user namespace every id belongs to the account.
    pub fn parse(text: &str, account: bool) -> Result<Task, String> {
        let json = Json::parse(text)?;
        let version = number(&json, "version")?;
        if version != VERSION {
            return Err(format!(
                "task: version {version} is not supported; this shim supports version {VERSION}"
            ));
        }
        let task = Task {
            witness: path(&json, "witness")?,
            socket: path(&json, "socket")?,
            state: path(&json, "state")?,
            end: path(&json, "end")?,
            first_id: id(&json, "firstId")?,
            first_inside: id(&json, "firstInside")?,
            ids: id(&json, "ids")?,
            user_limits: list(&json, "userLimits", user_limit)?,
            groups: list(&json, "groups", group)?,
            layers: list(&json, "layers", text_item)?,
            written: number(&json, "written")? as usize,
            skeleton: list(&json, "skeleton", entry)?,
            disk: path(&json, "disk")?,
            template: match json.get("template") {
                None | Some(Json::Null) => None,
                Some(_) => Some(path(&json, "template")?),
            },
            volatile: flag(&json, "volatile")?,
            binds: list(&json, "binds", bind)?,
            config: string(&json, "config")?,
            capabilities: number(&json, "capabilities")? as u64,
            network: match json.get("network") {
                None | Some(Json::Null) => None,
                Some(network) => Some(parse_network(network)?),
            },
            egress: match json.get("egress") {
                None | Some(Json::Null) => None,
                Some(egress) => Some(parse_egress(egress)?),
            },
            ready_timeout_ms: number(&json, "readyTimeoutMs")?,
        };
        // Id 0 of the host inside a sandbox would defeat all other protections.
        let least = if account { 0 } else { 65536 };
        if task.first_id < least || task.ids == 0 || task.first_id.checked_add(task.ids).is_none() {
            return Err("task: ids of a sandbox must be above 65535 and below 2^32".to_owned());
        }
        if task.network.as_ref().is_some_and(|network| network.user < least) {
            return Err("task: network: pasta must not run as a user of the host".to_owned());
        }
        if task.network.is_some() && task.egress.is_some() {
            return Err("task: network and egress exclude each other".to_owned());
        }
        let outside =
            |bind: &Bind| matches!(bind.owners, Owners::Folder { uid, gid } if uid.max(gid) >= task.ids);
        if !account && task.binds.iter().any(outside) {
            return Err("task: binds: idMapped: not an id of the sandbox".to_owned());
        }
        if task.written > task.layers.len() {
            return Err("task: written: exceeds the number of layers".to_owned());
        }
        if task.layers.is_empty() || (task.groups.is_empty() && !account) {
            return Err("task: layers and groups must not be empty".to_owned());
        }
        Ok(task)
    }
}

fn parse_network(json: &Json) -> Result<Network, String> {
    Ok(Network {
        argv: list(json, "argv", text_item)?,
        user: id(json, "user")?,
        rules: list(json, "rules", |rule| fence::parse(&text_item(rule)?))?,
    })
}

fn parse_egress(json: &Json) -> Result<egress::Place, String> {
    Ok(egress::Place {
        socket: path(json, "socket")?,
        owner: match json.get("owner") {
            None | Some(Json::Null) => None,
            Some(owner) => Some((id(owner, "uid")?, id(owner, "gid")?)),
        },
    })
}

fn group(json: &Json) -> Result<Group, String> {
    Ok(Group {
        parent: path(json, "parent")?,
        files: list(json, "files", setting)?,
        oom: version(json, "oom")?,
        freezer: version(json, "freezer")?,
    })
}

fn user_limit(json: &Json) -> Result<Limit, String> {
    let name = string(json, "name")?;
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        return Err(format!("task: userLimits: '{name}' is not a file name"));
    }
    let value = u64::try_from(number(json, "value")?);
    Ok((
        name,
        value.map_err(|_| "task: userLimits: must be a number from 0")?,
    ))
}

fn version(json: &Json, name: &str) -> Result<Option<Version>, String> {
    match json.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Number(1)) => Ok(Some(Version::V1)),
        Some(Json::Number(2)) => Ok(Some(Version::V2)),
        _ => Err(format!("task: groups: {name}: must be 1, 2 or absent")),
    }
}

fn entry(json: &Json) -> Result<Entry, String> {
    let path = string(json, "path")?;
    // The shim creates it as root, so it must not lead out of the skeleton.
    if path
        .split('/')
        .any(|part| part.is_empty() || part == "." || part == "..")
    {
        return Err(format!("task: skeleton: '{path}' is not a plain relative path"));
    }
    let text = match json.get("text") {
        None | Some(Json::Null) => None,
        _ => Some(string(json, "text")?),
    };
    let source = match json.get("source") {
        None | Some(Json::Null) => None,
        _ => Some(string(json, "source")?),
    };
    let owner = id(json, "owner")?;
    let mode = match json.get("mode") {
        None | Some(Json::Null) => None,
        Some(_) => Some(id(json, "mode")?),
    };
    // Set-user-ID and set-group-ID bits have no place in generated files.
    if mode.is_some_and(|mode| mode & !0o1777 != 0) {
        return Err("task: skeleton: mode: at most 1777".to_owned());
    }
    Ok(Entry {
        path,
        text,
        source,
        owner,
        mode,
    })
}

fn setting(json: &Json) -> Result<Setting, String> {
    let name = string(json, "name")?;
    if name.contains('/') {
        return Err(format!("task: groups: '{name}' is not a file name"));
    }
    Ok(Setting {
        name,
        value: string(json, "value")?,
        optional: flag(json, "optional")?,
    })
}

fn bind(json: &Json) -> Result<Bind, String> {
    let name = string(json, "name")?;
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(format!("task: binds: '{name}' is not a plain name"));
    }
    Ok(Bind {
        name,
        source: path(json, "source")?,
        read_only: flag(json, "readOnly")?,
        exact: matches!(json.get("exact"), Some(Json::Bool(true))),
        file_system: flag(json, "fileSystem")?,
        owners: match json.get("idMapped") {
            Some(user @ Json::Map(_)) => Owners::Folder {
                uid: id(user, "uid")?,
                gid: id(user, "gid")?,
            },
            _ if flag(json, "idMapped")? => Owners::Range,
            _ => Owners::Host,
        },
        programs: match json.get("programs") {
            None | Some(Json::Null) => None,
            Some(programs) => Some(parse_programs(programs)?),
        },
    })
}

fn parse_programs(json: &Json) -> Result<Programs, String> {
    let programs = Programs {
        folder: string(json, "folder")?,
        folders: path(json, "folders")?,
        hidden: list(json, "hidden", text_item)?,
    };
    let all = programs.hidden.iter().map(String::as_str);
    for part in all
        .flat_map(|path| path.split('/'))
        .chain([programs.folder.as_str()])
    {
        // The shim creates these names as root, and they are parts of the overlay's options.
        if part.is_empty() || part == "." || part == ".." || part.contains(['/', ':', ',', '\\']) {
            return Err(format!("task: binds: programs: '{part}' is not a plain name"));
        }
    }
    Ok(programs)
}

fn string(json: &Json, name: &str) -> Result<String, String> {
    match json.get(name) {
        Some(Json::Text(text)) if !text.contains('\0') => Ok(text.clone()),
        _ => Err(format!("task: {name}: must be a string")),
    }
}

pub fn path(json: &Json, name: &str) -> Result<String, String> {
    string(json, name)?
        .strip_prefix('/')
        .map(|rest| format!("/{rest}"))
        .ok_or_else(|| format!("task: {name}: must be an absolute path"))
}

pub fn number(json: &Json, name: &str) -> Result<i64, String> {
    match json.get(name) {
        Some(Json::Number(number)) => Ok(*number),
        _ => Err(format!("task: {name}: must be an integer")),
    }
}

fn id(json: &Json, name: &str) -> Result<u32, String> {
    u32::try_from(number(json, name)?).map_err(|_| format!("task: {name}: must be an id"))
}

fn flag(json: &Json, name: &str) -> Result<bool, String> {
    match json.get(name) {
        Some(Json::Bool(value)) => Ok(*value),
        _ => Err(format!("task: {name}: must be true or false")),
    }
}

pub fn list<T>(json: &Json, name: &str, item: impl Fn(&Json) -> Result<T, String>) -> Result<Vec<T>, String> {
    match json.get(name) {
        Some(Json::List(items)) => items.iter().map(item).collect(),
        _ => Err(format!("task: {name}: must be a list")),
    }
}

pub fn text_item(json: &Json) -> Result<String, String> {
    match json {
        Json::Text(text) if !text.contains('\0') => Ok(text.clone()),
        _ => Err("task: must be a list of strings".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"version":5,"witness":"/w","socket":"/so","state":"/st","end":"/e",
        "firstId":268435456,"firstInside":0,"ids":65536,"userLimits":[{"name":"max_inotify_instances","value":128}],"groups":[{"parent":"/g","oom":1,"freezer":null,"files":[{"name":"f","value":"1","optional":false}]}],
        "layers":["/l"],"written":0,"skeleton":[{"path":"etc/hosts","text":"h","owner":0}],"disk":"/d","template":null,"volatile":true,"binds":[],
        "config":"{}","capabilities":224,"network":null,"egress":null,"readyTimeoutMs":1000}"#;

    #[test]
    fn a_task_is_parsed() {
        let task = Task::parse(GOOD, false).unwrap();
        assert_eq!(
            (task.first_id, task.groups[0].oom, task.network),
            (0x1000_0000, Some(Version::V1), None)
        );
    }

    #[test]
    fn a_policy_names_the_socket_and_its_owner() {
        let with = |egress: &str| {
            let text = GOOD.replace("\"egress\":null", &format!("\"egress\":{egress}"));
            Task::parse(&text, false).unwrap().egress
        };
        let place = |owner| {
            let socket = "/s".to_owned();
            Some(egress::Place { socket, owner })
        };
        assert_eq!(with("null"), None);
        assert_eq!(with(r#"{"socket":"/s","owner":null}"#), place(None));
        assert_eq!(
            with(r#"{"socket":"/s","owner":{"uid":7,"gid":8}}"#),
            place(Some((7, 8)))
        );
    }

    #[test]
    fn a_folder_owner_maps_to_a_user_of_the_sandbox() {
        let with = |ids: &str| {
            let bind = format!(
                r#""binds":[{{"name":"b","source":"/s","readOnly":false,"fileSystem":false,"idMapped":{ids}}}]"#
            );
            Task::parse(&GOOD.replace("\"binds\":[]", &bind), false).map(|task| task.binds[0].owners)
        };
        assert_eq!(
            with(r#"{"uid":1000,"gid":1001}"#),
            Ok(Owners::Folder { uid: 1000, gid: 1001 })
        );
        assert_eq!(with("true"), Ok(Owners::Range));
        assert_eq!(with("false"), Ok(Owners::Host));
        for bad in [
            r#"{"uid":1000}"#,
            r#"{"uid":65536,"gid":0}"#,
            r#"{"uid":-1,"gid":0}"#,
            "null",
            "1",
        ] {
            assert!(with(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn invalid_tasks_are_rejected() {
        for (good, bad) in [
            ("\"version\":5", "\"version\":4"),
            ("max_inotify_instances", "../x"),
            ("\"value\":128", "\"value\":-1"),
            ("268435456", "0"),
            ("268435456", "1000"),
            ("268435456", "4294950000"),
            ("\"ids\":65536", "\"ids\":0"),
            ("\"/w\"", "\"w\""),
            ("\"written\":0", "\"written\":2"),
            ("etc/hosts", "etc/../../hosts"),
            ("etc/hosts", "/etc/hosts"),
            ("[\"/l\"]", "[]"),
            ("\"name\":\"f\"", "\"name\":\"../f\""),
            ("\"oom\":1", "\"oom\":3"),
            (
                "\"network\":null",
                r#""network":{"argv":["/pasta"],"user":0,"rules":["own"]}"#,
            ),
            (
                "\"network\":null",
                r#""network":{"argv":["/pasta"],"user":268435456,"rules":["accept everything"]}"#,
            ),
            ("\"egress\":null", r#""egress":{"socket":"s.sock"}"#),
            (
                "\"egress\":null",
                r#""egress":{"socket":"/s","owner":{"uid":-1,"gid":0}}"#,
            ),
            (
                "\"network\":null,\"egress\":null",
                r#""network":{"argv":["/pasta"],"user":268435456,"rules":[]},"egress":{"socket":"/s"}"#,
            ),
        ] {
            assert!(GOOD.contains(good));
            assert!(Task::parse(&GOOD.replace(good, bad), false).is_err(), "{bad}");
        }
    }
}
