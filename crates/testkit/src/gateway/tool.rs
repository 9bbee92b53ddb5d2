//! A tool that is a closure.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Map, Value, json};
use toolcrib_core::{
    call::{Invocation, Outcome, Reply, UpstreamError},
    catalog::Entry,
    offer::Offer,
    source::DiscoveredOffer,
};

type ToolFuture = Pin<Box<dyn Future<Output = Result<Reply, UpstreamError>> + Send>>;
type Run = Arc<dyn Fn(Invocation) -> ToolFuture + Send + Sync>;

/// The description and the behaviour of a tool. By default it has no scope of its own (so it needs
/// `tools:crib`), accepts anything, and returns its arguments as text.
#[derive(Clone)]
pub struct TestTool {
    pub(super) name: String,
    rule: String,
    described: DiscoveredOffer,
    run: Run,
    pub(super) runs: Arc<AtomicUsize>,
}

impl TestTool {
    pub fn new(name: &str) -> Self {
        let described = DiscoveredOffer { name: name.to_owned(), ..DiscoveredOffer::default() };
        let tool = Self {
            name: name.to_owned(),
            rule: String::new(),
            described,
            run: Arc::new(|_| unreachable!("replaced below")),
            runs: Arc::default(),
        };
        tool.answers(|arguments| Outcome::text(&Value::Object(arguments).to_string(), false))
    }

    /// Offers it as a prompt or a resource instead of a tool. Rules apply to it by its name, as to a
    /// tool.
    #[must_use]
    pub fn offered_as(mut self, offer: Offer) -> Self {
        self.described.offer = offer;
        self
    }

    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        self.described.description = Some(text.to_owned());
        self
    }

    /// Sets the input schema.
    #[must_use]
    pub fn input(mut self, schema: Value) -> Self {
        self.described.input_schema = Some(schema);
        self
    }

    /// Sets the output schema.
    #[must_use]
    pub fn output(mut self, schema: Value) -> Self {
        self.described.output_schema = Some(schema);
        self
    }

    /// Sets the annotations, which are the tool's own claims.
    #[must_use]
    pub fn annotations(mut self, annotations: Value) -> Self {
        self.described.annotations = Some(annotations);
        self
    }

    /// Sets the required scopes; an empty list requires none.
    #[must_use]
    pub fn scopes<const N: usize>(self, scopes: [&str; N]) -> Self {
        let list = json!(scopes.to_vec());
        self.rule(&format!("scopes = {list}"))
    }

    /// Sets the safety tier.
    #[must_use]
    pub fn tier(self, tier: &str) -> Self {
        self.rule(&format!("safety_tier = \"{tier}\""))
    }

    /// Adds a line to its rule in the configuration, for example `approval = "always"`.
    #[must_use]
    pub fn rule(mut self, line: &str) -> Self {
        self.rule.push_str(line);
        self.rule.push('\n');
        self
    }

    /// Sets the behaviour of a tool that returns at once.
    #[must_use]
    pub fn answers(
        self,
        answer: impl Fn(Map<String, Value>) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let answer = Arc::new(answer);
        self.runs_as(move |call| {
            let answer = Arc::clone(&answer);
            async move { Ok(answer(call.arguments)) }
        })
    }

    /// Sets the behaviour of a tool that takes time or fails at its source.
    #[must_use]
    pub fn runs_as<F, R>(self, run: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, UpstreamError>> + Send + 'static,
    {
        self.replies_as(move |call| {
            let outcome = run(call);
            async move { outcome.await.map(Reply::Done) }
        })
    }

    /// Sets the behaviour of a tool that may ask its caller.
    #[must_use]
    pub fn replies_as<F, R>(mut self, run: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Reply, UpstreamError>> + Send + 'static,
    {
        self.run = Arc::new(move |call| Box::pin(run(call)));
        self
    }

    /// Returns its rule, as in the configuration of `source`.
    pub(super) fn toml(&self) -> String {
        if self.rule.is_empty() {
            return String::new();
        }
        format!("[source.tools.{}]\n{}", json!(self.name), self.rule)
    }

    /// Whether `entry` is the entry of this tool.
    pub(super) fn is_in(&self, entry: &Entry) -> bool {
        self.described.key() == entry.key()
    }

    pub(super) fn discovered(&self) -> DiscoveredOffer {
        let tool = &self.described;
        let raw = json!({
            "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema, "annotations": tool.annotations,
        });
        DiscoveredOffer { raw, ..tool.clone() }
    }

    pub(super) fn run(&self, call: Invocation) -> ToolFuture {
        self.runs.fetch_add(1, Ordering::SeqCst);
        (self.run)(call)
    }
}
