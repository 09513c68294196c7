//! `runner shim` with invalid messages and failing starts. `packages/engine/src/isolators/oci` tests valid
//! tasks.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs a shim with these messages and then closes its input.
fn shim(messages: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_runner"))
        .arg("shim")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut input = child.stdin.take().expect("piped");
    for message in messages {
        // A shim that fails early does not read everything.
        let _ = input.write_all(&(message.len() as u32).to_be_bytes());
        let _ = input.write_all(message.as_bytes());
    }
    drop(input);
    child.wait_with_output().expect("the child")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A setup for the temporary folder `root`. The control group is a plain folder, which can be created and
/// joined like a real one.
fn setup(root: &str) -> String {
    format!(
        r#"{{"version":5,"runtime":"/bin/false","arguments":[],"runner":"/bin/true","stage":"{root}/stage","groups":["{root}/groups"],"hide":[],"readOnly":[]}}"#
    )
}

fn task(root: &str) -> String {
    format!(
        r#"{{"version":5,"witness":"{root}/run/witness","socket":"{root}/run/runner","state":"{root}/state","end":"{root}/end",
        "firstId":268435456,"firstInside":0,"ids":65536,"userLimits":[],"groups":[{{"parent":"{root}/groups","oom":null,"freezer":null,"files":[]}}],
        "layers":["{root}/layer"],"written":0,"skeleton":[],"disk":"{root}/disk","template":null,"volatile":true,"binds":[],"config":"{{}}",
        "capabilities":224,"network":null,"readyTimeoutMs":5000}}"#
    )
}

struct Folder(String);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("shim-{name}-{}", std::process::id()));
        for folder in ["run", "stage", "groups"] {
            std::fs::create_dir_all(path.join(folder)).expect("a new folder");
        }
        Folder(path.to_string_lossy().into_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

#[test]
fn an_invalid_setup_is_rejected_with_a_reason() {
    for (text, reason) in [
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "version"),
        (r#"{"version":99}"#, "version 99"),
        (&setup("/x").replace(r#""/bin/false""#, r#""false""#), "absolute"),
    ] {
        let output = shim(&[text]);
        assert!(!output.status.success(), "{text}");
        assert!(
            said(&output).starts_with(r#"{"error":"#) && said(&output).contains(reason),
            "{text}: {}",
            said(&output)
        );
    }
}

#[test]
fn an_invalid_task_is_rejected_with_a_reason() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let folder = Folder::new("refuses");
    let root = &folder.0;
    for (text, reason) in [
        ("", "JSON"),
        (r#"{"version":99}"#, "version 99"),
        (&task(root).replace("268435456", "0"), "must be above"),
        (&task(root).replace("268435456", "1000"), "must be above"),
        (&task(root).replace("/groups", "/others"), "groups"),
    ] {
        let output = shim(&[&setup(root), text]);
        assert!(
            said(&output).starts_with(r#"{"error":"#) && said(&output).contains(reason),
            "{text}: {}",
            said(&output)
        );
    }
}

/// A plain folder keeps the file that the join wrote, so rmdir cannot remove it. A real group has no such
/// file.
fn groups(folder: &Folder) -> usize {
    std::fs::read_dir(format!("{}/groups", folder.0)).map_or(0, Iterator::count)
}

#[test]
fn a_failed_start_reports_why_and_cleans_up() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let folder = Folder::new("fails");
    let output = shim(&[&setup(&folder.0), &task(&folder.0)]);
    // The layer does not exist.
    assert!(
        said(&output).contains(r#"{"error":"#) && said(&output).contains("layer"),
        "{}",
        said(&output)
    );
    for path in ["run", "state", "end"] {
        assert!(!std::path::Path::new(&folder.0).join(path).exists(), "{path}");
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("Linux");
    assert!(!mounts.contains(&folder.0));
}

#[test]
fn a_shim_without_a_task_exits_silently() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let folder = Folder::new("quiet");
    let output = shim(&[&setup(&folder.0).replace(&format!("\"{}/groups\"", folder.0), "")]);
    assert_eq!(said(&output), "");
    assert!(std::path::Path::new(&format!("{}/run", folder.0)).exists());
    assert_eq!(groups(&folder), 0);
}
