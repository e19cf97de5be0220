//! What the kernel's errors mean, said once: operation, subject, the name of the error, and the kernel's own words.

use std::fmt;

use rustix::io::Errno;

/// Why the kernel refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error number, above nought.
    pub errno: i32,
    /// What the kernel said about it, in its own words.
    pub text: Option<String>,
}

impl Refusal {
    /// A refusal without words.
    pub(crate) fn of(errno: Errno) -> Self {
        Self { errno: errno.raw_os_error(), text: None }
    }

    /// Whether it is this error.
    pub(crate) fn is(&self, errno: Errno) -> bool {
        self.errno == errno.raw_os_error()
    }

    /// Whether it is one of these errors.
    pub(crate) fn is_any(&self, errnos: &[Errno]) -> bool {
        errnos.iter().any(|errno| self.is(*errno))
    }

    /// Whether the same request may succeed later.
    ///
    /// What the kernel cannot do, does not understand or does not allow stays so; what is in the way or not there yet
    /// may change.
    pub fn is_retriable(&self) -> bool {
        !self.is_any(&[
            Errno::OPNOTSUPP,
            Errno::INVAL,
            Errno::PERM,
            Errno::ACCESS,
            Errno::AFNOSUPPORT,
            Errno::PROTONOSUPPORT,
            Errno::NOSYS,
            Errno::RANGE,
            Errno::NAMETOOLONG,
            Errno::ADDRNOTAVAIL,
        ])
    }

    /// Whether the kernel lacks what was asked for.
    pub fn is_unsupported(&self) -> bool {
        self.is_any(&[Errno::OPNOTSUPP, Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT, Errno::NOSYS])
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self { errno, text: None },
            None => Self { errno: Errno::IO.raw_os_error(), text: Some(error.to_string()) },
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::of(errno)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(code, ..)| *code == self.errno) {
            Some((_, name, meaning)) => write!(f, "{meaning} ({name})")?,
            None => write!(f, "error {}", self.errno)?,
        }
        match &self.text {
            Some(text) => write!(f, ": {}", text.trim_end_matches('.')),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// An attempt that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// The request was refused.
    #[error("failed to {operation} `{subject}`")]
    Refused {
        /// What was tried: `add route`.
        operation: &'static str,
        /// On what: `10.0.0.0/24 via 10.1.0.1`.
        subject: String,
        /// Why it was refused.
        source: Refusal,
    },
    /// The kernel was built without what the item needs.
    #[error("failed to {operation} `{subject}`: this kernel has no {feature}")]
    Unimplemented {
        /// What was tried: `add link`.
        operation: &'static str,
        /// On what.
        subject: String,
        /// What is missing, and the option of the kernel that brings it: `vlan links (CONFIG_VLAN_8021Q)`.
        feature: String,
    },
    /// The namespace is not there.
    #[error("there is no network namespace `{name}`")]
    NoNamespace {
        /// Its name.
        name: String,
    },
    /// A link that the operation is about is not there.
    #[error("there is no link `{link}` in network namespace `{netns}`")]
    NoLink {
        /// The link.
        link: String,
        /// Its namespace.
        netns: String,
    },
    /// Something that is not ours is in the way.
    #[error("`{subject}` exists and was not made by Kilter: {reason}")]
    Foreign {
        /// What is in the way.
        subject: String,
        /// What had to be done to it.
        reason: String,
    },
    /// A program that does the work could not be run, or said no.
    #[error("failed to {operation} `{subject}`: {message}")]
    Program {
        /// What was tried.
        operation: &'static str,
        /// On what.
        subject: String,
        /// What it said.
        message: String,
    },
}

impl KernelError {
    /// A request that was refused.
    pub(crate) fn refused(operation: &'static str, subject: impl fmt::Display, source: Refusal) -> Self {
        Self::Refused { operation, subject: subject.to_string(), source }
    }

    /// Whether the same operation may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Refused { source, .. } => source.is_retriable(),
            Self::Unimplemented { .. } | Self::Foreign { .. } | Self::Program { .. } => false,
            Self::NoNamespace { .. } | Self::NoLink { .. } => true,
        }
    }
}

