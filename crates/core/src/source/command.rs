//! Commands that the operator declares: fixed programs with arguments from the caller.
//!
//! Invariant: a caller's value becomes exactly one argument, or is left out. There is no shell, and
//! no value adds, splits or joins arguments.
//! Invariant: a value cannot be mistaken for an option, unless the operator put it behind `--` or
//! behind a fixed text.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{canonical::Digest, credential::SecretValue};

/// The most bytes of one argument; Linux accepts 128 KiB with the closing zero.
pub const MAX_ARGUMENT: usize = (128 << 10) - 1;

/// The most bytes of all arguments together.
pub const MAX_ARGUMENTS: usize = 512 << 10;

/// The commands of one source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandsSpec {
    /// The destination of the stderr of the commands.
    pub stderr: StderrMode,
    /// In the order of the file.
    pub commands: Vec<CommandSpec>,
}

/// The destination of the stderr of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StderrMode {
    /// Keeps the last lines in memory.
    #[default]
    Keep,
    /// Also logs the lines.
    Log,
}

/// A program that each call starts anew, as one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The tool's name at its source.
    pub name: String,
    /// The title of the tool, for people.
    pub title: Option<String>,
    /// The description of the tool, for models.
    pub description: Option<String>,
    /// The program: an absolute path.
    pub program: PathBuf,
    /// The template of its arguments, which a call fills with its own values.
    pub arguments: Template,
    /// The parameter written to its standard input; without one, the input is empty.
    pub stdin: Option<String>,
    /// Parameters and their schemas.
    pub parameters: Map<String, Value>,
    /// Working directory, which it may read. By default it gets a new empty directory, removed
    /// after the call.
    pub cwd: Option<PathBuf>,
    /// Its environment in addition to `inherit`; values may be secrets.
    pub env: BTreeMap<String, SecretValue>,
    /// Variables that it inherits from the server's environment.
    pub inherit: BTreeSet<String>,
    /// The format of its output.
    pub output: OutputKind,
    /// Exit codes that mean success; all others mean that the tool failed.
    pub success: BTreeSet<u8>,
    /// The most bytes of output; more stops the command.
    pub max_output: usize,
    /// The files and ports that it may access.
    pub confinement: Confinement,
    /// Its resource limits.
    pub resources: Resources,
}

/// The format of a command's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// Text.
    #[default]
    Text,
    /// One JSON document, which becomes structured output.
    Json,
}

/// The files and ports that a program may access; everything else is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Whether the confinement is enforced.
    pub mode: ConfinementMode,
    /// Files and directories that it may read and run, in addition to the system's own.
    pub read: Vec<PathBuf>,
    /// Files and directories that it may also write.
    pub write: Vec<PathBuf>,
    /// The TCP ports that it may connect to.
    pub connect: ConnectPorts,
    /// Paths that are always denied, even when listed elsewhere.
    pub protected: ProtectedFiles,
    /// Whether it starts when the server runs as root.
    pub root: RootPolicy,
}

/// Whether confined programs start when the server runs as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RootPolicy {
    /// They do not: the files of the system belong to root, so only the confinement protects them.
    #[default]
    Refused,
    /// They start, without any capability.
    Allowed,
}

/// The TCP ports that a program may connect to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectPorts {
    /// These ports of any host; an empty set means no connections. The program cannot choose a port
    /// to listen on.
    Ports(BTreeSet<u16>),
    /// Any port; the program may also listen.
    Any,
}

/// Files and directories of the server that no confined program may access.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProtectedFiles {
    /// Neither readable nor writable: the data directory, keys, and files with secrets.
    pub secret: BTreeSet<PathBuf>,
    /// Not writable: the configuration.
    pub fixed: BTreeSet<PathBuf>,
}

/// Whether a confinement is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfinementMode {
    /// Where enforcement is impossible, the command does not run.
    #[default]
    Required,
    /// Enforced as far as the system can.
    BestEffort,
    /// Not enforced.
    Off,
}

/// The resource limits of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Bytes of address space of each of its processes.
    pub memory: u64,
    /// Seconds of processor time of each of its processes.
    pub cpu: u64,
    /// Open files of each of its processes.
    pub files: u64,
    /// Bytes of any file that it writes.
    pub file_size: u64,
}

impl Default for Resources {
    fn default() -> Self {
        Self { memory: 4 << 30, cpu: 60, files: 256, file_size: 64 << 20 }
    }
}

/// The argument template of a command, as the operator wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template(Vec<ArgumentPart>);

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentPart {
    /// One argument.
    Argument(Argument),
    /// Arguments that are present only when all their parameters are.
    Group(Vec<Argument>),
}

