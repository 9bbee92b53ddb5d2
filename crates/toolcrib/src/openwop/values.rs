//! Values of query parameters and bodies. Each type parses a text and describes the accepted texts,
//! so that `openapi.json` matches the server.
//!
//! `crate::parameters` rejects unknown query parameters for all routes.

use axum::response::Response;
use chrono::{DateTime, Utc};
use toolcrib_core::{
    approval::ApprovalState,
    clock::Timestamp,
    descriptor::SourceKind,
    id::{KeyId, PrincipalId},
    scope::Grant,
    store::RunState,
    text::has_hidden,
};
use toolcrib_gateway::authn::is_kept_for_tokens;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        KnownFormat, Object, ObjectBuilder, RefOr, Schema, SchemaFormat, Type,
        schema::Schema::Object as AnObject,
    },
};

use super::error;
use crate::respond;

/// The value of a query parameter.
pub(super) trait Parameter: PartialSchema + Sized {
    /// Parses `text`; `None` if it is invalid.
    fn parse(text: &str) -> Option<Self>;

    /// Returns the response to an invalid value of the parameter `name`.
    fn rejection(name: &str) -> Response;
}

/// A text with a syntax rule, in a query or a body.
pub(super) trait Text: PartialSchema + Sized {
    /// The error message for a text that violates the rule.
    const PROBLEM: &str;

    /// Parses `text`; `None` if it violates the rule.
    fn read(text: &str) -> Option<Self>;
}

impl<T: Text> Parameter for T {
    fn parse(text: &str) -> Option<Self> {
        T::read(text)
    }

    fn rejection(name: &str) -> Response {
        error::bad_request(name, &format!("the parameter `{name}` {}", T::PROBLEM))
    }
}

/// The response to an invalid value of a parameter.
pub(super) struct BadParameter(Box<Response>);

impl BadParameter {
    pub(super) fn into_response(self) -> Response {
        *self.0
    }
}

/// Reads the parameter `name`; if it is repeated, the first value is used.
pub(super) fn read<P: Parameter>(
    query: Option<&str>,
    name: &str,
) -> Result<Option<P>, BadParameter> {
    match respond::query(query, name) {
        None => Ok(None),
        Some(text) => match P::parse(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(BadParameter(Box::new(P::rejection(name)))),
        },
    }
}

fn described(object: impl Into<Object>) -> RefOr<Schema> {
    RefOr::T(AnObject(object.into()))
}

/// Defines a whole number within a range.
macro_rules! number {
    ($(#[$about:meta])* $name:ident($of:ty), $least:expr, $most:expr) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) struct $name(pub(super) $of);

        impl Parameter for $name {
            fn parse(text: &str) -> Option<Self> {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse().ok().filter(|_| digits);
                number.filter(|number| ($least..=$most).contains(number)).map(Self)
            }

            fn rejection(name: &str) -> Response {
                error::bad_number(name, $least, $most)
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let (least, most): (usize, usize) = ($least, $most);
                described(
                    ObjectBuilder::new()
                        .schema_type(Type::Integer)
                        .minimum(Some(least))
                        .maximum(Some(most)),
                )
            }
        }

        impl ToSchema for $name {}
    };
}

/// Defines a word from a fixed list.
macro_rules! word {
    ($(#[$about:meta])* $name:ident, $of:ty) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) struct $name(pub(super) $of);

        impl $name {
            fn words() -> Vec<&'static str> {
                <$of>::ALL.iter().map(|value| value.as_str()).collect()
            }
        }

        impl Parameter for $name {
            fn parse(text: &str) -> Option<Self> {
                <$of>::ALL.iter().find(|value| value.as_str() == text).copied().map(Self)
            }

            fn rejection(name: &str) -> Response {
                error::bad_parameter(name, &Self::words())
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String);
                described(text.enum_values(Some(Self::words())))
            }
        }

        impl ToSchema for $name {}
    };
}

/// Defines a text with a syntax rule.
macro_rules! text {
    ($(#[$about:meta])* $name:ident($of:ty), $parse:expr, $problem:expr, $schema:expr) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) struct $name(pub(super) $of);

        impl Text for $name {
            const PROBLEM: &str = $problem;

            fn read(text: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<$of> = $parse;
                parse(text).map(Self)
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let schema: fn(ObjectBuilder) -> ObjectBuilder = $schema;
                described(schema(ObjectBuilder::new().schema_type(Type::String)))
            }
        }

        impl ToSchema for $name {}
    };
}

number!(
    /// Maximum number of items in one response.
    Limit(usize),
    1,
    1_000
);
number!(
    /// Maximum number of tools that a search returns.
    SearchLimit(usize),
    1,
    100
);
number!(
    /// A position in the record, or the number of a checkpoint; at most the largest integer of SQL.
    Position(u64),
    0,
    9_223_372_036_854_775_807
);
word!(
    /// The state of an approval.
    StateOfApproval,
    ApprovalState
);
word!(
    /// The state of a run.
    StateOfRun,
    RunState
);
word!(
    /// A kind of source.
    Kind,
    SourceKind
);

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
    /// A principal.
    Who(PrincipalId),
    |text| PrincipalId::parse(text).ok(),
    "must be 1 to 128 printable ASCII characters",
    |schema| schema.pattern(Some("^[!-~]{1,128}$"))
);

text!(
    /// The id of a key.
    Id(KeyId),
    |text| KeyId::parse(text).ok(),
    "must be 1 to 128 printable ASCII characters",
    |schema| schema.pattern(Some("^[!-~]{1,128}$"))
);
text!(
    /// The name of a key.
    KeyName(String),
    |text| {
        let legal = (1..=128).contains(&text.chars().count())
            && !text.starts_with(' ')
            && !has_hidden(text);
        legal.then(|| text.to_owned())
    },
    "must be 1 to 128 characters, without a space in front, and without control characters and \
     others that are not seen, such as those that change the direction of text",
    |schema| {
        // Hidden characters beyond U+FFFF are left out: no escape for them works in every regex
        // dialect.
        let hidden = r"\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb";
        // The pattern has no repetition count: 128 of such a class exceed most regex engines.
        let pattern = format!(r"^[^\u0000-\u0020{hidden}][^\u0000-\u001f{hidden}]*$");
        schema.pattern(Some(pattern)).min_length(Some(1)).max_length(Some(128))
    }
);
text!(
    /// The principal of a key.
    Holder(PrincipalId),
    |text| PrincipalId::parse(text).ok().filter(|id| !is_kept_for_tokens(id)),
    "must be 1 to 128 printable ASCII characters without `|`, which is reserved for tokens",
    |schema| schema.pattern(Some("^[!-{}~]{1,128}$"))
);
text!(
    /// The name of a role.
    RoleName(String),
    |text| (1..=MAX_NAME).contains(&text.chars().count()).then(|| text.to_owned()),
    "must be an array of at most 100 names of roles",
    |schema| schema.min_length(Some(1)).max_length(Some(MAX_NAME))
);
text!(
    /// A scope that a key gets.
    Granted(Grant),
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

impl Limit {
    /// The limit of a request without one.
    pub(super) const DEFAULT: Self = Self(100);
}
