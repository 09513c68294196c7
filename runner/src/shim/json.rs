//! A minimal JSON parser and printer for tasks and records. Written by hand because the runner has no
//! dependencies. The engine is the only writer, so the parser is strict.

use std::fmt::Write;

const MAX_DEPTH: usize = 16;

#[derive(Debug, PartialEq, Clone)]
pub enum Json {
    Null,
    Bool(bool),
    /// Integers only: tasks and records contain no fractions.
    Number(i64),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    pub fn parse(text: &str) -> Result<Json, String> {
        let mut parser = Parser {
            bytes: text.as_bytes(),
            text,
            at: 0,
        };
        let value = parser.value(0)?;
        parser.space();
        if parser.at != parser.bytes.len() {
            Err(parser.wrong("unexpected text after the end"))
        } else {
            Ok(value)
        }
    }

    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Map(entries) => entries
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Prints one line without spaces.
    pub fn print(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(value) => out.push_str(&value.to_string()),
            Json::Text(text) => quote(text, out),
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push(if index == 0 { '[' } else { ',' });
                    item.print(out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Json::Map(entries) => {
                for (index, (name, value)) in entries.iter().enumerate() {
                    out.push(if index == 0 { '{' } else { ',' });
                    quote(name, out);
                    out.push(':');
                    value.print(out);
                }
                out.push_str(if entries.is_empty() { "{}" } else { "}" });
            }
        }
    }

    pub fn line(&self) -> String {
        let mut out = String::new();
        self.print(&mut out);
        out.push('\n');
        out
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Parser<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("JSON: {what} at byte {}", self.at)
    }

    fn space(&mut self) {
        while self
            .bytes
            .get(self.at)
            .is_some_and(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
        {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: &str) -> bool {
        let found = self.text[self.at..].starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("nested too deeply"));
        }
        self.space();
        match self.bytes.get(self.at) {
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ => Err(self.wrong("expected a value")),
        }
    }

    fn map(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            self.space();
            if entries.is_empty() && self.take("}") {
                return Ok(Json::Map(entries));
            }
            let name = self.string()?;
            self.space();
            if !self.take(":") {
                return Err(self.wrong("expected ':'"));
            }
            entries.push((name, self.value(depth + 1)?));
            self.space();
            if self.take("}") {
                return Ok(Json::Map(entries));
            }
            if !self.take(",") {
                return Err(self.wrong("expected ',' or '}'"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.space();
            if items.is_empty() && self.take("]") {
                return Ok(Json::List(items));
            }
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take("]") {
                return Ok(Json::List(items));
            }
            if !self.take(",") {
                return Err(self.wrong("expected ',' or ']'"));
            }
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        while self
            .bytes
            .get(self.at)
            .is_some_and(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
        {
            self.at += 1;
        }
        self.text[start..self.at]
            .parse()
            .map(Json::Number)
            .map_err(|_| self.wrong("expected an integer"))
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.take("\"") {
            return Err(self.wrong("expected a string"));
        }
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .find(|c: char| c == '"' || c == '\\' || (c as u32) < 0x20)
                .unwrap_or(rest.len());
            out.push_str(&rest[..plain]);
            self.at += plain;
            if self.take("\"") {
                return Ok(out);
            }
            if !self.take("\\") {
                return Err(self.wrong("unterminated string"));
            }
            let escape = self.bytes.get(self.at).copied();
            self.at += 1;
            out.push(match escape {
                Some(b'n') => '\n',
                Some(b't') => '\t',
                Some(b'r') => '\r',
                Some(b'b') => '\u{8}',
                Some(b'f') => '\u{c}',
                Some(c @ (b'"' | b'\\' | b'/')) => c as char,
                Some(b'u') => self.unicode()?,
                _ => return Err(self.wrong("unknown escape")),
            });
        }
    }

    fn unicode(&mut self) -> Result<char, String> {
        let high = self.hex()?;
        let code = if (0xd800..0xdc00).contains(&high) && self.take("\\u") {
            let low = self.hex()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(self.wrong("unpaired surrogate"));
            }
            0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).ok_or_else(|| self.wrong("unpaired surrogate"))
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.wrong("expected hex digits"))?;
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_round_trip() {
        let value = Json::Map(vec![
            (
                "a \"b\"\n".into(),
                Json::List(vec![Json::Number(-7), Json::Null, Json::Bool(true)]),
            ),
            ("ü😀".into(), Json::Text("\u{1}\\ \u{7f}".into())),
            ("none".into(), Json::Map(vec![])),
            ("empty".into(), Json::List(vec![])),
        ]);
        assert_eq!(Json::parse(&value.line()).unwrap(), value);
        assert_eq!(value.get("none"), Some(&Json::Map(vec![])));
    }

    #[test]
    fn escapes() {
        assert_eq!(
            Json::parse(r#" "\ud83d\ude00\u00fc\/\t" "#).unwrap(),
            Json::Text("😀ü/\t".into())
        );
    }

    #[test]
    fn malformed_documents_are_rejected() {
        let deep = "[".repeat(99);
        let odd = [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "1.5",
            "1 2",
            "\"\\ud800\"",
            "\"a",
            "tru",
            "\"\\x\"",
            "\"\\u12",
            "{,}",
        ];
        for text in odd.into_iter().chain([deep.as_str()]) {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }
}
