//! `fs.tar`: streams a file or tree as a tar archive, with names relative to the path. Hard links inside the
//! tree stay links. Sockets and devices are skipped and counted.

use super::dir::{Dir, read_link, stat_at};
use super::tar::{BLOCK, Header, padding};
use super::{Paths, Work, bytes_of, io_error, metadata, split};
use crate::files::worker::Worker;
use crate::sys::{self, own};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_PENDING: usize = 65_536;
/// Beyond this many hard-linked files, further names are stored as separate files.
const MAX_LINKS: usize = 16_384;

pub fn prepare(paths: &Paths, request: &Request) -> OpResult<Work> {
    let root = paths.get(request, "path")?;
    Ok(Box::new(move |worker| {
        let mut tar = Tar {
            worker,
            links: HashMap::new(),
            entries: 0,
            skipped: 0,
        };
        let resolved = if root.file_name().is_some() {
            root.clone()
        } else {
            root.join(".")
        };
        match super::write::folder(&resolved) {
            Ok(fd) => {
                worker.open(Fields::new());
                let stat = super::dir::stat_fd(fd.as_raw_fd()).map_err(io_error("tar"))?;
                tar.header(b'5', b"./", b"", &stat, 0)?;
                drop(fd);
                tar.tree(&root)?;
            }
            Err(error) if error.code == "not_directory" => {
                let (parent, name) = split(&root)?;
                let folder = super::write::folder(&parent)?;
                let stat = stat_at(folder.as_raw_fd(), &name, false).map_err(io_error("tar"))?;
                worker.open(Fields::new());
                tar.entry(folder.as_raw_fd(), &name, bytes_of(&name), &stat)?;
            }
            Err(error) => return Err(error),
        }
        worker.emit(&[0; 2 * BLOCK])?;
        Ok(Fields::new()
            .int("entries", tar.entries)
            .int("skipped", tar.skipped))
    }))
}

struct Tar<'a> {
    worker: &'a Worker,
    links: HashMap<(u64, u64), Vec<u8>>,
    entries: u64,
    skipped: u64,
}

impl Tar<'_> {
    fn tree(&mut self, root: &Path) -> OpResult<()> {
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            let full = if below.as_os_str().is_empty() {
                root.to_owned()
            } else {
                root.join(&below)
            };
            let mut dir = Dir::new(super::write::folder(&full)?).map_err(io_error("tar"))?;
            while let Some(name) = dir.next().map_err(io_error("tar"))? {
                let Ok(stat) = stat_at(dir.fd(), &name, false) else {
                    continue;
                };
                let path = below.join(OsStr::from_bytes(bytes_of(&name)));
                self.entry(dir.fd(), &name, path.as_os_str().as_bytes(), &stat)?;
                if metadata::kind(stat.st_mode) == "directory" {
                    if pending.len() >= MAX_PENDING {
                        return Err(OpError::new("limit", "the tree is too wide for an archive"));
                    }
                    pending.push(path);
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, at: RawFd, name: &CStr, path: &[u8], stat: &libc::stat64) -> OpResult<()> {
        match metadata::kind(stat.st_mode) {
            "directory" => self.header(b'5', &[path, b"/"].concat(), b"", stat, 0),
            "symlink" => {
                let target = read_link(at, name).map_err(io_error("tar"))?;
                self.header(b'2', path, &target, stat, 0)
            }
            "fifo" => self.header(b'6', path, b"", stat, 0),
            "file" => {
                if stat.st_nlink > 1 {
                    if let Some(first) = self.links.get(&(stat.st_dev, stat.st_ino)).cloned() {
                        return self.header(b'1', path, &first, stat, 0);
                    }
                    if self.links.len() < MAX_LINKS {
                        self.links.insert((stat.st_dev, stat.st_ino), path.to_vec());
                    }
                }
                self.file(at, name, path)
            }
            _ => {
                self.skipped += 1;
                Ok(())
            }
        }
    }

    fn file(&mut self, at: RawFd, name: &CStr, path: &[u8]) -> OpResult<()> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
        // SAFETY: a C string that outlives the call.
        let file = match own(unsafe { libc::openat(at, name.as_ptr(), flags) }) {
            Ok(file) => file,
            // The file vanished after it was listed.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
            Err(error) => return Err(OpError::io(&error, "tar")),
        };
        let stat = super::dir::stat_fd(file.as_raw_fd()).map_err(io_error("tar"))?;
        if metadata::kind(stat.st_mode) != "file" {
            self.skipped += 1;
            return Ok(());
        }
        let size = stat.st_size as u64;
        self.header(b'0', path, b"", &stat, size)?;
        let mut buffer = vec![0; 64 * 1024];
        let mut left = size;
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = match sys::read(file.as_raw_fd(), &mut buffer[..most]).map_err(io_error("tar"))? {
                // The file shrank. Fill up with zeros to the size in the header, like GNU tar.
                None | Some(0) => {
                    buffer[..most].fill(0);
                    most
                }
                Some(count) => count,
            };
            self.worker.emit(&buffer[..count])?;
            left -= count as u64;
        }
        self.worker.emit(&[0; BLOCK][..padding(size)])
    }

    fn header(&mut self, kind: u8, name: &[u8], link: &[u8], stat: &libc::stat64, size: u64) -> OpResult<()> {
        self.entries += 1;
        for (long_kind, long) in [(b'K', link), (b'L', name)] {
            if long.len() > 100 {
                let text = [long, b"\0"].concat();
                let head = Header {
                    kind: long_kind,
                    name: b"././@LongLink",
                    link: b"",
                    mode: 0,
                    uid: 0,
                    gid: 0,
                    size: text.len() as u64,
                    mtime: 0,
                };
                self.worker.emit(&head.encode())?;
                self.worker.emit(&text)?;
                self.worker.emit(&[0; BLOCK][..padding(text.len() as u64)])?;
            }
        }
        let header = Header {
            kind,
            name,
            link,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid as u64,
            gid: stat.st_gid as u64,
            size,
            mtime: stat.st_mtime,
        };
        self.worker.emit(&header.encode())
    }
}
