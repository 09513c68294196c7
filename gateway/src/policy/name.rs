//! Host names in the one form that is compared, and patterns over them.

use std::net::Ipv4Addr;

const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// ASCII, lower case, without the final dot. `None` for addresses in any notation and for malformed names.
pub fn normalize(name: &str) -> Option<String> {
    if name.len() > 1024 {
        return None;
    }
    let ascii = match name.is_ascii() {
        true => name.to_ascii_lowercase(),
        false => idna::domain_to_ascii(name).ok()?,
    };
    let name = ascii.strip_suffix('.').unwrap_or(&ascii);
    let well_formed = name.len() <= LONGEST_NAME && name.split('.').all(is_label);
    (well_formed && !is_numeric(name)).then(|| name.to_owned())
}

fn is_label(label: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= LONGEST_LABEL && label.bytes().all(known)
}

/// Programs read a name with a numeric last label as an address: `2130706433`, `0x7f.1`, `127.0.0.1`.
fn is_numeric(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit()) || name.parse::<Ipv4Addr>().is_ok()
}

/// `github.com`, `*.github.com` (each name below it, not itself) or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    Any,
    Exact(String),
    Below(String),
}

impl HostPattern {
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix('*') {
            Some("") => Some(Self::Any),
            Some(rest) => normalize(rest.strip_prefix('.')?).map(Self::Below),
            None => normalize(text).map(Self::Exact),
        }
    }

    /// `name` is normalized.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(host) => host == name,
            Self::Below(host) => name
                .strip_suffix(host.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizes_names() {
        let table = [
            ("GitHub.COM", Some("github.com")),
            ("github.com.", Some("github.com")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("BÜCHER.example.", Some("xn--bcher-kva.example")),
            ("github。com", Some("github.com")),
            ("_dmarc.example.com", Some("_dmarc.example.com")),
            ("github.com..", None),
            (".github.com", None),
            ("", None),
            (".", None),
            ("a b", None),
            ("evil.com\0.github.com", None),
            ("evil.com/.github.com", None),
            ("user@github.com", None),
            ("127.0.0.1", None),
            ("2130706433", None),
            ("0177.0.0.1", None),
            ("0x7f000001", None),
            ("127.0.0.1.", None),
            ("１２７.0.0.1", None),
            ("[::1]", None),
            ("::1", None),
        ];
        for (given, expected) in table {
            assert_eq!(normalize(given).as_deref(), expected, "{given:?}");
        }
        assert_eq!(normalize(&"a".repeat(64)), None);
        assert_eq!(normalize(&"a.".repeat(127)).map(|name| name.len()), Some(253));
        assert_eq!(normalize(&"a.".repeat(128)), None);
    }

    #[test]
    fn matches_patterns() {
        let table = [
            ("github.com", "github.com", true),
            ("github.com", "api.github.com", false),
            ("*.github.com", "api.github.com", true),
            ("*.github.com", "a.b.github.com", true),
            ("*.github.com", "github.com", false),
            ("*.github.com", "evilgithub.com", false),
            ("*.github.com", "github.com.evil.com", false),
            ("*", "anything.example", true),
            ("*.BÜCHER.example", "a.xn--bcher-kva.example", true),
        ];
        for (pattern, name, expected) in table {
            let parsed = HostPattern::parse(pattern).expect(pattern);
            assert_eq!(parsed.matches(name), expected, "{pattern} {name}");
        }
        for pattern in ["", "*github.com", "*.", "a.*.com", "**", "127.0.0.1", "*.1"] {
            assert_eq!(HostPattern::parse(pattern), None, "{pattern:?}");
        }
    }
}
