//! Functions of the embedding program as tools: the types of a function are its schemas.

use std::{fmt, future::Future, sync::Arc};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use toolcrib_core::{
    arguments::ArgumentCheck,
    call::{CallError, text_block},
    principal::Principal,
};

use super::{
    Annotations, HandlerError, Identity, Offer, Tool, ToolAnswer, ToolCall, ToolCallHandler,
    ToolDefinition, ToolsProvider,
};

/// An async function as a tool.
///
/// The arguments of a call are deserialized to the type of its input, whose schema callers see. The
/// documentation of that type is the description of the tool, and the documentation of each field
/// that of the argument.
///
/// A result of any type is structured content with a schema, and the same JSON as text. Two types are
/// not: text (`String`, `&str`) is only text, and `()` has no content. An `Err` is a failed call with its
/// text, which the caller sees.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use toolcrib_gateway::provider::TypedTool;
///
/// /// Returns the weather of a city
/// #[derive(Deserialize, JsonSchema)]
/// struct WeatherOf {
///     /// City name
///     city: String,
/// }
///
/// #[derive(Serialize, JsonSchema)]
/// struct Weather {
///     celsius: f64,
/// }
///
/// let tool = TypedTool::new("get_weather", |place: WeatherOf| async move {
///     match place.city.as_str() {
///         "Ulm" => Ok(Weather { celsius: 21.5 }),
///         other => Err(format!("no station in {other}")),
///     }
/// });
/// assert_eq!(tool.definition().description(), "Returns the weather of a city");
/// assert_eq!(tool.definition().input_schema()["required"][0], "city");
/// ```
#[derive(Clone)]
pub struct TypedTool {
    definition: ToolDefinition,
    run: Run,
}

/// Runs a call of one tool.
type Run =
    Arc<dyn Fn(ToolCall) -> BoxFuture<'static, Result<ToolAnswer, HandlerError>> + Send + Sync>;

/// Typed tools together: they list themselves and run their calls, so they are both the provider and the
/// handler of [`NativeTools`](super::NativeTools) or of an explorer. Clones share the tools.
///
/// If a name is repeated, the first tool is used.
#[derive(Debug, Clone, Default)]
pub struct TypedTools(Arc<[TypedTool]>);

/// The input of a tool without arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "")]
pub struct NoArguments {}

// === impl TypedTool ===

impl TypedTool {
    /// Creates the tool `name`, which `run` runs.
    pub fn new<I, O, E, F, R>(name: impl Into<String>, run: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
        E: fmt::Display,
        F: Fn(I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
    {
        Self::with_identity(name, move |input, _| run(input))
    }

    /// Creates the tool `name`. `run` runs it with the sender of the call, if one was identified.
    pub fn with_identity<I, O, E, F, R>(name: impl Into<String>, run: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
        E: fmt::Display,
        F: Fn(I, Option<Identity>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
    {
        let (description, input) = described::<I>(SchemaSettings::for_deserialize);
        let (_, output) = described::<O>(SchemaSettings::for_serialize);
        let form = Form::of(&output);
        let mut definition =
            ToolDefinition::new(name).description(description).input_schema(input.clone());
        if form == Form::Structured {
            definition = definition.output_schema(output);
        }
        let run = move |call: ToolCall| -> BoxFuture<'static, _> {
            let typed = match read(&input, Value::Object(call.arguments)) {
                Ok(typed) => typed,
                Err(error) => return Box::pin(async move { Err(error) }),
            };
            let running = run(typed, call.identity);
            Box::pin(async move { form.answer(&running.await.map_err(HandlerError::new)?) })
        };
        Self { definition, run: Arc::new(run) }
    }

    /// Sets the description. Without it, it is the documentation of the input's type.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.definition = self.definition.description(text);
        self
    }

    /// Sets the claims.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.definition = self.definition.annotations(annotations);
        self
    }

    /// The tool as callers see it.
    pub fn definition(&self) -> &dyn Tool {
        &self.definition
    }
}

impl fmt::Debug for TypedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedTool").field(&self.definition.name()).finish()
    }
}

/// The content of a result, by the schema of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Nothing,
    Text,
    Structured,
}

impl Form {
    fn of(schema: &Value) -> Self {
        match schema.get("type").and_then(Value::as_str) {
            Some("null") => Self::Nothing,
            Some("string") => Self::Text,
            _ => Self::Structured,
        }
    }

