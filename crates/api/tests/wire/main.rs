//! What the wire's renderings promise, in one binary.
#![allow(clippy::unwrap_used)]

mod drawing;
mod requests;
