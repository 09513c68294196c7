//! What the engine asks of a shim: one JSON document on standard input (no secret in argv, where every user of the machine reads it).
//! The engine decides (which limits, which layers, what `config.json` says), the shim does; so the shim stays small and the policy is
//! in one place, under test in TypeScript (`packages/engine/src/isolators/oci/task.ts` is the writer).

use super::idmap::Limit;
use super::json::Json;
use crate::fence::{self, Rule};

pub const VERSION: i64 = 3;
/// Of the files `state` and `end`, which stay on the disk when an engine is replaced.
pub const RECORD_VERSION: i64 = 2;

#[derive(Debug, PartialEq)]
pub struct Task {
    /// Where the shim listens for `kill` and tells the end.
    pub witness: String,
    /// Where the runner is reached. The socket is made out here and handed in: nothing inside leads to it.
    pub socket: String,
    /// Where it says who it is, and how the sandbox ended.
    pub state: String,
    pub end: String,
    /// First id of the sandbox's range on the host, which id it is inside, and how many follow.
    pub first_id: u32,
    pub first_inside: u32,
    pub ids: u32,
    /// Files of `/proc/sys/user` and what they are set to in the sandbox's user namespace.
    pub user_limits: Vec<Limit>,
    pub groups: Vec<Group>,
    /// Lower layers, uppermost first.
    pub layers: Vec<String>,
    /// How many of the layers are above the skeleton: those that a sandbox has written.
    pub written: usize,
    /// Files that are this sandbox's own and made anew for each life, above the image.
    pub skeleton: Vec<Entry>,
    /// The folder that holds `upper` and `work`, or a file with a file system that holds them.
    pub disk: String,
    /// Such a file system, empty: what a disk that is not there yet begins as. None where the disk is a folder.
    pub template: Option<String>,
    pub volatile: bool,
    pub binds: Vec<Bind>,
    /// `config.json`, whole. It holds the environment, so it is written to memory only.
    pub config: String,
    /// Capabilities that PID 1 may have, as the kernel prints them.
    pub capabilities: u64,
    /// None: nothing but its own loopback.
    pub network: Option<Network>,
    pub ready_timeout_ms: i64,
}

/// How a sandbox reaches out, and what it may reach.
#[derive(Debug, PartialEq)]
pub struct Network {
    /// pasta, with its arguments.
    pub argv: Vec<String>,
    /// The id that pasta runs as.
    pub user: u32,
    pub rules: Vec<Rule>,
}

/// The limits of the control group below `parent`, and what else it is for.
#[derive(Debug, PartialEq)]
pub struct Group {
    pub parent: String,
    pub files: Vec<Setting>,
    /// Counts processes killed for memory.
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
    /// A file that not every kernel has (swap limits).
    pub optional: bool,
}

/// A folder, or a file with this text.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// Relative to the sandbox's root.
    pub path: String,
    pub text: Option<String>,
    /// Inside.
    pub owner: u32,
}

/// A source of a bind mount in `config.json`, placed below the stage under `name`.
#[derive(Debug, PartialEq)]
pub struct Bind {
    pub name: String,
    pub source: String,
    pub read_only: bool,
    /// The source has no symbolic link in it; one that is there now was put there by somebody else.
    pub exact: bool,
    pub owners: Owners,
}

/// How the owners of a bind mount's files show inside.
#[derive(Debug, PartialEq, Clone, Copy)]
pub enum Owners {
    /// As nobody: the host's ids have no name inside.
    Host,
    /// The host's owner n is the sandbox's owner n.
    Range,
    /// The owner of the mounted folder is this user and group of the sandbox; all others are nobody.
    Folder { uid: u32, gid: u32 },
}

impl Task {
    /// In an account's user namespace every id is one of the account's, whatever its number there.
    pub fn parse(text: &str, account: bool) -> Result<Task, String> {
        let json = Json::parse(text)?;
        let version = number(&json, "version")?;
        if version != VERSION {
            return Err(format!("task: version {version}; this shim knows {VERSION}"));
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
            ready_timeout_ms: number(&json, "readyTimeoutMs")?,
        };
        // Id 0 of the host inside a sandbox is the one mistake that undoes all else (facts: bwrap read /etc/shadow).
        let least = if account { 0 } else { 65536 };
        if task.first_id < least || task.ids == 0 || task.first_id.checked_add(task.ids).is_none() {
            return Err("task: a sandbox's ids start above 65535 and stay below 2^32".to_owned());
        }
        if task.network.as_ref().is_some_and(|network| network.user < least) {
            return Err("task: network: pasta would run as a user of the host".to_owned());
        }
        let outside =
            |bind: &Bind| matches!(bind.owners, Owners::Folder { uid, gid } if uid.max(gid) >= task.ids);
        if !account && task.binds.iter().any(outside) {
            return Err("task: binds: idMapped: the sandbox has no such user".to_owned());
        }
        if task.written > task.layers.len() {
            return Err("task: written: there are not so many layers".to_owned());
        }
        if task.layers.is_empty() || (task.groups.is_empty() && !account) {
            return Err("task: layers and groups are needed".to_owned());
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
        value.map_err(|_| "task: userLimits: a number from 0 is needed")?,
    ))
}

