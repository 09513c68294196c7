//! The values of secrets, and the header values that are made of them.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::Invalid;
use super::rules::{HeaderSource, SecretHeader};

const MAX_SECRETS: usize = 64;
/// A shorter value would be found by chance in bodies, and be replaced there.
const MIN_BYTES: usize = 6;
const MAX_BYTES: usize = 4 * 1024;
const MAX_TOTAL: usize = 64 * 1024;

pub(super) type Secrets = HashMap<String, SecretString>;

pub(super) fn check(secrets: &Secrets) -> Result<(), Invalid> {
    if secrets.len() > MAX_SECRETS {
        return Err(Invalid(format!("a policy uses at most {MAX_SECRETS} secrets")));
    }
    if secrets
        .values()
        .map(|value| value.expose_secret().len())
        .sum::<usize>()
        > MAX_TOTAL
    {
        return Err(Invalid(format!(
            "the secrets of a policy have at most {MAX_TOTAL} bytes together"
        )));
    }
    for (name, value) in secrets {
        let value = value.expose_secret();
        if !(MIN_BYTES..=MAX_BYTES).contains(&value.len()) {
            return Err(Invalid(format!(
                "the secret {name:?} must have {MIN_BYTES} to {MAX_BYTES} bytes"
            )));
        }
        if !value.bytes().all(|b| b >= b' ' && b != 0x7f) {
            return Err(Invalid(format!(
                "the secret {name:?} has line breaks or control characters"
            )));
        }
    }
    Ok(())
}

pub(super) enum Rendered {
    Value(HeaderValue),
    /// No secret has this name.
    Missing(String),
}

pub(super) fn render(source: &HeaderSource, secrets: &Secrets) -> Rendered {
    match source {
        HeaderSource::Text(text) => checked(HeaderValue::from_str(text).ok(), false),
        HeaderSource::Secret(header) => match secrets.get(&header.secret) {
            None => Rendered::Missing(header.secret.clone()),
            Some(secret) => {
                let bytes = Bytes::from_owner(Wiped(with_secret(header, secret)));
                checked(HeaderValue::from_maybe_shared(bytes).ok(), true)
            }
        },
    }
}

/// Policies and secrets are checked when they arrive, so the value is there. Without it the request is not sent.
fn checked(value: Option<HeaderValue>, sensitive: bool) -> Rendered {
    match value {
        Some(mut value) => {
            value.set_sensitive(sensitive);
            Rendered::Value(value)
        }
        None => Rendered::Missing(String::new()),
    }
}

fn with_secret(header: &SecretHeader, secret: &SecretString) -> Zeroizing<Vec<u8>> {
    let secret = secret.expose_secret();
    match &header.basic {
        Some(user) => {
            let pair = joined(&[user, ":", secret]);
            let encoded = Zeroizing::new(STANDARD.encode(&*pair));
            joined(&["Basic ", &encoded])
        }
        None => joined(&[
            header.prefix.as_deref().unwrap_or(""),
            secret,
            header.suffix.as_deref().unwrap_or(""),
        ]),
    }
}

/// Allocates once: a vector that grows leaves copies behind that are not wiped.
fn joined(parts: &[&str]) -> Zeroizing<Vec<u8>> {
    let mut all = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| part.len()).sum()));
    for part in parts {
        all.extend_from_slice(part.as_bytes());
    }
    all
}

struct Wiped(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The base64 texts in which a response could repeat a header that the broker sent.
pub(super) fn basic_texts<'a>(
    sources: impl Iterator<Item = &'a HeaderSource>,
    secrets: &Secrets,
) -> Vec<Zeroizing<Vec<u8>>> {
    sources
        .filter_map(|source| match source {
            HeaderSource::Secret(header) if header.basic.is_some() => Some(header),
            _ => None,
        })
        .filter_map(|header| {
            secrets
                .get(&header.secret)
                .map(|secret| with_secret(header, secret))
        })
        .map(|text| Zeroizing::new(text["Basic ".len()..].to_vec()))
        .collect()
}
