//! The offers of a source as its upstream listed them, kept as text.
//!
//! They are parsed rarely: when a list, rules or pins change, and for operators. A tree of values
//! takes seven times the memory of its text. Schemas are kept once, and shared with the catalog's
//! entries.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::Value;
use toolcrib_core::{
    canonical::Digest,
    limit::Rate,
    offer::OfferKind,
    pin::PinForm,
    schema::{Schema, SchemaDepthError, SchemaObject, is_deeper},
    source::{Discovered, DiscoveredOffer, FormedOffer},
};

/// A [`Discovered`] as text. Has the same JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct OfferList {
    pub(crate) version: Option<String>,
    #[serde(deserialize_with = "offers")]
    pub(crate) offers: Vec<Arc<ListedOffer>>,
    #[serde(default)]
    pub(crate) problems: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rates: BTreeMap<String, Rate>,
}

/// A [`DiscoveredOffer`] as text. Has the same JSON.
#[derive(Debug)]
pub(crate) struct ListedOffer {
    pub(crate) kind: OfferKind,
    pub(crate) name: String,
    /// The digest of its [`PinForm`].
    pub(crate) digest: Digest,
    pub(crate) input: Option<Schema>,
    pub(crate) output: Option<Schema>,
    /// Whether `raw` has the same schemas, in this order, under the names of MCP.
    is_in_raw: [bool; 2],
    /// The tool without these schemas.
    rest: Box<str>,
}

/// The forms of offers that were not in the previous list, by key, for the comparison with their
/// pins.
pub(crate) type NewForms = HashMap<String, PinForm>;

/// The schemas of a list. Many operations of a service have equal schemas: each text is in memory
/// once, and is checked and compiled once.
#[derive(Default)]
struct Schemas(HashSet<Schema>);

/// The members of `raw` that usually repeat the schemas.
const IN_RAW: [&str; 2] = ["inputSchema", "outputSchema"];
/// The deepest nesting of a tool; its text must be parseable again.
const MAX_NESTING: usize = 124;

// === impl OfferList ===

impl OfferList {
    /// Stores `discovered`, and reuses the equal offers of `before`. Also returns the forms of
    /// the other offers.
    pub(crate) fn new(discovered: Discovered, before: Option<&Self>) -> (Self, NewForms) {
        let Discovered { version, offers, mut problems, notes, rates } = discovered;
        let known = before.iter().flat_map(|before| &before.offers);
        let known: HashMap<_, &Arc<ListedOffer>> =
            known.map(|offer| (offer.key(), offer)).collect();
        let mut kept = Vec::with_capacity(offers.len());
        let (mut forms, mut schemas) = (NewForms::new(), Schemas::default());
        for offer in offers {
            let (tool, form) = offer.into_parts();
            let (kind, name, key) = (tool.offer.kind(), tool.name.clone(), tool.key().into_owned());
            match ListedOffer::new(tool, form.digest, &mut schemas) {
                Ok(tool) => kept.push(match known.get(key.as_str()) {
                    Some(known) if known.is_same(&tool) => Arc::clone(known),
                    Some(_) | None => {
                        forms.insert(key, form);
                        Arc::new(tool)
                    }
                }),
                Err(problem) => {
                    problems.push(format!("{kind} {name:?} is left out: {problem}"));
                }
            }
        }
        (Self { version, offers: kept, problems, notes, rates }, forms)
    }

    /// Whether `other`, which reuses offers of this list, has the same content.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.version == other.version
            && self.problems == other.problems
            && self.notes == other.notes
            && self.rates == other.rates
            && self.offers.len() == other.offers.len()
            && self.offers.iter().zip(&other.offers).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The offers as they were listed.
    pub(crate) fn discovered(&self) -> impl Iterator<Item = DiscoveredOffer> {
        self.offers.iter().filter_map(|tool| tool.discovered())
    }
}

// === impl ListedOffer ===

