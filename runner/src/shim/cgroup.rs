//! Control groups, as the engine listed them: v1 (one folder per controller), v2 (one folder), or both.
//!
//! The order is the point: a group is made, then limited, then joined by the process that becomes the sandbox, and only then does that
//! process do anything else. Any failure ends the start. (A runtime that attaches afterwards, and goes on when it cannot, runs its first
//! moments, or its whole life, without limits.)

use super::task::{Group, Use};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Makes and limits every group, or none. A group that is there already is somebody's: it is neither used nor removed.
pub fn make(groups: &[Group]) -> Result<(), String> {
    for (made, group) in groups.iter().enumerate() {
        let result = fs::create_dir(&group.path).map_err(|error| (made, format!("{}: {error}", group.path)));
        if let Err((ours, message)) =
            result.and_then(|()| limit(group).map_err(|message| (made + 1, message)))
        {
            let left = remove(&groups[..ours]);
            return Err(format!(
                "control group {message}{}",
                left.map_or_else(|also| format!("; and then {also}"), |()| String::new())
            ));
        }
    }
    Ok(())
}

fn limit(group: &Group) -> Result<(), String> {
    for setting in &group.files {
        let path = Path::new(&group.path).join(&setting.name);
        match fs::write(&path, &setting.value) {
            Err(error) if setting.optional && missing(&error) => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// The calling process, which has one thread, joins all of them.
pub fn join(groups: &[Group]) -> Result<(), String> {
    for group in groups {
        let path = Path::new(&group.path).join("cgroup.procs");
        fs::write(&path, "0").map_err(|error| format!("joining {}: {error}", path.display()))?;
    }
    Ok(())
}

/// How many processes the kernel killed for memory: its own count, not a guess from an exit code.
pub fn oom_kills(groups: &[Group]) -> Option<i64> {
    groups.iter().find_map(|group| {
        let file = match group.what {
            Use::OomV1 => "memory.oom_control",
            Use::OomV2 => "memory.events",
            _ => return None,
        };
        let text = fs::read_to_string(Path::new(&group.path).join(file)).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    })
}

/// What is frozen in a v1 freezer does not die from SIGKILL: thaw after the signal, so that it dies before it runs again.
pub fn thaw(groups: &[Group]) {
    for group in groups.iter().filter(|group| group.what == Use::FreezerV1) {
        // Where there is nothing frozen, or no group yet, there is nothing to thaw.
        let _ = fs::write(Path::new(&group.path).join("freezer.state"), "THAWED");
    }
}

/// Takes the groups away. All processes are dead and reaped by now; the kernel may still need a moment to notice.
pub fn remove(groups: &[Group]) -> Result<(), String> {
    let mut failed = Ok(());
    for group in groups {
        for attempt in 0.. {
            match fs::remove_dir(&group.path) {
                Ok(()) => break,
                Err(error) if missing(&error) => break,
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && attempt < 200 => {
                    std::thread::sleep(Duration::from_millis(if attempt < 10 { 1 } else { 10 }));
                }
                Err(error) => {
                    failed = Err(format!("control group {}: {error}", group.path));
                    break;
                }
            }
        }
    }
    failed
}

fn missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::super::task::Setting;
    use super::*;

    #[test]
    fn plain_folders_stand_in() {
        let root = std::env::temp_dir().join(format!("shim-cgroup-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let setting = |name: &str, optional| Setting {
            name: name.into(),
            value: "7".into(),
            optional,
        };
        let group = |name: &str, files, what| Group {
            path: root.join(name).to_string_lossy().into_owned(),
            files,
            what,
        };
        let groups = [
            group("m", vec![setting("max", false)], Use::OomV2),
            group("f", vec![], Use::FreezerV1),
        ];
        make(&groups).unwrap();
        assert_eq!(fs::read_to_string(root.join("m/max")).unwrap(), "7");
        // Twice is a leftover or another sandbox of this name: refused.
        assert!(make(&groups).is_err());
        join(&groups).unwrap();
        assert_eq!(fs::read_to_string(root.join("f/cgroup.procs")).unwrap(), "0");
        assert_eq!(oom_kills(&groups), None);
        fs::write(
            root.join("m/memory.events"),
            "low 0\noom 3\noom_kill 2\noom_group_kill 9\n",
        )
        .unwrap();
        assert_eq!(oom_kills(&groups), Some(2));
        thaw(&groups);
        assert_eq!(
            fs::read_to_string(root.join("f/freezer.state")).unwrap(),
            "THAWED"
        );
        let absent = [group("gone/deeper", vec![], Use::Limit)];
        assert!(make(&absent).is_err());
        assert!(remove(&absent).is_ok());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_limit_that_cannot_be_set_ends_the_start() {
        let root = std::env::temp_dir().join(format!("shim-limit-{}", std::process::id()));
        let files = vec![Setting {
            name: "no/such".into(),
            value: "7".into(),
            optional: false,
        }];
        let groups = [Group {
            path: root.to_string_lossy().into_owned(),
            files,
            what: Use::Limit,
        }];
        assert!(make(&groups).is_err());
        assert!(remove(&groups).is_ok());
        assert!(!root.exists());
    }
}
