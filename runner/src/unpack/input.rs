//! Standard input as blocks of a tar archive.

use crate::files::tar::{Archive, BLOCK, malformed};
use crate::wire::error::{OpError, OpResult};
use std::io::{ErrorKind, Read, StdinLock};

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

    /// Reads whatever follows the end marker.
    pub fn drain(&mut self) -> OpResult<()> {
        while !self.is_over()? {
            self.start = self.end;
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

impl Archive for Input {
    /// Extended attributes in a pax header have up to 64 KiB each.
    const MAX_EXTRA: u64 = 1024 * 1024;

    fn some(&mut self, most: u64) -> OpResult<&[u8]> {
        if self.is_over()? {
            return Err(malformed("it is truncated"));
        }
        let len = (self.end - self.start).min(usize::try_from(most).unwrap_or(usize::MAX));
        self.start += len;
        Ok(&self.buffer[self.start - len..self.start])
    }
}
