//! Metadata fields of a file in `stat`, `list` and `read`.

use crate::wire::cbor::Fields;

pub fn kind(mode: u32) -> &'static str {
    match mode & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "symlink",
        libc::S_IFIFO => "fifo",
        libc::S_IFSOCK => "socket",
        _ => "device",
    }
}

pub fn fields(stat: &libc::stat64) -> Fields {
    Fields::new()
        .text("kind", kind(stat.st_mode))
        .int("size", stat.st_size)
        .int("mode", stat.st_mode & 0o7777)
        .int("uid", stat.st_uid)
        .int("gid", stat.st_gid)
        .int("mtimeMs", stat.st_mtime * 1000 + stat.st_mtime_nsec / 1_000_000)
        .int("inode", stat.st_ino)
        .int("links", stat.st_nlink)
}
