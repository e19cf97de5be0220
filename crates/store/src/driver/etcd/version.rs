//! Which servers keep which promises.

use std::fmt;

/// The version of an etcd server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl Version {
    /// Reads `3.5.18`; what stands behind the third number is left out.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse::<u32>().ok()
        });
        Some(Self { major: numbers.next()??, minor: numbers.next()??, patch: numbers.next()?? })
    }

    /// Whether the server is at least as new as the first release of its line that has something.
    fn has(self, lines: &[(u32, u32, u32)], from: (u32, u32)) -> bool {
        let (major, minor) = (self.major, self.minor);
        (major, minor) >= from
            || lines.iter().any(|line| (line.0, line.1) == (major, minor) && self.patch >= line.2)
    }

    /// Whether a watch is told everything, also around a compaction.
    pub fn keeps_watch_events(self) -> bool {
        self.has(&[(3, 4, 36), (3, 5, 18)], (3, 6))
    }

    /// Whether the answer to "how far is this watch" comes behind what it covers.
    pub fn answers_progress_in_order(self) -> bool {
        self.has(&[(3, 4, 25), (3, 5, 8)], (3, 6))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Something about a server that its owner should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The server may leave out a deletion when it compacts.
    LosesWatchEvents {
        /// Which member.
        endpoint: String,
        /// What it runs.
        version: Version,
    },
    /// The member says nothing one could read a version from.
    UnknownVersion {
        /// Which member.
        endpoint: String,
        /// What it says.
        said: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LosesWatchEvents { endpoint, version } => write!(
                f,
                "etcd {version} at `{endpoint}` may lose deletions when it compacts, \
                 hint: use 3.4.36, 3.5.18, 3.6 or newer"
            ),
            Self::UnknownVersion { endpoint, said } => {
                write!(f, "etcd at `{endpoint}` does not say which version it is (`{said}`)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_judged_by_their_line() {
        let of = |text| Version::parse(text).unwrap();
        assert_eq!(of("3.4.23"), Version { major: 3, minor: 4, patch: 23 });
        assert_eq!(of("3.6.0-rc.1").to_string(), "3.6.0");
        assert_eq!((Version::parse(""), Version::parse("3.x.1"), Version::parse("3.4")), (None, None, None));
        for (version, keeps, in_order) in [
            ("3.3.27", false, false),
            ("3.4.23", false, false),
            ("3.4.35", false, true),
            ("3.4.36", true, true),
            ("3.5.7", false, false),
            ("3.5.17", false, true),
            ("3.5.18", true, true),
            ("3.6.0", true, true),
            ("4.0.0", true, true),
        ] {
            let judged = (of(version).keeps_watch_events(), of(version).answers_progress_in_order());
            assert_eq!(judged, (keeps, in_order), "{version}");
        }
    }
}
