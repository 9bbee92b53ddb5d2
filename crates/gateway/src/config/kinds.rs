//! Kinds of values, for the configuration reference. The types have no values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Defines a type without values for each kind, with its name in the reference.
macro_rules! kinds {
    ($($kind:ident: $name:literal,)*) => { $(
        #[derive(Debug)]
        pub(super) enum $kind {}

        impl JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "title": $name })
            }
        }
    )* };
}

kinds! {
    Any: "any value",
    Age: "age",
    Duration: "duration",
    KeyPlace: "place of a key",
    Quota: "quota",
    Rate: "rate",
    Secret: "text or secret",
    Size: "size",
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;
    use toolcrib_core::credential::Secret;

    use crate::config::{SecretReader, parse, schema};

    struct NoSecrets;

    impl SecretReader for NoSecrets {
        fn env(&self, _: &str) -> Option<Secret> {
            None
        }

        fn file(&self, _: &Path) -> Result<Secret, String> {
            Err("no files".to_owned())
        }
    }

    fn resolved(text: &str) -> Option<String> {
        let config = parse("test", text, Path::new(""), &NoSecrets).ok()?;
        Some(format!("{config:?}"))
    }

    /// Returns the keys of a type with their documented defaults, as TOML.
    fn defaults(schema: &Value, name: &str) -> Vec<String> {
        let members = &schema["$defs"][name]["properties"];
        members
            .as_object()
            .unwrap()
            .iter()
            .filter_map(|(key, member)| match &member["default"] {
                Value::Null | Value::Object(_) => None,
                value => Some(format!("{key} = {value}\n")),
            })
            .collect()
    }

    #[test]
    fn documented_defaults_are_the_real_ones() {
        // I-6
        let schema = schema();
        let source = "[[source]]\nid = \"a\"\nkind = \"mcp\"\ncommand = [\"x\"]\n";
        let command = "[[source]]\nid = \"a\"\nkind = \"host-extension\"\n[source.commands.c]\n\
                       program = \"/bin/true\"\n";
        let toolset = "[toolset.a]\nallow = [\"*\"]\n";
        let issuer = "[auth.jwt]\nissuer = \"https://id.example.com\"\naudiences = [\"a\"]\n\
                      tenant = \"a\"\n";
        let tables = [
            ("Server", String::new(), "[server]\n".to_owned()),
            ("Store", String::new(), "[store]\n".to_owned()),
            ("Record", String::new(), "[record]\n".to_owned()),
            ("Gate", String::new(), "[gate]\n".to_owned()),
            ("Approvals", String::new(), "[approvals]\n".to_owned()),
            ("OpenWop", String::new(), "[openwop]\n".to_owned()),
            ("Otc", String::new(), "[otc]\n".to_owned()),
            ("Oxp", String::new(), "[oxp]\n".to_owned()),
            ("Mcp", String::new(), "[mcp]\n".to_owned()),
            ("Explorer", String::new(), "[explorer]\n".to_owned()),
            ("Source", source.to_owned(), source.to_owned()),
            ("Breaker", source.to_owned(), format!("{source}[source.breaker]\n")),
            ("HostCommand", command.to_owned(), command.to_owned()),
            ("Sandbox", command.to_owned(), format!("{command}[source.commands.c.sandbox]\n")),
            ("CommandLimits", command.to_owned(), format!("{command}[source.commands.c.limits]\n")),
            ("Toolset", toolset.to_owned(), toolset.to_owned()),
            ("Jwt", issuer.to_owned(), issuer.to_owned()),
            ("Claims", issuer.to_owned(), format!("{issuer}[auth.jwt.claims]\n")),
        ];
        let mut compared = 0;
        for (name, without, with) in tables {
            let expected = resolved(&without).unwrap_or_else(|| panic!("{without}"));
            for default in defaults(&schema, name) {
                match resolved(&format!("{with}{default}")) {
                    Some(found) => assert_eq!(found, expected, "{name}: {default}"),
                    // Only another kind of source has this key.
                    None => {
                        assert_eq!((name, default.as_str()), ("Source", "memory = \"64MiB\"\n"))
                    }
                }
                compared += 1;
            }
        }
        assert!(compared > 55, "{compared}");
    }
}
