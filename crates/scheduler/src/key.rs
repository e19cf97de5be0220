//! Keys and key patterns: the global identity of an item, and the part of the key space that a kind owns.
//!
//! Decided here: what a well-formed pattern is, when it matches, when two patterns can match the same key.
//! Not decided here: which kind owns a key (see [`crate::registry`]).

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The global identity of an item, for example `linux/interface/eth1`.
///
/// Cloning is cheap: the text is shared.
#[derive(Clone, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<str>);

impl PartialEq for Key {
    /// **Why** not derived: that reads both texts, also if they are one.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Key {
    /// Makes a key out of its text.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Arc::from(text.as_ref()))
    }

    /// The text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

/// A set of keys described segment by segment: `bridge/*/port/**`.
///
/// `*` stands for exactly one segment, `**` (last only) for one segment or more, anything else for itself.
/// Segments are what stands between slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    text: String,
    segments: Vec<Segment>,
    /// Whether the last segment was `**`: after `segments`, one segment or more follow.
    rest: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    One,
}

/// Why a text is not a key pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern has no segments.
    #[error("the key pattern is empty")]
    Empty,
    /// A segment is empty or a star is mixed with other text.
    #[error("the key pattern `{pattern}` has a bad segment `{segment}`")]
    BadSegment {
        /// The whole pattern.
        pattern: String,
        /// The offending segment.
        segment: String,
    },
    /// `**` stands before the end.
    #[error("the key pattern `{pattern}` has `**` before its end")]
    RestNotLast {
        /// The whole pattern.
        pattern: String,
    },
}

impl KeyPattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        let mut segments = Vec::new();
        let mut rest = false;
        for segment in text.split('/') {
            if rest {
                return Err(PatternError::RestNotLast { pattern: text.to_owned() });
            }
            match segment {
                "**" => rest = true,
                "*" => segments.push(Segment::One),
                _ if segment.is_empty() || segment.contains('*') => {
                    return Err(PatternError::BadSegment {
                        pattern: text.to_owned(),
                        segment: segment.to_owned(),
                    });
                }
                _ => segments.push(Segment::Literal(segment.to_owned())),
            }
        }
        Ok(Self { text: text.to_owned(), segments, rest })
    }

    /// Whether the pattern describes this key.
    pub fn matches(&self, key: &str) -> bool {
        let mut parts = key.split('/');
        for segment in &self.segments {
            match (parts.next(), segment) {
                (None, _) => return false,
                (Some(part), Segment::Literal(literal)) if part != literal => return false,
                (Some(_), _) => {}
            }
        }
        parts.next().is_some() == self.rest
    }

    /// Whether some key is described by both patterns.
    pub fn overlaps(&self, other: &Self) -> bool {
        let common = self.segments.len().min(other.segments.len());
        let agree = self.segments[..common].iter().zip(&other.segments[..common]).all(|pair| match pair {
            (Segment::Literal(a), Segment::Literal(b)) => a == b,
            (Segment::One, _) | (_, Segment::One) => true,
        });
        let lengths_meet = match (self.rest, other.rest) {
            (true, true) => true,
            (true, false) => other.segments.len() > self.segments.len(),
            (false, true) => self.segments.len() > other.segments.len(),
            (false, false) => self.segments.len() == other.segments.len(),
        };
        agree && lengths_meet
    }
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> KeyPattern {
        KeyPattern::parse(text).unwrap()
    }

    #[test]
    fn a_star_is_one_segment_and_two_stars_are_one_or_more() {
        assert!(pattern("tap/*").matches("tap/a"));
        assert!(!pattern("tap/*").matches("tap/a/address/1"));
        assert!(!pattern("tap/*").matches("tap"));
        assert!(pattern("tap/*/address/**").matches("tap/a/address/10.0.0.1/24"));
        assert!(!pattern("tap/*/address/**").matches("tap/a/address"));
        assert!(pattern("host").matches("host"));
    }

    #[test]
    fn patterns_overlap_when_one_key_can_match_both() {
        for (a, b, expected) in [
            ("tap/*", "tap/*", true),
            ("tap/*", "tap/*/address/**", false),
            ("tap/**", "tap/*/address/**", true),
            ("tap/*", "bd/*", false),
            ("*/a", "b/*", true),
            ("a/**", "a", false),
            ("a/**", "a/b", true),
            ("**", "x", true),
        ] {
            assert_eq!(pattern(a).overlaps(&pattern(b)), expected, "{a} and {b}");
            assert_eq!(pattern(b).overlaps(&pattern(a)), expected, "{b} and {a}");
        }
    }

    #[test]
    fn bad_patterns_say_what_is_wrong() {
        assert_eq!(KeyPattern::parse(""), Err(PatternError::Empty));
        assert!(matches!(KeyPattern::parse("a/**/b"), Err(PatternError::RestNotLast { .. })));
        assert!(matches!(KeyPattern::parse("a//b"), Err(PatternError::BadSegment { .. })));
        assert!(matches!(KeyPattern::parse("a/b*"), Err(PatternError::BadSegment { .. })));
    }
}
