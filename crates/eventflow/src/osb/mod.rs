//! The service broker: Open Service Broker API 2.17 in front of flows.
//!
//! Decided here: that an instance of a service is one EventFlow and one EventActivation, and that what a platform was
//! promised outlives us: the record of an instance ([`record`]) is written to the cluster before the platform is
//! answered. [`decide`] holds the table of who may ask what when, [`keeper`] carries out what was promised, [`http`] is
//! what platforms see, [`catalog`] what they are offered; `/openapi.json` describes all of it, and `explain` says why an
//! order waits. Not decided here: what a flow makes true; that is the
//! controller's.

pub mod catalog;
pub mod decide;
mod description;
mod explain;
pub mod http;
pub mod keeper;
mod objects;
mod pauses;
mod question;
pub mod record;
mod serve;
mod store;

pub(crate) use explain::why;
pub use http::Access;
pub(crate) use objects::flow_id;
pub use serve::serve;
pub(crate) use store::record as read_record;
