//! Extracts entries, one after the other.

use super::Options;
use super::counts::Counts;
use super::entry::{Entry, Extra, about, parts_of};
use super::input::Input;
use super::make;
use crate::files::dir::{path_of, unlink};
use crate::files::tar::{self, Archive, malformed, without_nul};
use crate::wire::error::{OpError, OpResult};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A sandbox has the ids 0 to 65535. Files of other owners get the user `nobody`.
const LAST_ID: u64 = 65535;
const NOBODY: u32 = 65534;

pub struct Layer<'a> {
    root: &'a OwnedFd,
    input: Input,
    plain: bool,
    user: bool,
    max_entries: u64,
    counts: Counts,
    /// Folder times are set at the end, because creating entries changes them.
    folders: Vec<(CString, (i64, i64))>,
}

impl<'a> Layer<'a> {
    pub fn new(root: &'a OwnedFd, input: Input, options: &Options) -> Layer<'a> {
        Layer {
            root,
            input,
            plain: options.plain,
            user: options.user,
            max_entries: options.max_entries,
            counts: Counts::default(),
            folders: Vec::new(),
        }
    }

    pub fn run(&mut self) -> OpResult<Counts> {
        let mut extra = Extra::default();
        while let Some(block) = self.input.header()? {
            let mut header = tar::decode(&block).map_err(malformed)?;
            match header.kind {
                b'L' => extra.name = Some(without_nul(self.input.extra(header.size)?)),
                b'K' => extra.link = Some(without_nul(self.input.extra(header.size)?)),
                b'x' => extra.read(&self.input.extra(header.size)?)?,
                b'g' => drop(self.input.extra(header.size)?),
                _ => {
                    let extra = std::mem::take(&mut extra);
                    header.name = extra.name.unwrap_or(header.name);
                    header.link = extra.link.unwrap_or(header.link);
                    header.size = extra.size.unwrap_or(header.size);
                    let entry = Entry {
                        owner: (
                            self.id(extra.uid.unwrap_or(header.uid)),
                            self.id(extra.gid.unwrap_or(header.gid)),
                        ),
                        time: extra.time.unwrap_or((header.mtime, 0)),
                        attributes: extra.attributes,
                        header,
                    };
                    let name = entry.header.name.clone();
                    self.entry(entry).map_err(|error| about(&name, error))?;
                }
            }
        }
        self.input.drain()?;
        for (path, time) in std::mem::take(&mut self.folders) {
            let folder = make::open_inside(self.root.as_raw_fd(), &path).map_err(io_error)?;
            make::set_time(folder.as_raw_fd(), None, time).map_err(io_error)?;
        }
        Ok(std::mem::take(&mut self.counts))
    }

    fn entry(&mut self, mut entry: Entry) -> OpResult<()> {
        self.counts.entries += 1;
        if self.counts.entries > self.max_entries {
            return Err(OpError::new(
                "too_large",
                "the archive exceeds the limit of entries",
            ));
        }
        let mut parents = parts_of(&entry.header.name)?;
        if entry.header.kind == 0 && entry.header.name.ends_with(b"/") {
            entry.header.kind = b'5';
        }
        let Some(name) = parents.pop() else {
            if entry.header.kind != b'5' {
                return Err(OpError::invalid("the entry has no name"));
            }
            return self.describe_folder(c".", &entry);
        };
        let size = match entry.header.kind {
            b'1'..=b'6' => 0,
            _ => entry.header.size,
        };
        let parent = self.parent(&parents)?;
        let at = parent.as_raw_fd();
        if !self.plain
            && let Some(hidden) = name.to_bytes().strip_prefix(b".wh.")
        {
            self.whiteout(&parents, &parent, hidden)?;
            return self.input.skip(size);
        }
        match entry.header.kind {
            b'0' | 0 | b'7' => return self.file(at, &name, &entry),
            b'5' => {
                self.folder(&parents, at, &name)?;
                parents.push(name);
                return self.describe_folder(&path_of(&parents), &entry);
            }
            b'1' => {
                let mut source = parts_of(&entry.header.link)?;
                let old = source
                    .pop()
                    .ok_or_else(|| OpError::invalid("the entry links to the root"))?;
                let from = make::open_inside(self.root.as_raw_fd(), &path_of(&source)).map_err(io_error)?;
                if at_same_place(&from, &old, &parent, &name) {
                    return Ok(());
                }
                free(at, &name)?;
                return make::hard_link(from.as_raw_fd(), &old, at, &name).map_err(io_error);
            }
            b'2' => {
                let target = CString::new(entry.header.link.clone())
                    .map_err(|_| OpError::invalid("the link contains a NUL byte"))?;
                free(at, &name)?;
                make::symlink(at, &name, &target).map_err(io_error)?;
                if !self.plain {
                    make::own_by_name(at, &name, entry.owner, None).map_err(io_error)?;
                }
            }
            b'3' | b'4' | b'6' => {
                let (kind, device) = match entry.header.kind {
                    b'3' => (libc::S_IFCHR, entry.header.device),
                    b'4' => (libc::S_IFBLK, entry.header.device),
                    _ => (libc::S_IFIFO, (0, 0)),
                };
                free(at, &name)?;
                if self.user && kind != libc::S_IFIFO {
                    self.counts.skipped_devices += 1;
                    return Ok(());
                }
                make::node(at, &name, kind, device).map_err(io_error)?;
                if !self.plain {
                    make::own_by_name(at, &name, entry.owner, Some(entry.header.mode)).map_err(io_error)?;
                }
            }
            kind => {
                return Err(malformed(&format!(
                    "entries of type '{}' are not supported",
                    char::from(kind)
                )));
            }
        }
        make::set_time(at, Some(&name), entry.time).map_err(io_error)
    }

    fn file(&mut self, at: RawFd, name: &CStr, entry: &Entry) -> OpResult<()> {
        free(at, name)?;
        let file = make::file(at, name).map_err(io_error)?;
        let mut left = entry.header.size;
        while left > 0 {
            let mut bytes = self.input.some(left)?;
            left -= bytes.len() as u64;
            self.counts.bytes += bytes.len() as u64;
            while !bytes.is_empty() {
                let count = crate::sys::write(file.as_raw_fd(), bytes)
                    .map_err(io_error)?
                    .unwrap_or(0);
                bytes = &bytes[count..];
            }
        }
        self.input.pad(entry.header.size)?;
        self.own(&file, entry, 0o600)?;
        self.attributes(&file, &entry.attributes)?;
        make::set_time(file.as_raw_fd(), None, entry.time).map_err(io_error)
    }

    /// An existing folder keeps its content.
    fn folder(&mut self, parents: &[CString], at: RawFd, name: &CStr) -> OpResult<()> {
        match make::folder(at, name) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            made => return made.map_err(io_error),
        }
        match kind_of(at, name)? {
            Some(Kind::Folder) => Ok(()),
            Some(Kind::Whiteout) => {
                unlink(at, name, 0).map_err(io_error)?;
                make::folder(at, name).map_err(io_error)?;
                // The lower file stays hidden.
                self.opaque(
                    parents,
                    Some(name),
                    &make::open_inside(at, name).map_err(io_error)?,
                )
            }
            _ => {
                unlink(at, name, 0).map_err(io_error)?;
                make::folder(at, name).map_err(io_error)
            }
        }
    }

