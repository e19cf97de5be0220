//! The drivers: one module for each kind of store.

pub mod embedded;
pub mod etcd;
