//! The bodies of control frames: a strict subset of CBOR (RFC 8949).
//!
//! CBOR instead of JSON, because names and arguments are bytes, and CBOR has byte strings. CBOR instead of a
//! fixed layout, because unknown fields must be skippable. The subset: integers of 53 bits, byte strings,
//! UTF-8 text, arrays and maps of definite length with text keys, false, true, null. Lengths use the
//! shortest form, so each value has one encoding and golden frames can be compared byte for byte. Rejected:
//! floats, tags, indefinite lengths, duplicate keys.

/// More than any message needs. Bounds the stack for hostile input.
const MAX_DEPTH: u32 = 16;
/// Values in one body: enough for argv and env of a large command.
const MAX_ITEMS: u32 = 65_536;
/// 2^53 - 1, which both sides represent exactly.
const MAX_INT: i64 = 9_007_199_254_740_991;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Bytes(Vec<u8>),
    Text(String),
    Array(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(fields) => fields
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }
}

/// A map body. Unknown values are omitted, never invented.
#[derive(Default, Clone, Debug)]
pub struct Fields(Vec<(String, Value)>);

impl Fields {
    pub fn new() -> Self {
        Fields(Vec::new())
    }
    pub fn set(mut self, key: &str, value: Value) -> Self {
        self.0.push((key.to_owned(), value));
        self
    }
    /// Omits a number that exceeds 53 bits.
    pub fn int(self, key: &str, value: impl TryInto<i64>) -> Self {
        match value
            .try_into()
            .ok()
            .filter(|value| (-MAX_INT..=MAX_INT).contains(value))
        {
            Some(value) => self.set(key, Value::Int(value)),
            None => self,
        }
    }
    pub fn text(self, key: &str, value: &str) -> Self {
        self.set(key, Value::Text(value.to_owned()))
    }
    pub fn bytes(self, key: &str, value: &[u8]) -> Self {
        self.set(key, Value::Bytes(value.to_vec()))
    }
    pub fn bool(self, key: &str, value: bool) -> Self {
        self.set(key, Value::Bool(value))
    }
    pub fn maybe_int(self, key: &str, value: Option<impl TryInto<i64>>) -> Self {
        match value {
            Some(value) => self.int(key, value),
            None => self,
        }
    }
    pub fn maybe_bytes(self, key: &str, value: Option<&[u8]>) -> Self {
        match value {
            Some(value) => self.bytes(key, value),
            None => self,
        }
    }

    pub fn maybe_text(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }
    pub fn value(self) -> Value {
        Value::Map(self.0)
    }
    pub fn encode(self) -> Vec<u8> {
        encode(&self.value())
    }
}

pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    write(&mut out, value);
    out
}

pub fn decode(bytes: &[u8]) -> Result<Value, &'static str> {
    let mut reader = Reader { bytes, items: 0 };
    let value = reader.value(0)?;
    if reader.bytes.is_empty() {
        Ok(value)
    } else {
        Err("the body has bytes after its end")
    }
}

fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(false) => out.push(0xf4),
        Value::Bool(true) => out.push(0xf5),
        Value::Int(int) if *int >= 0 => head(out, 0, *int as u64),
        Value::Int(int) => head(out, 1, !*int as u64),
        Value::Bytes(bytes) => {
            head(out, 2, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
        Value::Text(text) => write_text(out, text),
        Value::Array(values) => {
            head(out, 4, values.len() as u64);
            values.iter().for_each(|value| write(out, value));
        }
        Value::Map(fields) => {
            head(out, 5, fields.len() as u64);
            for (key, value) in fields {
                write_text(out, key);
                write(out, value);
            }
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    head(out, 3, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    match argument {
        0..24 => out.push(major | argument as u8),
        24..0x100 => out.extend_from_slice(&[major | 24, argument as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&(argument as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&argument.to_be_bytes());
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    items: u32,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8], &'static str> {
        let len = usize::try_from(len).map_err(|_| "a length exceeds the body")?;
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or("the body is truncated")?;
        self.bytes = rest;
        Ok(taken)
    }

    fn head(&mut self) -> Result<(u8, u8, u64), &'static str> {
        let first = self.take(1)?[0];
        let (major, info) = (first >> 5, first & 31);
        let argument = match info {
            0..24 => info as u64,
            24..28 => {
                let width = 1u64 << (info - 24);
                let argument = self
                    .take(width)?
                    .iter()
                    .fold(0u64, |sum, byte| sum << 8 | *byte as u64);
                let least = if info == 24 { 24 } else { 1u64 << (4 * width) };
                if major < 7 && argument < least {
                    return Err("a length is not in shortest form");
                }
                argument
            }
            _ => return Err("indefinite lengths are not allowed"),
        };
        Ok((major, info, argument))
    }

    fn value(&mut self, depth: u32) -> Result<Value, &'static str> {
        self.items += 1;
        if depth > MAX_DEPTH || self.items > MAX_ITEMS {
            return Err("the body has too many values");
        }
        let (major, info, argument) = self.head()?;
        match (major, info) {
            (0 | 1, _) if argument > MAX_INT as u64 => Err("an integer exceeds 53 bits"),
            (0, _) => Ok(Value::Int(argument as i64)),
            (1, _) => Ok(Value::Int(!(argument as i64))),
            (2, _) => Ok(Value::Bytes(self.take(argument)?.to_vec())),
            (3, _) => Ok(Value::Text(self.text(argument)?)),
            (4, _) => {
                let mut values = Vec::new();
                for _ in 0..argument {
                    values.push(self.value(depth + 1)?);
                }
                Ok(Value::Array(values))
            }
            (5, _) => self.map(argument, depth),
            (7, 20) => Ok(Value::Bool(false)),
            (7, 21) => Ok(Value::Bool(true)),
            (7, 22) => Ok(Value::Null),
            _ => Err("a value has a type that the protocol does not use"),
        }
    }

    fn text(&mut self, len: u64) -> Result<String, &'static str> {
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| "text is not UTF-8")
    }

    fn map(&mut self, len: u64, depth: u32) -> Result<Value, &'static str> {
        // Bounds the quadratic search for duplicate keys.
        if len > 4096 {
            return Err("a map has too many fields");
        }
        let mut fields: Vec<(String, Value)> = Vec::new();
        for _ in 0..len {
            let (major, _, argument) = self.head()?;
            if major != 3 {
                return Err("a map key is not text");
            }
            let key = self.text(argument)?;
            if fields.iter().any(|(name, _)| *name == key) {
                return Err("a map has a duplicate key");
            }
            let value = self.value(depth + 1)?;
            fields.push((key, value));
        }
        Ok(Value::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        let value = Fields::new()
            .int("zero", 0)
            .int("edge", 23)
            .int("byte", 24)
            .int("word", 65_536)
            .int("most", MAX_INT)
            .int("least", -MAX_INT)
            .int("left out", u64::MAX)
            .bytes("name", b"\xff\0\n")
            .text("text", "ä")
            .bool("yes", true)
            .set("list", Value::Array(vec![Value::Null, Value::Int(-1)]))
            .value();
        assert_eq!(decode(&encode(&value)), Ok(value));
    }

    #[test]
    fn hostile_bodies_are_rejected() {
        for bytes in [
            &b""[..],
            b"\x18\x17",                         // 23 in two bytes
            b"\x5f",                             // indefinite
            b"\xfb\0\0\0\0\0\0\0\0",             // float
            b"\xc0\0",                           // tag
            b"\x61\xff",                         // not UTF-8
            b"\x9b\xff\xff\xff\xff\xff\xff\xff", // truncated
            b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xa2\x61a\x00\x61a\x01",               // duplicate key
            b"\xa1\x00\x00",                         // a number as key
            b"\x00\x00",                             // two values
            b"\x1b\x00\x20\x00\x00\x00\x00\x00\x00", // 2^53
        ] {
            assert!(decode(bytes).is_err(), "{bytes:x?}");
        }
        assert!(decode(&[0x81; 100]).is_err(), "nesting");
        let mut many = vec![0x9a, 0, 2, 0, 0];
        many.extend(std::iter::repeat_n(0u8, 0x20000));
        assert!(decode(&many).is_err(), "items");
    }
}
