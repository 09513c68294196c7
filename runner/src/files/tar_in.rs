//! `fs.untar`: extracts a tar archive while it arrives.
//!
//! Archives are hostile. No entry escapes the target: leading slashes are removed, `..` is rejected, and
//! parents are opened with `RESOLVE_BENEATH`, so symlinks can lead anywhere inside the target but not out of
//! it. Files are created under a temporary name and renamed. Owners are not restored. Devices are skipped
//! and counted.

use super::dir::{open_folder, path_of, unlink};
use super::tar::{self, Archive, BLOCK, Parsed, malformed, pax, without_nul};
use super::write::{Draft, folder, set_mode, write_all};
use super::{Paths, Work, io_error, manage};
use crate::files::worker::Worker;
use crate::sys::{self, check, own};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

pub fn prepare(paths: &Paths, request: &Request) -> OpResult<Work> {
    let target = paths.get(request, "path")?;
    let parents = request.bool("parents")?;
    Ok(Box::new(move |worker| {
        if parents {
            manage::make_path(&target, 0o755)?;
        }
        let target = folder(&target)?;
        worker.open(Fields::new());
        let mut untar = Untar {
            input: Input::new(worker),
            target,
            entries: 0,
            skipped: 0,
        };
        untar.run()?;
        Ok(Fields::new()
            .int("entries", untar.entries)
            .int("skipped", untar.skipped))
    }))
}

struct Untar<'a> {
    input: Input<'a>,
    target: OwnedFd,
    entries: u64,
    skipped: u64,
}

impl Untar<'_> {
    fn run(&mut self) -> OpResult<()> {
        let (mut long_name, mut long_link, mut long_size) = (None, None, None);
        loop {
            let mut block = [0; BLOCK];
            self.input.exact(&mut block)?;
            if block.iter().all(|byte| *byte == 0) {
                return self.input.drain();
            }
            let mut entry = tar::decode(&block).map_err(malformed)?;
            match entry.kind {
                b'L' => long_name = Some(without_nul(self.input.extra(entry.size)?)),
                b'K' => long_link = Some(without_nul(self.input.extra(entry.size)?)),
                b'x' => {
                    for (key, value) in pax(&self.input.extra(entry.size)?).map_err(malformed)? {
                        match key.as_slice() {
                            b"path" => long_name = Some(value),
                            b"linkpath" => long_link = Some(value),
                            b"size" => {
                                long_size = String::from_utf8(value).ok().and_then(|text| text.parse().ok())
                            }
                            _ => {}
                        }
                    }
                }
                b'g' => drop(self.input.extra(entry.size)?),
                _ => {
                    entry.name = long_name.take().unwrap_or(entry.name);
                    entry.link = long_link.take().unwrap_or(entry.link);
                    entry.size = long_size.take().unwrap_or(entry.size);
                    self.entry(entry)?;
                }
            }
        }
    }

    fn entry(&mut self, entry: Parsed) -> OpResult<()> {
        let (parents, name) = safe(&entry.name)?;
        self.entries += 1;
        let Some(name) = name else {
            // The entry is the target itself.
            return self.input.skip(entry.size);
        };
        let parent = self.parent(&parents)?;
        let at = parent.as_raw_fd();
        let failed = io_error("untar");
        match entry.kind {
            b'0' | 0 | b'7' => return self.file(at, &name, &entry),
            b'5' => {
                // SAFETY: a C string that outlives the call.
                let made = check(unsafe { libc::mkdirat(at, name.as_ptr(), 0o755) });
                if let Err(error) = made
                    && error.raw_os_error() != Some(libc::EEXIST)
                {
                    return Err(failed(error));
                }
                let made = beneath(
                    self.target.as_fd().as_raw_fd(),
                    &path_of(&[parents, vec![name]].concat()),
                )
                .map_err(&failed)?;
                // Keep it writable, so that its entries can be created.
                set_mode(made.as_raw_fd(), entry.mode | 0o700)?;
            }
            b'2' => {
                let link = CString::new(entry.link).map_err(|_| malformed("a link contains a NUL byte"))?;
                let _ = unlink(at, &name, 0);
                // SAFETY: C strings that outlive the call.
                check(unsafe { libc::symlinkat(link.as_ptr(), at, name.as_ptr()) }).map_err(&failed)?;
            }
            b'1' => self.link(at, &name, &entry.link)?,
            b'6' => {
                let _ = unlink(at, &name, 0);
                // SAFETY: a C string that outlives the call.
                check(unsafe { libc::mkfifoat(at, name.as_ptr(), entry.mode & 0o777) }).map_err(&failed)?;
            }
            _ => self.skipped += 1,
        }
        // Only files have content, whatever the header says. The size of a hard link is that of its file.
        self.input
            .skip(if matches!(entry.kind, b'1' | b'2' | b'5' | b'6') {
                0
            } else {
                entry.size
            })
    }

    fn file(&mut self, at: RawFd, name: &CStr, entry: &Parsed) -> OpResult<()> {
        let draft = Draft::new(at)?;
        let mut left = entry.size;
        while left > 0 {
            let bytes = self.input.some(left)?;
            write_all(draft.file.as_raw_fd(), bytes)?;
            left -= bytes.len() as u64;
        }
        self.input.pad(entry.size)?;
        set_mode(draft.file.as_raw_fd(), entry.mode)?;
        let time = libc::timespec {
            tv_sec: entry.mtime,
            tv_nsec: 0,
        };
        // Best effort: some file systems do not store times.
        // SAFETY: two valid timespecs.
        unsafe { libc::futimens(draft.file.as_raw_fd(), [time, time].as_ptr()) };
        draft.publish(name, false)
    }

    fn link(&mut self, at: RawFd, name: &CStr, to: &[u8]) -> OpResult<()> {
        let (parents, Some(to)) = safe(to)? else {
            return Err(malformed("a link points to the target itself"));
        };
        let source = self.parent(&parents)?;
        let _ = unlink(at, name, 0);
        // SAFETY: C strings that outlive the call; without AT_SYMLINK_FOLLOW a symlink is linked, not followed.
        let linked = unsafe { libc::linkat(source.as_raw_fd(), to.as_ptr(), at, name.as_ptr(), 0) };
        check(linked).map(drop).map_err(io_error("untar"))
    }

    /// Opens the parent of an entry. Creates missing directories.
    fn parent(&self, parents: &[CString]) -> OpResult<OwnedFd> {
        let open = |parents: &[CString]| match parents {
            [] => sys::duplicate(self.target.as_fd()),
            parents => beneath(self.target.as_raw_fd(), &path_of(parents)),
        };
        match open(parents) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            found => return found.map_err(io_error("untar")),
        }
        for (count, name) in parents.iter().enumerate() {
            let above = open(&parents[..count]).map_err(io_error("untar"))?;
            // SAFETY: a C string that outlives the call. An existing directory is fine.
            unsafe { libc::mkdirat(above.as_raw_fd(), name.as_ptr(), 0o755) };
        }
        open(parents).map_err(io_error("untar"))
    }
}

