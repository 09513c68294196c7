//! Copies a tree, or merges overlay layers into one.
//!
//! Both are one walk. It holds one open folder for each layer that takes part in the current folder, and one in
//! the new tree. It descends by name and ascends by `..`. A layer drops out when it has nothing in the folder, or
//! when an upper layer hides it (a whiteout, another file type, an opaque folder). Its descriptor is kept for the
//! way up. A layer that dropped out stays out further down, so at most twice as many folders as layers are open.
//!
//! ```text
//! layers:   a/ (opaque)     a/           the new tree: a/ opaque, with x of the first and nothing of the second;
//!           a/x             a/y                        b, a whiteout, to hide what is below both layers
//!           b (whiteout)    b
//! ```
//!
//! The caller can name the layers below the result (`onto`). They are only inspected: the kernel lists a
//! whiteout as a name in a folder without lower layers, so such whiteouts must be omitted.

use super::content::CopyMethods;
use super::links::Links;
use super::{Identity, Outcome, Tally, ascend, doing, is_folder, node, os, remove, xattr};
use crate::files::dir::{Dir, open_folder, stat_at, stat_fd};
use crate::sys::check;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Copies everything, including overlayfs's own attributes.
pub fn copy(from: &CStr, to: &CStr) -> Outcome<Tally> {
    make(&[from.to_owned()], None, to, None)
}

/// Creates one layer that shows the same as these layers. `user`: overlayfs was mounted with `userxattr`.
pub fn squash(layers: &[CString], onto: Option<&[CString]>, to: &CStr, user: bool) -> Outcome<Tally> {
    make(layers, onto, to, Some(if user { "user" } else { "trusted" }))
}

/// Removes the new tree on failure.
fn make(layers: &[CString], onto: Option<&[CString]>, to: &CStr, space: Option<&str>) -> Outcome<Tally> {
    // SAFETY: a C string that outlives the call.
    doing(
        "making",
        to.to_bytes(),
        check(unsafe { libc::mkdir(to.as_ptr(), 0o700) }),
    )?;
    let mut links = Links::beside(to);
    let merged = Merge::start(layers, onto, to, space).and_then(|mut merge| merge.all(&mut links));
    let cleared = links.finish();
    match merged.and_then(|tally| cleared.map(|()| tally)) {
        Ok(tally) => Ok(tally),
        Err(failure) => {
            let _ = remove::remove(to);
            Err(failure)
        }
    }
}

struct Merge {
    here: Folder,
    above: Vec<Above>,
    /// The layers below are known.
    grounded: bool,
    ways: CopyMethods,
    tally: Tally,
    /// Names of overlayfs's attributes when merging; `None` when copying.
    overlay: Option<Attributes>,
    /// The current folder is in a program folder of the host; see `is_program_folder`.
    in_programs: bool,
}

/// The folder that is being created.
struct Folder {
    /// Uppermost first. Its owner, mode, times and attributes apply to the new folder.
    layers: Vec<Layer>,
    to: OwnedFd,
    stat: libc::stat64,
    /// Subfolders that are still to be created.
    rest: Vec<CString>,
    /// Nothing from below all layers is visible in it.
    hidden: bool,
    opaque: bool,
}

/// The parent of the current folder.
struct Above {
    layers: Vec<Place>,
    to: Identity,
    stat: libc::stat64,
    rest: Vec<CString>,
    hidden: bool,
    opaque: bool,
}

struct Layer {
    fd: OwnedFd,
    /// This layer is below the result and only inspected.
    ground: bool,
}

enum Place {
    WentDown(Identity, bool),
    Waits(Layer),
}

struct Attributes {
    prefix: Vec<u8>,
    opaque: CString,
    /// The same of the overlays in `shim/writable_programs.rs`, which a sandbox's root has mounted; `None` if it is the
    /// same. Outside the host's program folders it is an ordinary attribute.
    opaque_inside: Option<CString>,
    /// Attributes that redirect name or content. Their meaning depends on the layers below, so they are
    /// refused.
    refused: [CString; 2],
}

