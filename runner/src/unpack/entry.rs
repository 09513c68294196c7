//! What a tar archive says about one entry, and what a sandbox makes of it.

use super::input::malformed;
use crate::files::tar::{Parsed, pax};
use crate::wire::error::{OpError, OpResult};
use std::ffi::CString;

/// What extra headers say about the entry that follows.
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
    /// The records of a pax header.
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
                b"size" => self.size = Some(number().ok_or_else(|| malformed("a size in a pax header"))?),
                b"uid" => self.uid = number(),
                b"gid" => self.gid = number(),
                b"mtime" => self.time = time_of(&value),
                key if key.starts_with(b"GNU.sparse.") => return Err(malformed("a sparse file")),
                key => {
                    if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                        let name = CString::new(name).map_err(|_| malformed("an attribute's name"))?;
                        self.attributes.push((name, value));
                    }
                }
            }
        }
        Ok(())
    }
}

/// `1700000000.25`; `None` for what is no time, or before there were any.
fn time_of(text: &[u8]) -> Option<(i64, i64)> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    Some((
        seconds.parse().ok().filter(|time| *time >= 0)?,
        digits.parse().ok()?,
    ))
}

/// A name taken apart; empty for the root itself.
pub fn parts_of(name: &[u8]) -> OpResult<Vec<CString>> {
    let mut parts = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(OpError::new("denied", "a name with '..' in it")),
            part => parts.push(CString::new(part).map_err(|_| OpError::invalid("a NUL in a name"))?),
        }
    }
    if name.starts_with(b"/") && !parts.is_empty() {
        return Err(OpError::new("denied", "an absolute name"));
    }
    Ok(parts)
}

/// Which entry it was: shortened, and with what a terminal might obey taken out.
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
    fn names_stay_inside() {
        let parts = |name: &[u8]| parts_of(name).map(|parts| parts.len());
        assert_eq!(parts(b"./a//b/").ok(), Some(2));
        assert_eq!(parts(b"/").ok(), Some(0));
        assert!(parts(b"a/../b").is_err());
        assert!(parts(b"/etc/passwd").is_err());
        assert!(parts(b"..").is_err());
    }

    #[test]
    fn times_have_fractions() {
        assert_eq!(time_of(b"12"), Some((12, 0)));
        assert_eq!(time_of(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time_of(b"12.1234567899"), Some((12, 123_456_789)));
        assert_eq!(time_of(b"-1"), None);
        assert_eq!(time_of(b"soon"), None);
    }
}