impl ListedOffer {
    /// Stores `tool`, whose form has this digest.
    fn new(
        mut tool: DiscoveredOffer,
        digest: Digest,
        schemas: &mut Schemas,
    ) -> Result<Self, SchemaDepthError> {
        let known = schemas;
        let schemas = [tool.input_schema.take(), tool.output_schema.take()];
        let mut is_in_raw = [false; 2];
        for ((name, schema), is_in_raw) in IN_RAW.iter().zip(&schemas).zip(&mut is_in_raw) {
            if let (Some(schema), Some(raw)) = (schema, tool.raw.get_mut(*name))
                && schema.is_object()
                && *raw == *schema
            {
                *raw = Value::Null;
                *is_in_raw = true;
            }
        }
        let [input, output] = schemas;
        let mut keep =
            |schema: Option<Value>, rest: fn(&mut DiscoveredOffer) -> &mut Option<Value>| {
                match schema {
                    Some(Value::Object(schema)) => known.keep(&schema).map(Some),
                    // Other kinds are rare, and stay unchanged.
                    other => {
                        *rest(&mut tool) = other;
                        Ok(None)
                    }
                }
            };
        let input = keep(input, |tool| &mut tool.input_schema)?;
        let output = keep(output, |tool| &mut tool.output_schema)?;
        let rest = [&tool.input_schema, &tool.output_schema, &tool.annotations];
        if rest.into_iter().flatten().chain([&tool.raw]).any(|value| is_deeper(value, MAX_NESTING))
        {
            return Err(SchemaDepthError);
        }
        let rest = serde_json::to_string(&tool).map_err(|_| SchemaDepthError)?.into();
        Ok(Self {
            kind: tool.offer.kind(),
            name: tool.name,
            digest,
            input,
            output,
            is_in_raw,
            rest,
        })
    }

    /// The tool as it was listed. Never `None`: the text is that of a tool.
    pub(crate) fn discovered(&self) -> Option<DiscoveredOffer> {
        let mut tool: DiscoveredOffer = serde_json::from_str(&self.rest).ok()?;
        let schemas =
            [&self.input, &self.output].map(|schema| schema.as_ref().map(Schema::to_value));
        for ((name, schema), is_in_raw) in IN_RAW.iter().zip(&schemas).zip(self.is_in_raw) {
            if let (true, Some(schema), Some(raw)) = (is_in_raw, schema, tool.raw.get_mut(*name)) {
                raw.clone_from(schema);
            }
        }
        let [input, output] = schemas;
        tool.input_schema = input.or(tool.input_schema);
        tool.output_schema = output.or(tool.output_schema);
        Some(tool)
    }

    /// Distinguishes it from the other offers of its source.
    pub(crate) fn key(&self) -> Cow<'_, str> {
        self.kind.key(&self.name)
    }

    /// Whether both are equal, in any order of members.
    fn is_same(&self, other: &Self) -> bool {
        let text = |tool: &Self| (tool.input.clone(), tool.output.clone(), tool.is_in_raw);
        if text(self) == text(other) && self.rest == other.rest {
            return true;
        }
        self.digest == other.digest && self.discovered() == other.discovered()
    }
}

impl Serialize for ListedOffer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.discovered().serialize(serializer)
    }
}

/// Reads the offers of an [`OfferList`], one after the other.
fn offers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<ListedOffer>>, D::Error> {
    struct Offers;
    impl<'de> Visitor<'de> for Offers {
        type Value = Vec<Arc<ListedOffer>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of offers")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let (mut tools, mut schemas) = (Vec::new(), Schemas::default());
            while let Some(tool) = list.next_element::<FormedOffer>()? {
                let (tool, form) = tool.into_parts();
                let tool = ListedOffer::new(tool, form.digest, &mut schemas);
                tools.push(Arc::new(tool.map_err(A::Error::custom)?));
            }
            Ok(tools)
        }
    }
    deserializer.deserialize_seq(Offers)
}

// === impl Schemas ===

impl Schemas {
    /// The shared text of `schema`.
    fn keep(&mut self, schema: &SchemaObject) -> Result<Schema, SchemaDepthError> {
        let schema = Schema::new(schema)?;
        if let Some(known) = self.0.get(&schema) {
            return Ok(known.clone());
        }
        self.0.insert(schema.clone());
        Ok(schema)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, input: Value, raw: Value) -> DiscoveredOffer {
        DiscoveredOffer {
            name: name.to_owned(),
            title: Some("A tool".to_owned()),
            input_schema: Some(input),
            output_schema: Some(json!({ "type": "object", "required": ["b", "a"] })),
            annotations: Some(json!({ "readOnlyHint": true })),
            raw,
            ..DiscoveredOffer::default()
        }
    }

