//! An OpenAPI document of the size and shape of GitHub's: 1 223 operations, schemas that refer to
//! each other, and results that share them.

use serde_json::{Map, Value, json};

const OPERATIONS: usize = 1_223;
const SCHEMAS: usize = 700;
const PROPERTIES: usize = 40;

pub(super) fn generated() -> Value {
    let schemas: Map<String, Value> =
        (0..SCHEMAS).map(|number| (schema_name(number), schema(number))).collect();
    let mut paths = Map::new();
    for number in 0..OPERATIONS {
        let (path, item) = path(number);
        paths.insert(path, item);
    }
    json!({
        "openapi": "3.0.3",
        "info": { "title": "A large service", "version": "1.1.4" },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// Counts the operations of `document`.
pub(super) fn operations(document: &Value) -> usize {
    const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];
    let paths = document.get("paths").and_then(Value::as_object);
    let count = |item: &Value| METHODS.iter().filter(|method| item.get(**method).is_some()).count();
    paths.into_iter().flat_map(|paths| paths.values()).map(count).sum()
}

fn schema_name(number: usize) -> String {
    format!("resource-{number}")
}

fn schema(number: usize) -> Value {
    let mut properties = Map::new();
    for property in 0..PROPERTIES {
        let described = match property % 4 {
            0 => json!({ "type": "string", "format": "uri",
                         "example": "https://service.example/things/1/parts" }),
            1 => json!({ "type": "integer", "description": "The number of parts of the thing." }),
            2 => json!({ "type": "string", "nullable": true,
                         "description": "What people call the thing that this is about." }),
            _ => json!({ "type": "string", "enum": ["open", "closed", "all", "none"] }),
        };
        properties.insert(format!("property_{number}_{property}"), described);
    }
    // Small numbers are referred to by many, as users and repositories are.
    for other in [number / 2, number / 7].into_iter().filter(|other| *other < number) {
        let reference = format!("#/components/schemas/{}", schema_name(other));
        properties.insert(format!("of_{other}"), json!({ "$ref": reference }));
    }
    json!({
        "title": format!("Resource {number}"),
        "type": "object",
        "properties": properties,
        "required": [format!("property_{number}_0")],
    })
}

fn path(number: usize) -> (String, Value) {
    let parameter = |name: &str, place: &str| {
        json!({ "name": name, "in": place, "required": place == "path",
                "description": "The thing that the request is about, without its extension.",
                "schema": { "type": "string" } })
    };
    let reference =
        json!({ "$ref": format!("#/components/schemas/{}", schema_name(number % SCHEMAS)) });
    let result = match number % 3 {
        0 => json!({ "type": "array", "items": reference }),
        _ => reference,
    };
    let mut operation = json!({
        "operationId": format!("group-{}/operation-{number}", number % 40),
        "summary": format!("Operation {number} of the service"),
        "description": "Does to a thing what the name of the operation says. ".repeat(6),
        "parameters": [
            parameter("owner", "path"),
            parameter("page", "query"),
            parameter("sort", "query"),
        ],
        "responses": { "200": {
            "description": "Response",
            "content": { "application/json": { "schema": result } },
        } },
    });
    let method = if number % 3 == 1 { "post" } else { "get" };
    if method == "post" {
        let properties: Map<String, Value> = (0..8)
            .map(|index| {
                (format!("field_{index}"), json!({ "type": "string", "description": "A part." }))
            })
            .collect();
        let schema = json!({ "type": "object", "properties": properties });
        let content = json!({ "application/json": { "schema": schema } });
        if let Some(members) = operation.as_object_mut() {
            members.insert("requestBody".to_owned(), json!({ "content": content }));
        }
    }
    (format!("/group-{}/{{owner}}/operation-{number}", number % 40), json!({ method: operation }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_all_its_operations() {
        assert_eq!(operations(&generated()), OPERATIONS);
    }
}
