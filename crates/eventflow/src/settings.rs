//! What can be set about the controller.

use crate::kinds::declared::{PolicyForm, Sink};

/// The settings of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace in which sources, Channels and Subscriptions live. Default: `kyma-integration`.
    pub integration: String,
    /// What makes a sink appear. Default: the label on which Knative makes it.
    pub sink: Sink,
    /// Which policy lets the mesh reach a sink; `None` if there is no mesh. Default: `PeerAuthentication`.
    pub policy: Option<PolicyForm>,
    /// What decides by how much retries are later than they have to be: another one for each program. Default: 0.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            integration: "kyma-integration".to_owned(),
            sink: Sink::Injection,
            policy: Some(PolicyForm::PeerAuthentication),
            seed: 0,
        }
    }
}
