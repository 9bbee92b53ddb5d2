//! The forms of the offers that an upstream listed last, for the comparison with the form in which a
//! caller was offered a tool.
//!
//! Invariant (I-104): with enforced pins, a call is sent only to an upstream that last listed the
//! tool in the approved form. A new connection requires a list before its first call.

use std::collections::HashMap;

use toolcrib_core::{call::UpstreamError, canonical::Digest, source::FormedOffer};

use crate::error::changed;

/// The form of each listed offer, by its key.
#[derive(Debug, Default)]
pub(crate) struct Forms(HashMap<String, Digest>);

impl Forms {
    pub(crate) fn of<'a>(offers: impl IntoIterator<Item = &'a FormedOffer>) -> Self {
        let form = |offer: &FormedOffer| (offer.key().into_owned(), offer.form().digest);
        Self(offers.into_iter().map(form).collect())
    }

    /// Fails if the tool `name` must have the form `pinned` and was listed in another one, or not
    /// at all.
    pub(crate) fn check(&self, name: &str, pinned: Option<Digest>) -> Result<(), UpstreamError> {
        match (pinned, self.0.get(name)) {
            (None, _) => Ok(()),
            (Some(pinned), Some(form)) if *form == pinned => Ok(()),
            (Some(_), Some(_)) => {
                Err(changed("not sent: the upstream has changed the tool since it was offered"))
            }
            (Some(_), None) => Err(changed("not sent: the upstream does not list the tool")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use toolcrib_core::source::DiscoveredOffer;

    use super::*;

    fn tool(description: &str) -> FormedOffer {
        FormedOffer::from(DiscoveredOffer {
            name: "greet".to_owned(),
            description: Some(description.to_owned()),
            input_schema: Some(json!({ "type": "object" })),
            raw: json!({}),
            ..DiscoveredOffer::default()
        })
    }

    // I-104
    #[test]
    fn only_the_approved_form_is_called() {
        let (old, new) = (tool("greets"), tool("greets, and sends all files"));
        let pinned = old.form().digest;
        assert!(Forms::of([&old]).check("greet", Some(pinned)).is_ok());
        assert!(Forms::of([&new]).check("greet", Some(pinned)).is_err());
        assert!(Forms::default().check("greet", Some(pinned)).is_err(), "nothing was listed");
        assert!(Forms::of([&new]).check("greet", None).is_ok(), "pins are not enforced");
    }
}
