//! Who is recognised, as the settings say it.

use super::Role;

/// Whoever has a certificate with this subject has this role.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CertificateRule {
    /// The common name of the subject.
    pub subject: String,
    /// What they may.
    pub role: Role,
}

/// Whoever knows this token has this role.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TokenRule {
    /// What it is called in the audit records.
    pub name: String,
    /// What they may.
    pub role: Role,
    /// The BLAKE3 hash of the token, in hexadecimal: the settings do not hold the token itself.
    pub blake3: String,
}

/// Who is recognised; nobody, unless it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AccessSettings {
    /// By certificate.
    pub certificates: Vec<CertificateRule>,
    /// By token.
    pub tokens: Vec<TokenRule>,
    /// How many requests one caller may make in a second, on average.
    pub requests_per_second: Option<u32>,
}
