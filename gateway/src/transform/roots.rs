//! The certificate authorities that upstream servers are checked against.

use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::Invalid;

const MAX_EXTRA: usize = 64;

#[derive(Clone)]
pub struct Roots(Arc<RootCertStore>);

impl Roots {
    /// This machine's authorities, and those of `extra`: the policy's `upstreamCa`, each one or more certificates in
    /// PEM. The machine's are read once.
    pub fn load(extra: &[String]) -> Result<Roots, Invalid> {
        static MACHINE: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        let machine = MACHINE.get_or_init(|| {
            let mut store = RootCertStore::empty();
            // Distributions ship a few certificates that webpki does not accept. They are left out.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(store)
        });
        if extra.is_empty() {
            return Ok(Roots(Arc::clone(machine)));
        }
        let mut store = RootCertStore::clone(machine);
        add(&mut store, extra)?;
        Ok(Roots(Arc::new(store)))
    }

    pub(super) fn store(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.0)
    }
}

fn add(store: &mut RootCertStore, extra: &[String]) -> Result<(), Invalid> {
    let wrong = || Invalid("\"upstreamCa\" has an entry that is not a certificate in PEM".into());
    let mut count = 0;
    for pem in extra {
        let before = count;
        for cert in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            store.add(cert.map_err(|_| wrong())?).map_err(|_| wrong())?;
            count += 1;
        }
        if count == before {
            return Err(wrong());
        }
        if count > MAX_EXTRA {
            return Err(Invalid(format!(
                "\"upstreamCa\" has more than {MAX_EXTRA} certificates"
            )));
        }
    }
    Ok(())
}
