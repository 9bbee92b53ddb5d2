//! Validation for the part of JSON Schema that the tools of the host use.

use serde_json::{Value, json};

use super::{F, Host, Reply};

impl Host {
    /// Validates `arguments` for a tool with `schema`.
    pub(super) fn validation(&self, schema: &Value, arguments: &Value) -> Reply {
        let mut errors = self.violations(schema, arguments);
        if self.has(F::FirstOnly) {
            errors.truncate(1);
        }
        for error in &mut errors {
            let error = error.as_object_mut().unwrap();
            match self.fault {
                Some(F::NoKeywords) => drop(error.remove("keyword")),
                Some(F::NoMessages) => drop(error.remove("message")),
                Some(F::RootIsSlash) if error["path"] == "" => error["path"] = json!("/"),
                _ => {}
            }
        }
        let mut result = json!({ "valid": errors.is_empty() });
        if !errors.is_empty() || self.has(F::ErrorsWhenValid) {
            result["errors"] = json!(errors);
        }
        Reply::json(200, &result)
    }

    fn violations(&self, schema: &Value, arguments: &Value) -> Vec<Value> {
        let error = |path: &str, keyword: &str, message: &str| json!({ "path": path, "message": message, "keyword": keyword });
        match schema["type"].as_str() {
            None if self.has(F::NoSchemaRefuses) => return vec![error("", "type", "no schema")],
            None => return Vec::new(),
            Some("object") => {}
            Some(_) if self.has(F::BadSchemaPasses) => return Vec::new(),
            Some(kind) => {
                return vec![error("", "schema", &format!("Invalid schema: no type {kind}"))];
            }
        }
        let Some(members) = arguments.as_object() else {
            return vec![error("", "type", "the arguments are not an object")];
        };
        let mut errors = Vec::new();
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if members.contains_key(name) || self.has(F::MissingPasses) {
                continue;
            }
            let path = if self.has(F::MissingAtRoot) { String::new() } else { self.path(name) };
            errors.push(error(&path, "required", &format!("{name} is missing")));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let fits = match (property["type"].as_str(), members.get(name)) {
                (Some("string"), Some(value)) => value.is_string(),
                (Some("integer"), Some(value)) => value.is_i64(),
                _ => true,
            };
            if !fits {
                errors.push(error(&self.path(name), "type", "the value has another type"));
            }
        }
        errors
    }

    /// The path of a property.
    fn path(&self, name: &str) -> String {
        match self.fault {
            Some(F::PathsAreNames) => name.to_owned(),
            Some(F::NotEscaped) => format!("/{name}"),
            _ => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        }
    }
}