/// One argument: literal text around at most one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    before: String,
    parameter: Option<String>,
    after: String,
    /// Whether a value at its start could be mistaken for an option.
    exposed: bool,
}

/// The unparsed text of a piece of a template.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a string, or an array of strings")]
pub enum ArgumentPartText {
    /// One argument.
    One(String),
    /// A group.
    Group(Vec<String>),
}

/// Why a template is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTemplate {
    /// Braces that do not form a placeholder.
    #[error(
        "argument {0} has a brace outside a placeholder: write {{name}} for a parameter, and {{{{ or }}}} for a brace"
    )]
    Braces(usize),
    /// Two placeholders in one argument.
    #[error("argument {0} has two placeholders; a value is one argument, so give each its own")]
    Two(usize),
    /// A zero byte.
    #[error("argument {0} has a zero byte, which arguments cannot contain")]
    Zero(usize),
    /// A placeholder without a declared parameter.
    #[error("the placeholder {{{0}}} has no entry in `parameters`")]
    Undeclared(String),
    /// A parameter that cannot be written as one argument.
    #[error(
        "the parameter `{0}` needs `type` string, integer, number or boolean (or `enum` of them), because it becomes one argument"
    )]
    NotScalar(String),
    /// A parameter that no argument uses.
    #[error("the parameter `{0}` is used by no argument and is not `stdin`")]
    Unused(String),
}

/// Why a caller's values cannot become arguments. Never repeats them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// A value contains a zero byte.
    #[error("`{0}` has a zero byte, which arguments cannot contain")]
    Zero(String),
    /// A value is too long.
    #[error("`{0}` is longer than {MAX_ARGUMENT} bytes")]
    TooLong(String),
    /// The arguments are too long together.
    #[error("the arguments are longer than {MAX_ARGUMENTS} bytes together")]
    TooLongTogether,
    /// A value could be mistaken for an option.
    #[error("`{0}` must not start with `-`")]
    Option(String),
    /// A value is not a scalar.
    #[error("`{0}` must be a text, a number or a boolean")]
    NotScalar(String),
}

// === impl Template ===

impl Template {
    /// Parses `typed` for `parameters`; the parameter `stdin` is not an argument.
    ///
    /// # Errors
    /// Fails with every problem.
    pub fn parse(
        typed: &[ArgumentPartText],
        parameters: &Map<String, Value>,
        stdin: Option<&str>,
    ) -> Result<Self, Vec<InvalidTemplate>> {
        let mut problems = Vec::new();
        let mut place = 0;
        let mut guarded = false;
        let mut parts = Vec::new();
        for part in typed {
            let mut read = |text: &String| {
                place += 1;
                guarded |= text == "--";
                Argument::parse(text, place, guarded).map_err(|problem| problems.push(problem)).ok()
            };
            parts.push(match part {
                ArgumentPartText::One(text) => ArgumentPart::Argument(match read(text) {
                    Some(argument) => argument,
                    None => continue,
                }),
                ArgumentPartText::Group(texts) => {
                    ArgumentPart::Group(texts.iter().filter_map(read).collect())
                }
            });
        }
        let template = Self(parts);
        let used: BTreeSet<&str> = template.parameters().chain(stdin).collect();
        for name in &used {
            match parameters.get(*name) {
                None => problems.push(InvalidTemplate::Undeclared((*name).to_owned())),
                Some(schema) if !is_scalar(schema) => {
                    problems.push(InvalidTemplate::NotScalar((*name).to_owned()));
                }
                Some(_) => {}
            }
        }
        let unused = parameters.keys().filter(|name| !used.contains(name.as_str()));
        problems.extend(unused.map(|name| InvalidTemplate::Unused(name.clone())));
        if problems.is_empty() { Ok(template) } else { Err(problems) }
    }

    fn parameters(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .flat_map(ArgumentPart::arguments)
            .filter_map(|argument| argument.parameter.as_deref())
    }

    /// The parameters that arguments cannot be rendered without.
    fn required(&self) -> BTreeSet<&str> {
        let single = self.0.iter().filter(|part| matches!(part, ArgumentPart::Argument(_)));
        single
            .flat_map(ArgumentPart::arguments)
            .filter_map(|argument| argument.parameter.as_deref())
            .collect()
    }

