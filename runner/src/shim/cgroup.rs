//! Control groups: v1 (one folder per controller), v2 (one folder), or both. The engine chooses the parent
//! folders and the limits.
//!
//! The order matters. The process that becomes the runtime creates and joins the groups before anything of a
//! sandbox exists. The shim then sets the limits, and only then tells that process what to start. Any
//! failure ends the start. A runtime that joins later, or ignores errors, would run without limits for a
//! while or forever.
//!
//! A group is named after its shim, `<pid>-<start time>`, which is unique. So a group whose shim is dead can
//! be removed. The shim reaches the groups through descriptors of their parents, because some parents are
//! hidden from the runtime and the shim.

use super::host_proc;
use super::task::{Group, Version};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

pub struct Groups {
    pub name: String,
    parents: Vec<Parent>,
    oom: Option<(String, Version)>,
    freezer: Option<(String, Version)>,
}

struct Parent {
    path: String,
    folder: OwnedFd,
}

/// Longer than the kernel needs to stop all threads.
const FREEZE_TIME: Duration = Duration::from_secs(10);

impl Groups {
    /// Creates every group, or none. A group that already exists belongs to another process: it is neither
    /// used nor removed.
    pub fn make(parents: &[String], name: String) -> Result<Groups, String> {
        let mut groups = Groups {
            name,
            parents: Vec::new(),
            oom: None,
            freezer: None,
        };
        for path in parents {
            let made = host_proc::open(path, libc::O_PATH | libc::O_DIRECTORY).and_then(|folder| {
                let parent = Parent {
                    path: path.clone(),
                    folder,
                };
                fs::create_dir(groups.folder(&parent)).map(|()| parent)
            });
            match made {
                Ok(parent) => groups.parents.push(parent),
                Err(error) => {
                    let left = groups.remove();
                    return Err(format!(
                        "cannot create a control group in {path}: {error}{}",
                        left.map_or_else(
                            |also| format!("; cleanup also failed: {also}"),
                            |()| String::new()
                        )
                    ));
                }
            }
        }
        Ok(groups)
    }

    /// The calling process, which is single-threaded, joins all groups.
    pub fn join(&self) -> Result<(), String> {
        for parent in &self.parents {
            fs::write(format!("{}/cgroup.procs", self.folder(parent)), "0")
                .map_err(|error| format!("cannot join a control group in {}: {error}", parent.path))?;
        }
        Ok(())
    }

    /// Sets the limits of one sandbox. `wanted` must name exactly these groups.
    pub fn limit(&mut self, wanted: &[Group]) -> Result<(), String> {
        let mut asked: Vec<&String> = wanted.iter().map(|group| &group.parent).collect();
        let mut made: Vec<&String> = self.parents.iter().map(|parent| &parent.path).collect();
        asked.sort();
        made.sort();
        if asked != made {
            return Err("task: groups: do not match those of the setup".to_owned());
        }
        for group in wanted {
            let parent = self.parents.iter().find(|parent| parent.path == group.parent);
            let folder = self.folder(parent.ok_or("task: groups: do not match those of the setup")?);
            for setting in &group.files {
                let path = Path::new(&folder).join(&setting.name);
                match fs::write(&path, &setting.value) {
                    Err(error) if setting.optional && missing(&error) => {}
                    Err(error) => {
                        return Err(format!(
                            "cannot set control group limit {}: {error}",
                            setting.name
                        ));
                    }
                    Ok(()) => {}
                }
            }
            self.oom = self
                .oom
                .take()
                .or_else(|| group.oom.map(|version| (folder.clone(), version)));
            self.freezer = self
                .freezer
                .take()
                .or_else(|| group.freezer.map(|version| (folder.clone(), version)));
        }
        Ok(())
    }

