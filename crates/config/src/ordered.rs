//! Tables whose order matters.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};

/// A table in the order of the file.
#[derive(Debug)]
pub(super) struct OrderedTable<T>(pub(super) Vec<(String, T)>);

impl<T> Default for OrderedTable<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedTable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = OrderedTable<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(OrderedTable(entries))
            }
        }
        deserializer.deserialize_map(Visitor(PhantomData))
    }
}
