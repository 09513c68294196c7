//! `fs.watch`: reports changes below a path until the client closes the stream.
//!
//! A slow client blocks this thread, and the bounded inotify queue of the kernel fills. After an overflow
//! the client gets an `overflow` record and must list the files again. Each watched directory costs kernel
//! memory, so their number is limited.

use super::dir::{Dir, stat_at};
use super::{Paths, Work, bytes_of, c_path, emit_record, io_error, metadata};
use crate::files::worker::Worker;
use crate::sys::{self, own};
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_WATCHES: usize = 8192;

pub fn prepare(paths: &Paths, request: &Request) -> OpResult<Work> {
    let root = paths.get(request, "path")?;
    let recursive = request.bool("recursive")?;
    Ok(Box::new(move |worker| {
        // SAFETY: takes flags, returns a descriptor.
        let inotify = own(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })
            .map_err(io_error("watch"))?;
        let mut watch = Watch {
            inotify,
            root,
            recursive,
            paths: HashMap::new(),
        };
        watch.add(PathBuf::new(), true, None)?;
        worker.open(Fields::new().int("watches", watch.paths.len() as u64));
        watch.follow(worker)
    }))
}

struct Watch {
    inotify: OwnedFd,
    root: PathBuf,
    recursive: bool,
    /// Watch descriptor to directory, relative to the root.
    paths: HashMap<i32, PathBuf>,
}

impl Watch {
    /// Watches `below` and every directory under it. Entries of a new directory are reported as created,
    /// because they may be older than its watch.
    fn add(&mut self, below: PathBuf, first: bool, worker: Option<&Worker>) -> OpResult<()> {
        let mut pending = vec![below];
        while let Some(below) = pending.pop() {
            let full = if below.as_os_str().is_empty() {
                self.root.clone()
            } else {
                self.root.join(&below)
            };
            let root = first && below.as_os_str().is_empty();
            let name = c_path(&full)?;
            let mask = libc::IN_CREATE
                | libc::IN_MODIFY
                | libc::IN_CLOSE_WRITE
                | libc::IN_ATTRIB
                | libc::IN_DELETE
                | libc::IN_DELETE_SELF
                | libc::IN_MOVED_FROM
                | libc::IN_MOVED_TO
                | libc::IN_MOVE_SELF
                | if root {
                    0
                } else {
                    libc::IN_DONT_FOLLOW | libc::IN_ONLYDIR
                };
            // SAFETY: a C string that outlives the call.
            let added = unsafe { libc::inotify_add_watch(self.inotify.as_raw_fd(), name.as_ptr(), mask) };
            if added < 0 {
                match sys::errno() {
                    libc::ENOSPC => {
                        return Err(OpError::new(
                            "limit",
                            "the kernel's limit of inotify watches is reached",
                        ));
                    }
                    errno if root => return Err(OpError::errno(errno, "watch")),
                    // The directory vanished.
                    _ => continue,
                }
            }
            if self.paths.len() >= MAX_WATCHES {
                return Err(OpError::new(
                    "limit",
                    format!("more than {MAX_WATCHES} directories to watch"),
                ));
            }
            self.paths.insert(added, below.clone());
            if !self.recursive {
                continue;
            }
            let Ok(mut dir) =
                super::write::folder(&full).and_then(|fd| Dir::new(fd).map_err(io_error("watch")))
            else {
                continue;
            };
            while let Ok(Some(name)) = dir.next() {
                let Ok(stat) = stat_at(dir.fd(), &name, false) else {
                    continue;
                };
                let path = below.join(OsStr::from_bytes(bytes_of(&name)));
                let folder = metadata::kind(stat.st_mode) == "directory";
                if let Some(worker) = worker {
                    tell(worker, "created", &path, folder, 0)?;
                }
                if folder {
                    pending.push(path);
                }
            }
        }
        Ok(())
    }

    fn follow(&mut self, worker: &Worker) -> OpResult<Fields> {
        let mut buffer = vec![0u8; 16 * 1024];
        loop {
            let mut polled = [
                libc::pollfd {
                    fd: self.inotify.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                },
                // POLLERR: the client is gone.
                libc::pollfd {
                    fd: worker.output(),
                    events: 0,
                    revents: 0,
                },
            ];
            // SAFETY: two entries, valid for the call.
            unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
            worker.check_cancelled()?;
            while let Some(count @ 1..) =
                sys::read(self.inotify.as_raw_fd(), &mut buffer).map_err(io_error("watch"))?
            {
                if !self.events(worker, &buffer[..count])? {
                    return Ok(Fields::new());
                }
            }
        }
    }

    /// Returns false when the watched path itself is gone.
    fn events(&mut self, worker: &Worker, mut bytes: &[u8]) -> OpResult<bool> {
        while let Some((head, rest)) = bytes.split_first_chunk::<16>() {
            let word =
                |index: usize| u32::from_ne_bytes(head[index..index + 4].try_into().expect("four bytes"));
            let (descriptor, mask, cookie, len) = (word(0) as i32, word(4), word(8), word(12) as usize);
            let (name, rest) = rest.split_at(len.min(rest.len()));
            bytes = rest;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            if mask & libc::IN_Q_OVERFLOW != 0 {
                tell(worker, "overflow", Path::new(""), false, 0)?;
                continue;
            }
            if mask & libc::IN_IGNORED != 0 {
                if let Some(path) = self.paths.remove(&descriptor)
                    && path.as_os_str().is_empty()
                {
                    return Ok(false);
                }
                continue;
            }
            let Some(folder) = self.paths.get(&descriptor) else {
                continue;
            };
            let path = if name.is_empty() {
                folder.clone()
            } else {
                folder.join(OsStr::from_bytes(name))
            };
            let is_folder = mask & libc::IN_ISDIR != 0;
            let event = match mask & !libc::IN_ISDIR {
                libc::IN_CREATE => "created",
                libc::IN_MODIFY => "modified",
                libc::IN_CLOSE_WRITE => "written",
                libc::IN_ATTRIB => "attributes",
                libc::IN_DELETE => "deleted",
                libc::IN_MOVED_FROM => "movedFrom",
                libc::IN_MOVED_TO => "movedTo",
                libc::IN_DELETE_SELF | libc::IN_MOVE_SELF if folder.as_os_str().is_empty() => "deleted",
                _ => continue,
            };
            tell(worker, event, &path, is_folder, cookie)?;
            if is_folder && self.recursive && matches!(event, "created" | "movedTo") {
                self.add(path, false, Some(worker))?;
            }
        }
        Ok(true)
    }
}

fn tell(worker: &Worker, event: &str, path: &Path, folder: bool, cookie: u32) -> OpResult<()> {
    let fields = Fields::new()
        .text("event", event)
        .bytes("path", path.as_os_str().as_bytes())
        .bool("directory", folder);
    emit_record(
        worker,
        fields.maybe_int("cookie", (cookie != 0).then_some(cookie)),
    )
}
