//! Which parts the agent is made of. The only place that names handlers, sources and actuators together.

use std::time::Instant;

use kilter_events::{EventLoop, Handler, Parts, Settings as EventSettings, SettingsError};
use kilter_linux::{Linux, Settings as LinuxSettings};
use kilter_model::kinds::descriptors;
use kilter_scheduler::{PatternError, RegisterError, Scheduler, Timestamp};
use kilter_southbound::{Actuators, AddActuatorError, Clock as _, Driver, Settings as DriverSettings};

use crate::clock::SteadyClock;

/// The handlers, in order: who reads the state of another stands after it.
///
/// There is none yet: what sources declare is laid over an empty draft.
fn handlers() -> Vec<Box<dyn Handler>> {
    Vec::new()
}

/// The actuators of every kind.
fn actuators(linux: &Linux) -> Result<Actuators, AddActuatorError> {
    let mut actuators = Actuators::new();
    linux.add_to(&mut actuators)?;
    Ok(actuators)
}

/// What can be set about the parts.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The event loop.
    pub events: EventSettings,
    /// The driver.
    pub driver: DriverSettings,
    /// The southbound.
    pub linux: LinuxSettings,
}

/// Why the parts do not fit together.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// A setting cannot be.
    #[error("failed to make the event loop")]
    Settings(#[from] SettingsError),
    /// The southbound could not be opened.
    #[error("failed to open the southbound")]
    Southbound(#[from] kilter_linux::Refusal),
    /// A kind has two actuators.
    #[error("failed to add the actuators")]
    Actuators(#[from] AddActuatorError),
    /// A kind's keys are not well formed.
    #[error("failed to describe the kinds")]
    Kinds(#[from] PatternError),
    /// Two kinds claim the same keys.
    #[error("failed to register the kinds")]
    Register(#[from] RegisterError),
}

/// The parts, put together and not yet running.
pub struct Assembly {
    /// The loop, which waits for its startup resync.
    pub events: EventLoop,
    /// Performs transactions.
    pub driver: Driver,
    /// The southbound, to be watched.
    pub linux: Linux,
    /// The time that all of them are told.
    pub clock: SteadyClock,
}

/// A loop that knows every kind and handler and waits for its startup resync; nothing acts on its behalf.
pub fn event_loop(settings: EventSettings, now: Timestamp) -> Result<EventLoop, AssembleError> {
    let mut scheduler = Scheduler::default();
    for descriptor in descriptors()? {
        scheduler.register(descriptor)?;
    }
    let started = Instant::now();
    let parts = Parts {
        scheduler,
        handlers: handlers(),
        // They take their places when the agent begins.
        sources: Vec::new(),
        stopwatch: Box::new(move || started.elapsed()),
    };
    Ok(EventLoop::new(settings, parts, now)?)
}

/// Puts the parts together. The host is the network namespace of the calling thread.
pub fn assemble(settings: Settings) -> Result<Assembly, AssembleError> {
    let clock = SteadyClock::start();
    let events = event_loop(settings.events, clock.now())?;
    let linux = Linux::new(settings.linux)?;
    let driver = Driver::new(actuators(&linux)?, settings.driver);
    Ok(Assembly { events, driver, linux, clock })
}