    fn answer<O: Serialize>(self, output: &O) -> Result<ToolAnswer, HandlerError> {
        let value = serde_json::to_value(output)
            .map_err(|error| HandlerError::new(format!("the result is not JSON: {error}")))?;
        Ok(match (self, value) {
            (Self::Nothing, _) => ToolAnswer::default(),
            (Self::Text, Value::String(text)) => ToolAnswer::text(text),
            (_, value) => ToolAnswer {
                content: vec![text_block(&value.to_string())],
                structured: Some(value),
                ..ToolAnswer::default()
            },
        })
    }
}

/// Returns the description of `T` and its schema without it. References are inlined, because many
/// clients cannot follow them; only recursive types keep them.
fn described<T: JsonSchema>(side: fn(SchemaSettings) -> SchemaSettings) -> (String, Value) {
    let mut settings = side(SchemaSettings::draft2020_12());
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("$schema");
    // The name of a Rust type.
    schema.remove("title");
    let description = schema.remove("description");
    let description = description.as_ref().and_then(Value::as_str).unwrap_or_default();
    (description.to_owned(), schema.to_value())
}

/// Deserializes the arguments. A gateway has checked them against `schema` before, a standalone
/// explorer has not, and a type can reject more than its schema.
///
/// Violations of the schema are described without the values (I-20): the text of an error is logged.
fn read<I: DeserializeOwned>(schema: &Value, arguments: Value) -> Result<I, HandlerError> {
    let error = match serde_path_to_error::deserialize(&arguments) {
        Ok(input) => return Ok(input),
        Err(error) => error,
    };
    let violations = ArgumentCheck::compile(Some(schema)).ok();
    let violations = violations.and_then(|check| check.check(&arguments).err()).unwrap_or_default();
    let mut text = format!("{}:", CallError::InvalidArguments(Vec::new()));
    for violation in &violations {
        text.push_str(&format!("\n- at \"{}\": {}", violation.pointer, violation.message));
    }
    if violations.is_empty() {
        text = format!("the tool cannot use `{}`: {}", error.path(), error.inner());
    }
    Err(HandlerError::new(text))
}

// === impl TypedTools ===

impl TypedTools {
    /// These tools, in this order.
    pub fn new(tools: impl IntoIterator<Item = TypedTool>) -> Self {
        Self(tools.into_iter().collect())
    }
}

impl<T: IntoIterator<Item = TypedTool>> From<T> for TypedTools {
    fn from(tools: T) -> Self {
        Self::new(tools)
    }
}

#[async_trait]
impl ToolsProvider for TypedTools {
    async fn tools(&self, _caller: Option<&Arc<Principal>>) -> Offer {
        Offer::Tools(self.0.iter().map(|tool| tool.definition.clone().shared()).collect())
    }
}

