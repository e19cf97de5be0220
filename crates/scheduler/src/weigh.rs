//! Weighing: about how many bytes a value occupies, its texts and lists included.
//!
//! Decided here: a value weighs what it would show, without showing it. Nothing is formatted and nothing allocated, so
//! weighing costs about as much as looking at each field once.

use std::fmt;

use serde::ser::{self, Serialize};

/// About how many bytes the content occupies; what hides from serialisation is not seen.
pub(crate) fn weigh<T: Serialize>(content: &T) -> usize {
    let mut scale = Scale(0);
    // A value that cannot be serialised weighs what was seen of it before.
    let _ = content.serialize(&mut scale);
    scale.0
}

/// A serialiser that only counts.
struct Scale(usize);

/// A content that refuses to be serialised.
#[derive(Debug)]
struct Unseen;

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value refuses to be serialised")
    }
}

impl std::error::Error for Unseen {}

impl ser::Error for Unseen {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl Scale {
    fn add(&mut self, bytes: usize) -> Result<(), Unseen> {
        self.0 = self.0.saturating_add(bytes);
        Ok(())
    }
}

/// Numbers and the like: each adds its own size.
macro_rules! plain {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, _: $type) -> Result<(), Unseen> {
            self.add(size_of::<$type>())
        })*
    };
}

impl<'a> ser::Serializer for &'a mut Scale {
    type Ok = ();
    type Error = Unseen;
    type SerializeSeq = &'a mut Scale;
    type SerializeTuple = &'a mut Scale;
    type SerializeTupleStruct = &'a mut Scale;
    type SerializeTupleVariant = &'a mut Scale;
    type SerializeMap = &'a mut Scale;
    type SerializeStruct = &'a mut Scale;
    type SerializeStructVariant = &'a mut Scale;

    plain! {
        serialize_bool: bool, serialize_char: char, serialize_f32: f32, serialize_f64: f64,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128
    }

    fn serialize_str(self, text: &str) -> Result<(), Unseen> {
        self.add(size_of::<String>() + text.len())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Unseen> {
        self.add(size_of::<Vec<u8>>() + bytes.len())
    }

    fn serialize_none(self) -> Result<(), Unseen> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unseen> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unseen> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unseen> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Unseen> {
        self.add(1)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Unseen> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Unseen> {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Unseen> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Unseen> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Unseen> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Unseen> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Unseen> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Unseen> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Unseen> {
        Ok(self)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, text: &T) -> Result<(), Unseen> {
        fmt::write(self, format_args!("{text}")).map_err(|_| Unseen)
    }
}

impl fmt::Write for Scale {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.len()).map_err(|_| fmt::Error)
    }
}

/// Lists, maps and structs: each member is weighed in turn.
macro_rules! members {
    ($($trait:ident::$method:ident($($name:ty)?)),*) => {
        $(impl ser::$trait for &mut Scale {
            type Ok = ();
            type Error = Unseen;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Result<(), Unseen> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Unseen> {
                Ok(())
            }
        })*
    };
}

members! {
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(&'static str),
    SerializeStructVariant::serialize_field(&'static str)
}

impl ser::SerializeMap for &mut Scale {
    type Ok = ();
    type Error = Unseen;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unseen> {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unseen> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Unseen> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    struct Interface {
        name: String,
        mtu: u32,
        addresses: Vec<String>,
        peer: Option<Box<Interface>>,
        mode: Mode,
    }

    #[derive(Serialize)]
    enum Mode {
        Plain,
        Vlan(u16),
        Tunnel { remote: String },
    }

    fn interface(name: &str, mode: Mode, peer: Option<Interface>) -> Interface {
        let addresses = vec!["10.0.0.1/24".to_owned(); 2];
        Interface { name: name.to_owned(), mtu: 1500, addresses, peer: peer.map(Box::new), mode }
    }

    #[test]
    fn every_part_counts() {
        let text = size_of::<String>();
        let one = text + 4 + 4 + 2 * (text + 11);
        assert_eq!(weigh(&interface("eth0", Mode::Plain, None)), one + 1);
        assert_eq!(weigh(&interface("eth0", Mode::Vlan(7), None)), one + 2);
        let tunnel = Mode::Tunnel { remote: "far".to_owned() };
        assert_eq!(weigh(&interface("eth0", tunnel, None)), one + text + 3);
        let pair = interface("eth0", Mode::Plain, Some(interface("eth1", Mode::Plain, None)));
        assert_eq!(weigh(&pair), 2 * (one + 1));
    }

    #[test]
    fn large_texts_lists_and_maps_are_seen() {
        assert!(weigh(&"x".repeat(1 << 20)) > 1 << 20);
        assert!(weigh(&vec![0_u64; 1 << 17]) >= 1 << 20);
        let map: BTreeMap<u32, String> = (0..1000).map(|n| (n, "x".repeat(1000))).collect();
        assert!(weigh(&map) > 1_000_000);
        assert!(weigh(&std::net::Ipv4Addr::LOCALHOST) > 8);
    }

    #[test]
    fn what_cannot_be_serialised_weighs_what_was_seen() {
        struct Shy;
        impl Serialize for Shy {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(ser::Error::custom("no"))
            }
        }
        assert_eq!(weigh(&("abc", Shy, "never reached")), size_of::<String>() + 3);
    }
}