impl Merge {
    fn start(layers: &[CString], onto: Option<&[CString]>, to: &CStr, space: Option<&str>) -> Outcome<Merge> {
        let open = |path: &CStr| doing("opening", path.to_bytes(), read(libc::AT_FDCWD, path));
        let all = layers.iter().map(|path| (path, false));
        let all = all.chain(onto.unwrap_or_default().iter().map(|path| (path, true)));
        let layer = |(path, ground): (&CString, bool)| {
            Ok(Layer {
                fd: open(path)?,
                ground,
            })
        };
        let layers = all.map(layer).collect::<Outcome<Vec<_>>>()?;
        let stat = doing("opening", b".", stat_fd(layers[0].fd.as_raw_fd()))?;
        let to = open(to)?;
        Ok(Merge {
            here: Folder {
                layers,
                to,
                stat,
                rest: Vec::new(),
                hidden: false,
                opaque: false,
            },
            above: Vec::new(),
            grounded: onto.is_some(),
            ways: CopyMethods::default(),
            tally: Tally::default(),
            overlay: space.map(Attributes::of),
            in_programs: false,
        })
    }

    fn all(&mut self, links: &mut Links) -> Outcome<Tally> {
        self.files(links)?;
        loop {
            if let Some(name) = self.here.rest.pop() {
                doing("copying", name.to_bytes(), self.down(&name))?;
                self.files(links)?;
                continue;
            }
            doing("copying", b".", self.leave())?;
            let Some(above) = self.above.pop() else {
                return Ok(self.tally);
            };
            doing("copying", b"..", self.up(above))?;
        }
    }

