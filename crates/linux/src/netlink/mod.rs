//! Netlink: messages, the socket that carries requests, and what its errors mean.
//!
//! **Why** our own: a batch of requests goes out in one send, which no library offers; a dump is decoded only as far
//! as it is needed; an interrupted dump is repeated. One codec serves every kind.

pub(crate) mod error;
pub(crate) mod message;
pub(crate) mod rows;
pub(crate) mod rtnl;
mod scratch;
pub(crate) mod socket;

pub use error::{KernelError, Refusal};
pub(crate) use message::{Attributes, Message, Received, flag};
pub(crate) use scratch::with_scratch;
pub(crate) use socket::Requests;
