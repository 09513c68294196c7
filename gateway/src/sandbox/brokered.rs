//! A sandbox's transforms and secrets.

use secrecy::SecretString;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::policy::Policy;
use crate::transform::{Broker, CaMaterial, Invalid, Roots};

pub type Secrets = HashMap<String, SecretString>;

pub struct Brokered {
    pub broker: Arc<Broker>,
    /// For updates that leave the secrets as they are.
    secrets: Mutex<Secrets>,
}

impl Brokered {
    pub fn new(ca: &CaMaterial, policy: &Policy, secrets: Secrets) -> Result<Self, Invalid> {
        let roots = Roots::load(&policy.upstream_ca)?;
        let broker = Broker::new(ca, policy.transforms.clone(), secrets.clone(), &roots)?;
        Ok(Self {
            broker: Arc::new(broker),
            secrets: Mutex::new(secrets),
        })
    }

    pub fn update(&self, policy: &Policy, secrets: Option<Secrets>) -> Result<(), Invalid> {
        let roots = Roots::load(&policy.upstream_ca)?;
        let mut kept = lock(&self.secrets);
        let secrets = secrets.unwrap_or_else(|| kept.clone());
        self.broker
            .update(policy.transforms.clone(), secrets.clone(), &roots)?;
        *kept = secrets;
        Ok(())
    }
}
