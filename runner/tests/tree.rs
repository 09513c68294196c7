//! `runner tree` on hostile trees, and compared with the kernel's overlayfs.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use support::*;

/// Whether the test is skipped, because it needs root.
fn left_out() -> bool {
    if !is_root() {
        eprintln!("skipped: needs root");
    }
    !is_root()
}

fn copy(from: &Path, to: &Path) -> String {
    good(&[OsStr::new("copy"), from.as_os_str(), to.as_os_str()])
}

#[test]
fn a_copy_is_identical() {
    if left_out() {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.folder("from");
    sh(
        &from,
        r#"
        mkdir -p a/b opaque empty; echo one > a/one; ln a/one a/b/two; ln a/one three
        ln -s /etc/shadow link; ln link link2; ln -s ../../../.. a/up; mkfifo pipe; mknod gone c 0 0; mknod null c 1 3; mknod disk b 7 200
        ln gone gone2
        perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un("sock")) or die'
        truncate -s 64M holes; printf x | dd of=holes bs=1 seek=33554432 conv=notrunc status=none
        truncate -s 1M allhole; fallocate -l 1M unwritten
        printf 'a\nb' > "$(printf 'new\nline \377')"; echo > ' '; echo > -rf
        echo suid > suid; chown 1000:1000 suid a; chmod 6755 suid; chmod 1777 empty; chmod 0 a/one
        "#,
    );
    for (name, attribute, value) in [
        ("opaque", c"trusted.overlay.opaque", b"y".as_slice()),
        ("a/one", c"user.note", b"\0\x01binary"),
        ("a", c"trusted.overlay.origin", &[7; 200]),
        ("link", c"trusted.note", b"on a link"),
        ("empty", c"user.big", &[8; 3000]),
        (
            "suid",
            c"security.capability",
            b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ),
    ] {
        set_attribute(&from.join(name), attribute, value);
    }
    sh(
        &from,
        r#"
        touch -hd '1999-12-31 23:59:59.123456789' link; touch -d '2100-01-01 00:00:00.000000001' suid
        touch -ad '2001-01-01 01:01:01.5' a/one; touch -d '1971-01-01' a/b a
        "#,
    );
    let to = scratch.path("to");
    let read = |tree: &Path| {
        ["a", "a/b", "a/one", "suid", "holes", "pipe", "new\nline \u{ff}"].map(|name| {
            fs::metadata(tree.join(name))
                .map(|facts| (facts.atime(), facts.atime_nsec()))
                .ok()
        })
    };
    let before = read(&from);
    copy(&from, &to);
    assert_eq!(read(&to), before);
    assert_eq!(read(&from), before, "copying updates no access time");
    same(&picture(&to), &picture(&from), "the copy");
    let holes = |tree: &Path, name: &str| fs::metadata(tree.join(name)).unwrap().blocks();
    assert_eq!(holes(&to, "holes"), holes(&from, "holes"));
    assert_eq!(holes(&to, "allhole"), 0);
    assert_eq!(fs::metadata(to.join("three")).unwrap().nlink(), 3);
    assert!(!scratch.path("to.links").exists());
}

