//! The transforms and secrets of one sandbox. They change as a whole, for requests that begin afterwards.

use std::sync::{Arc, RwLock};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use super::authority::{Authority, CaMaterial};
use super::rules::{self, Rule, Transform};
use super::scrub::Scrubber;
use super::secrets::{self, Rendered, Secrets};
use super::{Invalid, Roots, headers, path, tls};

pub struct Broker {
    authority: Authority,
    provider: Arc<CryptoProvider>,
    state: RwLock<Arc<State>>,
}

/// What one request is served with, from its beginning to its end.
pub(super) struct State {
    rules: Vec<Rule>,
    secrets: Secrets,
    pub scrubber: Option<Arc<Scrubber>>,
    pub upstream: ClientConfig,
}

pub(super) enum Plan {
    /// The headers to set, after removing the sandbox's own. Empty if no transform matches.
    Set(Vec<(HeaderName, HeaderValue)>),
    SecretMissing(String),
    AmbiguousPath,
    /// A header asks for another method or path than the transforms would match.
    Override,
}

impl Broker {
    pub fn new(
        ca: &CaMaterial,
        transforms: Vec<Transform>,
        secrets: Secrets,
        roots: &Roots,
    ) -> Result<Broker, Invalid> {
        let provider = tls::provider();
        Ok(Broker {
            authority: Authority::new(ca, Arc::clone(&provider))?,
            state: RwLock::new(Arc::new(State::new(
                transforms,
                secrets,
                roots,
                Arc::clone(&provider),
            )?)),
            provider,
        })
    }

    /// Replaces transforms, secrets and roots together. On an error, everything stays as it was.
    pub fn update(&self, transforms: Vec<Transform>, secrets: Secrets, roots: &Roots) -> Result<(), Invalid> {
        let next = Arc::new(State::new(
            transforms,
            secrets,
            roots,
            Arc::clone(&self.provider),
        )?);
        *self
            .state
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner()) = next;
        Ok(())
    }

    /// Whether connections to this host are to be served by `serve`.
    pub fn matches(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.state().rules.iter().any(|rule| rule.host.matches(&host))
    }

    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    pub(super) fn leaf(&self, host: &str) -> Result<Arc<CertifiedKey>, Invalid> {
        self.authority.leaf(host)
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.provider)
    }
}

impl State {
    fn new(
        transforms: Vec<Transform>,
        secrets: Secrets,
        roots: &Roots,
        provider: Arc<CryptoProvider>,
    ) -> Result<State, Invalid> {
        secrets::check(&secrets)?;
        let rules = rules::compile(transforms)?;
        let sources = rules
            .iter()
            .flat_map(|rule| rule.headers.iter().map(|(_, source)| source));
        let texts = secrets::basic_texts(sources, &secrets);
        let scrubber = Scrubber::new(secrets.values(), texts)?;
        Ok(State {
            scrubber,
            upstream: tls::client_config(roots, provider)?,
            rules,
            secrets,
        })
    }

    /// All transforms that match apply; the first one that names a header decides its value.
    pub fn plan(&self, host: &str, method: &Method, path: &str, sent: &HeaderMap) -> Plan {
        let of_host = || self.rules.iter().filter(|rule| rule.host.matches(host));
        if of_host().any(Rule::has_path) && path::can_climb(path) {
            return Plan::AmbiguousPath;
        }
        if of_host().any(Rule::has_path) && headers::overrides_path(sent)
            || of_host().any(Rule::has_methods) && headers::overrides_method(sent)
        {
            return Plan::Override;
        }
        let mut set: Vec<(HeaderName, HeaderValue)> = Vec::new();
        for (name, source) in of_host()
            .filter(|rule| rule.matches(method, path))
            .flat_map(|rule| &rule.headers)
        {
            if set.iter().any(|(earlier, _)| earlier == name) {
                continue;
            }
            match secrets::render(source, &self.secrets) {
                Rendered::Value(value) => set.push((name.clone(), value)),
                Rendered::Missing(secret) => return Plan::SecretMissing(secret),
            }
        }
        Plan::Set(set)
    }
}