    /// How many processes the kernel killed for memory, by its own count.
    pub fn oom_kills(&self) -> Option<i64> {
        let (folder, version) = self.oom.as_ref()?;
        let file = match version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = fs::read_to_string(Path::new(folder).join(file)).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    pub fn can_freeze(&self) -> bool {
        self.freezer.is_some()
    }

    pub fn is_frozen(&self) -> bool {
        self.freezer.as_ref().is_some_and(|(folder, version)| {
            let (file, sign) = match version {
                Version::V1 => ("freezer.self_freezing", "1"),
                Version::V2 => ("cgroup.freeze", "1"),
            };
            fs::read_to_string(Path::new(folder).join(file)).is_ok_and(|text| text.trim() == sign)
        })
    }

    /// Returns when all processes of the sandbox are frozen.
    pub fn freeze(&self) -> Result<(), String> {
        let Some((folder, version)) = &self.freezer else {
            return Err("no control group has a freezer".to_owned());
        };
        let (file, value, state, done) = match version {
            Version::V1 => ("freezer.state", "FROZEN", "freezer.state", "FROZEN"),
            Version::V2 => ("cgroup.freeze", "1", "cgroup.events", "frozen 1"),
        };
        let at = |error: io::Error| format!("cannot freeze the sandbox: {error}");
        fs::write(Path::new(folder).join(file), value).map_err(at)?;
        let deadline = Instant::now() + FREEZE_TIME;
        while !fs::read_to_string(Path::new(folder).join(state))
            .map_err(at)?
            .lines()
            .any(|line| line == done)
        {
            if Instant::now() > deadline {
                self.thaw();
                return Err("the sandbox was not frozen within 10 seconds".to_owned());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// In a v1 freezer, SIGKILL takes effect only after thawing. So send SIGKILL first: processes then die
    /// before they run again.
    pub fn thaw(&self) {
        if let Some((folder, version)) = &self.freezer {
            let (file, value) = match version {
                Version::V1 => ("freezer.state", "THAWED"),
                Version::V2 => ("cgroup.freeze", "0"),
            };
            // Fails only if nothing is frozen or the group is gone.
            let _ = fs::write(Path::new(folder).join(file), value);
        }
    }

    /// Removes the groups. All processes are reaped, but the kernel may need a moment to notice.
    pub fn remove(&self) -> Result<(), String> {
        let mut failed = Ok(());
        for parent in &self.parents {
            let path = self.folder(parent);
            for attempt in 0.. {
                match fs::remove_dir(&path) {
                    Ok(()) => break,
                    Err(error) if missing(&error) => break,
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) && attempt < 200 => {
                        std::thread::sleep(Duration::from_millis(if attempt < 10 { 1 } else { 10 }));
                    }
                    Err(error) => {
                        failed = Err(format!(
                            "cannot remove control group {} in {}: {error}",
                            self.name, parent.path
                        ));
                        break;
                    }
                }
            }
        }
        failed
    }

    fn folder(&self, parent: &Parent) -> String {
        format!("/proc/self/fd/{}/{}", parent.folder.as_raw_fd(), self.name)
    }
}

fn missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::super::task::Setting;
    use super::*;

    fn parents(name: &str, folders: &[&str]) -> (std::path::PathBuf, Vec<String>) {
        let root = std::env::temp_dir().join(format!("shim-{name}-{}", std::process::id()));
        let paths = folders.iter().map(|folder| root.join(folder));
        let paths = paths.inspect(|path| fs::create_dir_all(path).unwrap());
        (
            root.clone(),
            paths.map(|path| path.to_string_lossy().into_owned()).collect(),
        )
    }

    fn group(parent: &str, file: &str, oom: Option<Version>, freezer: Option<Version>) -> Group {
        let files = vec![Setting {
            name: file.into(),
            value: "7".into(),
            optional: false,
        }];
        Group {
            parent: parent.into(),
            files,
            oom,
            freezer,
        }
    }

    #[test]
    fn groups_are_created_joined_limited_and_removed() {
        let (root, both) = parents("cgroup", &["m", "f"]);
        let mut groups = Groups::make(&both, "1-2".into()).unwrap();
        // A group of this name is a leftover or belongs to another shim: refused and untouched.
        assert!(Groups::make(&both, "1-2".into()).is_err());
        groups.join().unwrap();
        assert_eq!(fs::read_to_string(root.join("f/1-2/cgroup.procs")).unwrap(), "0");
        let wanted = [
            group(&both[0], "max", Some(Version::V2), None),
            group(&both[1], "other", None, Some(Version::V1)),
        ];
        assert!(groups.limit(&wanted[..1]).is_err());
        groups.limit(&wanted).unwrap();
        assert_eq!(fs::read_to_string(root.join("m/1-2/max")).unwrap(), "7");
        assert_eq!(groups.oom_kills(), None);
        fs::write(
            root.join("m/1-2/memory.events"),
            "low 0\noom 3\noom_kill 2\noom_group_kill 9\n",
        )
        .unwrap();
        assert_eq!(groups.oom_kills(), Some(2));
        groups.freeze().unwrap();
        assert_eq!(
            fs::read_to_string(root.join("f/1-2/freezer.state")).unwrap(),
            "FROZEN"
        );
        groups.thaw();
        assert_eq!(
            fs::read_to_string(root.join("f/1-2/freezer.state")).unwrap(),
            "THAWED"
        );
        fs::remove_dir_all(&root).unwrap();
        assert!(groups.remove().is_ok());
        assert!(Groups::make(&both, "1-2".into()).is_err());
    }

    #[test]
    fn a_limit_that_cannot_be_set_is_an_error() {
        let (root, parents) = parents("limit", &["m"]);
        let mut groups = Groups::make(&parents, "1-2".into()).unwrap();
        assert!(
            groups
                .limit(&[group(&parents[0], "no/such", None, None)])
                .is_err()
        );
        groups.remove().unwrap();
        assert!(!root.join("m/1-2").exists());
        fs::remove_dir_all(&root).unwrap();
    }
}
