//! The certificate authority of one sandbox, and the certificates that it signs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;

use super::Invalid;

/// A sandbox and its snapshots may live for years. Only they trust the authority, and its key stays outside.
const CA_DAYS: i64 = 3650;
/// Certificates start in the past, for sandboxes whose clock is behind.
const BACKDATED: time::Duration = time::Duration::hours(8);
const LEAF_LIFE: time::Duration = time::Duration::hours(16);
const LEAF_REUSED: Duration = Duration::from_secs(8 * 3600);
const MAX_LEAVES: usize = 256;

pub struct CaMaterial {
    /// The certificate as PEM, for the sandbox.
    pub cert: String,
    /// The private key as PEM, which never enters the sandbox.
    pub key: SecretString,
}

/// A new authority for one sandbox.
pub fn make_ca() -> Result<CaMaterial, Invalid> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let cert = ca_params(&key).self_signed(&key).map_err(failed)?;
    Ok(CaMaterial {
        cert: cert.pem(),
        key: key.serialize_pem().into(),
    })
}

/// Everything follows from the key, so that the authority can sign without parsing its own certificate. The subject
/// has a part of the key's digest: a snapshot may trust an older authority, too.
fn ca_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let digest = params.key_identifier(key);
    let id: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name = named(&format!("Sandkasten sandbox {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = OffsetDateTime::now_utc() - BACKDATED;
    params.not_after = OffsetDateTime::now_utc() + time::Duration::days(CA_DAYS);
    params
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    provider: Arc<CryptoProvider>,
    /// One key for all leaves of this process. It is never stored.
    leaf_key: KeyPair,
    leaves: Mutex<HashMap<String, (Arc<CertifiedKey>, Instant)>>,
}

impl Authority {
    pub fn new(material: &CaMaterial, provider: Arc<CryptoProvider>) -> Result<Authority, Invalid> {
        let key = KeyPair::from_pem_and_sign_algo(material.key.expose_secret(), &PKCS_ECDSA_P256_SHA256)
            .map_err(|_| Invalid("the key of the certificate authority is not a P-256 key in PEM".into()))?;
        check_pair(&material.cert, &key)?;
        Ok(Authority {
            issuer: Issuer::new(ca_params(&key), key),
            provider,
            leaf_key: KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?,
            leaves: Mutex::new(HashMap::new()),
        })
    }

    pub fn leaf(&self, host: &str) -> Result<Arc<CertifiedKey>, Invalid> {
        let mut leaves = self
            .leaves
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((leaf, made)) = leaves.get(host)
            && made.elapsed() < LEAF_REUSED
        {
            return Ok(Arc::clone(leaf));
        }
        let leaf = Arc::new(self.sign(host)?);
        if leaves.len() >= MAX_LEAVES {
            leaves.clear();
        }
        leaves.insert(host.to_owned(), (Arc::clone(&leaf), Instant::now()));
        Ok(leaf)
    }

    fn sign(&self, host: &str) -> Result<CertifiedKey, Invalid> {
        let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(failed)?;
        params.distinguished_name = named("Sandkasten egress");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = OffsetDateTime::now_utc() - BACKDATED;
        params.not_after = OffsetDateTime::now_utc() + LEAF_LIFE;
        let cert = params.signed_by(&self.leaf_key, &self.issuer).map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(self.leaf_key.serialize_der().into());
        CertifiedKey::from_der(vec![cert.der().clone()], key, &self.provider)
            .map_err(|error| Invalid(format!("cannot use the certificate for {host}: {error}")))
    }
}

fn check_pair(cert: &str, key: &KeyPair) -> Result<(), Invalid> {
    let wrong = || Invalid("the certificate of the authority does not belong to its key".into());
    let cert = CertificateDer::from_pem_slice(cert.as_bytes()).map_err(|_| wrong())?;
    let mut store = rustls::RootCertStore::empty();
    store.add(cert).map_err(|_| wrong())?;
    let anchor = store.roots.first().ok_or_else(wrong)?;
    let spki = anchor.subject_public_key_info.as_ref();
    if spki.ends_with(key.public_key_raw()) {
        Ok(())
    } else {
        Err(wrong())
    }
}

fn failed(error: rcgen::Error) -> Invalid {
    Invalid(format!("cannot make a certificate: {error}"))
}
