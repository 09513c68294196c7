//! What a policy says about one name, address or connection, and why.

/// Reasons of events. The words are part of protocol/egress.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    NoRule,
    DeniedByRule,
    PrivateAddress,
    NoSni,
    SniNotAllowed,
    AddressMismatch,
    HostMismatch,
    NotHttp,
    ConnectRefusedByPolicy,
    UpgradeRefused,
    Protocol,
    ResolverRefused,
    ConnectFailed,
    SecretMissing,
    LimitConnections,
    LimitBytes,
    PolicyChanged,
}

impl Reason {
    pub fn word(self) -> &'static str {
        match self {
            Self::NoRule => "no_rule",
            Self::DeniedByRule => "denied_by_rule",
            Self::PrivateAddress => "private_address",
            Self::NoSni => "no_sni",
            Self::SniNotAllowed => "sni_not_allowed",
            Self::AddressMismatch => "address_mismatch",
            Self::HostMismatch => "host_mismatch",
            Self::NotHttp => "not_http",
            Self::ConnectRefusedByPolicy => "connect_refused_by_policy",
            Self::UpgradeRefused => "upgrade_refused",
            Self::Protocol => "protocol",
            Self::ResolverRefused => "resolver_refused",
            Self::ConnectFailed => "connect_failed",
            Self::SecretMissing => "secret_missing",
            Self::LimitConnections => "limit_connections",
            Self::LimitBytes => "limit_bytes",
            Self::PolicyChanged => "policy_changed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The text of the rule that allows it.
    Allowed(String),
    /// Would be denied, but the policy is in audit mode.
    Audit(Reason),
    Denied {
        reason: Reason,
        rule: Option<String>,
    },
}

impl Verdict {
    pub fn denied(reason: Reason) -> Self {
        Self::Denied { reason, rule: None }
    }

    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }
}