    /// Copies the files of the current folder and records its subfolders.
    fn files(&mut self, links: &mut Links) -> Outcome<()> {
        for index in 0..self.here.layers.len() {
            let from = self.here.layers[index].fd.as_raw_fd();
            if self.here.layers[index].ground {
                break;
            }
            let mut dir = doing("reading", b".", read(from, c".").and_then(Dir::new))?;
            while let Some(name) = doing("reading", b".", dir.next())? {
                if index > 0 && doing("reading", name.to_bytes(), self.is_above(index, &name))? {
                    continue;
                }
                doing("copying", name.to_bytes(), self.entry(from, &name, links))?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, from: RawFd, name: &CString, links: &mut Links) -> io::Result<()> {
        let stat = stat_at(from, name, false)?;
        if stat.st_dev != stat_fd(from)?.st_dev {
            // A mount point, which is not part of the tree.
            return Err(os(libc::EXDEV));
        }
        if is_folder(&stat) {
            self.here.rest.push(name.clone());
            return Ok(());
        }
        if self.overlay.is_some() && self.here.hidden && is_whiteout(&stat) {
            return Ok(());
        }
        self.refuse(from, name)?;
        let to = self.here.to.as_raw_fd();
        if links.again(&stat, to, name)? {
            return Ok(());
        }
        let overlay = &self.overlay;
        node::copy(from, to, name, &stat, &mut self.ways, |attribute| {
            wanted(overlay, attribute)
        })?;
        self.tally.count(&stat_at(to, name, false)?);
        links.first(&stat, to, name)
    }

    fn is_above(&self, index: usize, name: &CStr) -> io::Result<bool> {
        for layer in &self.here.layers[..index] {
            match stat_at(layer.fd.as_raw_fd(), name, false) {
                Ok(_) => return Ok(true),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn down(&mut self, name: &CStr) -> io::Result<()> {
        let (mut down, mut places) = (Vec::new(), Vec::new());
        // `over`: nothing further below is visible. `closed`: the new folder must be opaque.
        let (mut over, mut closed) = (false, false);
        let in_programs = match self.above.is_empty() {
            true => is_program_folder(name.to_bytes()),
            false => self.in_programs,
        };
        for layer in std::mem::take(&mut self.here.layers) {
            let (at, ground) = (layer.fd.as_raw_fd(), layer.ground);
            let stat = match stat_at(at, name, false) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
                stat => Some(stat?),
            };
            match stat {
                Some(stat) if !over && is_folder(&stat) => {
                    self.refuse(at, name)?;
                    over = self.is_opaque(at, name, in_programs)?;
                    let fd = read(at, name)?;
                    down.push(Layer { fd, ground });
                    places.push(Place::WentDown(Identity::of(at)?, ground));
                }
                found => {
                    over = over || found.is_some();
                    places.push(Place::Waits(layer));
                }
            }
            closed = closed || (over && !ground);
        }
        let first = down.first().ok_or_else(|| os(libc::EBUSY))?;
        let stat = stat_fd(first.fd.as_raw_fd())?;
        let to = self.here.to.as_raw_fd();
        // SAFETY: a C string that outlives the call.
        check(unsafe { libc::mkdirat(to, name.as_ptr(), 0o700) })?;
        let made = read(to, name)?;
        let to = Identity::of(to)?;
        let hidden = self.here.hidden || closed || (self.grounded && !down.iter().any(|layer| layer.ground));
        let folder = Folder {
            layers: down,
            to: made,
            stat,
            rest: Vec::new(),
            hidden,
            opaque: closed,
        };
        self.in_programs = in_programs;
        let here = std::mem::replace(&mut self.here, folder);
        self.above.push(Above {
            layers: places,
            to,
            stat: here.stat,
            rest: here.rest,
            hidden: here.hidden,
            opaque: here.opaque,
        });
        Ok(())
    }

    /// Sets the folder's metadata after its content is complete.
    fn leave(&mut self) -> io::Result<()> {
        let Folder {
            layers,
            to,
            stat,
            opaque,
            ..
        } = &self.here;
        let (from, to) = (layers[0].fd.as_raw_fd(), to.as_raw_fd());
        if let (Some(overlay), true) = (&self.overlay, opaque) {
            for attribute in overlay.marks(self.in_programs) {
                xattr::set(to, c".", attribute, b"y")?;
            }
        }
        node::facts((from, c"."), (to, c"."), stat, |attribute| {
            wanted(&self.overlay, attribute)
        })?;
        self.tally.count(&stat_fd(to)?);
        Ok(())
    }

    fn up(&mut self, above: Above) -> io::Result<()> {
        let mut came_up = self.here.layers.iter();
        let mut layers = Vec::new();
        for place in above.layers {
            layers.push(match place {
                Place::Waits(layer) => layer,
                Place::WentDown(identity, ground) => {
                    let below = came_up.next().ok_or_else(|| os(libc::EBUSY))?;
                    let fd = ascend(below.fd.as_raw_fd(), identity)?;
                    Layer { fd, ground }
                }
            });
        }
        let to = ascend(self.here.to.as_raw_fd(), above.to)?;
        self.in_programs = self.in_programs && !self.above.is_empty();
        self.here = Folder {
            layers,
            to,
            stat: above.stat,
            rest: above.rest,
            hidden: above.hidden,
            opaque: above.opaque,
        };
        Ok(())
    }

    fn is_opaque(&self, at: RawFd, name: &CStr, in_programs: bool) -> io::Result<bool> {
        match &self.overlay {
            Some(overlay) => {
                for attribute in overlay.marks(in_programs) {
                    if xattr::get(at, name, attribute)?.as_deref() == Some(b"y") {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            None => Ok(false),
        }
    }

    /// Refuses attributes of overlayfs options that this engine never uses, because they cannot be merged
    /// without the layers below.
    fn refuse(&self, at: RawFd, name: &CStr) -> io::Result<()> {
        let Some(overlay) = &self.overlay else {
            return Ok(());
        };
        for attribute in &overlay.refused {
            if xattr::get(at, name, attribute)?.is_some() {
                return Err(os(libc::EOPNOTSUPP));
            }
        }
        Ok(())
    }
}

/// The folders that the image `host` mounts (`images/host/host.ts`). Only these can be overlays of their own.
fn is_program_folder(name: &[u8]) -> bool {
    matches!(name, b"usr" | b"bin" | b"sbin") || name.starts_with(b"lib")
}

impl Attributes {
    fn marks(&self, in_programs: bool) -> impl Iterator<Item = &CString> {
        let inside = self.opaque_inside.as_ref().filter(|_| in_programs);
        [&self.opaque].into_iter().chain(inside)
    }

    fn of(space: &str) -> Attributes {
        let name = |last: &str| CString::new(format!("{space}.overlay.{last}")).expect("no NUL in it");
        Attributes {
            prefix: format!("{space}.overlay.").into_bytes(),
            opaque: name("opaque"),
            opaque_inside: (space != "user").then(|| c"user.overlay.opaque".to_owned()),
            refused: [name("redirect"), name("metacopy")],
        }
    }
}

/// Drops overlayfs's own attributes, which do not apply to the merged layer. Escaped ones belong to the
/// sandbox and are kept.
fn wanted(overlay: &Option<Attributes>, attribute: &CStr) -> bool {
    match overlay {
        Some(Attributes { prefix, .. }) => match attribute.to_bytes().strip_prefix(prefix.as_slice()) {
            Some(rest) => rest.starts_with(b"overlay."),
            None => true,
        },
        None => true,
    }
}

fn is_whiteout(stat: &libc::stat64) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == 0
}

/// Opens a folder for reading, without updating its access time if possible.
fn read(at: RawFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NOATIME;
    // SAFETY: a C string that outlives the call.
    crate::sys::own(unsafe { libc::openat(at, name.as_ptr(), flags) }).or_else(|_| open_folder(at, name))
}
