//! A disk with a size limit: a file system inside a sparse file of that size.
//!
//! This works on every file system. Project quotas would be cheaper, but must be enabled for the host's
//! whole file system, mostly at mount time.

use super::host_proc;
use super::mounts::{clone_tree, mount};
use crate::sys::check;
use crate::tree::content::CopyMethods;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

const LOOP_GET_STATUS64: libc::c_ulong = 0x4c05;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
/// The kernel detaches the device with its last mount, even if the shim has died.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Other processes compete for free devices.
const TRIES: usize = 100;
const DETACH_TIME: Duration = Duration::from_secs(10);

/// `noinit_itable`: otherwise the kernel zeroes unused inode tables in the background, which fills the
/// sparse file. `nobarrier`: without a journal no flush protects against power loss, and every mount would
/// wait for the host's disk.
const OPTIONS: &str = "errors=remount-ro,nodiscard,noinit_itable,nobarrier";

/// A volume outlives its sandboxes, so it has a journal and barriers. `discard` returns the space of deleted files
/// to the host.
const SHARED_OPTIONS: &str = "errors=remount-ro,discard,noinit_itable";

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// Creates `file` as a copy of an empty file system, unless it exists. Holes stay holes.
pub fn provide(file: &str, template: &str) -> io::Result<()> {
    if fs::exists(file)? {
        return Ok(());
    }
    let draft = format!("{file}.draft");
    let copied = copy(template, &draft).and_then(|()| fs::rename(&draft, file));
    if copied.is_err() {
        let _ = fs::remove_file(&draft);
    }
    copied
}

fn copy(template: &str, draft: &str) -> io::Result<()> {
    let from = fs::File::open(template)?;
    let mut options = fs::OpenOptions::new();
    let to = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(draft)?;
    let size = i64::try_from(from.metadata()?.len()).map_err(io::Error::other)?;
    CopyMethods::default().copy(from.as_raw_fd(), to.as_raw_fd(), size)
}

/// Mounts the file system in `file` on `target` and creates the two folders of a disk.
pub fn attach(file: &str, target: &str) -> io::Result<()> {
    wait_until_detached(file)?;
    let file = host_proc::open(file, libc::O_RDWR | libc::O_NOFOLLOW)?;
    fs::create_dir(target)?;
    let device = loop_device(&file)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOATIME;
    mount(&device.path, target, "ext4", flags, OPTIONS).map_err(damaged)?;
    // `upper` belongs to the sandbox and is not inspected. `work` has leftovers of the last mount that
    // overlayfs would reject.
    match fs::create_dir(format!("{target}/upper")) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result?,
    }
    let work = format!("{target}/work");
    match fs::remove_dir_all(&work) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => result?,
    }
    fs::create_dir(work)
}

/// Mounts the file system in `file`, which other sandboxes may have mounted already, on `target`. Returns its folder
/// `data`.
///
/// All sandboxes must use the same loop device: the kernel mounts a device once, however often it is mounted, but
/// two devices with the same file would corrupt it. So the search for a device and the mount happen under a lock.
pub fn share(file: &str, target: &str) -> io::Result<OwnedFd> {
    // The loop device keeps its own descriptor open, and with it would keep a lock on that descriptor.
    let lock = host_proc::open(file, libc::O_RDWR | libc::O_NOFOLLOW)?;
    // SAFETY: takes a descriptor and flags.
    check(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) })?;
    let device = match attached_device(&lock)? {
        Some(device) => device,
        None => loop_device(&host_proc::open(file, libc::O_RDWR | libc::O_NOFOLLOW)?)?,
    };
    fs::create_dir(target)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOATIME;
    mount(&device.path, target, "ext4", flags, SHARED_OPTIONS).map_err(damaged)?;
    clone_tree(&format!("{target}/data"))
}

/// The loop device of this file, whichever path and mount namespace it was attached from. While it is open, the kernel
/// does not detach it.
fn attached_device(file: &OwnedFd) -> io::Result<Option<Device>> {
    // SAFETY: `stat` is plain data that the call fills.
    let (device, inode) = unsafe {
        let mut facts: libc::stat = std::mem::zeroed();
        check(libc::fstat(file.as_raw_fd(), &raw mut facts))?;
        (facts.st_dev, facts.st_ino)
    };
    for entry in fs::read_dir("/sys/block")?.flatten() {
        let Some(number) = loop_number(&entry.file_name().to_string_lossy()) else {
            continue;
        };
        // Devices without a file have no such folder.
        if !entry.path().join("loop").exists() {
            continue;
        }
        let path = device_path(number)?;
        let open = match host_proc::open(&path, libc::O_RDWR) {
            // Detached since the listing.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENOENT)) => continue,
            opened => opened?,
        };
        // SAFETY: a structure of numbers, for which zeroes are valid; the request fills it.
        let mut info: LoopInfo = unsafe { std::mem::zeroed() };
        let status = check(unsafe { libc::ioctl(open.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) });
        if status.is_ok() && (info.device, info.inode) == (device, inode) {
            return Ok(Some(Device { path, _open: open }));
        }
    }
    Ok(None)
}

fn loop_number(name: &str) -> Option<libc::c_int> {
    name.strip_prefix("loop")?.parse().ok()
}

/// The kernel has several errors for a damaged file system; with these options all mean the same.
fn damaged(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EIO | libc::EBADMSG) => io::Error::from_raw_os_error(libc::EUCLEAN),
        _ => error,
    }
}

/// The kernel finishes the unmount a moment after the last process of the sandbox. Until then the file is
/// incomplete, and a second mount would corrupt it.
fn wait_until_detached(file: &str) -> io::Result<()> {
    let deadline = Instant::now() + DETACH_TIME;
    while is_attached(file) {
        if Instant::now() > deadline {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn is_attached(file: &str) -> bool {
    let Ok(devices) = fs::read_dir("/sys/block") else {
        return false;
    };
    devices
        .flatten()
        .filter(|device| device.file_name().as_encoded_bytes().starts_with(b"loop"))
        .filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok())
        .any(|backing| backing.trim_end_matches('\n') == file)
}

struct Device {
    path: String,
    /// Kept open until it is mounted, because the kernel would detach it otherwise.
    _open: OwnedFd,
}

fn loop_device(file: &OwnedFd) -> io::Result<Device> {
    let control = host_proc::open("/dev/loop-control", libc::O_RDWR)?;
    for _ in 0..TRIES {
        // SAFETY: takes no argument and returns a number.
        let number = check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) })?;
        let path = device_path(number)?;
        let device = host_proc::open(&path, libc::O_RDWR)?;
        // SAFETY: a structure of numbers, for which zeroes are valid.
        let mut config: LoopConfig = unsafe { std::mem::zeroed() };
        config.fd = file.as_raw_fd() as u32;
        config.info.flags = LO_FLAGS_AUTOCLEAR;
        // SAFETY: the request reads one such structure.
        match check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) }) {
            Ok(_) => {
                return Ok(Device { path, _open: device });
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Without udev the device node may be missing.
fn device_path(number: libc::c_int) -> io::Result<String> {
    let path = format!("/dev/loop{number}");
    if !fs::exists(&path)? {
        let name = CString::new(path.as_str())?;
        // SAFETY: a C string that outlives the call.
        let made = check(unsafe {
            libc::mknod(
                name.as_ptr(),
                libc::S_IFBLK | 0o660,
                libc::makedev(7, number as libc::c_uint),
            )
        });
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(path)
}
