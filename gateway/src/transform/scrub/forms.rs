//! The forms in which a server may repeat a secret without meaning harm: as it is, in base64, in a URL, in JSON, in
//! HTML.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

/// What `encodeURIComponent` leaves as it is.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// What RFC 3986 leaves as it is: Go, Python with `safe=''`, .NET.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// What Python's `quote` leaves as it is.
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');

pub(super) fn add(secret: &SecretString, patterns: &mut Vec<Zeroizing<Vec<u8>>>) {
    let text = secret.expose_secret();
    patterns.push(Zeroizing::new(text.as_bytes().to_vec()));
    for offset in 0..3 {
        patterns.push(base64_at(&STANDARD_NO_PAD, text, offset));
        patterns.push(base64_at(&URL_SAFE_NO_PAD, text, offset));
    }
    for set in [COMPONENT, UNRESERVED, PATH] {
        let percent = Zeroizing::new(percent_encode(text.as_bytes(), set).to_string());
        let form = Zeroizing::new(percent.replace("%20", "+"));
        for escaped in [percent, form] {
            patterns.push(Zeroizing::new(lower_escapes(&escaped)));
            patterns.push(Zeroizing::new(escaped.as_bytes().to_vec()));
        }
    }
    let json = Zeroizing::new(text.replace('\\', "\\\\").replace('"', "\\\""));
    // Some writers of JSON escape slashes, and some all characters that mean something in HTML.
    patterns.push(Zeroizing::new(json.replace('/', "\\/").into_bytes()));
    for escapes in [GO, PHP, DOTNET] {
        patterns.push(unicode_escapes(&json, escapes, false));
        patterns.push(unicode_escapes(&json, escapes, true));
    }
    patterns.push(Zeroizing::new(json.as_bytes().to_vec()));
    for quotes in [
        ("\"", "'"),
        ("&quot;", "'"),
        ("&quot;", "&#39;"),
        ("&quot;", "&#x27;"),
        ("&#34;", "&#39;"),
    ] {
        patterns.push(html(text, quotes));
    }
}

/// What libraries for JSON escape as `\u003c` although JSON does not ask for it.
const GO: &str = "<>&";
const PHP: &str = "<>&'";
const DOTNET: &str = "<>&'+`";

fn unicode_escapes(json: &str, escaped: &str, upper: bool) -> Zeroizing<Vec<u8>> {
    let mut text = Zeroizing::new(String::new());
    for one in json.chars() {
        match (escaped.contains(one), upper) {
            (false, _) => text.push(one),
            (true, false) => text.push_str(&format!("\\u{:04x}", u32::from(one))),
            (true, true) => text.push_str(&format!("\\u{:04X}", u32::from(one))),
        }
    }
    Zeroizing::new(text.as_bytes().to_vec())
}

fn html(text: &str, (double, single): (&str, &str)) -> Zeroizing<Vec<u8>> {
    let text = Zeroizing::new(
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;"),
    );
    let text = Zeroizing::new(text.replace('"', double));
    Zeroizing::new(text.replace('\'', single).into_bytes())
}

pub(super) fn lower_case(secret: &SecretString) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(secret.expose_secret().to_ascii_lowercase().into_bytes())
}

/// The base64 characters that depend on the secret alone when it stands `offset` bytes after a group's beginning.
fn base64_at(engine: &impl Engine, text: &str, offset: usize) -> Zeroizing<Vec<u8>> {
    let mut padded = Zeroizing::new(vec![0; offset]);
    padded.extend_from_slice(text.as_bytes());
    let encoded = Zeroizing::new(engine.encode(&*padded));
    let first = (offset * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    Zeroizing::new(encoded.as_bytes()[first..last].to_vec())
}

fn lower_escapes(percent: &str) -> Vec<u8> {
    let mut bytes = percent.as_bytes().to_vec();
    for at in 0..bytes.len() {
        if bytes[at] == b'%' {
            bytes[at + 1..at + 3].make_ascii_lowercase();
        }
    }
    bytes
}