impl From<KernelError> for kilter_southbound::ActError {
    fn from(error: KernelError) -> Self {
        if error.is_retriable() { Self::retriable(error) } else { Self::lasting(error) }
    }
}

impl From<KernelError> for kilter_scheduler::Answer {
    fn from(error: KernelError) -> Self {
        Self::Failed(kilter_southbound::ActError::from(error).into())
    }
}

/// Number, name and meaning of the errors that networking gives.
const NAMES: &[(i32, &str, &str)] = &[
    (libc::EPERM, "EPERM", "operation not permitted"),
    (libc::ENOENT, "ENOENT", "no such entry"),
    (libc::ESRCH, "ESRCH", "no such object"),
    (libc::EINTR, "EINTR", "interrupted"),
    (libc::EIO, "EIO", "input or output error"),
    (libc::ENXIO, "ENXIO", "no such device or address"),
    (libc::E2BIG, "E2BIG", "too many arguments"),
    (libc::EBADF, "EBADF", "bad file descriptor"),
    (libc::EAGAIN, "EAGAIN", "try again"),
    (libc::ENOMEM, "ENOMEM", "out of memory"),
    (libc::EACCES, "EACCES", "permission denied"),
    (libc::EBUSY, "EBUSY", "in use"),
    (libc::EEXIST, "EEXIST", "exists already"),
    (libc::EXDEV, "EXDEV", "not within one system"),
    (libc::ENODEV, "ENODEV", "no such device"),
    (libc::ENOTDIR, "ENOTDIR", "not a directory"),
    (libc::EINVAL, "EINVAL", "invalid argument"),
    (libc::EMFILE, "EMFILE", "too many open files"),
    (libc::ENOSPC, "ENOSPC", "no space left"),
    (libc::EROFS, "EROFS", "read-only"),
    (libc::ERANGE, "ERANGE", "out of range"),
    (libc::EDOM, "EDOM", "out of domain"),
    (libc::ENAMETOOLONG, "ENAMETOOLONG", "the name is too long"),
    (libc::ENOSYS, "ENOSYS", "not implemented"),
    (libc::ELOOP, "ELOOP", "a loop of links"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT", "protocol not available"),
    (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT", "protocol not supported"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP", "not supported"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT", "address family not supported"),
    (libc::EADDRINUSE, "EADDRINUSE", "the address is in use"),
    (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL", "the address is not available"),
    (libc::ENETDOWN, "ENETDOWN", "network is down"),
    (libc::ENETUNREACH, "ENETUNREACH", "network is unreachable"),
    (libc::ENOBUFS, "ENOBUFS", "no buffer space"),
    (libc::ENOTCONN, "ENOTCONN", "not connected"),
    (libc::ETIMEDOUT, "ETIMEDOUT", "timed out"),
    (libc::EHOSTUNREACH, "EHOSTUNREACH", "host is unreachable"),
    (libc::ESTALE, "ESTALE", "out of date"),
];

#[cfg(test)]
mod tests {
    use kilter_southbound::flatten;

    use super::*;

    #[test]
    fn an_error_names_operation_subject_errno_and_the_kernels_words() {
        let unreachable = Refusal::of(Errno::NETUNREACH);
        let error = KernelError::refused("add route", "10.0.0.0/24 via 10.1.0.1", unreachable);
        assert_eq!(
            flatten(&error),
            "failed to add route `10.0.0.0/24 via 10.1.0.1`: network is unreachable (ENETUNREACH)"
        );
        assert!(error.is_retriable());
        let worded = Refusal { errno: libc::EINVAL, text: Some("Nexthop has invalid gateway.".to_owned()) };
        assert_eq!(worded.to_string(), "invalid argument (EINVAL): Nexthop has invalid gateway");
        assert!(!worded.is_retriable());
    }

    #[test]
    fn an_error_without_a_name_keeps_its_number() {
        assert_eq!(Refusal { errno: 513, text: None }.to_string(), "error 513");
    }
}