    fn discovered(tools: Vec<DiscoveredOffer>) -> Discovered {
        let tools = tools.into_iter().map(FormedOffer::from).collect();
        Discovered { version: Some("1.2.3".to_owned()), offers: tools, ..Discovered::default() }
    }

    #[test]
    fn a_tool_is_read_as_it_was_listed() {
        let schema = json!({ "type": "object", "properties": { "b": {}, "a": {} } });
        let in_raw = json!({ "name": "one", "inputSchema": schema, "_meta": { "x": 1.5 } });
        for tool in [
            tool("one", schema.clone(), in_raw),
            tool("two", schema.clone(), json!({ "inputSchema": "a digest" })),
            tool("three", json!(true), Value::Null),
            tool("four", json!([1]), json!([{ "inputSchema": null }])),
        ] {
            let (listed, forms) = OfferList::new(discovered(vec![tool.clone()]), None);
            assert_eq!(forms[&tool.name], PinForm::of(&tool));
            let read: Vec<_> = listed.discovered().collect();
            assert_eq!(read, std::slice::from_ref(&tool));
            assert_eq!(listed.offers[0].digest, PinForm::of(&tool).digest);
            let (json, same) = (json!(discovered(vec![tool])).to_string(), json!(listed));
            assert_eq!(same.to_string(), json);
            let stored: OfferList = serde_json::from_str(&json).unwrap();
            assert_eq!(stored.discovered().collect::<Vec<_>>(), read);
        }
    }

    #[test]
    fn equal_tools_are_taken_over() {
        let (short, long) = (json!({ "a": 1 }), json!({ "a": 1, "b": 2 }));
        let list = |one: &Value, two: &Value| {
            discovered(vec![
                tool("one", one.clone(), json!({})),
                tool("two", two.clone(), json!({})),
            ])
        };
        let (first, _) = OfferList::new(list(&short, &long), None);
        let (reordered, forms) =
            OfferList::new(list(&short, &json!({ "b": 2, "a": 1 })), Some(&first));
        assert!(first.is_same(&reordered) && forms.is_empty());
        let (changed, forms) = OfferList::new(list(&short, &short), Some(&first));
        assert!(!first.is_same(&changed));
        assert_eq!(forms.into_keys().collect::<Vec<_>>(), ["two"]);
        assert!(Arc::ptr_eq(&first.offers[0], &changed.offers[0]));
        assert!(!Arc::ptr_eq(&first.offers[1], &changed.offers[1]));
    }

    #[test]
    fn equal_schemas_are_one_text() {
        let schema = json!({ "type": "object", "properties": { "a": {} } });
        let tools = vec![
            tool("one", schema.clone(), json!({})),
            tool("two", schema.clone(), json!({ "inputSchema": schema })),
            tool("three", json!({ "type": "object" }), json!({})),
        ];
        let (listed, _) = OfferList::new(discovered(tools), None);
        let stored: OfferList = serde_json::from_str(&json!(listed).to_string()).unwrap();
        for listed in [listed, stored] {
            let text = |at: usize| listed.offers[at].input.as_ref().unwrap();
            assert!(text(0).is_shared_with(text(1)) && !text(0).is_shared_with(text(2)));
            let output = |at: usize| listed.offers[at].output.as_ref().unwrap();
            assert!(output(0).is_shared_with(output(2)));
        }
    }

    #[test]
    fn a_tool_that_could_not_be_read_again_is_left_out() {
        let deep = (0..200).fold(json!({}), |inner, _| json!({ "not": inner }));
        let tools = vec![tool("deep", deep, json!({})), tool("flat", json!({}), json!({}))];
        let (listed, _) = OfferList::new(discovered(tools), None);
        assert_eq!(listed.offers.len(), 1);
        assert_eq!(
            listed.problems,
            ["tool \"deep\" is left out: the schema is nested deeper than 120 levels"]
        );
    }
}
