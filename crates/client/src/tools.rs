//! The tools of a host.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use toolcrib_core::{
    compact::CompactToolDescriptor as CompactTool,
    descriptor::{SourceKind, ToolDescriptor},
};

use crate::{
    client::Client,
    error::Error,
    generation::Generation,
    read::{AnnotatedTool, annotated_tool, compact_tool, listed, tool},
};

/// The unescaped characters of a path segment.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const COMPACT: (&str, &str) = ("view", "compact");

/// The tools of a host.
#[derive(Debug, Clone)]
pub struct Tools<'a> {
    client: &'a Client,
    source: Option<SourceKind>,
    /// Parameters that only toolcrib hosts support, and only in v1; other hosts ignore them.
    more: Vec<(&'static str, String)>,
}

// === impl Client ===

impl Client {
    /// Creates a request for the tools of the host.
    pub fn tools(&self) -> Tools<'_> {
        Tools { client: self, source: None, more: Vec::new() }
    }
}

// === impl Tools ===

impl Tools<'_> {
    /// Selects the tools of this kind of source.
    #[must_use]
    pub fn of(mut self, source: SourceKind) -> Self {
        self.source = Some(source);
        self
    }

    /// Selects the tools of this toolset, on a toolcrib host and in v1.
    #[must_use]
    pub fn within(mut self, toolset: &str) -> Self {
        self.more.push(("toolset", toolset.to_owned()));
        self
    }

    /// Selects tools that match `words`, best first, at most `limit` (1 to 100), on a toolcrib
    /// host and in v1.
    #[must_use]
    pub fn search(mut self, words: &str, limit: u16) -> Self {
        self.more.push(("q", words.to_owned()));
        self.more.push(("limit", limit.to_string()));
        self
    }

    /// Lists the tools that the key may use; `None` if the host has no catalog.
    ///
    /// # Errors
    /// Fails if the host is unreachable, refuses, or sends anything else. In v2, fails if the host
    /// does not serve or ignores the version, and for toolsets and searches.
    pub async fn list(&self) -> Result<Option<Vec<ToolDescriptor>>, Error> {
        self.read(None, tool).await
    }

    /// Lists the tools with their hints; `None` if the host has no catalog.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list), and in v1, which has no hints.
    pub async fn list_annotated(&self) -> Result<Option<Vec<AnnotatedTool>>, Error> {
        self.require_annotations()?;
        self.read(None, annotated_tool).await
    }

    /// Lists the tools in the compact view; `None` if the host has no catalog.
    ///
    /// If a host returns the standard view instead, only the compact part is kept.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list).
    pub async fn list_compact(&self) -> Result<Option<Vec<CompactTool>>, Error> {
        self.read(Some(COMPACT), compact_tool).await
    }

    /// Gets the tool called `id`; `None` if it does not exist or the key may not use it.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list).
    pub async fn get(&self, id: &str) -> Result<Option<ToolDescriptor>, Error> {
        self.read_one(id, &[], tool).await
    }

    /// Gets the tool called `id` with its hints.
    ///
    /// # Errors
    /// Fails like [`list_annotated`](Self::list_annotated).
    pub async fn get_annotated(&self, id: &str) -> Result<Option<AnnotatedTool>, Error> {
        self.require_annotations()?;
        self.read_one(id, &[], annotated_tool).await
    }

    /// Gets the tool called `id` in the compact view.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list).
    pub async fn get_compact(&self, id: &str) -> Result<Option<CompactTool>, Error> {
        self.read_one(id, &[COMPACT], compact_tool).await
    }

    async fn read<T>(
        &self,
        view: Option<(&str, &str)>,
        one: impl Fn(&Value) -> Result<T, Error>,
    ) -> Result<Option<Vec<T>>, Error> {
        let generation = self.client.generation();
        // A host of v2 ignores these parameters, and would list all tools.
        if generation != Generation::V1 && !self.more.is_empty() {
            return Err(Error::NotInGeneration { generation, feature: "toolsets and searches" });
        }
        let source = self.source.map(SourceKind::as_str);
        // v2 has no such filter, so it is applied here.
        let (sent, kept) = match generation {
            Generation::V1 => (source, None),
            Generation::V2 => (None, source),
        };
        let more = self.more.iter().map(|(name, value)| (*name, value.as_str()));
        let query: Vec<(&str, &str)> =
            sent.map(|source| ("source", source)).into_iter().chain(view).chain(more).collect();
        let Some(body) = self.client.read("/tools", &query).await? else { return Ok(None) };
        let tools = listed(&body).ok_or(Error::NotAList)?.iter();
        let is_wanted = |value: &&Value| {
            kept.is_none_or(|kept| value.get("source").and_then(Value::as_str) == Some(kept))
        };
        tools.filter(is_wanted).map(one).collect::<Result<_, _>>().map(Some)
    }

    async fn read_one<T>(
        &self,
        id: &str,
        query: &[(&str, &str)],
        one: impl Fn(&Value) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        // This id has no path: addresses drop these segments, even if they are encoded.
        if matches!(id, "" | "." | "..") {
            return Ok(None);
        }
        let path = format!("/tools/{}", utf8_percent_encode(id, PLAIN));
        let found = self.client.read(&path, query).await?;
        found.map(|value| one(&value)).transpose()
    }

    fn require_annotations(&self) -> Result<(), Error> {
        match self.client.generation() {
            generation @ Generation::V1 => {
                Err(Error::NotInGeneration { generation, feature: "annotations" })
            }
            Generation::V2 => Ok(()),
        }
    }
}
