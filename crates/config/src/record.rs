//! `[record]`: durability, signatures, forwarding and retention of the record.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toolcrib_core::{
    egress::AllowList,
    record::{Destination, RecordFormat},
    source::HttpSpec,
};

use super::{
    resolver::{Resolver, check_url},
    secret::{KeyPlace, Value},
    units::{self as kind, Kind as _},
};

/// The record, its signatures and its retention ([explanation](../explanation/record.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Record {
    /// `strict`: an event is on disk before its call starts, or its caller has the answer.
    /// `opening`: only before the call starts; a power failure may lose the last results.
    /// `relaxed`: events are with the operating system, and survive a crash of the process only.
    durability: Durability,
    /// Number of a tenant's events after which its log is signed.
    checkpoint_every: NonZeroU64,
    /// Time after which a log with new events is signed, at least `100ms`.
    #[serde(with = "kind::Duration")]
    checkpoint_interval: Duration,
    /// The key that signs checkpoints.
    #[schemars(extend("x-default" = "a key next to the store, made at the first start"))]
    signing_key: Option<KeyPlace>,
    /// A key for the hashes of arguments, so that short ones cannot be guessed from the record
    /// ([argsHash](../explanation/record.md#hashes-of-arguments)).
    #[schemars(extend("x-default" = "SHA-256 without a key, as OpenWOP says"))]
    hash_key: Option<KeyPlace>,
    /// Age after which events are removed ([retention](../explanation/record.md#retention)).
    #[serde(with = "kind::Age")]
    #[schemars(extend("x-default" = "for ever"))]
    keep: Option<Duration>,
    /// Age at which a tool session in use is closed; a shorter `keep` replaces it. At least `1s`.
    #[serde(with = "kind::Age")]
    max_session_age: Duration,
    /// Places that receive every checkpoint.
    #[schemars(with = "Vec<Anchor>")]
    anchor: Vec<Spanned<Anchor>>,
    /// Systems that receive every event.
    #[schemars(with = "Vec<Forward>")]
    forward: Vec<Spanned<Forward>>,
}

/// A place that receives every checkpoint as a line of JSON, out of reach of the store. It has
/// `file` or `url`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Anchor {
    /// A file, to which lines are appended.
    file: Option<String>,
    /// An address, which receives `POST` requests.
    url: Option<String>,
    /// Headers of the requests.
    headers: BTreeMap<String, Value>,
    /// Private networks, addresses and hosts that it may use.
    allow: AllowList,
}

/// A system that receives every event of every tenant ([guide](../guides/siem.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Forward {
    /// At most 32 of `a-z`, `0-9`, `_` and `-`; the progress is stored under it.
    name: String,
    /// The transport.
    kind: Transport,
    /// The [format](events.md#export-formats); not with `otlp`.
    #[schemars(extend("default" = "jsonl"))]
    format: Option<LineFormat>,
    /// For `file`: the file.
    file: Option<String>,
    /// For `http` and `otlp`: the whole address.
    url: Option<String>,
    /// Headers of the requests.
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    /// Private networks, addresses and hosts that it may use.
    #[serde(default)]
    allow: AllowList,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Transport {
    File,
    Http,
    Otlp,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LineFormat {
    Jsonl,
    Ocsf,
    CloudEvents,
}

/// Durability, signatures and retention of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordConfig {
    /// The point at which an event counts as written.
    pub durability: Durability,
    /// Number of a tenant's events after which a checkpoint is signed.
    pub checkpoint_every: u64,
    /// Time after which a checkpoint is signed, for a tenant with new events.
    pub checkpoint_interval: Duration,
    /// The key that signs checkpoints; without one, a key is created next to the store.
    pub signing_key: Option<KeyPlace>,
    /// The key for the hashes of arguments; `None` for hashes without a key.
    pub hash_key: Option<KeyPlace>,
    /// Retention of events; `None` for unlimited.
    pub keep: Option<Duration>,
    /// Age at which a tool session is closed, even if it is in use. See
    /// [`session_age`](Self::session_age).
    pub max_session_age: Duration,
    /// The destinations of checkpoints.
    pub anchors: Vec<Destination>,
    /// The destinations of events.
    pub forwards: Vec<ForwardConfig>,
}

/// A destination of events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForwardConfig {
    /// The name, under which the progress is stored.
    pub name: String,
    /// The format of the events.
    pub format: RecordFormat,
    /// The destination.
    pub destination: Destination,
}

/// The point at which an event counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// On disk: survives power loss.
    Strict,
    /// As strict before a call starts. Its result is passed to the operating system before the
    /// answer, and is on disk soon after.
    Opening,
    /// Passed to the operating system: survives a crash of the process, not of the machine.
    Relaxed,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            durability: Durability::Strict,
            checkpoint_every: NonZeroU64::MIN.saturating_add(999),
            checkpoint_interval: Duration::from_secs(60),
            signing_key: None,
            hash_key: None,
            keep: None,
            max_session_age: Duration::from_secs(24 * 3_600),
            anchor: Vec::new(),
            forward: Vec::new(),
        }
    }
}