    fn describe_folder(&mut self, path: &CStr, entry: &Entry) -> OpResult<()> {
        let folder = make::open_inside(self.root.as_raw_fd(), path).map_err(io_error)?;
        self.own(&folder, entry, 0o700)?;
        self.attributes(&folder, &entry.attributes)?;
        self.folders.push((path.to_owned(), entry.time));
        Ok(())
    }

    fn whiteout(&mut self, parents: &[CString], parent: &OwnedFd, hidden: &[u8]) -> OpResult<()> {
        if hidden == b".wh..opq" {
            return self.opaque(parents, None, parent);
        }
        // Metadata of AUFS, which is ignored.
        if hidden.starts_with(b".wh.") {
            return Ok(());
        }
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(OpError::invalid("the whiteout has no name"));
        }
        let name = CString::new(hidden).map_err(|_| OpError::invalid("the name contains a NUL byte"))?;
        match kind_of(parent.as_raw_fd(), &name)? {
            // A whiteout hides lower layers only; entries of this layer stay.
            Some(Kind::Folder) => {
                let folder = make::open_inside(parent.as_raw_fd(), &name).map_err(io_error)?;
                self.opaque(parents, Some(&name), &folder)
            }
            Some(_) => Ok(()),
            None => make::node(parent.as_raw_fd(), &name, libc::S_IFCHR, (0, 0)).map_err(io_error),
        }
    }

    /// Opens the parent of an entry. Creates missing folders.
    fn parent(&mut self, parents: &[CString]) -> OpResult<OwnedFd> {
        let root = self.root.as_raw_fd();
        match make::open_inside(root, &path_of(parents)) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {}
            found => return found.map_err(io_error),
        }
        for count in 1..=parents.len() {
            let path = path_of(&parents[..count]);
            match make::open_inside(root, &path) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {}
                found => {
                    found.map_err(io_error)?;
                    continue;
                }
            }
            let above = make::open_inside(root, &path_of(&parents[..count - 1])).map_err(io_error)?;
            let name = &parents[count - 1];
            match kind_of(above.as_raw_fd(), name)? {
                None | Some(Kind::Whiteout) => self.folder(&parents[..count - 1], above.as_raw_fd(), name)?,
                _ => return Err(OpError::errno(libc::ENOTDIR, "open the parent folder")),
            }
        }
        make::open_inside(root, &path_of(parents)).map_err(io_error)
    }

    fn opaque(&mut self, parents: &[CString], name: Option<&CStr>, folder: &OwnedFd) -> OpResult<()> {
        let mut path = parents.to_vec();
        path.extend(name.map(CStr::to_owned));
        let text = if path.is_empty() {
            String::new()
        } else {
            path_of(&path).to_string_lossy().into_owned()
        };
        self.counts.opaque.push(super::quoted(&text));
        let attribute = if self.user {
            make::USER_OPAQUE
        } else {
            make::OPAQUE
        };
        make::set_attribute(folder, attribute, b"y")
            .map_err(|error| OpError::io(&error, &attribute.to_string_lossy()))
    }

    /// Outside a layer (`--plain`), files keep this process's owner and stay readable.
    fn own(&self, file: &OwnedFd, entry: &Entry, least: u32) -> OpResult<()> {
        let made = if self.plain {
            make::allow(file, entry.header.mode & 0o777 | least)
        } else {
            make::own_open(file, entry.owner, entry.header.mode)
        };
        made.map_err(io_error)
    }

    fn attributes(&mut self, file: &OwnedFd, attributes: &[(CString, Vec<u8>)]) -> OpResult<()> {
        for (name, value) in attributes {
            // trusted.overlay.* and user.overlay.* are refused, because they could expose files of other
            // layers.
            let ours = name.to_bytes().starts_with(b"user.")
                && !name.to_bytes().starts_with(b"user.overlay.")
                || matches!(
                    name.to_bytes(),
                    b"security.capability" | b"system.posix_acl_access" | b"system.posix_acl_default"
                );
            match ours.then(|| make::set_attribute(file, name, value)) {
                None => self.counts.skipped_attributes += 1,
                Some(Err(error)) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    self.counts.skipped_attributes += 1;
                }
                Some(result) => result.map_err(io_error)?,
            }
        }
        Ok(())
    }

    fn id(&mut self, id: u64) -> u32 {
        if id <= LAST_ID {
            return id as u32;
        }
        self.counts.foreign_owners += 1;
        NOBODY
    }
}

