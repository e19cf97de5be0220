//! Which fields of the wire are spelt in their own way, by the end of their path. Read by the build, which gives the
//! fields their attributes, and by [`crate::openapi`], which describes them.

/// Fields that are enumerations, and the module that writes them as words.
pub(crate) const WORDS: &[(&str, &str)] = &[
    ("state", "state"),
    ("Moment.before", "state"),
    ("Step.action", "action"),
    ("Finished.action", "action"),
    ("outcome", "outcome"),
    ("Problem.reason", "reason"),
    ("on_failure", "on_failure"),
    ("author", "author"),
    ("scope", "scope"),
    ("edge_type", "edge"),
    ("Recording.stage", "stage"),
];

/// Fields that hold JSON as text.
pub(crate) const TEXTS: &[&str] = &[
    "DeclaredItem.value",
    "Item.declared",
    "Item.actual",
    "Side.value",
    "Moment.value",
    "Observation.value",
    "Vertex.value",
    "Kind.schema",
    "ItemBody.value",
];

/// Fields that are moments.
pub(crate) const MOMENTS: &[&str] = &["start", "stop", "Moment.at", "deadline"];

/// Fields that are spans of time.
pub(crate) const SPANS: &[&str] =
    &["within", "timeout", "RetryRule.period", "RetryRule.longest", "ApplyRequest.wait", "ApplyBody.wait"];

/// Alternatives that stand among the fields of their message, without a name of their own.
pub(crate) const FLAT: &[&str] = &["Probe.what"];

/// Messages that people write by hand: a field that is not known is a mistake, and told.
pub(crate) const STRICT: &[&str] = &[
    "DeclaredItem",
    "ConfirmWithin",
    "RetryRule",
    "Document",
    "PlanBody",
    "ApplyBody",
    "ItemBody",
    "ResyncBody",
    "ConfirmationBody",
    "ExtensionBody",
    "PausedBody",
    "WaitBody",
];
