//! `[record]`: durability, signatures, forwarding and retention of the record.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use toml::Spanned;
use toolcrib_core::{record::Destination, source::HttpSpec};

use super::{
    Resolver, file, parse_duration,
    source::{check_header, check_url},
};
use crate::{
    audit::export::Format,
    config::{Durability, ForwardConfig, RecordConfig, units::parse_age},
};

/// A destination as in the file.
struct Typed {
    file: Option<String>,
    url: Option<Spanned<String>>,
    headers: BTreeMap<String, Spanned<file::Value>>,
    allow: Vec<Spanned<String>>,
}

impl Resolver<'_> {
    pub(super) fn record(&mut self, config: &mut RecordConfig, typed: file::Record) {
        if let Some(durability) = typed.durability {
            config.durability = match durability {
                file::Durability::Strict => Durability::Strict,
                file::Durability::Relaxed => Durability::Relaxed,
            };
        }
        match typed.checkpoint_every {
            Some(every) if *every.get_ref() == 0 => {
                let message = "expected a number of events, at least 1";
                self.complain(every.span().start, "record.checkpoint_every", message);
            }
            Some(every) => config.checkpoint_every = every.into_inner(),
            None => {}
        }
        let interval = typed.checkpoint_interval.as_ref();
        let interval =
            self.read("record.checkpoint_interval", interval, |text| match parse_duration(text)? {
                interval if interval < Duration::from_millis(100) => {
                    Err("expected 100ms at least".to_owned())
                }
                interval => Ok(interval),
            });
        config.checkpoint_interval = interval.unwrap_or(config.checkpoint_interval);
        config.signing_key = self.key_place("record.signing_key", typed.signing_key.as_ref());
        config.keep = self.read("record.keep", typed.keep.as_ref(), parse_age);
        let age = typed.max_session_age.as_ref();
        let age = self.read("record.max_session_age", age, |text| match parse_age(text)? {
            age if age < Duration::from_secs(1) => Err("expected 1s at least".to_owned()),
            age => Ok(age),
        });
        config.max_session_age = age.unwrap_or(config.max_session_age);
        for anchor in typed.anchor {
            let at = anchor.span().start;
            let file::Anchor { file, url, headers, allow } = anchor.into_inner();
            let typed = Typed { file, url, headers, allow };
            config.anchors.extend(self.destination("record.anchor", at, typed));
        }
        let mut names = BTreeSet::new();
        for forward in typed.forward {
            let at = forward.name.span().start;
            let Some(forward) = self.forward(forward) else { continue };
            if !names.insert(forward.name.clone()) {
                let key = format!("record.forward.{}", forward.name);
                self.complain(at, &key, "is defined twice");
            }
            config.forwards.push(forward);
        }
    }

    fn forward(&mut self, typed: file::Forward) -> Option<ForwardConfig> {
        let name = self.read("record.forward.name", Some(&typed.name), |text| {
            let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
            match text {
                "" => Err("is empty"),
                _ if text.len() > 32 || !text.bytes().all(good) => {
                    Err("expected at most 32 of a-z, 0-9, `_` and `-`")
                }
                _ if text.starts_with("anchor-") => {
                    Err("names beginning with `anchor-` are reserved")
                }
                _ => Ok(text.to_owned()),
            }
        })?;
        let key = |key: &str| format!("record.forward.{name}.{key}");
        let kind = typed.kind.get_ref().as_str();
        let at = typed.kind.span().start;
        if !["file", "http", "otlp"].contains(&kind) {
            self.complain(at, &key("kind"), "expected \"file\", \"http\" or \"otlp\"");
            return None;
        }
        let format = match (kind, &typed.format) {
            ("otlp", None) => Some(Format::Otlp),
            ("otlp", Some(format)) => {
                let message = "a forwarder of kind \"otlp\" has no `format`";
                self.complain(format.span().start, &key("format"), message);
                None
            }
            (_, None) => Some(Format::Jsonl),
            (_, Some(format)) => self.read(&key("format"), Some(format), |text| {
                Format::LINES
                    .into_iter()
                    .find(|format| format.as_str() == text)
                    .ok_or("expected \"jsonl\", \"ocsf\" or \"cloudevents\"")
            }),
        };
        let wants_file = kind == "file";
        if wants_file != typed.file.is_some() || wants_file == typed.url.is_some() {
            let message = match wants_file {
                true => "a forwarder of kind \"file\" has `file` and no `url`",
                false => "a forwarder of this kind has `url` and no `file`",
            };
            let table = format!("record.forward.{name}");
            self.complain_of_absence(at, &table, &key("kind"), message);
            return None;
        }
        let file::Forward { file, url, headers, allow, .. } = typed;
        let typed = Typed { file, url, headers, allow };
        let destination = self.destination(&format!("record.forward.{name}"), at, typed);
        Some(ForwardConfig { name, format: format?, destination: destination? })
    }

    fn destination(&mut self, key: &str, at: usize, typed: Typed) -> Option<Destination> {
        let member = |name: &str| format!("{key}.{name}");
        match (typed.file, typed.url) {
            (Some(path), None) => {
                if !typed.headers.is_empty() || !typed.allow.is_empty() {
                    self.complain(at, key, "only what has `url` has `headers` and `allow`");
                }
                if path.is_empty() {
                    self.complain(at, &member("file"), "expected the path of a file");
                    return None;
                }
                Some(Destination::File(self.base.join(path)))
            }
            (None, Some(url)) => {
                let url = self.read(&member("url"), Some(&url), check_url);
                for (name, value) in &typed.headers {
                    if let Err(problem) = check_header(name) {
                        let key = member(&format!("headers.{name}"));
                        self.complain(value.span().start, &key, problem);
                    }
                }
                let allow = self.allowed(&member("allow"), &typed.allow);
                let headers = self.values(&member("headers"), &typed.headers);
                Some(Destination::Http(HttpSpec { url: url?, headers: headers?, allow: allow? }))
            }
            _ => {
                self.complain_of_absence(at, key, key, "expected either `file` or `url`");
                None
            }
        }
    }
}
