//! A disk with a limit: a file system in a file of that size. What the sandbox writes fills that and nothing else.
//!
//! Chosen because it works on every file system. (Project quotas would cost less, where there are any: they must be switched on for the whole file system of the
//! host, mostly when it is mounted.) The file has holes: it takes what was written, not its size.

use super::host_proc;
use super::mounts::mount;
use crate::sys::check;
use crate::tree::content::Ways;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
/// Detached by the kernel when the last mount of it has gone, whoever has died before.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Others take free devices as well.
const TRIES: usize = 100;
const DETACH_TIME: Duration = Duration::from_secs(10);

/// `noinit_itable`: otherwise the kernel fills the unused inode tables with zeroes in the background, as if the sandbox had written them. `nobarrier`: without a
/// journal no flush makes the disk whole after a power failure, and every mount would wait for the disk of the host.
const OPTIONS: &str = "errors=remount-ro,nodiscard,noinit_itable,nobarrier";

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

/// Makes `file` a copy of an empty file system of the same size, unless it is there. Only what is in the template is copied, so holes stay holes.
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
    Ways::default().copy(from.as_raw_fd(), to.as_raw_fd(), size)
}

/// Mounts the file system in `file` on the folder `target` and makes the two folders of a disk in it.
pub fn attach(file: &str, target: &str) -> io::Result<()> {
    wait_until_detached(file)?;
    let file = host_proc::open(file, libc::O_RDWR | libc::O_NOFOLLOW)?;
    fs::create_dir(target)?;
    let device = loop_device(&file)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOATIME;
    mount(&device.path, target, "ext4", flags, OPTIONS).map_err(damaged)?;
    // What is in `upper` is the sandbox's, and not looked at. It has never seen `work`, in which the last mount has left something that the next one refuses.
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

/// The kernel has several words for a file system that is none; with these options all of them mean the same.
fn damaged(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EIO | libc::EBADMSG) => io::Error::from_raw_os_error(libc::EUCLEAN),
        _ => error,
    }
}

/// The kernel takes the last mount of a sandbox apart a moment after its last process has gone. Until then what was written is not in the file yet, and two
/// mounts of one file would each believe to be alone.
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
    /// Open until it is mounted: the kernel would detach it otherwise.
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

/// The kernel has it; a machine without udev may have no name for it yet.
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
