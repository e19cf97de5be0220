//! Values and facts: typed content behind a shared pointer.
//!
//! The scheduler compares values and passes them on; only descriptors and actuators look inside.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::weigh::weigh;

/// How the names of fields begin that nobody declares and nobody is shown: what reading taught about a value.
const UNSHOWN: char = '~';

/// What sharing a value costs: two counters.
const SHARED: usize = 2 * size_of::<usize>();

/// The typed content of an item.
///
/// Implemented for every plain data type; see [`ValueRef`] for the shared pointer that travels.
pub trait Value: fmt::Debug + Send + Sync + 'static {
    /// Whether the other value has the same type and the same content.
    fn same(&self, other: &dyn Value) -> bool;
    /// The value as JSON, for the borders.
    fn to_json(&self) -> serde_json::Value;
    /// The value as `Any`, for the descriptor that knows its type.
    fn as_any(&self) -> &dyn Any;
    /// About how many bytes the value occupies, its texts and lists included.
    fn weight(&self) -> usize;
}

impl<T> Value for T
where
    T: PartialEq + fmt::Debug + Serialize + Send + Sync + 'static,
{
    fn same(&self, other: &dyn Value) -> bool {
        other.as_any().downcast_ref::<T>().is_some_and(|other| self == other)
    }

    fn to_json(&self) -> serde_json::Value {
        // A value that cannot be JSON (a map with composite keys) still has a readable text.
        serde_json::to_value(self).unwrap_or_else(|_| serde_json::Value::String(format!("{self:?}")))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn weight(&self) -> usize {
        size_of::<T>().max(weigh(self)) + SHARED
    }
}

/// A shared, immutable value.
#[derive(Clone)]
pub struct ValueRef(Arc<dyn Value>);

impl ValueRef {
    /// Shares a value.
    pub fn new(value: impl Value) -> Self {
        Self(Arc::new(value))
    }

    /// The value as its own type, if it is of that type.
    pub fn downcast<T: Value>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }

    /// The value as JSON that is shown: without the fields that only a recording holds.
    pub fn to_json(&self) -> serde_json::Value {
        let mut json = self.0.to_json();
        if let serde_json::Value::Object(fields) = &mut json {
            fields.retain(|name, _| !name.starts_with(UNSHOWN));
        }
        json
    }

    /// The value as JSON with everything that a decision may depend on, for a recording.
    pub fn to_whole_json(&self) -> serde_json::Value {
        self.0.to_json()
    }

    /// About how many bytes the value occupies.
    pub fn weight(&self) -> usize {
        self.0.weight()
    }

    /// Whether both point to the very same content.
    pub fn is_identical(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl PartialEq for ValueRef {
    fn eq(&self, other: &Self) -> bool {
        self.is_identical(other) || self.0.same(&*other.0)
    }
}

impl fmt::Debug for ValueRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ValueRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

/// What making or reading an item taught us, for example an interface index. Opaque to the scheduler.
#[derive(Clone)]
pub struct Facts(Arc<dyn Any + Send + Sync>);

impl Facts {
    /// Shares facts.
    pub fn new<T: Any + Send + Sync>(facts: T) -> Self {
        Self(Arc::new(facts))
    }

    /// The facts as their own type, if they are of that type.
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Facts(..)")
    }
}
