//! Transforms as `protocol/egress.md` writes them, checked and ready to match.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;

use super::Invalid;
use super::host::HostPattern;
use super::path;

const MAX_TRANSFORMS: usize = 256;
const MAX_HEADERS: usize = 50;
const MAX_TEXT: usize = 8 * 1024;

/// Unknown fields are refused: one that narrows a match must not be ignored.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transform {
    #[serde(rename = "match")]
    pub matching: Match,
    pub headers: BTreeMap<String, HeaderSource>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    pub host: String,
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub methods: Option<Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum HeaderSource {
    Text(String),
    Secret(SecretHeader),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretHeader {
    pub secret: String,
    #[serde(default)]
    pub prefix: Option<String>,
    #[serde(default)]
    pub suffix: Option<String>,
    #[serde(default)]
    pub basic: Option<String>,
}

pub(super) struct Rule {
    pub host: HostPattern,
    path: Option<String>,
    methods: Option<Vec<Method>>,
    pub headers: Vec<(HeaderName, HeaderSource)>,
}

impl Rule {
    pub fn matches(&self, method: &Method, path: &str) -> bool {
        self.methods.as_ref().is_none_or(|all| all.contains(method))
            && self
                .path
                .as_ref()
                .is_none_or(|prefix| path.starts_with(prefix.as_str()))
    }

    pub fn has_path(&self) -> bool {
        self.path.is_some()
    }

    pub fn has_methods(&self) -> bool {
        self.methods.is_some()
    }
}

pub(super) fn compile(transforms: Vec<Transform>) -> Result<Vec<Rule>, Invalid> {
    if transforms.len() > MAX_TRANSFORMS {
        return Err(Invalid(format!(
            "a policy has at most {MAX_TRANSFORMS} transforms"
        )));
    }
    transforms.into_iter().map(compile_one).collect()
}

fn compile_one(transform: Transform) -> Result<Rule, Invalid> {
    let Match { host, path, methods } = transform.matching;
    let host = HostPattern::parse(&host)?;
    if let Some(prefix) = &path {
        check_prefix(prefix)?;
    }
    if transform.headers.is_empty() || transform.headers.len() > MAX_HEADERS {
        return Err(Invalid(format!(
            "a transform sets between 1 and {MAX_HEADERS} headers"
        )));
    }
    let headers = transform
        .headers
        .into_iter()
        .map(check_header)
        .collect::<Result<Vec<_>, _>>()?;
    for (at, (name, _)) in headers.iter().enumerate() {
        if headers[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(Invalid(format!("a transform sets the header \"{name}\" twice")));
        }
    }
    Ok(Rule {
        host,
        path,
        methods: methods.map(check_methods).transpose()?,
        headers,
    })
}

fn check_prefix(prefix: &str) -> Result<(), Invalid> {
    let plain = prefix.starts_with('/')
        && prefix
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#');
    if prefix.len() > MAX_TEXT || !plain || path::can_climb(prefix) {
        return Err(Invalid(format!(
            "the path {prefix:?} of a transform must start with \"/\" and have no dot segments, query or spaces"
        )));
    }
    Ok(())
}

fn check_methods(methods: Vec<String>) -> Result<Vec<Method>, Invalid> {
    if methods.is_empty() || methods.len() > 16 {
        return Err(Invalid(
            "a transform names between 1 and 16 methods, or none for all".into(),
        ));
    }
    let parse = |text: String| {
        Method::from_bytes(text.as_bytes())
            .ok()
            .filter(|_| text.len() <= 32 && !text.bytes().any(|b| b.is_ascii_lowercase()))
            .ok_or_else(|| Invalid(format!("{text:?} is not an HTTP method in capital letters")))
    };
    methods.into_iter().map(parse).collect()
}

/// Headers that HTTP itself, the host check or the scrubbing of responses depends on.
const RESERVED: [&str; 18] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "if-range",
    "keep-alive",
    "proxy-connection",
    "range",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-version",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn check_header((name, source): (String, HeaderSource)) -> Result<(HeaderName, HeaderSource), Invalid> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| Invalid(format!("{name:?} is not the name of a header")))?;
    if RESERVED.contains(&parsed.as_str()) {
        return Err(Invalid(format!("a transform cannot set the header \"{parsed}\"")));
    }
    match &source {
        HeaderSource::Text(text) => check_text(&parsed, text)?,
        HeaderSource::Secret(value) => {
            check_text(&parsed, value.prefix.as_deref().unwrap_or(""))?;
            check_text(&parsed, value.suffix.as_deref().unwrap_or(""))?;
            if let Some(user) = &value.basic {
                check_text(&parsed, user)?;
                if user.contains(':') || value.prefix.is_some() || value.suffix.is_some() {
                    return Err(Invalid(format!(
                        "\"basic\" of the header \"{parsed}\" takes a user without \":\", and no prefix or suffix"
                    )));
                }
            }
        }
    }
    Ok((parsed, source))
}

fn check_text(name: &HeaderName, text: &str) -> Result<(), Invalid> {
    if text.len() > MAX_TEXT || HeaderValue::from_str(text).is_err() {
        return Err(Invalid(format!(
            "the value of the header \"{name}\" has characters that HTTP does not allow"
        )));
    }
    Ok(())
}
