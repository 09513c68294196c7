//! A scratch folder for tests, and a textual snapshot of everything visible in a tree.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("runner-tree-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).expect("our own folder");
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Unmount what a failed test left mounted.
        for line in fs::read_to_string("/proc/thread-self/mounts")
            .unwrap_or_default()
            .lines()
            .rev()
        {
            let target = Path::new(line.split(' ').nth(1).unwrap_or_default());
            if target.starts_with(&self.0) {
                // SAFETY: a C string that outlives the call.
                unsafe { libc::umount2(c(target).as_ptr(), libc::MNT_DETACH) };
            }
        }
        let _ = Command::new("rm").arg("-rf").arg(&self.0).status();
    }
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

pub fn tree(arguments: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_runner"))
        .arg("tree")
        .args(arguments)
        .output()
        .expect("the binary was built for this test")
}

/// Runs the command, which must succeed, and returns its response.
pub fn good(arguments: &[&OsStr]) -> String {
    let output = tree(arguments);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

pub fn sh(folder: &Path, script: &str) {
    let output = Command::new("bash")
        .args(["-euc", script])
        .current_dir(folder)
        .output()
        .expect("bash");
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

pub fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

pub fn set_attribute(path: &Path, name: &CStr, value: &[u8]) {
    // SAFETY: C strings, and a pointer with its length.
    let result = unsafe {
        libc::lsetxattr(
            c(path).as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    assert_eq!(
        result,
        0,
        "{path:?} {name:?}: {}",
        std::io::Error::last_os_error()
    );
}

/// Nested folders with names of 100 letters, and a hard link to `file` at the bottom.
pub fn make_deep(root: &Path, depth: usize, file: &Path) {
    let name = CString::new("d".repeat(100)).expect("no NUL");
    // SAFETY: C strings that outlive the calls; each descriptor is closed once.
    unsafe {
        let mut here = libc::open(c(root).as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
        for _ in 0..depth {
            assert_eq!(libc::mkdirat(here, name.as_ptr(), 0o755), 0);
            let below = libc::openat(here, name.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
            libc::close(here);
            here = below;
        }
        let linked = libc::linkat(libc::AT_FDCWD, c(file).as_ptr(), here, c"bottom".as_ptr(), 0);
        assert_eq!(linked, 0);
        libc::close(here);
    }
}

/// Unshares the mount namespace of this thread, so that all mounts end with it.
pub fn own_mounts() {
    // SAFETY: flags only; the other threads of the test keep their namespace.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let none = c"none".as_ptr();
        assert_eq!(
            libc::mount(none, c"/".as_ptr(), none, private, std::ptr::null()),
            0
        );
    }
}

/// Layers uppermost first; writable with `upper`.
pub fn overlay(target: &Path, layers: &[&Path], upper: Option<(&Path, &Path)>) {
    let lower: Vec<_> = layers
        .iter()
        .map(|layer| layer.to_str().expect("ASCII"))
        .collect();
    let mut options = format!("lowerdir={},xino=off", lower.join(":"));
    if let Some((upper, work)) = upper {
        options += &format!(",upperdir={},workdir={}", upper.display(), work.display());
    }
    let (target, options) = (c(target), CString::new(options).expect("no NUL"));
    let kind = c"overlay".as_ptr();
    // SAFETY: C strings that outlive the call.
    let result = unsafe { libc::mount(kind, target.as_ptr(), kind, 0, options.as_ptr().cast()) };
    assert_eq!(result, 0, "{options:?}: {}", std::io::Error::last_os_error());
}

pub fn unmount(target: &Path) {
    for _ in 0..200 {
        // SAFETY: a C string that outlives the call.
        if unsafe { libc::umount(c(target).as_ptr()) } == 0 {
            return;
        }
        // Another process that inspects all mounts can hold it briefly.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{}: {}", target.display(), std::io::Error::last_os_error());
}

/// Every name in a tree with its metadata and content. Hard links refer to the first name.
pub fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    look(root, Path::new(""), &mut seen);
    let mut first: HashMap<u64, PathBuf> = HashMap::new();
    let mut pictures = BTreeMap::new();
    for (name, (inode, text)) in seen {
        let group = first.entry(inode).or_insert_with(|| name.clone()).clone();
        pictures.insert(name, format!("{text} same as {}", group.display()));
    }
    pictures
}

fn look(root: &Path, name: &Path, seen: &mut BTreeMap<PathBuf, (u64, String)>) {
    let path = root.join(name);
    let facts = fs::symlink_metadata(&path).expect("there");
    let kind = facts.file_type();
    let (what, content) = if kind.is_file() {
        ("file", hash(&fs::read(&path).expect("readable")))
    } else if kind.is_dir() {
        ("folder", String::new())
    } else if kind.is_symlink() {
        ("link", format!("{:?}", fs::read_link(&path).expect("a link")))
    } else if kind.is_char_device() {
        ("char", format!("{:x}", facts.rdev()))
    } else if kind.is_block_device() {
        ("block", format!("{:x}", facts.rdev()))
    } else if kind.is_fifo() {
        ("fifo", String::new())
    } else {
        ("socket", String::new())
    };
    let size = if kind.is_dir() { 0 } else { facts.size() };
    let times = if kind.is_dir() && name.as_os_str().is_empty() {
        String::new()
    } else {
        // Without the access time, because reading changes it.
        format!("{}.{}", facts.mtime(), facts.mtime_nsec())
    };
    let text = format!(
        "{what} {:o} {}:{} {size} {content} {times} {:?}",
        facts.mode(),
        facts.uid(),
        facts.gid(),
        attributes(&path)
    );
    seen.insert(name.to_owned(), (facts.ino(), text));
    if kind.is_dir() {
        for entry in fs::read_dir(&path).expect("a folder") {
            look(root, &name.join(entry.expect("an entry").file_name()), seen);
        }
    }
}

/// Without attributes that a mount sets itself.
fn attributes(path: &Path) -> Vec<(String, Vec<u8>)> {
    let path = c(path);
    let mut names = vec![0u8; 65536];
    // SAFETY: the calls write at most the lengths that they are given.
    let length = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(length.max(0) as usize);
    let mut found: Vec<_> = names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let attribute = CString::new(name).expect("no NUL");
            let mut value = vec![0u8; 65536];
            // SAFETY: as above.
            let length = unsafe {
                libc::lgetxattr(
                    path.as_ptr(),
                    attribute.as_ptr(),
                    value.as_mut_ptr().cast(),
                    value.len(),
                )
            };
            value.truncate(length.max(0) as usize);
            (String::from_utf8_lossy(name).into_owned(), value)
        })
        .collect();
    found.sort();
    found
}

/// Fails with the names that differ.
pub fn same(one: &BTreeMap<PathBuf, String>, other: &BTreeMap<PathBuf, String>, what: &str) {
    let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differ: Vec<_> = names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name))
        .map(|name| format!("{name:?}: {:.300?} and {:.300?}", one.get(name), other.get(name)))
        .collect();
    assert!(differ.is_empty(), "{what}: {}", differ.join("\n"));
}

fn hash(bytes: &[u8]) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    format!("{state:x}")
}