    /// Renders the arguments for `values`.
    ///
    /// # Errors
    /// Fails if a value cannot be an argument.
    pub fn render(&self, values: &Map<String, Value>) -> Result<Vec<String>, ArgumentError> {
        let mut rendered = Vec::new();
        let mut bytes = 0;
        for part in &self.0 {
            let there = |argument: &Argument| {
                argument.parameter.as_ref().is_none_or(|name| values.get(name).is_some())
            };
            if !part.arguments().iter().all(there) {
                continue;
            }
            for argument in part.arguments() {
                let text = argument.render(values)?;
                bytes += text.len() + 1;
                rendered.push(text);
            }
        }
        if bytes > MAX_ARGUMENTS { Err(ArgumentError::TooLongTogether) } else { Ok(rendered) }
    }
}

impl CommandSpec {
    /// The digest of everything that decides about the process of a call: program, arguments,
    /// input, directory, environment and confinement. Paths of the server itself are left out,
    /// because they can differ between servers with one configuration.
    pub(crate) fn digest(&self) -> Digest {
        let Self {
            name: _,
            title: _,
            description: _,
            program,
            arguments,
            stdin,
            parameters: _,
            cwd,
            env,
            inherit,
            output: _,
            success: _,
            max_output: _,
            confinement: Confinement { mode, read, write, connect, root, protected: _ },
            resources: _,
        } = self;
        let env: BTreeMap<_, _> = env
            .iter()
            .map(|(name, value)| (name, Digest::of(value.0.expose().as_bytes()).to_string()))
            .collect();
        let confinement = (mode, read, write, connect, root);
        let text = format!("{:?}", (program, arguments, stdin, cwd, env, inherit, confinement));
        Digest::of(text.as_bytes())
    }

    /// The schema of a caller's arguments: an object of exactly the parameters.
    pub fn input_schema(&self) -> Value {
        let mut required = self.arguments.required();
        required.extend(self.stdin.as_deref());
        let mut schema = json!({ "type": "object", "properties": self.parameters });
        if let Some(schema) = schema.as_object_mut() {
            if !required.is_empty() {
                schema.insert("required".to_owned(), json!(required));
            }
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
        schema
    }
}

// === impl ArgumentPart ===

impl ArgumentPart {
    fn arguments(&self) -> &[Argument] {
        match self {
            Self::Argument(argument) => std::slice::from_ref(argument),
            Self::Group(arguments) => arguments,
        }
    }
}

// === impl Argument ===

impl Argument {
    fn parse(text: &str, place: usize, guarded: bool) -> Result<Self, InvalidTemplate> {
        let mut before = String::new();
        let mut parameter: Option<String> = None;
        let mut after = String::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            let literal = if parameter.is_none() { &mut before } else { &mut after };
            match character {
                '\0' => return Err(InvalidTemplate::Zero(place)),
                '{' if rest.next_if_eq(&'{').is_some() => literal.push('{'),
                '}' if rest.next_if_eq(&'}').is_some() => literal.push('}'),
                '}' => return Err(InvalidTemplate::Braces(place)),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some('}') if !name.is_empty() => break,
                            Some(c) if c.is_ascii_alphanumeric() || "_-.".contains(c) => {
                                name.push(c);
                            }
                            Some(_) | None => return Err(InvalidTemplate::Braces(place)),
                        }
                    }
                    if parameter.replace(name).is_some() {
                        return Err(InvalidTemplate::Two(place));
                    }
                }
                other => literal.push(other),
            }
        }
        let exposed = !guarded && before.is_empty();
        Ok(Self { before, parameter, after, exposed })
    }

    fn render(&self, values: &Map<String, Value>) -> Result<String, ArgumentError> {
        let Some(name) = &self.parameter else { return Ok(self.before.clone()) };
        let value = scalar(values.get(name), name)?;
        if value.contains('\0') {
            return Err(ArgumentError::Zero(name.clone()));
        }
        let is_number = values.get(name).is_some_and(Value::is_number);
        if self.exposed && value.starts_with('-') && !is_number {
            return Err(ArgumentError::Option(name.clone()));
        }
        let text = [self.before.as_str(), &value, &self.after].concat();
        if text.len() > MAX_ARGUMENT {
            return Err(ArgumentError::TooLong(name.clone()));
        }
        Ok(text)
    }
}

/// Formats `value` of parameter `name` as text.
///
/// # Errors
/// Fails for an array, an object, or a missing value.
pub fn scalar(value: Option<&Value>, name: &str) -> Result<String, ArgumentError> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(flag)) => Ok(flag.to_string()),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => {
            Err(ArgumentError::NotScalar(name.to_owned()))
        }
    }
}