fn version(json: &Json, name: &str) -> Result<Option<Version>, String> {
    match json.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Number(1)) => Ok(Some(Version::V1)),
        Some(Json::Number(2)) => Ok(Some(Version::V2)),
        _ => Err(format!("task: groups: {name}: 1, 2 or nothing is needed")),
    }
}

fn entry(json: &Json) -> Result<Entry, String> {
    let path = string(json, "path")?;
    // It is made in a folder of ours, as root: no way leads out of there.
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
    let owner = id(json, "owner")?;
    Ok(Entry { path, text, owner })
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
        owners: match json.get("idMapped") {
            Some(user @ Json::Map(_)) => Owners::Folder {
                uid: id(user, "uid")?,
                gid: id(user, "gid")?,
            },
            _ if flag(json, "idMapped")? => Owners::Range,
            _ => Owners::Host,
        },
    })
}

fn string(json: &Json, name: &str) -> Result<String, String> {
    match json.get(name) {
        Some(Json::Text(text)) if !text.contains('\0') => Ok(text.clone()),
        _ => Err(format!("task: {name}: a text is needed")),
    }
}

pub fn path(json: &Json, name: &str) -> Result<String, String> {
    string(json, name)?
        .strip_prefix('/')
        .map(|rest| format!("/{rest}"))
        .ok_or_else(|| format!("task: {name}: an absolute path is needed"))
}

pub fn number(json: &Json, name: &str) -> Result<i64, String> {
    match json.get(name) {
        Some(Json::Number(number)) => Ok(*number),
        _ => Err(format!("task: {name}: an integer is needed")),
    }
}

fn id(json: &Json, name: &str) -> Result<u32, String> {
    u32::try_from(number(json, name)?).map_err(|_| format!("task: {name}: an id is needed"))
}

fn flag(json: &Json, name: &str) -> Result<bool, String> {
    match json.get(name) {
        Some(Json::Bool(value)) => Ok(*value),
        _ => Err(format!("task: {name}: true or false is needed")),
    }
}

pub fn list<T>(json: &Json, name: &str, item: impl Fn(&Json) -> Result<T, String>) -> Result<Vec<T>, String> {
    match json.get(name) {
        Some(Json::List(items)) => items.iter().map(item).collect(),
        _ => Err(format!("task: {name}: a list is needed")),
    }
}

pub fn text_item(json: &Json) -> Result<String, String> {
    match json {
        Json::Text(text) if !text.contains('\0') => Ok(text.clone()),
        _ => Err("task: a list of texts is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"version":3,"witness":"/w","socket":"/so","state":"/st","end":"/e",
        "firstId":268435456,"firstInside":0,"ids":65536,"userLimits":[{"name":"max_inotify_instances","value":128}],"groups":[{"parent":"/g","oom":1,"freezer":null,"files":[{"name":"f","value":"1","optional":false}]}],
        "layers":["/l"],"written":0,"skeleton":[{"path":"etc/hosts","text":"h","owner":0}],"disk":"/d","template":null,"volatile":true,"binds":[],
        "config":"{}","capabilities":224,"network":null,"readyTimeoutMs":1000}"#;

    #[test]
    fn a_task_is_read() {
        let task = Task::parse(GOOD, false).unwrap();
        assert_eq!(
            (task.first_id, task.groups[0].oom, task.network),
            (0x1000_0000, Some(Version::V1), None)
        );
    }

    #[test]
    fn the_owner_of_a_folder_is_mapped_to_a_user_of_the_sandbox() {
        let with = |ids: &str| {
            let bind = format!(r#""binds":[{{"name":"b","source":"/s","readOnly":false,"idMapped":{ids}}}]"#);
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
    fn bad_tasks_are_refused() {
        for (good, bad) in [
            ("\"version\":3", "\"version\":2"),
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
        ] {
            assert!(GOOD.contains(good));
            assert!(Task::parse(&GOOD.replace(good, bad), false).is_err(), "{bad}");
        }
    }
}