impl RecordConfig {
    /// Returns the age at which tool sessions are closed:
    /// [`max_session_age`](Self::max_session_age), or a shorter [`keep`](Self::keep), because
    /// retention keeps the events of open sessions.
    pub fn session_age(&self) -> Duration {
        self.keep.map_or(self.max_session_age, |keep| keep.min(self.max_session_age))
    }
}

impl Resolver<'_> {
    pub(super) fn record(&mut self, typed: Record, is_shared: bool) -> RecordConfig {
        if typed.checkpoint_interval < Duration::from_millis(100) {
            self.complain("record.checkpoint_interval", "expected 100ms at least");
        }
        if typed.max_session_age < Duration::from_secs(1) {
            self.complain("record.max_session_age", "expected 1s at least");
        }
        let mut anchors = Vec::new();
        for anchor in typed.anchor {
            let key = self.element("record.anchor", &anchor.span());
            anchors.extend(self.destination(&key, anchor.into_inner()));
        }
        let (mut names, mut forwards) = (BTreeSet::new(), Vec::new());
        for forward in typed.forward {
            let key = self.element("record.forward", &forward.span());
            let Some(forward) = self.forward(&key, forward.into_inner()) else { continue };
            if !names.insert(forward.name.clone()) {
                self.complain(&key, "is defined twice");
            }
            forwards.push(forward);
        }
        let signing_key = self.key_place(typed.signing_key);
        let hash_key = self.key_place(typed.hash_key);
        if is_shared && signing_key.is_none() {
            self.complain(
                "record.signing_key",
                "is required with PostgreSQL, where all servers sign with one key; create it with \
                 `openssl rand -base64 32`",
            );
        }
        RecordConfig {
            durability: typed.durability,
            checkpoint_every: typed.checkpoint_every.get(),
            checkpoint_interval: typed.checkpoint_interval,
            signing_key,
            hash_key,
            keep: typed.keep,
            max_session_age: typed.max_session_age,
            anchors,
            forwards,
        }
    }

    fn forward(&mut self, key: &str, typed: Forward) -> Option<ForwardConfig> {
        let Forward { name, kind, format, file, url, headers, allow } = typed;
        self.check(&format!("{key}.name"), check_name(&name))?;
        let format = match (kind, format) {
            (Transport::Otlp, Some(_)) => {
                let message = "a forwarder of kind \"otlp\" has no `format`";
                self.complain(&format!("{key}.format"), message);
                return None;
            }
            (Transport::Otlp, None) => RecordFormat::Otlp,
            (_, None | Some(LineFormat::Jsonl)) => RecordFormat::Jsonl,
            (_, Some(LineFormat::Ocsf)) => RecordFormat::Ocsf,
            (_, Some(LineFormat::CloudEvents)) => RecordFormat::CloudEvents,
        };
        let wants_file = kind == Transport::File;
        if wants_file != file.is_some() || wants_file == url.is_some() {
            let message = match wants_file {
                true => "a forwarder of kind \"file\" has `file` and no `url`",
                false => "a forwarder of this kind has `url` and no `file`",
            };
            self.complain_of_absence(key, &format!("{key}.kind"), message);
            return None;
        }
        let destination = self.destination(key, Anchor { file, url, headers, allow })?;
        Some(ForwardConfig { name, format, destination })
    }

    fn destination(&mut self, key: &str, typed: Anchor) -> Option<Destination> {
        let member = |name: &str| format!("{key}.{name}");
        match (typed.file, typed.url) {
            (Some(path), None) => {
                if !typed.headers.is_empty() || typed.allow != AllowList::default() {
                    self.complain(key, "`headers` and `allow` require `url`");
                }
                if path.is_empty() {
                    self.complain(&member("file"), "expected the path of a file");
                }
                Some(Destination::File(self.output(&member("file"), &path)))
            }
            (None, Some(url)) => {
                let url = self.check(&member("url"), check_url(&url));
                let headers = self.headers(&member("headers"), &typed.headers);
                Some(Destination::Http(HttpSpec {
                    url: url?,
                    headers: headers?,
                    allow: typed.allow,
                }))
            }
            _ => {
                self.complain_of_absence(key, key, "expected either `file` or `url`");
                None
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    if name.is_empty() {
        Err("is empty")
    } else if name.len() > 32 || !name.bytes().all(legal) {
        Err("expected at most 32 of a-z, 0-9, `_` and `-`")
    } else if name.starts_with("anchor-") {
        Err("names starting with `anchor-` are reserved")
    } else {
        Ok(())
    }
}
