//! Standard input as blocks of a tar archive.

use crate::files::tar::{BLOCK, padding};
use crate::wire::error::{OpError, OpResult};
use std::io::{ErrorKind, Read, StdinLock};

/// Limit of a long name or a pax header, which can contain extended attributes of 64 KiB each.
const MAX_EXTRA: u64 = 1024 * 1024;

pub struct Input {
    stdin: StdinLock<'static>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    left: u64,
}

impl Input {
    pub fn new(max_bytes: u64) -> Input {
        Input {
            stdin: std::io::stdin().lock(),
            buffer: vec![0; 256 * 1024],
            start: 0,
            end: 0,
            left: max_bytes,
        }
    }

    /// The next header; `None` at the end of the archive.
    pub fn header(&mut self) -> OpResult<Option<[u8; BLOCK]>> {
        // Some writers omit the zero blocks at the end.
        if self.is_over()? {
            return Ok(None);
        }
        let mut block = [0; BLOCK];
        self.exact(&mut block)?;
        Ok(block.iter().any(|byte| *byte != 0).then_some(block))
    }

    /// At least one byte, at most `most`.
    pub fn some(&mut self, most: u64) -> OpResult<&[u8]> {
        if self.is_over()? {
            return Err(malformed("it is truncated"));
        }
        let len = (self.end - self.start).min(usize::try_from(most).unwrap_or(usize::MAX));
        self.start += len;
        Ok(&self.buffer[self.start - len..self.start])
    }

    pub fn pad(&mut self, size: u64) -> OpResult<()> {
        self.exact(&mut [0; BLOCK][..padding(size)])
    }

    pub fn skip(&mut self, size: u64) -> OpResult<()> {
        let mut left = size;
        while left > 0 {
            left -= self.some(left)?.len() as u64;
        }
        self.pad(size)
    }

    pub fn extra(&mut self, size: u64) -> OpResult<Vec<u8>> {
        if size > MAX_EXTRA {
            return Err(malformed("a header is too long"));
        }
        let mut bytes = vec![0; size as usize];
        self.exact(&mut bytes)?;
        self.pad(size)?;
        Ok(bytes)
    }

    /// Reads whatever follows the end marker.
    pub fn drain(&mut self) -> OpResult<()> {
        while !self.is_over()? {
            self.start = self.end;
        }
        Ok(())
    }

    fn exact(&mut self, out: &mut [u8]) -> OpResult<()> {
        let mut filled = 0;
        while filled < out.len() {
            let bytes = self.some((out.len() - filled) as u64)?;
            out[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        }
        Ok(())
    }

    fn is_over(&mut self) -> OpResult<bool> {
        while self.start == self.end {
            match self.stdin.read(&mut self.buffer) {
                Ok(0) => return Ok(true),
                Ok(count) => (self.start, self.end) = (0, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(OpError::io(&error, "read the archive")),
            }
            self.left = self
                .left
                .checked_sub(self.end as u64)
                .ok_or_else(|| OpError::new("too_large", "the archive exceeds the limit of bytes"))?;
        }
        Ok(false)
    }
}

pub fn malformed(what: &str) -> OpError {
    OpError::invalid(format!("cannot unpack the tar archive: {what}"))
}
