//! `runner unpack`, called like the engine calls it. These tests cover extended attributes, which Node
//! cannot read. `packages/engine/src/images` tests the rest, including hostile archives.

use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("unpack-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn header(name: &str, kind: u8, size: usize) -> Vec<u8> {
    let mut block = vec![0u8; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0000755");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[136..147].copy_from_slice(b"00000000000");
    block[156] = kind;
    block[257..263].copy_from_slice(b"ustar\0");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| *byte as u32).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(name, kind, content.len());
    bytes.extend(content);
    bytes.resize(bytes.len().div_ceil(512) * 512, 0);
    bytes
}

fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut content = Vec::new();
    for (key, value) in records {
        let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
        let mut len = rest.len() + 1;
        while len.to_string().len() + rest.len() != len {
            len = len.to_string().len() + rest.len();
        }
        content.extend(len.to_string().as_bytes());
        content.extend(rest);
    }
    entry("pax", b'x', &content)
}

fn unpack(folder: &Path, archive: &[u8], options: &[&str]) -> (bool, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_runner"))
        .arg("unpack")
        .arg(folder)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The process may exit early.
    let _ = child.stdin.take().unwrap().write_all(archive);
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let name = CString::new(name).unwrap();
    let mut value = vec![0u8; 256];
    // SAFETY: two C strings, and a pointer and length that describe `value`.
    let len = unsafe {
        libc::lgetxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    (len >= 0).then(|| value[..len as usize].to_vec())
}

fn is_root() -> bool {
    // SAFETY: takes nothing.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

#[test]
fn attributes_are_kept_except_those_of_overlayfs() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("attributes");
    // cap_net_raw+ep, as setcap writes it.
    let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut archive = pax(&[
        ("SCHILY.xattr.user.note", b"a\0b\nc"),
        ("SCHILY.xattr.security.capability", &capability),
        ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
        ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
    ]);
    archive.extend(entry("ping", b'0', b"x"));
    archive.extend(pax(&[("SCHILY.xattr.trusted.overlay.opaque", b"y")]));
    archive.extend(entry("plain", b'5', b""));
    archive.extend(entry("opaque", b'5', b""));
    archive.extend(entry("opaque/.wh..wh..opq", b'0', b""));
    let (ok, said) = unpack(&folder.0, &archive, &[]);
    assert!(ok, "{said}");
    assert!(
        said.contains("\"skippedAttributes\":4") && said.contains("\"opaque\":[\"opaque\"]"),
        "{said}"
    );
    let ping = folder.0.join("ping");
    assert_eq!(attribute(&ping, "user.note").as_deref(), Some(&b"a\0b\nc"[..]));
    assert_eq!(
        attribute(&ping, "security.capability").as_deref(),
        Some(&capability[..])
    );
    assert_eq!(attribute(&ping, "trusted.overlay.redirect"), None);
    assert_eq!(attribute(&ping, "user.overlay.redirect"), None);
    assert_eq!(attribute(&folder.0.join("plain"), "trusted.overlay.opaque"), None);
    assert_eq!(
        attribute(&folder.0.join("opaque"), "trusted.overlay.opaque").as_deref(),
        Some(&b"y"[..])
    );
}

#[test]
fn a_plain_archive_keeps_whiteout_names() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("plain");
    let (ok, said) = unpack(&folder.0, &entry(".wh.file", b'0', b"x"), &["--plain"]);
    assert!(ok, "{said}");
    assert_eq!(std::fs::read(folder.0.join(".wh.file")).unwrap(), b"x");
}

#[test]
fn an_invalid_archive_is_rejected_with_a_message() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("nonsense");
    for archive in [
        &[0xffu8; 1024][..],
        &header("x", b'0', 9)[..],
        &header("x", b'0', 9)[..300],
    ] {
        let (ok, said) = unpack(&folder.0, archive, &[]);
        assert!(!ok && said.starts_with("{\"error\":\""), "{said}");
    }
    let (ok, said) = unpack(Path::new("/no/such/folder"), b"", &[]);
    assert!(!ok && said.contains("\"code\":\"not_found\""), "{said}");
}
