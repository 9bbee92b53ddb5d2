//! The query language: conditions such as `actor:ada`, words, `-` and `NOT`, and `OR`.

use std::mem::discriminant;

use super::{
    Condition, EventFilter, Fact, InvalidFilter, MAX_TERMS, RunTime, StatusFilter, Term,
    TextPattern, Word,
    value::{MIN_ID, STATUSES, time},
};
use crate::{clock::Timestamp, descriptor::SourceKind, event::EventBody, id::TenantId, suggest};

/// The longest value of a condition, in bytes.
const MAX_VALUE: usize = 512;
/// The longest text of a query, in bytes.
const MAX_QUERY: usize = 4_096;
/// The most conditions that one term joins.
const MAX_CONDITIONS: usize = 32;

/// A part of a query: the text between spaces.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Or,
    Not,
    Word(String),
    Field(String, String),
}

impl EventFilter {
    /// Parses conditions such as `actor:ada status:denied after:7d`. All of them must be fulfilled;
    /// `OR` requires only one of two conditions, and `-` or `NOT` negates one. A word without a
    /// field is found in principals, tools, statuses, codes and ids. Quotes keep a value with
    /// spaces together.
    ///
    /// # Errors
    /// [`InvalidFilter`].
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, InvalidFilter> {
        let mut filter = Self::default();
        filter.add_query(text, now)?;
        Ok(filter)
    }

