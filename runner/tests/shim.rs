//! `runner shim` from outside: what it does with a task that it must not follow. (What it does with a good one is tested where good ones are
//! written: `packages/engine/src/isolators/oci`.)

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn shim(task: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_runner"))
        .arg("shim")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    // A shim that refuses early may not read all of it.
    let _ = child.stdin.take().expect("piped").write_all(task.as_bytes());
    child.wait_with_output().expect("our own child")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A task in an empty temporary folder; `root` is its path.
fn task(root: &str) -> String {
    format!(
        r#"{{"version":1,"id":"test","runtime":"/bin/false","stage":"{root}/stage","witness":"{root}/run/witness","state":"{root}/state",
        "end":"{root}/end","firstId":268435456,"ids":65536,"groups":[{{"path":"{root}/group","use":"limit","files":[]}}],"hide":[],
        "layers":["{root}/layer"],"upper":"{root}/upper","work":"{root}/work","volatile":true,"binds":[],"config":"{{}}","capabilities":224,
        "network":null,"readyTimeoutMs":5000}}"#
    )
}

struct Folder(String);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("shim-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("run")).expect("a fresh name");
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
fn a_task_that_is_none_is_refused_with_a_reason() {
    for (text, reason) in [
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "version"),
        (r#"{"version":99}"#, "version 99"),
        (&task("/x").replace("268435456", "0"), "ids start above"),
        (&task("/x").replace("268435456", "1000"), "ids start above"),
        (&task("/x").replace(r#""id":"test""#, r#""id":"../test""#), "id"),
        (&task("/x").replace(r#""/bin/false""#, r#""false""#), "absolute"),
    ] {
        let output = shim(text);
        assert!(!output.status.success(), "{text}");
        assert!(
            said(&output).starts_with(r#"{"error":"#) && said(&output).contains(reason),
            "{text}: {}",
            said(&output)
        );
    }
}

#[test]
fn a_start_that_fails_says_why_and_leaves_nothing() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let folder = Folder::new("fails");
    // The group is a plain folder here: joining it works, the layer that is not there ends it.
    let output = shim(&task(&folder.0));
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
fn a_group_of_the_same_name_is_not_taken_over() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let folder = Folder::new("taken");
    std::fs::create_dir(format!("{}/group", folder.0)).expect("a fresh folder");
    std::fs::write(format!("{}/group/kept", folder.0), "").expect("a fresh folder");
    let output = shim(&task(&folder.0));
    assert!(said(&output).contains("control group"), "{}", said(&output));
    assert!(std::path::Path::new(&format!("{}/group/kept", folder.0)).exists());
}
