//! Copies a tree, or several layers of an overlay as one.
//!
//! Both are one walk. It holds an open folder for each layer that takes part in the current folder, and one in the new tree; it goes down by
//! name and up by `..`. A layer drops out of a folder when it has nothing there, or when one above it hides it (a whiteout, another kind of file,
//! an opaque folder); its descriptor is kept for the way up. A layer that has dropped out cannot come in again further down, so there are never
//! more open folders than twice the layers.
//!
//! ```text
//! layers:   a/ (opaque)     a/           the new tree: a/ opaque, with x of the first and nothing of the second;
//!           a/x             a/y                        b, a whiteout: what is below both is still to be hidden
//!           b (whiteout)    b
//! ```
//!
//! Layers that the merged one will lie on may be told. They are only looked at: the kernel lists a whiteout as a name in a folder that nothing lies
//! below, so there it must not be.

use super::content::Ways;
use super::links::Links;
use super::{Identity, Outcome, Tally, climb, doing, is_folder, node, os, remove, xattr};
use crate::files::dir::{Dir, open_folder, stat_at, stat_fd};
use crate::sys::check;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Everything as it is, what overlayfs wrote for itself included.
pub fn copy(from: &CStr, to: &CStr) -> Outcome<Tally> {
    make(&[from.to_owned()], None, to, None)
}

/// One layer that, on what lies below, shows what these show. `user`: overlayfs was mounted with `userxattr`.
pub fn squash(layers: &[CString], onto: Option<&[CString]>, to: &CStr, user: bool) -> Outcome<Tally> {
    make(layers, onto, to, Some(if user { "user" } else { "trusted" }))
}

/// When it fails, nothing is left of the new tree.
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
    /// What lies below is known.
    grounded: bool,
    ways: Ways,
    tally: Tally,
    /// The names of overlayfs's own attributes when layers are merged; none when a tree is copied.
    overlay: Option<Attributes>,
}

/// The folder that is being made.
struct Folder {
    /// The uppermost layer's first: its owner, mode, times and attributes are the new folder's.
    layers: Vec<Layer>,
    to: OwnedFd,
    stat: libc::stat64,
    /// Folders in it that are still to be made.
    rest: Vec<CString>,
    /// Nothing that lies below all the layers shows in it.
    hidden: bool,
    opaque: bool,
}

/// The folder above, while one in it is being made.
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
    /// Not part of what is made, but below it.
    ground: bool,
}

enum Place {
    WentDown(Identity, bool),
    Waits(Layer),
}

struct Attributes {
    prefix: Vec<u8>,
    opaque: CString,
    /// Those that send the kernel elsewhere for a file's name or content: what they mean depends on what lies below.
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
            ways: Ways::default(),
            tally: Tally::default(),
            overlay: space.map(Attributes::of),
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

    /// All in the current folder but its folders, which it notes.
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
            // Something is mounted there: it is not part of the tree.
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
        // `over`: nothing further below shows. `closed`: and it is the new folder that must say so.
        let (mut over, mut closed) = (false, false);
        for layer in std::mem::take(&mut self.here.layers) {
            let (at, ground) = (layer.fd.as_raw_fd(), layer.ground);
            let stat = match stat_at(at, name, false) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
                stat => Some(stat?),
            };
            match stat {
                Some(stat) if !over && is_folder(&stat) => {
                    self.refuse(at, name)?;
                    over = self.is_opaque(at, name)?;
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

    /// The folder is whole: now it becomes what it was.
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
            xattr::set(to, c".", &overlay.opaque, b"y")?;
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
                    let fd = climb(below.fd.as_raw_fd(), identity)?;
                    Layer { fd, ground }
                }
            });
        }
        let to = climb(self.here.to.as_raw_fd(), above.to)?;
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

    fn is_opaque(&self, at: RawFd, name: &CStr) -> io::Result<bool> {
        match &self.overlay {
            Some(overlay) => Ok(xattr::get(at, name, &overlay.opaque)?.as_deref() == Some(b"y")),
            None => Ok(false),
        }
    }

    /// What was written with options of overlayfs that ours never has cannot be merged without knowing what lies below.
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

impl Attributes {
    fn of(space: &str) -> Attributes {
        let name = |last: &str| CString::new(format!("{space}.overlay.{last}")).expect("no NUL in it");
        Attributes {
            prefix: format!("{space}.overlay.").into_bytes(),
            opaque: name("opaque"),
            refused: [name("redirect"), name("metacopy")],
        }
    }
}

/// Of overlayfs's own notes none is true of the merged layer, but what was escaped in them is the sandbox's.
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

/// A folder to read, without marking it as read where that can be helped.
fn read(at: RawFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NOATIME;
    // SAFETY: a C string that outlives the call.
    crate::sys::own(unsafe { libc::openat(at, name.as_ptr(), flags) }).or_else(|_| open_folder(at, name))
}