#[async_trait]
impl ToolCallHandler for TypedTools {
    async fn call(&self, call: ToolCall) -> Result<ToolAnswer, HandlerError> {
        match self.0.iter().find(|tool| tool.definition.name() == call.name) {
            Some(tool) => (tool.run)(call).await,
            None => Err(HandlerError::new(format!("there is no tool {}", call.name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// Orders parts
    #[derive(Deserialize, JsonSchema)]
    struct Order {
        /// Number of the part
        part: u32,
        #[serde(default)]
        express: bool,
        to: Address,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Address {
        city: String,
        #[serde(default)]
        lines: Vec<Line>,
    }

    /// Text that is not empty; no schema says so.
    #[derive(Deserialize, JsonSchema)]
    #[serde(try_from = "String")]
    #[schemars(with = "String")]
    struct Line(String);

    impl TryFrom<String> for Line {
        type Error = &'static str;

        fn try_from(text: String) -> Result<Self, &'static str> {
            if text.is_empty() { Err("a line is not empty") } else { Ok(Self(text)) }
        }
    }

    #[derive(Serialize, JsonSchema)]
    struct Receipt {
        part: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        express_to: Option<String>,
        lines: usize,
    }

    async fn order(order: Order) -> Result<Receipt, String> {
        let Order { part, express, to } = order;
        let lines = to.lines.iter().map(|line| line.0.len()).sum();
        match part {
            0 => Err("there is no part 0".to_owned()),
            part => Ok(Receipt { part, express_to: express.then_some(to.city), lines }),
        }
    }

    async fn call(tools: &TypedTools, name: &str, arguments: Value) -> Result<ToolAnswer, String> {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        let identity = Some(Identity { id: "ada".to_owned(), ..Identity::default() });
        let call = ToolCall { name: name.to_owned(), arguments, identity, head: None };
        tools.call(call).await.map_err(|error| error.to_string())
    }

    #[test]
    fn the_types_describe_the_tool() {
        let tool = TypedTool::new("order", order);
        let definition = tool.definition();
        assert_eq!(definition.description(), "Orders parts");
        let input = definition.input_schema();
        let members: BTreeMap<_, _> = input["properties"].as_object().unwrap().iter().collect();
        assert_eq!(members.len(), 3);
        assert_eq!(input["properties"]["part"]["description"], "Number of the part");
        assert_eq!(input["properties"]["to"]["properties"]["city"]["type"], "string");
        assert_eq!(input["required"], json!(["part", "to"]));
        assert_eq!(
            (input.get("title"), input.get("$schema"), input.get("$defs")),
            (None, None, None)
        );
        // A member that is always written is required of results.
        let output = definition.output_schema().unwrap();
        assert_eq!(
            (&output["type"], &output["required"]),
            (&json!("object"), &json!(["part", "lines"]))
        );
        assert_eq!(tool.description("Buys").definition().description(), "Buys");
    }

    #[tokio::test]
    async fn results_are_structured_unless_they_are_text_or_nothing() {
        let text = |_: NoArguments| async { Ok::<_, String>("sunny") };
        let nothing = |_: NoArguments| async { Ok::<_, String>(()) };
        let list = |_: NoArguments| async { Ok::<_, String>(vec![1, 2]) };
        let whose = |_: NoArguments, caller: Option<Identity>| async move {
            caller.map(|caller| caller.id).ok_or("no caller")
        };
        let tools = TypedTools::new([
            TypedTool::new("order", order),
            TypedTool::new("text", text),
            TypedTool::new("nothing", nothing),
            TypedTool::new("list", list),
            TypedTool::with_identity("whose", whose),
        ]);
        let arguments = json!({ "part": 7, "express": true, "to": { "city": "Ulm" } });
        let answer = call(&tools, "order", arguments).await.unwrap();
        let expected = json!({ "part": 7, "express_to": "Ulm", "lines": 0 });
        assert_eq!(answer.content, [text_block(&expected.to_string())]);
        assert_eq!(answer.structured, Some(expected));

        let answer = call(&tools, "text", json!({})).await.unwrap();
        assert_eq!(answer, ToolAnswer::text("sunny"));
        assert_eq!(call(&tools, "nothing", json!({})).await, Ok(ToolAnswer::default()));
        assert_eq!(call(&tools, "list", json!({})).await.unwrap().structured, Some(json!([1, 2])));
        assert_eq!(call(&tools, "whose", json!({})).await, Ok(ToolAnswer::text("ada")));
        let schemas: Vec<bool> =
            tools.0.iter().map(|tool| tool.definition().output_schema().is_some()).collect();
        assert_eq!(schemas, [true, false, false, true, false]);
    }

    #[tokio::test]
    async fn a_failure_says_where_and_what() {
        let tools = TypedTools::new([TypedTool::new("order", order)]);
        let unfit = "the arguments do not fit the tool's input schema:";
        for (arguments, expected) in [
            (json!({ "part": 0, "to": { "city": "Ulm" } }), "there is no part 0".to_owned()),
            (
                json!({ "to": { "city": 7 } }),
                format!(
                    "{unfit}\n- at \"/to/city\": the value is not of type \"string\"\n- at \
                     \"/part\": \"part\" is a required property"
                ),
            ),
            (
                json!({ "part": -77, "to": { "city": "Ulm" } }),
                format!("{unfit}\n- at \"/part\": the value is less than the minimum of 0"),
            ),
            (
                json!({ "part": 1, "to": { "city": "Ulm", "lines": ["x", ""] } }),
                "the tool cannot use `to.lines[1]`: a line is not empty".to_owned(),
            ),
        ] {
            assert_eq!(call(&tools, "order", arguments).await, Err(expected));
        }
        assert_eq!(call(&tools, "x", json!({})).await, Err("there is no tool x".to_owned()));
    }
}