/// Opens a directory below `root`. If the kernel lacks openat2, no symlink is followed at all.
fn beneath(root: RawFd, path: &CStr) -> std::io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    match sys::open_resolved(
        root,
        path,
        flags,
        sys::RESOLVE_BENEATH | sys::RESOLVE_NO_MAGICLINKS,
    ) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {}
        result => return result,
    }
    // SAFETY: duplicating an open descriptor.
    let mut at = own(unsafe { libc::fcntl(root, libc::F_DUPFD_CLOEXEC, 3) })?;
    for name in path
        .to_bytes()
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
    {
        at = open_folder(at.as_raw_fd(), &CString::new(name).expect("a part of a C string"))?;
    }
    Ok(at)
}

/// Splits a name into directories and last component. `None`: the target itself.
fn safe(name: &[u8]) -> OpResult<(Vec<CString>, Option<CString>)> {
    let parts = name
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".");
    let mut safe = Vec::new();
    for part in parts {
        if part == b".." {
            return Err(OpError::new("denied", "an archive entry has '..' in its name"));
        }
        safe.push(CString::new(part).map_err(|_| malformed("a name contains a NUL byte"))?);
    }
    let last = safe.pop();
    Ok((safe, last))
}

struct Input<'a> {
    worker: &'a Worker,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<'a> Input<'a> {
    fn new(worker: &'a Worker) -> Self {
        Input {
            worker,
            buffer: vec![0; 64 * 1024],
            start: 0,
            end: 0,
        }
    }

    /// Reads whatever follows the end marker.
    fn drain(&mut self) -> OpResult<()> {
        while self.worker.next(&mut self.buffer)? > 0 {}
        Ok(())
    }
}

impl Archive for Input<'_> {
    const MAX_EXTRA: u64 = 256 * 1024;

    fn some(&mut self, most: u64) -> OpResult<&[u8]> {
        if self.start == self.end {
            self.start = 0;
            self.end = self.worker.next(&mut self.buffer)?;
            if self.end == 0 {
                return Err(malformed("it is truncated"));
            }
        }
        let len = (self.end - self.start).min(usize::try_from(most).unwrap_or(usize::MAX));
        self.start += len;
        Ok(&self.buffer[self.start - len..self.start])
    }
}
