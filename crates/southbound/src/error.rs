//! Errors of acting, and the one place where a chain of causes becomes a text.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use kilter_scheduler::{Answer, Failure, Key};

/// More layers than any real chain has: an error that names itself as its cause must not keep us here.
const MAX_LAYERS: usize = 64;

/// Why an actuator could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The same operation may succeed later.
    #[error(transparent)]
    Retriable(Box<dyn Error + Send + Sync>),
    /// The same operation will fail again.
    #[error(transparent)]
    Lasting(Box<dyn Error + Send + Sync>),
}

impl ActError {
    /// A failure that may go away.
    pub fn retriable(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Retriable(error.into())
    }

    /// A failure that stays.
    pub fn lasting(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Lasting(error.into())
    }

    /// Whether the same operation may succeed later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Retriable(_))
    }
}

impl From<ActError> for Failure {
    fn from(error: ActError) -> Self {
        Self { message: flatten(&error).into(), retriable: error.is_retriable() }
    }
}

/// Why an operation failed although no actuator said so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// Nobody makes the kind real.
    #[error("kind `{kind}` has no actuator")]
    NoActuator {
        /// The name of the kind.
        kind: String,
    },
    /// The value is not of the type that the actuator of the kind works with.
    #[error("the value of `{key}` is not one of kind `{kind}`")]
    WrongType {
        /// The item.
        key: Key,
        /// The name of the kind.
        kind: Arc<str>,
    },
    /// The actuator does not offer the operation.
    #[error("the actuator of kind `{kind}` cannot {operation} `{key}`")]
    Unsupported {
        /// The item.
        key: Key,
        /// The name of the kind.
        kind: Arc<str>,
        /// What was asked.
        operation: &'static str,
    },
    /// The answer is not one to the operation.
    #[error("the actuator answered `{answered}` to `{asked}`")]
    WrongAnswer {
        /// What was asked.
        asked: String,
        /// What was answered.
        answered: String,
    },
    /// The actuator took the operation up and did not answer in time.
    #[error("no answer within {within:?}")]
    Overdue {
        /// How long it had.
        within: Duration,
    },
    /// The actuator did not even begin with the operation.
    #[error("not taken up within {within:?}")]
    NotTakenUp {
        /// For how long the actuator gave no sign of life.
        within: Duration,
    },
    /// The actuator came to its end without an answer.
    #[error("the actuator gave no answer")]
    NoAnswer,
    /// The actuator panicked.
    #[error("the actuator panicked: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
    /// The transaction was cancelled before the actuator began with the operation.
    #[error("cancelled before it began: {reason}")]
    Cancelled {
        /// Why.
        reason: Arc<str>,
    },
}

impl OperationError {
    /// Whether the same operation may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::NoActuator { .. }
            | Self::WrongType { .. }
            | Self::Unsupported { .. }
            | Self::WrongAnswer { .. }
            | Self::Cancelled { .. } => false,
            // A panic takes innocent neighbours of the batch with it, so it counts as something that may go away.
            Self::Overdue { .. } | Self::NotTakenUp { .. } | Self::NoAnswer | Self::Panicked { .. } => true,
        }
    }

    /// A panic, from what `catch_unwind` caught.
    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "without a message".to_owned());
        Self::Panicked { message }
    }
}

impl From<OperationError> for ActError {
    fn from(error: OperationError) -> Self {
        if error.is_retriable() { Self::retriable(error) } else { Self::lasting(error) }
    }
}

impl From<OperationError> for Answer {
    fn from(error: OperationError) -> Self {
        Self::Failed(Failure { message: flatten(&error).into(), retriable: error.is_retriable() })
    }
}

/// Why an actuator could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddActuatorError {
    /// Another actuator makes the kind real.
    #[error("kind `{kind}` has an actuator already")]
    KindTaken {
        /// The name of the kind.
        kind: String,
    },
}

/// An error with all its causes as one line: `outer: cause: root`.
///
/// A layer whose text ends with that of its cause is not repeated: not every library keeps to its own layer.
pub fn flatten(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    for cause in causes.take(MAX_LAYERS) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let (text, rest) = texts.split_first().unwrap();
        Layer { text, source: (!rest.is_empty()).then(|| Box::new(layers(rest))) }
    }

    #[test]
    fn a_chain_reads_from_the_attempt_to_the_root() {
        let error =
            layers(&["failed to add route `10.0.0.0/24`", "netlink refused", "network is unreachable"]);
        let flat = "failed to add route `10.0.0.0/24`: netlink refused: network is unreachable";
        assert_eq!(flatten(&error), flat);
        let failure = Failure::from(ActError::lasting(error));
        assert_eq!((&*failure.message, failure.retriable), (flat, false));
    }

    #[test]
    fn a_layer_that_repeats_its_cause_is_said_once() {
        let error =
            layers(&["failed to call the api: connection refused", "connection refused", "ECONNREFUSED"]);
        assert_eq!(flatten(&error), "failed to call the api: connection refused: ECONNREFUSED");
    }
}
