//! The tar header: 512 bytes of octal text. The runner writes GNU tar, whose long names are plain bytes (pax
//! requires UTF-8), and reads GNU, pax and old archives.

use crate::wire::error::{OpError, OpResult};

pub const BLOCK: usize = 512;

pub struct Header<'a> {
    pub kind: u8,
    pub name: &'a [u8],
    pub link: &'a [u8],
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    pub mtime: i64,
}

impl Header<'_> {
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0u8; BLOCK];
        put_bytes(&mut block[0..100], self.name);
        put_number(&mut block[100..108], self.mode as u64);
        put_number(&mut block[108..116], self.uid);
        put_number(&mut block[116..124], self.gid);
        put_number(&mut block[124..136], self.size);
        put_number(&mut block[136..148], self.mtime.max(0) as u64);
        block[156] = self.kind;
        put_bytes(&mut block[157..257], self.link);
        block[257..265].copy_from_slice(b"ustar  \0");
        let sum = checksum(&block);
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }
}

/// A parsed header.
pub struct Parsed {
    pub kind: u8,
    pub name: Vec<u8>,
    pub link: Vec<u8>,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    pub mtime: i64,
    /// Major and minor number of a device.
    pub device: (u64, u64),
}

pub fn decode(block: &[u8; BLOCK]) -> Result<Parsed, &'static str> {
    let stored = number(&block[148..156]).ok_or("a header has no checksum")?;
    if stored != checksum(block) as u64 {
        return Err("a header has a wrong checksum");
    }
    let mut name = text(&block[0..100]);
    // POSIX ustar stores the start of a long name here. GNU uses the field for other data.
    let prefix = text(&block[345..500]);
    if &block[257..263] == b"ustar\0" && !prefix.is_empty() {
        name = [&prefix[..], b"/", &name[..]].concat();
    }
    Ok(Parsed {
        kind: block[156],
        name,
        link: text(&block[157..257]),
        mode: number(&block[100..108]).unwrap_or(0o644) as u32 & 0o7777,
        uid: number(&block[108..116]).unwrap_or(0),
        gid: number(&block[116..124]).unwrap_or(0),
        size: number(&block[124..136]).ok_or("a header has no size")?,
        mtime: number(&block[136..148]).map_or(0, |time| time.min(i64::MAX as u64) as i64),
        device: (
            number(&block[329..337]).unwrap_or(0),
            number(&block[337..345]).unwrap_or(0),
        ),
    })
}

/// Parses the records of a pax header: `<length> <key>=<value>\n`, repeated.
pub fn pax(mut bytes: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, &'static str> {
    const BROKEN: &str = "a pax header is malformed";
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ').ok_or(BROKEN)?;
        let len: usize = std::str::from_utf8(&bytes[..space])
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|len| *len > space + 1 && *len <= bytes.len())
            .ok_or(BROKEN)?;
        let record = &bytes[space + 1..len - 1];
        let equals = record.iter().position(|byte| *byte == b'=').ok_or(BROKEN)?;
        records.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
        bytes = &bytes[len..];
    }
    Ok(records)
}

pub fn without_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    bytes
}

/// Padding bytes after `size` bytes of content.
pub fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

fn checksum(block: &[u8; BLOCK]) -> u32 {
    block
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            if (148..156).contains(&at) {
                32
            } else {
                *byte as u32
            }
        })
        .sum()
}

fn put_bytes(field: &mut [u8], bytes: &[u8]) {
    let len = bytes.len().min(field.len());
    field[..len].copy_from_slice(&bytes[..len]);
}

/// Octal if it fits, otherwise base 256 with the top bit set.
fn put_number(field: &mut [u8], number: u64) {
    let digits = field.len() - 1;
    let octal = format!("{number:0digits$o}");
    if octal.len() <= digits {
        field[..digits].copy_from_slice(octal.as_bytes());
    } else {
        let width = field.len();
        field[width - 8..].copy_from_slice(&number.to_be_bytes());
        field[0] |= 0x80;
    }
}

fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (high, low) = field.split_at(field.len().saturating_sub(8));
        let clear = high
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 0 { *byte == 0x80 } else { *byte == 0 });
        let low: [u8; 8] = low.try_into().ok()?;
        let value = u64::from_be_bytes(low) & if high.is_empty() { u64::MAX >> 1 } else { u64::MAX };
        return clear.then_some(value);
    }
    let digits = field
        .iter()
        .skip_while(|b| **b == b' ')
        .take_while(|b| matches!(b, b'0'..=b'7'));
    digits.clone().next()?;
    digits.into_iter().try_fold(0u64, |sum, digit| {
        sum.checked_mul(8)?.checked_add((digit - b'0') as u64)
    })
}

fn text(field: &[u8]) -> Vec<u8> {
    field.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

pub fn malformed(what: &str) -> OpError {
    OpError::invalid(format!("cannot unpack the tar archive: {what}"))
}

/// A tar archive that arrives in chunks.
pub trait Archive {
    /// Limit of a long name or a pax header.
    const MAX_EXTRA: u64;

    /// At least one byte, at most `most`.
    fn some(&mut self, most: u64) -> OpResult<&[u8]>;

    fn exact(&mut self, out: &mut [u8]) -> OpResult<()> {
        let mut filled = 0;
        while filled < out.len() {
            let bytes = self.some((out.len() - filled) as u64)?;
            out[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        }
        Ok(())
    }

    fn pad(&mut self, size: u64) -> OpResult<()> {
        self.exact(&mut [0; BLOCK][..padding(size)])
    }

    fn skip(&mut self, size: u64) -> OpResult<()> {
        let mut left = size;
        while left > 0 {
            left -= self.some(left)?.len() as u64;
        }
        self.pad(size)
    }

    fn extra(&mut self, size: u64) -> OpResult<Vec<u8>> {
        if size > Self::MAX_EXTRA {
            return Err(malformed("a header is too long"));
        }
        let mut bytes = vec![0; size as usize];
        self.exact(&mut bytes)?;
        self.pad(size)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header = Header {
            kind: b'0',
            name: b"a\xff b",
            link: b"to",
            mode: 0o4755,
            uid: 1000,
            gid: 3_000_000_000,
            size: 9 << 40,
            mtime: 1_700_000_000,
        };
        let parsed = decode(&header.encode()).ok().unwrap();
        assert_eq!(
            (parsed.name.as_slice(), parsed.link.as_slice()),
            (&b"a\xff b"[..], &b"to"[..])
        );
        assert_eq!(
            (parsed.mode, parsed.size, parsed.mtime),
            (0o4755, 9 << 40, 1_700_000_000)
        );
        let mut broken = header.encode();
        broken[0] ^= 1;
        assert!(decode(&broken).is_err());
        assert!(decode(&[0xff; BLOCK]).is_err());
    }
}