#[test]
fn disk_usage_is_measured() {
    let scratch = Scratch::new();
    let from = scratch.folder("from");
    sh(
        &from,
        "head -c 1000000 /dev/zero > big; ln big again; mkdir d; truncate -s 1G hole",
    );
    let said = good(&[OsStr::new("measure"), from.as_os_str()]);
    assert!(said.contains(r#""files":4}"#), "{said}");
    let bytes: u64 = said.split([':', ',']).nth(1).unwrap().parse().unwrap();
    assert!((1_000_000..1_100_000).contains(&bytes), "{said}");
    if is_root() {
        assert!(copy(&from, &scratch.path("to")).contains(r#""files":4}"#));
    }
}

#[test]
fn trees_deeper_than_path_max_work() {
    const DEPTH: usize = 6000;
    if left_out() {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.folder("from");
    fs::write(from.join("top"), "deep").unwrap();
    make_deep(&from, DEPTH, &from.join("top"));
    let to = scratch.path("to");
    let files = format!(r#""files":{}}}"#, DEPTH + 2);
    assert!(copy(&from, &to).contains(&files));
    assert!(good(&[OsStr::new("measure"), to.as_os_str()]).contains(&files));
    assert_eq!(fs::metadata(to.join("top")).unwrap().nlink(), 2);
    good(&[OsStr::new("remove"), from.as_os_str(), to.as_os_str()]);
    assert!(!from.exists() && !to.exists());
}

#[test]
fn concurrent_removals_of_one_tree_succeed() {
    let scratch = Scratch::new();
    let root = scratch.folder("root");
    sh(
        &root,
        "for i in {1..40}; do mkdir -p $i/{a,b,c}/{d,e,f}; touch $i/{a,b,c}/{d,e,f}/{1..9}; done",
    );
    std::thread::scope(|scope| {
        let removers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| good(&[OsStr::new("remove"), root.as_os_str()])))
            .collect();
        for remover in removers {
            remover.join().unwrap();
        }
    });
    assert!(!root.exists());
}

#[test]
fn a_failure_names_the_step_and_cleans_up() {
    let scratch = Scratch::new();
    let from = scratch.folder("from");
    let fails = |arguments: &[&OsStr], errno: i32| {
        let output = tree(arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success(), "{said}");
        assert!(
            said.starts_with(r#"{"error":""#) && said.lines().count() == 1,
            "{said}"
        );
        assert!(said.contains(&format!(r#""errno":{errno}}}"#)), "{said}");
    };
    let to = scratch.path("to");
    let copy = OsStr::new("copy");
    fails(
        &[copy, scratch.path("none").as_os_str(), to.as_os_str()],
        libc::ENOENT,
    );
    assert!(!to.exists());
    fails(&[copy, from.as_os_str(), from.as_os_str()], libc::EEXIST);
    fails(&[copy, from.as_os_str()], libc::EINVAL);
    fails(&[OsStr::new("burn"), from.as_os_str()], libc::EINVAL);
    fs::write(from.join("a\"b\\c\nd"), "").unwrap();
    if !is_root() {
        return;
    }
    own_mounts();
    sh(
        &scratch.0,
        "mkdir small; mount -t tmpfs -o size=1m none small; mkdir from/sub; head -c 2000000 /dev/zero > from/sub/big",
    );
    fails(
        &[copy, from.as_os_str(), scratch.path("small/to").as_os_str()],
        libc::ENOSPC,
    );
    assert!(!scratch.path("small/to").exists());
    // A symlink in place of a tree is not followed.
    std::os::unix::fs::symlink("from", scratch.path("link")).unwrap();
    fails(
        &[copy, scratch.path("link").as_os_str(), to.as_os_str()],
        libc::ENOTDIR,
    );
    good(&[OsStr::new("remove"), scratch.path("link").as_os_str()]);
    assert!(from.exists() && !scratch.path("link").exists());
    // A mount inside the tree is not part of it.
    sh(&scratch.0, "mkdir from/mounted; mount -t tmpfs none from/mounted");
    fails(&[copy, from.as_os_str(), to.as_os_str()], libc::EXDEV);
    good(&[OsStr::new("sync"), from.as_os_str()]);
}

/// In a folder that exists in no lower layer, the kernel lists a whiteout as a broken name.
#[test]
fn a_whiteout_without_a_target_is_dropped() {
    if left_out() {
        return;
    }
    let scratch = Scratch::new();
    let (upper, lower, ground) = (scratch.folder("2"), scratch.folder("1"), scratch.folder("0"));
    sh(
        &upper,
        "mkdir new old; mknod new/x c 0 0; mknod old/x c 0 0; echo > new/y",
    );
    sh(&lower, "mkdir new old; echo > new/x; echo > old/x; echo > old/y");
    sh(&ground, "mkdir old");
    let merge = |to: &str, onto: &[&OsStr]| {
        let to = scratch.path(to);
        let (upper, lower) = (upper.as_os_str(), lower.as_os_str());
        good(&[&[OsStr::new("squash"), to.as_os_str(), upper, lower], onto].concat());
        picture(&to)
            .into_keys()
            .map(|name| name.display().to_string())
            .collect::<Vec<_>>()
    };
    let known = merge("known", &[OsStr::new("--onto"), ground.as_os_str()]);
    assert_eq!(known, ["", "new", "new/y", "old", "old/x", "old/y"]);
    let unknown = merge("unknown", &[]);
    assert_eq!(unknown, ["", "new", "new/x", "new/y", "old", "old/x", "old/y"]);
}

/// Makes random changes to a real overlay, layer by layer. After merging any range of layers, the kernel
/// must show the same tree.
#[test]
fn merged_layers_show_the_same_tree() {
    if left_out() {
        return;
    }
    own_mounts();
    for seed in 1..=12 {
        merged(seed);
    }
}

fn merged(seed: u64) {
    const LAYERS: usize = 5;
    let scratch = Scratch::new();
    let mut random = Random(seed);
    let base = scratch.folder("base");
    change(&base, &mut random, 40);
    let mut layers = vec![base];
    for number in 0..LAYERS {
        let (upper, work) = (
            scratch.folder(&format!("layer{number}")),
            scratch.folder(&format!("work{number}")),
        );
        let view = scratch.folder("view");
        let below: Vec<&Path> = layers.iter().rev().map(|path| path.as_path()).collect();
        overlay(&view, &below, Some((&upper, &work)));
        change(&view, &mut random, 25);
        unmount(&view);
        layers.push(upper);
    }
    let view = scratch.path("view");
    let shown = |stack: &[&Path]| {
        overlay(&view, stack, None);
        let shown = picture(&view);
        unmount(&view);
        shown
    };
    let stack: Vec<&Path> = layers.iter().rev().map(|path| path.as_path()).collect();
    let expected = shown(&stack);
    for (from, to) in [(0, LAYERS), (0, 2), (1, 4), (2, LAYERS), (0, LAYERS + 1)] {
        let squashed = scratch.path(&format!("squashed-{from}-{to}"));
        let mut arguments = vec![OsStr::new("squash"), squashed.as_os_str()];
        arguments.extend(stack[from..to].iter().map(|path| path.as_os_str()));
        // An overlay needs two layers, and nothing is below the whole stack.
        let nothing = scratch.folder("nothing");
        let below: Vec<&Path> = stack[to..].iter().copied().chain([nothing.as_path()]).collect();
        arguments.push(OsStr::new("--onto"));
        arguments.extend(below.iter().map(|path| path.as_os_str()));
        good(&arguments);
        let mut merged: Vec<&Path> = stack[..from].to_vec();
        merged.push(&squashed);
        merged.extend(&below);
        same(
            &shown(&merged),
            &expected,
            &format!("seed {seed}, layers {from}..{to}"),
        );
    }
}

/// Random file operations. Most of them fail.
fn change(root: &Path, random: &mut Random, count: usize) {
    let names = ["a", "b", "c", "d"];
    for step in 0..count {
        let mut pick = || {
            let depth = 1 + random.below(3);
            (0..depth).fold(root.to_owned(), |path, _| {
                path.join(names[random.below(names.len())])
            })
        };
        let (one, two) = (pick(), pick());
        match random.below(12) {
            0..=2 => drop(fs::create_dir_all(&one)),
            3..=4 => drop(fs::write(&one, format!("{step} {}", random.below(1000)))),
            5 => drop(fs::remove_file(&one)),
            6 => drop(fs::remove_dir_all(&one)),
            7 => drop(fs::rename(&one, &two)),
            8 => drop(fs::hard_link(&one, &two)),
            9 => drop(std::os::unix::fs::symlink("anywhere", &one)),
            10 => {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700 + random.below(64) as u32);
                if fs::symlink_metadata(&one).is_ok_and(|facts| !facts.is_symlink()) {
                    drop(fs::set_permissions(&one, mode));
                }
            }
            // Remove and create again, as another type or a new folder.
            _ => {
                drop(fs::remove_dir_all(&one).or_else(|_| fs::remove_file(&one)));
                drop(fs::create_dir(&one).and_then(|()| fs::write(one.join("new"), "new")));
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) % limit as u64) as usize
    }
}

/// The engine tests the power cut itself (`power-cut.test.ts`). This tests that no tree content prevents the
/// sync.
#[test]
fn a_tree_with_any_content_is_synced() {
    if left_out() {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.folder("tree");
    let one = folder.join("one");
    let sync = || good(&[OsStr::new("sync"), folder.as_os_str(), one.as_os_str()]);
    sh(
        &folder,
        r#"
        echo > one; ln one two; ln -s nowhere link; ln -s . loop; mkfifo pipe; mkdir -p a/b/c; echo > a/b/c/deep; chmod 0 a/b/c/deep
        perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un("sock")) or die'
        "#,
    );
    sync();
    sh(
        &folder,
        "mkdir many; for i in $(seq 600); do echo $i > many/$i; done",
    );
    sync();
    good(&[OsStr::new("sync"), OsStr::new("--all"), folder.as_os_str()]);
    let output = tree(&[OsStr::new("sync"), scratch.path("none").as_os_str()]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains(r#""errno":2}"#));
}
