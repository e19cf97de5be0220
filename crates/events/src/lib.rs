//! The event loop: every input is an event, every event passes the same ordered handlers, and what they draft is
//! committed as one transaction. Failures heal.
//!
//! The loop is a machine, not a thread: no I/O, no clock and no async inside. Whoever drives it asks what to do
//! [next](EventLoop::next), performs the transactions and effects it is given, and tells the outcome. Read
//! [`turn`](self) for the thirteen steps of one event (`turn.rs`), [`Handler`] for who reacts, [`Step`] for what the
//! driver does, [`replay`] for how a recorded run is held against itself.

mod anew;
pub mod banner;
pub mod builtin;
mod completion;
mod declare;
mod draft;
mod effect;
mod error;
mod event;
mod event_loop;
mod external;
mod fatal;
mod glance;
mod handler;
mod healing;
mod health;
mod history;
mod inputs;
mod queue;
mod record;
mod recording;
mod replay;
mod settings;
mod step;
mod turn;
mod verify;

pub use completion::{Answered, Completion, Waiter};
pub use declare::{AskedResync, DeclaredChange, Extent, Said};
pub use draft::{Draft, Provenance};
pub use effect::{Effect, EffectEnded};
pub use error::{EventError, Failure, HandlerError, Place, Severity, chain};
pub use event::{
    DecodeError, Direction, Event, EventKind, EventKinds, Method, ReadValue, Scope, UpdateMode, Written,
    from_json, to_json,
};
pub use event_loop::{EventLoop, Parts};
pub use external::Conflict;
pub use fatal::{Fatal, FatalReason};
pub use glance::{Glance, Preview};
pub use handler::{Handler, Stopwatch};
pub use health::{Health, Level, Standing};
pub use history::{EventHistory, Query};
pub use inputs::Inputs;
pub use queue::{Producer, PushError};
pub use record::{Difference, EventRecord, HandlerRecord};
pub use recording::{Heritage, Line, WrittenAnswer, WrittenItem, graph_hash};
pub use replay::{Describe, ReplayError, Replayed, replay};
pub use settings::{Settings, SettingsError};
pub use step::{Counts, Opening, Step};
