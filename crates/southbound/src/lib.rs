//! Makes operations real: actuators, and the driver that performs a transaction with them.
//!
//! Decided here: who is asked to do an operation, how long an answer may take, and what a broken actuator costs
//! (only its own items). Not decided here: what is to be done and in which order (the scheduler), and how a kind is
//! made real (the crates that implement [`Actuator`]).
//!
//! Read next: [`Actuator`] and [`Batch`] for the contract, [`SingleItem`] for the easy way to fulfil it, [`Driver`]
//! for how a transaction is performed.

mod actuator;
mod asked;
mod batch;
mod cancel;
mod clock;
mod counters;
mod dispatch;
mod driver;
mod error;
mod observer;
mod settings;
mod single;
mod verify;

pub use actuator::{Actuator, Actuators};
pub use batch::{Assignment, Batch, Reply};
pub use cancel::Cancel;
pub use clock::{Clock, SystemClock};
pub use counters::Counts;
pub use driver::{Driver, Ending};
pub use error::{ActError, AddActuatorError, OperationError, flatten};
pub use futures::future::BoxFuture;
pub use observer::{Decision, Finished, Observer};
pub use settings::{Settings, SettingsError};
pub use single::{Context, Each, Made, ReadOne, Seen, SingleItem, Sought, each};
pub use verify::{Difference, Discrepancy, Verification};
