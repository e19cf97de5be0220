//! What only a macvlan or a macvtap has, on the wire.

use kilter_model::linux::MacvlanMode;

use crate::netlink::{Attributes, Message};

const MODE: u16 = 1;

/// Writes the mode.
pub(crate) fn write(data: &mut Message, mode: MacvlanMode) {
    let number = match mode {
        MacvlanMode::Private => 1,
        MacvlanMode::Vepa => 2,
        MacvlanMode::Bridge => 4,
        MacvlanMode::Passthru => 8,
    };
    data.u32(MODE, number);
}

/// Reads the mode; one that we do not know reads as the default.
pub(crate) fn read(data: Attributes<'_>) -> MacvlanMode {
    match data.get(MODE).and_then(|mode| mode.as_u32()) {
        Some(1) => MacvlanMode::Private,
        Some(2) => MacvlanMode::Vepa,
        Some(8) => MacvlanMode::Passthru,
        _ => MacvlanMode::Bridge,
    }
}
