//! Control groups: v1 (one folder per controller), v2 (one folder), or both. The engine says below which folders, and with which limits.
//!
//! The order is the point: a group is made and joined by the process that becomes the runtime while nothing of a sandbox exists, then limited, and
//! only then is that process told what to start. Any failure ends the start. (A runtime that attaches afterwards, and goes on when it cannot, runs
//! its first moments, or its whole life, without limits.)
//!
//! They are named after the shim, `<pid>-<start time>`, which no other process ever has at once: whoever finds a group whose shim is dead may
//! take it away. We reach them through descriptors of their parents: some of these are hidden from the runtime, and so from us.

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

/// The kernel stops threads one by one; a machine that needs longer than this for it is stuck.
const FREEZE_TIME: Duration = Duration::from_secs(10);

impl Groups {
    /// Makes every group, or none. One that is there already is somebody's: it is neither used nor removed.
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
                        "control group in {path}: {error}{}",
                        left.map_or_else(|also| format!("; and then {also}"), |()| String::new())
                    ));
                }
            }
        }
        Ok(groups)
    }

    /// The calling process, which has one thread, joins all of them.
    pub fn join(&self) -> Result<(), String> {
        for parent in &self.parents {
            fs::write(format!("{}/cgroup.procs", self.folder(parent)), "0")
                .map_err(|error| format!("joining a control group in {}: {error}", parent.path))?;
        }
        Ok(())
    }

    /// Sets the limits of one sandbox. They must be about just these groups.
    pub fn limit(&mut self, wanted: &[Group]) -> Result<(), String> {
        let mut asked: Vec<&String> = wanted.iter().map(|group| &group.parent).collect();
        let mut made: Vec<&String> = self.parents.iter().map(|parent| &parent.path).collect();
        asked.sort();
        made.sort();
        if asked != made {
            return Err("task: groups: not those of the setup".to_owned());
        }
        for group in wanted {
            let parent = self.parents.iter().find(|parent| parent.path == group.parent);
            let folder = self.folder(parent.ok_or("task: groups: not those of the setup")?);
            for setting in &group.files {
                let path = Path::new(&folder).join(&setting.name);
                match fs::write(&path, &setting.value) {
                    Err(error) if setting.optional && missing(&error) => {}
                    Err(error) => return Err(format!("control group: {}: {error}", setting.name)),
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

    /// How many processes the kernel killed for memory: its own count, not a guess from an exit code.
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

    /// Returns when no process in there runs any more.
    pub fn freeze(&self) -> Result<(), String> {
        let Some((folder, version)) = &self.freezer else {
            return Err("there is no freezer".to_owned());
        };
        let (file, value, state, done) = match version {
            Version::V1 => ("freezer.state", "FROZEN", "freezer.state", "FROZEN"),
            Version::V2 => ("cgroup.freeze", "1", "cgroup.events", "frozen 1"),
        };
        let at = |error: io::Error| format!("freezing: {error}");
        fs::write(Path::new(folder).join(file), value).map_err(at)?;
        let deadline = Instant::now() + FREEZE_TIME;
        while !fs::read_to_string(Path::new(folder).join(state))
            .map_err(at)?
            .lines()
            .any(|line| line == done)
        {
            if Instant::now() > deadline {
                self.thaw();
                return Err("it could not be frozen in time".to_owned());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// What is frozen in a v1 freezer does not die from SIGKILL: thaw after the signal, so that it dies before it runs again.
    pub fn thaw(&self) {
        if let Some((folder, version)) = &self.freezer {
            let (file, value) = match version {
                Version::V1 => ("freezer.state", "THAWED"),
                Version::V2 => ("cgroup.freeze", "0"),
            };
            // Where there is nothing frozen, or no group any more, there is nothing to thaw.
            let _ = fs::write(Path::new(folder).join(file), value);
        }
    }

    /// Takes the groups away. All processes are dead and reaped by now; the kernel may still need a moment to notice.
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
                        failed = Err(format!("control group {} in {}: {error}", self.name, parent.path));
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
    fn plain_folders_stand_in() {
        let (root, both) = parents("cgroup", &["m", "f"]);
        let mut groups = Groups::make(&both, "1-2".into()).unwrap();
        // Twice is a leftover or another shim of this name: refused, and left alone.
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
    fn a_limit_that_cannot_be_set_ends_the_start() {
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