/// Whether `schema` accepts only values that can be written as one argument.
fn is_scalar(schema: &Value) -> bool {
    const SCALAR: [&str; 4] = ["string", "integer", "number", "boolean"];
    let is_scalar_type = |kind: &Value| kind.as_str().is_some_and(|name| SCALAR.contains(&name));
    match (schema.get("type"), schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(types)), _, _) => types.iter().all(is_scalar_type),
        (Some(one), _, _) => is_scalar_type(one),
        (None, Some(Value::Array(values)), _) => {
            values.iter().all(|value| value.is_string() || value.is_number() || value.is_boolean())
        }
        (None, _, Some(value)) => value.is_string() || value.is_number() || value.is_boolean(),
        (None, _, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameters(names: &[&str]) -> Map<String, Value> {
        names.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect()
    }

    fn typed(texts: &[&str]) -> Vec<ArgumentPartText> {
        texts.iter().map(|text| ArgumentPartText::One((*text).to_owned())).collect()
    }

    fn values(json: Value) -> Map<String, Value> {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn a_value_is_one_argument_whatever_is_in_it() {
        let typed = typed(&["log", "--author={who}", "--", "{path}"]);
        let template = Template::parse(&typed, &parameters(&["who", "path"]), None).unwrap();
        let hostile = "-rf $(id); `id` | 'a' \"b\" \n * ~ && {who}";
        let rendered = template.render(&values(json!({ "who": hostile, "path": hostile })));
        let author = format!("--author={hostile}");
        assert_eq!(rendered.unwrap(), ["log", &author, "--", hostile]);
    }

    #[test]
    fn a_value_cannot_pass_for_an_option() {
        let template = Template::parse(&typed(&["{path}"]), &parameters(&["path"]), None).unwrap();
        let rendered = template.render(&values(json!({ "path": "-rf" })));
        assert_eq!(rendered, Err(ArgumentError::Option("path".to_owned())));
        assert_eq!(template.render(&values(json!({ "path": -3 }))).unwrap(), ["-3"]);
        assert_eq!(template.render(&values(json!({ "path": "a-b" }))).unwrap(), ["a-b"]);
    }

    #[test]
    fn groups_are_there_only_when_all_their_parameters_are() {
        let mut typed = typed(&["log"]);
        typed.push(ArgumentPartText::Group(vec!["-n".to_owned(), "{count}".to_owned()]));
        let template = Template::parse(&typed, &parameters(&["count"]), None).unwrap();
        assert_eq!(template.render(&Map::new()).unwrap(), ["log"]);
        assert_eq!(template.render(&values(json!({ "count": 3 }))).unwrap(), ["log", "-n", "3"]);
        assert!(template.required().is_empty());
    }

    #[test]
    fn values_that_cannot_be_arguments_are_refused() {
        let template = Template::parse(&typed(&["{a}", "{b}"]), &parameters(&["a", "b"]), None);
        let template = template.unwrap();
        let rendered = |a: &str| template.render(&values(json!({ "a": a, "b": "x" })));
        assert_eq!(rendered("a\0b"), Err(ArgumentError::Zero("a".to_owned())));
        assert!(rendered(&"x".repeat(MAX_ARGUMENT)).is_ok());
        let long = "x".repeat(MAX_ARGUMENT + 1);
        assert_eq!(rendered(&long), Err(ArgumentError::TooLong("a".to_owned())));
    }

    #[test]
    fn all_problems_of_a_template_are_reported_at_once() {
        let mut declared = parameters(&["used", "unused"]);
        declared.insert("list".to_owned(), json!({ "type": "array" }));
        let typed = typed(&["{used}", "{nobody}", "{list}", "{a}{b}", "{", "a}", "{{}}"]);
        let problems = Template::parse(&typed, &declared, None).unwrap_err();
        assert_eq!(
            problems,
            [
                InvalidTemplate::Two(4),
                InvalidTemplate::Braces(5),
                InvalidTemplate::Braces(6),
                InvalidTemplate::NotScalar("list".to_owned()),
                InvalidTemplate::Undeclared("nobody".to_owned()),
                InvalidTemplate::Unused("unused".to_owned()),
            ]
        );
    }

    #[test]
    fn braces_can_be_written() {
        let template = Template::parse(&typed(&["{{{a}}}"]), &parameters(&["a"]), None).unwrap();
        assert_eq!(template.render(&values(json!({ "a": "x" }))).unwrap(), ["{x}"]);
    }

    proptest! {
        #[test]
        fn values_never_change_the_number_of_arguments(a in "[^\0]*", b in "[^\0]*") {
            let typed = typed(&["x", "--a={a}", "--", "{b}", "y"]);
            let template = Template::parse(&typed, &parameters(&["a", "b"]), None).unwrap();
            let rendered = template.render(&values(json!({ "a": a, "b": b }))).unwrap();
            prop_assert_eq!(rendered, ["x", &format!("--a={a}"), "--", &b, "y"]);
        }
    }
}
