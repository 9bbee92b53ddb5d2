//! The parameters of a query or a form.

use std::collections::BTreeMap;

use url::form_urlencoded;

use super::error::Refused;

/// The most parameters that are read.
const MAX_PARAMETERS: usize = 64;
/// The most bytes of one value; an assertion is the longest.
const MAX_VALUE: usize = 16 << 10;

/// Parameters, each with one value.
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads `text` in the encoding of HTML forms. A parameter without a value counts as absent, and
    /// none may appear twice (RFC 6749, section 3.1): two readers could use different ones.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) fn read(text: &str) -> Result<Self, Refused> {
        let mut all = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if value.is_empty() {
                continue;
            }
            if value.len() > MAX_VALUE || all.len() == MAX_PARAMETERS {
                return Err(Refused::invalid("the request has too many or too long parameters"));
            }
            if all.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(Refused::invalid("a parameter appears twice"));
            }
        }
        Ok(Self(all))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }
}
