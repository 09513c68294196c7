//! Host names: patterns of transforms, and the check that a request names the host of its TLS connection.

use http::HeaderValue;
use http::uri::Authority;

use super::Invalid;

/// `example.com`, or `*.example.com` for all names below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostPattern {
    Exact(String),
    Below(String),
}

impl HostPattern {
    pub fn parse(text: &str) -> Result<HostPattern, Invalid> {
        let lower = text.to_ascii_lowercase();
        let (name, below) = match lower.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (lower.as_str(), false),
        };
        if !is_name(name) {
            return Err(Invalid(format!(
                "{text:?} is not a host name; write \"example.com\" or \"*.example.com\""
            )));
        }
        Ok(if below {
            HostPattern::Below(format!(".{name}"))
        } else {
            HostPattern::Exact(name.into())
        })
    }

    /// `host` is in lower case.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(name) => host == name,
            HostPattern::Below(tail) => host.len() > tail.len() && host.ends_with(tail.as_str()),
        }
    }
}

/// A DNS name as certificates can carry it. IP addresses have no transforms.
pub(super) fn is_name(name: &str) -> bool {
    let label = |part: &str| {
        (1..=63).contains(&part.len())
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    name.len() <= 253 && name.split('.').all(label) && name.parse::<std::net::Ipv4Addr>().is_err()
}

/// Whether a request is for `sni`. The authority of its target and its Host header must name that host, with the port of
/// the connection or no port. One of the two may be missing.
pub(super) fn names_only(
    sni: &str,
    port: u16,
    authority: Option<&Authority>,
    hosts: &[&HeaderValue],
) -> bool {
    if hosts.len() > 1 || (hosts.is_empty() && authority.is_none()) {
        return false;
    }
    authority.is_none_or(|authority| is_host(sni, port, authority.as_str().as_bytes()))
        && hosts.iter().all(|host| is_host(sni, port, host.as_bytes()))
}

fn is_host(sni: &str, port: u16, text: &[u8]) -> bool {
    let name = text.strip_suffix(format!(":{port}").as_bytes()).unwrap_or(text);
    name.eq_ignore_ascii_case(sni.as_bytes())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::{HostPattern, names_only};

    #[test]
    fn patterns() {
        let below = HostPattern::parse("*.Example.com").unwrap();
        assert!(below.matches("a.example.com") && below.matches("a.b.example.com"));
        assert!(
            !below.matches("example.com")
                && !below.matches("badexample.com")
                && !below.matches(".example.com")
        );
        assert!(HostPattern::parse("API.test").unwrap().matches("api.test"));
        for wrong in [
            "",
            "*",
            "a*.com",
            "a.*.com",
            "127.0.0.1",
            "::1",
            "a..b",
            "a.b.",
            "a b",
            "a:443",
            "é.com",
        ] {
            assert!(HostPattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn requests_name_the_host_of_their_connection() {
        let check = |authority: Option<&str>, hosts: &[&str]| {
            let authority = authority.map(|text| text.parse().unwrap());
            let hosts: Vec<HeaderValue> = hosts
                .iter()
                .map(|text| HeaderValue::from_str(text).unwrap())
                .collect();
            names_only(
                "api.test",
                443,
                authority.as_ref(),
                &hosts.iter().collect::<Vec<_>>(),
            )
        };
        assert!(check(None, &["api.test"]) && check(None, &["API.TEST:443"]) && check(Some("api.test"), &[]));
        assert!(check(Some("api.test:443"), &["api.test"]));
        for (authority, hosts) in [
            (None, &[][..]),
            (None, &["other.test"][..]),
            (None, &["api.test", "api.test"][..]),
            (None, &["api.test:80"][..]),
            (None, &["api.test:443:443"][..]),
            (None, &["api.test."][..]),
            (None, &["x@api.test"][..]),
            (None, &["api.test, other.test"][..]),
            (None, &[""][..]),
            (Some("api.test"), &["other.test"][..]),
            (Some("other.test"), &["api.test"][..]),
            (Some("user@api.test"), &[][..]),
        ] {
            assert!(!check(authority, hosts), "{authority:?} {hosts:?}");
        }
        let value = HeaderValue::from_static("api.test:8443");
        assert!(names_only("api.test", 8443, None, &[&value]));
        assert!(!names_only("api.test", 443, None, &[&value]));
    }
}