    /// Adds the conditions of a query.
    ///
    /// # Errors
    /// [`InvalidFilter`].
    pub fn add_query(&mut self, text: &str, now: Timestamp) -> Result<(), InvalidFilter> {
        if text.len() > MAX_QUERY {
            return Err(InvalidFilter(format!("a query has at most {MAX_QUERY} bytes")));
        }
        let tokens = tokens(text)?;
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let mut conditions = Vec::new();
            let mut next = Some(token);
            loop {
                let mut is_negated = false;
                while next == Some(Token::Not) {
                    is_negated = !is_negated;
                    next = tokens.next();
                }
                let joins = tokens.peek() == Some(&Token::Or);
                let is_alone = conditions.is_empty() && !joins && !is_negated;
                match next {
                    None | Some(Token::Or | Token::Not) => {
                        return Err(InvalidFilter(
                            "`OR` joins two conditions, and `NOT` negates one; write them in \
                             quotes to search for the words"
                                .to_owned(),
                        ));
                    }
                    Some(Token::Field(field, value)) if is_alone => {
                        self.set(&field, &value, now)?
                    }
                    Some(Token::Field(field, value)) => {
                        let fact = fact(&field, &value)?.ok_or_else(|| {
                            let shown = shown(&field);
                            InvalidFilter(format!("`{shown}` is for the whole query; write it without `-`, `NOT` and `OR`"))
                        })?;
                        conditions.push(Condition { fact, is_negated });
                    }
                    Some(Token::Word(word)) => {
                        check_value("a word", &word)?;
                        let fact = Fact::Text(Word::new(&word));
                        conditions.push(Condition { fact, is_negated });
                    }
                }
                if !joins {
                    break;
                }
                tokens.next();
                next = tokens.next();
            }
            if !conditions.is_empty() {
                self.push(Term(conditions))?;
            }
        }
        Ok(())
    }

    /// Sets one condition. `field` is one of [`FIELDS`](Self::FIELDS), or its name as a parameter:
    /// `principal`, `from` or `to`.
    ///
    /// # Errors
    /// [`InvalidFilter`] for an unknown or repeated field, and for an invalid value.
    pub fn set(&mut self, field: &str, value: &str, now: Timestamp) -> Result<(), InvalidFilter> {
        if let Some(fact) = fact(field, value)? {
            let is_same = |term: &Term| match term.0.as_slice() {
                [Condition { fact: other, is_negated: false }] => {
                    discriminant(other) == discriminant(&fact) && is_exact(other) && is_exact(&fact)
                }
                _ => false,
            };
            if self.terms.iter().any(is_same) {
                return Err(InvalidFilter(format!(
                    "`{field}` is given twice, and no event has both; join them with `OR`"
                )));
            }
            return self.push(Term(vec![Condition { fact, is_negated: false }]));
        }
        match field {
            "after" | "from" => once(&mut self.from, field, time(field, value, now)?)?,
            "before" | "to" => once(&mut self.to, field, time(field, value, now)?)?,
            _ => {
                let tenant = TenantId::parse(value).map_err(|_| {
                    InvalidFilter("`tenant` must be the name of a tenant".to_owned())
                })?;
                once(&mut self.tenant, field, tenant)?;
            }
        }
        match (self.from, self.to) {
            (Some(from), Some(to)) if from >= to => {
                let problem = "the start of the search must be before its end";
                Err(InvalidFilter(problem.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, term: Term) -> Result<(), InvalidFilter> {
        if self.terms.len() >= MAX_TERMS || term.0.len() > MAX_CONDITIONS {
            return Err(InvalidFilter(format!(
                "a query has at most {MAX_TERMS} conditions, each joined by `OR` from at most \
                 {MAX_CONDITIONS}"
            )));
        }
        self.terms.push(term);
        Ok(())
    }
}

/// The fact that a field compares; `None` for fields that limit the whole query.
fn fact(field: &str, value: &str) -> Result<Option<Fact>, InvalidFilter> {
    check_value(&format!("`{}`", shown(field)), value)?;
    let pattern = || TextPattern::new(value);
    Ok(Some(match field {
        "actor" | "principal" => Fact::Principal(pattern()),
        "tool" => Fact::Tool(pattern()),
        "source" => Fact::Source(pattern()),
        "kind" => Fact::Kind({
            let kinds: Vec<&str> = SourceKind::ALL.iter().map(|kind| kind.as_str()).collect();
            known(field, value, &kinds)?
        }),
        "type" => Fact::Type(known(field, value, EventBody::KINDS)?),
        "status" | "run" | "id" if value.contains('*') => {
            return Err(InvalidFilter(format!("`{field}` is compared as a whole: it has no `*`")));
        }
        "status" => {
            known(field, value, &STATUSES)?;
            Fact::Status(StatusFilter::new(value))
        }
        "took" => Fact::Took(RunTime::parse(value)?),
        "run" => Fact::Run(value.to_owned()),
        "id" if value.len() < MIN_ID => {
            return Err(InvalidFilter(format!(
                "an id must have at least its first {MIN_ID} characters"
            )));
        }
        "id" => Fact::Id(value.to_owned()),
        "after" | "from" | "before" | "to" | "tenant" => return Ok(None),
        _ => {
            return Err(InvalidFilter(format!(
                "there is no field `{}`; fields: {}. Write a text with `:` in quotes",
                shown(field),
                EventFilter::FIELDS.join(", ")
            )));
        }
    }))
}

/// Creates the pattern `value`, which must match one of the `names` of the field. A misspelt value
/// would find no events, as if there were no such activity.
fn known(field: &str, value: &str, names: &[&str]) -> Result<TextPattern, InvalidFilter> {
    let pattern = TextPattern::new(value);
    if names.iter().any(|name| pattern.matches(name)) {
        return Ok(pattern);
    }
    let suggestion = suggest::did_you_mean(value, names.iter().copied());
    Err(InvalidFilter(format!(
        "unknown value of `{field}`{suggestion}; values: {}",
        names.join(", ")
    )))
}

/// Whether an event can have only one such fact.
fn is_exact(fact: &Fact) -> bool {
    match fact {
        Fact::Principal(pattern)
        | Fact::Tool(pattern)
        | Fact::Source(pattern)
        | Fact::Kind(pattern)
        | Fact::Type(pattern) => pattern.is_exact(),
        Fact::Run(_) => true,
        Fact::Status(_) | Fact::Took(_) | Fact::Id(_) | Fact::Text(_) => false,
    }
}

fn check_value(name: &str, value: &str) -> Result<(), InvalidFilter> {
    match value.len() {
        1..=MAX_VALUE => Ok(()),
        _ => Err(InvalidFilter(format!("{name} must have a value of 1 to {MAX_VALUE} bytes"))),
    }
}

fn once<T>(place: &mut Option<T>, field: &str, value: T) -> Result<(), InvalidFilter> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(InvalidFilter(format!("`{field}` is given twice"))),
    }
}

/// The first printable characters of a field's name, which may be any text.
fn shown(field: &str) -> String {
    field.chars().filter(|character| character.is_ascii_graphic()).take(32).collect()
}

/// Divides a query at its spaces, except inside quotes.
fn tokens(text: &str) -> Result<Vec<Token>, InvalidFilter> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(after) =
            rest.strip_prefix('-').filter(|after| !after.starts_with(char::is_whitespace))
        {
            tokens.push(Token::Not);
            rest = after;
        }
        let (mut whole, mut is_quoted, mut colon) = (String::new(), false, None);
        let mut chars = rest.char_indices();
        let mut end = rest.len();
        let mut inside = false;
        for (at, character) in &mut chars {
            match character {
                '"' => (inside, is_quoted) = (!inside, true),
                character if character.is_whitespace() && !inside => {
                    end = at;
                    break;
                }
                character => {
                    // A colon inside of quotes belongs to the text.
                    if character == ':' && !is_quoted && colon.is_none() {
                        colon = Some(whole.len());
                    }
                    whole.push(character);
                }
            }
        }
        if inside {
            return Err(InvalidFilter("a quote `\"` has no end".to_owned()));
        }
        rest = rest.get(end..).unwrap_or_default().trim_start();
        tokens.push(match (colon.and_then(|at| whole.split_at_checked(at)), whole.as_str()) {
            (Some((field, value)), _) => {
                Token::Field(field.to_owned(), value.get(1..).unwrap_or_default().to_owned())
            }
            (None, "OR") if !is_quoted => Token::Or,
            (None, "NOT") if !is_quoted => Token::Not,
            (None, "AND") if !is_quoted => continue,
            (None, _) => Token::Word(whole),
        });
    }
    Ok(tokens)
}
