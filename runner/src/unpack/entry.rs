//! Metadata of one entry of a tar archive.

use crate::files::tar::{Parsed, malformed, pax};
use crate::wire::error::{OpError, OpResult};
use std::ffi::CString;

/// Extra headers for the entry that follows.
#[derive(Default)]
pub struct Extra {
    pub name: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    pub time: Option<(i64, i64)>,
    pub attributes: Vec<(CString, Vec<u8>)>,
}

pub struct Entry {
    pub header: Parsed,
    pub owner: (u32, u32),
    pub time: (i64, i64),
    pub attributes: Vec<(CString, Vec<u8>)>,
}

impl Extra {
    /// Parses the records of a pax header.
    pub fn read(&mut self, bytes: &[u8]) -> OpResult<()> {
        for (key, value) in pax(bytes).map_err(malformed)? {
            let number = || {
                std::str::from_utf8(&value)
                    .ok()
                    .and_then(|text| text.parse().ok())
            };
            match key.as_slice() {
                b"path" => self.name = Some(value),
                b"linkpath" => self.link = Some(value),
                b"size" => {
                    self.size = Some(number().ok_or_else(|| malformed("a pax header has an invalid size"))?)
                }
                b"uid" => self.uid = number(),
                b"gid" => self.gid = number(),
                b"mtime" => self.time = time_of(&value),
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(malformed("sparse files are not supported"));
                }
                key => {
                    if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                        let name = CString::new(name)
                            .map_err(|_| malformed("the name of an attribute is invalid"))?;
                        self.attributes.push((name, value));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Parses `1700000000.25`. `None` for anything else, including negative times.
fn time_of(text: &[u8]) -> Option<(i64, i64)> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    Some((
        seconds.parse().ok().filter(|time| *time >= 0)?,
        digits.parse().ok()?,
    ))
}

/// Splits a name into components; empty for the root.
pub fn parts_of(name: &[u8]) -> OpResult<Vec<CString>> {
    let mut parts = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(OpError::new("denied", "the name contains '..'")),
            part => {
                parts.push(CString::new(part).map_err(|_| OpError::invalid("the name contains a NUL byte"))?)
            }
        }
    }
    if name.starts_with(b"/") && !parts.is_empty() {
        return Err(OpError::new("denied", "the name is absolute"));
    }
    Ok(parts)
}

/// Adds the entry's name to an error, shortened and without control characters.
pub fn about(name: &[u8], error: OpError) -> OpError {
    let name: String = String::from_utf8_lossy(name)
        .chars()
        .map(|character| if character.is_control() { '?' } else { character })
        .take(200)
        .collect();
    OpError {
        message: format!("'{name}': {}", error.message),
        ..error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_escape_the_root() {
        let parts = |name: &[u8]| parts_of(name).map(|parts| parts.len());
        assert_eq!(parts(b"./a//b/").ok(), Some(2));
        assert_eq!(parts(b"/").ok(), Some(0));
        assert!(parts(b"a/../b").is_err());
        assert!(parts(b"/etc/passwd").is_err());
        assert!(parts(b"..").is_err());
    }

    #[test]
    fn times_are_parsed_with_fractions() {
        assert_eq!(time_of(b"12"), Some((12, 0)));
        assert_eq!(time_of(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time_of(b"12.1234567899"), Some((12, 123_456_789)));
        assert_eq!(time_of(b"-1"), None);
        assert_eq!(time_of(b"soon"), None);
    }
}
