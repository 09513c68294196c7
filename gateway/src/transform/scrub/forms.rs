//! The forms in which a server may repeat a secret without meaning harm: as it is, in base64, in a URL, in JSON.

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

pub(super) fn add(secret: &SecretString, patterns: &mut Vec<Zeroizing<Vec<u8>>>) {
    let text = secret.expose_secret();
    patterns.push(Zeroizing::new(text.as_bytes().to_vec()));
    for offset in 0..3 {
        patterns.push(base64_at(&STANDARD_NO_PAD, text, offset));
        patterns.push(base64_at(&URL_SAFE_NO_PAD, text, offset));
    }
    let percent = Zeroizing::new(percent_encode(text.as_bytes(), COMPONENT).to_string());
    patterns.push(Zeroizing::new(lower_escapes(&percent)));
    patterns.push(Zeroizing::new(percent.as_bytes().to_vec()));
    let json = Zeroizing::new(text.replace('\\', "\\\\").replace('"', "\\\""));
    // Some writers of JSON escape slashes, too.
    patterns.push(Zeroizing::new(json.replace('/', "\\/").into_bytes()));
    patterns.push(Zeroizing::new(json.as_bytes().to_vec()));
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
