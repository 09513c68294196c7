//! Typed access to a REQUEST body. Every error names the field.

use super::cbor::Value;
use super::error::{OpError, OpResult};
use std::ffi::CString;

pub struct Request<'a>(pub &'a Value);

impl<'a> Request<'a> {
    pub fn text(&self, key: &str) -> OpResult<&'a str> {
        self.maybe_text(key)?.ok_or_else(|| missing(key))
    }

    pub fn maybe_text(&self, key: &str) -> OpResult<Option<&'a str>> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(key, "text")),
        }
    }

    /// A caller-chosen id. Short, because tables and tombstones keep it.
    pub fn id(&self, key: &str) -> OpResult<&'a str> {
        let id = self.text(key)?;
        if id.is_empty() || id.len() > 128 {
            return Err(OpError::invalid(format!("{key}: must have 1 to 128 bytes")));
        }
        Ok(id)
    }

    pub fn bool(&self, key: &str) -> OpResult<bool> {
        match self.present(key) {
            None => Ok(false),
            Some(Value::Bool(bool)) => Ok(*bool),
            Some(_) => Err(wrong(key, "a boolean")),
        }
    }

    pub fn uint(&self, key: &str, most: u64) -> OpResult<u64> {
        self.maybe_uint(key, most)?.ok_or_else(|| missing(key))
    }

    pub fn maybe_uint(&self, key: &str, most: u64) -> OpResult<Option<u64>> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::Int(int)) if *int >= 0 && *int as u64 <= most => Ok(Some(*int as u64)),
            Some(_) => Err(wrong(key, &format!("an integer from 0 to {most}"))),
        }
    }

    /// Bytes or UTF-8 text without NUL, for the kernel.
    pub fn maybe_cstring(&self, key: &str) -> OpResult<Option<CString>> {
        self.present(key).map(|value| cstring(key, value)).transpose()
    }

    pub fn cstring(&self, key: &str) -> OpResult<CString> {
        self.maybe_cstring(key)?.ok_or_else(|| missing(key))
    }

    /// A path that is not empty and not too long for the kernel.
    pub fn path(&self, key: &str) -> OpResult<CString> {
        let path = self.cstring(key)?;
        match path.as_bytes().len() {
            1..4096 => Ok(path),
            0 => Err(OpError::invalid(format!("{key}: must not be empty"))),
            _ => Err(OpError::errno(libc::ENAMETOOLONG, key)),
        }
    }

    pub fn cstrings(&self, key: &str) -> OpResult<Vec<CString>> {
        match self.present(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values.iter().map(|value| cstring(key, value)).collect(),
            Some(_) => Err(wrong(key, "an array")),
        }
    }

    pub fn map(&self, key: &str) -> OpResult<&'a [(String, Value)]> {
        match self.present(key) {
            None => Ok(&[]),
            Some(Value::Map(fields)) => Ok(fields),
            Some(_) => Err(wrong(key, "a map")),
        }
    }

    pub fn present(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| **value != Value::Null)
    }
}

pub fn cstring(key: &str, value: &Value) -> OpResult<CString> {
    let bytes = match value {
        Value::Bytes(bytes) => bytes.clone(),
        Value::Text(text) => text.clone().into_bytes(),
        _ => return Err(wrong(key, "bytes or text")),
    };
    CString::new(bytes).map_err(|_| OpError::invalid(format!("{key}: contains a NUL byte")))
}

fn missing(key: &str) -> OpError {
    OpError::invalid(format!("{key}: missing"))
}

fn wrong(key: &str, want: &str) -> OpError {
    OpError::invalid(format!("{key}: must be {want}"))
}
