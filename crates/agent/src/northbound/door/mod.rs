//! Who asks, and what they may.
//!
//! Decided here: the roles, how somebody is recognised (the socket's peer, a certificate, a token, a session that a
//! token began), and that whoever is not recognised may nothing. Not decided here: which role a request needs; each
//! route says so where it is listed.
//!
//! Read next: [`Door`], which every request passes.

mod gate;
mod session;
mod settings;

use std::fmt;

pub use gate::{Door, Refusal};
pub use settings::{AccessSettings, CertificateRule, TokenRule};

/// What somebody may, each role everything that the one before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks and plans; changes nothing.
    Reader,
    /// Declares, applies, confirms, resyncs, pauses.
    Operator,
    /// Also removes what others declare, and reads the audit records.
    Admin,
}

impl Role {
    /// The word for people and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The other end of a connection, as the connection itself tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, at the unix socket.
    Process {
        /// Its user; `None` if the kernel did not say.
        user: Option<u32>,
        /// Its number.
        process: Option<i32>,
    },
    /// Somebody over TCP, without a certificate.
    Stranger {
        /// Whether the connection never leaves the machine.
        is_local: bool,
    },
    /// Somebody whose certificate was signed by an authority that is trusted.
    Certified {
        /// The subject's name.
        subject: String,
    },
}

/// Somebody who was recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Who, for people and the audit records: `user 0, process 17`, `certificate ops`, `token ci`, `page`.
    pub name: String,
    /// What they may.
    pub role: Role,
}
