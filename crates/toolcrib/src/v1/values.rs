//! Values of query parameters and bodies. Each type parses a text and describes the accepted texts,
//! so that `openapi.json` matches the server.
//!
//! `crate::parameters` rejects unknown query parameters for all routes.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json};
use toolcrib_core::{
    approval::ApprovalState,
    canonical::Digest,
    clock::Timestamp,
    descriptor::SourceKind,
    id::{KeyId, PrincipalId},
    record::RecordFormat,
    scope::Grant,
    store::{RunState, SavedKind},
    text::has_hidden,
};
use toolcrib_gateway::{audit::csv, authn::is_kept_for_tokens};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, Type},
};

/// A value with a rule.
pub(crate) trait Parameter: PartialSchema + Sized {
    /// Parses `text`; `None` if it violates the rule.
    fn parse(text: &str) -> Option<Self>;

    /// The rule, as the end of a sentence about the value.
    fn rule() -> String;

    /// The rule for programs, as an object.
    fn details() -> Value {
        json!({})
    }
}

/// A whole number within a range.
#[derive(Clone, Copy)]
pub(crate) struct Number<const LEAST: u64, const MOST: u64>(pub(crate) u64);

/// Maximum number of items in one response.
pub(crate) type Limit = Number<1, 1_000>;
/// Maximum number of tools in a search result.
pub(crate) type SearchLimit = Number<1, 100>;
/// A position in the record, or the number of a checkpoint; at most the largest integer of SQL.
pub(crate) type Position = Number<0, 9_223_372_036_854_775_807>;

/// The maximum number of time buckets in a summary.
pub(crate) type Buckets = Number<1, 200>;

/// The seconds of an overlap; at most `manage::MAX_OVERLAP`.
pub(crate) type Overlap = Number<0, 2_592_000>;

impl<const LEAST: u64, const MOST: u64> Number<LEAST, MOST> {
    /// The number as a size in memory.
    pub(crate) fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    fn checked(number: u64) -> Option<Self> {
        (LEAST..=MOST).contains(&number).then_some(Self(number))
    }
}

impl Limit {
    /// The limit of a request without one.
    pub(crate) const DEFAULT: Self = Self(100);
}

impl Buckets {
    /// The number of a request without one.
    pub(crate) const DEFAULT: Self = Self(60);
}

impl<const LEAST: u64, const MOST: u64> Parameter for Number<LEAST, MOST> {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        Self::checked(text.parse().ok().filter(|_| digits)?)
    }

    fn rule() -> String {
        format!("must be a whole number from {LEAST} to {MOST}")
    }

    fn details() -> Value {
        json!({ "minimum": LEAST, "maximum": MOST })
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Number<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = value.as_u64().or_else(|| value.as_f64().and_then(whole));
        number.and_then(Self::checked).ok_or_else(|| D::Error::custom(Self::rule()))
    }
}

/// Converts a whole number that may be written with a fraction of zero: to JSON Schema, `60.0` is
/// an integer.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    ((0.0..=EXACT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

impl<const LEAST: u64, const MOST: u64> PartialSchema for Number<LEAST, MOST> {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        number.minimum(Some(LEAST)).maximum(Some(MOST)).into()
    }
}

impl<const LEAST: u64, const MOST: u64> ToSchema for Number<LEAST, MOST> {}

/// Defines a word from a fixed list.
macro_rules! word {
    ($(#[$about:meta])* $name:ident($of:ty)) => {
        $(#[$about])*
        pub(crate) struct $name(pub(crate) $of);

        impl $name {
            fn words() -> Vec<&'static str> {
                <$of>::ALL.iter().map(|value| value.as_str()).collect()
            }
        }

        impl Parameter for $name {
            fn parse(text: &str) -> Option<Self> {
                <$of>::ALL.iter().find(|value| value.as_str() == text).copied().map(Self)
            }

            fn rule() -> String {
                format!("must be one of {}", Self::words().join(", "))
            }

            fn details() -> Value {
                json!({ "legal": Self::words() })
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String);
                text.enum_values(Some(Self::words())).into()
            }
        }

        impl ToSchema for $name {}
    };
}

/// Defines a text with a syntax rule.
macro_rules! text {
    ($(#[$about:meta])* $name:ident($of:ty), $parse:expr, $rule:expr, $schema:expr) => {
        $(#[$about])*
        pub(crate) struct $name(pub(crate) $of);

        impl Parameter for $name {
            fn parse(text: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<$of> = $parse;
                parse(text).map(Self)
            }

            fn rule() -> String {
                $rule.to_owned()
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Value::deserialize(deserializer)?;
                let parsed = text.as_str().and_then(Self::parse);
                parsed.ok_or_else(|| D::Error::custom($rule))
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let schema: fn(ObjectBuilder) -> ObjectBuilder = $schema;
                schema(ObjectBuilder::new().schema_type(Type::String)).into()
            }
        }

        impl ToSchema for $name {}
    };
}

word!(
    /// The state of an approval.
    StateOfApproval(ApprovalState)
);
word!(
    /// The state of a run.
    StateOfRun(RunState)
);
/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Jsonl,
    Ocsf,
    CloudEvents,
    Csv,
}

/// The order of events other than by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventSort {
    Slowest,
}

impl FileFormat {
    pub(crate) const ALL: [Self; 4] = [Self::Jsonl, Self::Ocsf, Self::CloudEvents, Self::Csv];

    pub(crate) fn as_str(self) -> &'static str {
        self.of_record().map_or("csv", RecordFormat::as_str)
    }

    /// The format with whole events; `None` for a table.
    pub(crate) fn of_record(self) -> Option<RecordFormat> {
        match self {
            Self::Jsonl => Some(RecordFormat::Jsonl),
            Self::Ocsf => Some(RecordFormat::Ocsf),
            Self::CloudEvents => Some(RecordFormat::CloudEvents),
            Self::Csv => None,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        self.of_record().map_or(csv::CONTENT_TYPE, RecordFormat::content_type)
    }
}