#[derive(PartialEq)]
enum Kind {
    Folder,
    Whiteout,
    Other,
}

fn kind_of(at: RawFd, name: &CStr) -> OpResult<Option<Kind>> {
    match crate::files::dir::stat_at(at, name, false) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(io_error(error)),
        Ok(stat) => Ok(Some(match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Kind::Folder,
            libc::S_IFCHR if stat.st_rdev == 0 => Kind::Whiteout,
            _ => Kind::Other,
        })),
    }
}

/// Removes an earlier entry of the same name, because the later one counts. A folder is not replaced by a
/// file.
fn free(at: RawFd, name: &CStr) -> OpResult<()> {
    match unlink(at, name, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EISDIR) => {
            Err(OpError::invalid("a folder of this name already exists"))
        }
        result => result.map_err(io_error),
    }
}

/// A link to itself must not remove its own target.
fn at_same_place(from: &OwnedFd, old: &CStr, to: &OwnedFd, name: &CStr) -> bool {
    let place = |folder: &OwnedFd| {
        crate::files::dir::stat_fd(folder.as_raw_fd()).map(|stat| (stat.st_dev, stat.st_ino))
    };
    old == name && matches!((place(from), place(to)), (Ok(a), Ok(b)) if a == b)
}

fn io_error(error: io::Error) -> OpError {
    OpError::io(&error, "unpacking")
}
