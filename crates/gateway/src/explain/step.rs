//! The types of the steps of an explanation.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExplanationReader {
    /// Sees everything: the rules belong to the operator.
    Operator,
    /// Sees only the information that a call would reveal.
    Caller,
}

/// The result of one step of the pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// The step.
    pub step: StepName,
    /// The result.
    pub result: StepResult,
    /// The result in words.
    pub message: String,
    /// The result for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepName {
    /// Whether the credentials are valid.
    Identity,
    /// Whether the tool exists.
    Tool,
    /// Whether it exists for the tenant.
    Tenant,
    /// Whether its form is approved.
    Pin,
    /// Whether the caller has its scopes.
    Scope,
    /// Whether the policies permit it.
    Policy,
    /// Whether the account that it uses is connected.
    Connection,
    /// Its rate limit.
    Rate,
    /// Its daily quota.
    Quota,
    /// Whether the credential that its source requires is stored.
    Credential,
    /// Whether it requires approval.
    Approval,
    /// Whether its source is available.
    Source,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// The call passes.
    Pass,
    /// The call passes or not, depending on facts that are unknown here.
    Depends,
    /// The call passes after an approval.
    Ask,
    /// The call stops here.
    Stop,
}

impl Step {
    /// Creates a step without details.
    pub fn new(step: StepName, result: StepResult, message: impl Into<String>) -> Self {
        Self { step, result, message: message.into(), details: None }
    }

    /// Adds details for programs.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