impl EventSort {
    pub(crate) const ALL: [Self; 1] = [Self::Slowest];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Slowest => "slowest",
        }
    }
}

/// An addition to the members of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListedInput {
    Arguments,
}

impl ListedInput {
    pub(crate) const ALL: [Self; 1] = [Self::Arguments];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
        }
    }
}

word!(
    /// The format of an export, one event per line.
    ExportFormat(FileFormat)
);
word!(
    /// An addition to the approvals of a list.
    Include(ListedInput)
);
word!(
    /// A kind of saved items.
    KindOfSaved(SavedKind)
);
word!(
    /// The order of events.
    Sort(EventSort)
);
word!(
    /// A kind of source.
    Kind(SourceKind)
);

/// `true` or `false`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag(pub(crate) bool);

impl Parameter for Flag {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    fn rule() -> String {
        "must be `true` or `false`".to_owned()
    }
}

impl PartialSchema for Flag {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Boolean).into()
    }
}

impl ToSchema for Flag {}

/// Longest query of a saved view.
const MAX_QUERY: usize = 2_000;

/// Longest accepted name of a tool, in characters; no tool has a longer one.
const MAX_NAME: usize = 512;

text!(
    /// A tool id, wire name or OTC name.
    ToolName(String),
    |text| (1..=MAX_NAME).contains(&text.chars().count()).then(|| text.to_owned()),
    "must be a name of 1 to 512 characters",
    |schema| schema.min_length(Some(1)).max_length(Some(MAX_NAME))
);
text!(
    /// The id of a principal.
    PrincipalName(PrincipalId),
    |text| PrincipalId::parse(text).ok(),
    "must be 1 to 128 printable ASCII characters",
    |schema| schema.pattern(Some("^[!-~]{1,128}$"))
);
text!(
    /// The id of a key.
    KeyName(KeyId),
    |text| KeyId::parse(text).ok(),
    "must be 1 to 128 printable ASCII characters",
    |schema| schema.pattern(Some("^[!-~]{1,128}$"))
);
text!(
    /// The digest of one form of a tool.
    FormDigest(Digest),
    Digest::parse,
    "must be 64 lower-case hexadecimal digits",
    |schema| schema.pattern(Some("^[0-9a-f]{64}$")).description(Some("`seen.digest` of the reviewed pin"))
);
text!(
    /// A name for people, of a key or a saved item.
    Label(String),
    |text| {
        let legal = (1..=128).contains(&text.chars().count())
            && !text.starts_with(char::is_whitespace)
            && !has_hidden(text);
        legal.then(|| text.to_owned())
    },
    "must be 1 to 128 visible characters and must not start with a space; control characters and \
     invisible characters, such as those that change the direction of text, are not \
     allowed",
    |schema| {
        // Hidden characters beyond U+FFFF are left out: no escape for them works in every regex
        // dialect.
        let hidden = r"\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb";
        // The pattern has no repetition count: 128 of such a class exceed most regex engines.
        let spaces = r"\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000";
        let pattern = format!(r"^[^\u0000-\u0020{spaces}{hidden}][^\u0000-\u001f{hidden}]*$");
        schema.pattern(Some(pattern)).min_length(Some(1)).max_length(Some(128))
    }
);
text!(
    /// The query of a saved view.
    ViewQuery(String),
    |text| {
        let legal = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        let fits = (1..=MAX_QUERY).contains(&text.len()) && text.bytes().all(legal);
        fits.then(|| text.to_owned())
    },
    "must be the query of an address: 1 to 2000 visible ASCII characters without `#`",
    |schema| schema.pattern(Some("^[!\"$-~]+$")).min_length(Some(1)).max_length(Some(MAX_QUERY))
);
text!(
    /// The principal of a key.
    KeyPrincipal(PrincipalId),
    |text| PrincipalId::parse(text).ok().filter(|id| !is_kept_for_tokens(id)),
    "must be 1 to 128 printable ASCII characters without `|`, which is reserved for tokens",
    |schema| schema.pattern(Some("^[!-{}~]{1,128}$"))
);
text!(
    /// The name of a role.
    RoleName(String),
    |text| (1..=MAX_NAME).contains(&text.chars().count()).then(|| text.to_owned()),
    "must be an array of at most 100 role names",
    |schema| schema.min_length(Some(1)).max_length(Some(MAX_NAME))
);
text!(
    /// A scope, or a pattern of scopes.
    ScopeGrant(Grant),
    |text| Grant::parse(text).ok(),
    "must be an array of at most 100 scopes such as `a:b` or `a:*`",
    |schema| {
        let pattern = r"^([A-Za-z0-9._-]+|\*)(:([A-Za-z0-9._-]+|\*))*$";
        schema.pattern(Some(pattern)).max_length(Some(256))
    }
);
text!(
    /// A point in time.
    Moment(Timestamp),
    |text| Some(DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc)),
    "must be an RFC 3339 time such as 2030-01-31T12:00:00Z",
    |schema| schema.format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
);

/// Maximum number of roles or scopes of one key.
const MAX_GRANTS: usize = 100;

/// Reads an optional array of at most [`MAX_GRANTS`] values.
pub(crate) fn grants<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Parameter + for<'a> Deserialize<'a>,
{
    let items = match Value::deserialize(deserializer)? {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) if items.len() <= MAX_GRANTS => items,
        _ => return Err(D::Error::custom(T::rule())),
    };
    items.into_iter().map(|item| T::deserialize(item).map_err(D::Error::custom)).collect()
}
