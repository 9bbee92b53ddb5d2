//! Descriptions of clients: the document at a client's id (draft-ietf-oauth-client-id-metadata-
//! document), and registrations (RFC 7591).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolcrib_core::{clock::Timestamp, egress::AllowList, json, text};
use url::Url;

use super::{
    error::{ErrorCode, Refused},
    redirect::RedirectRules,
};
use crate::metadata::is_private_enough;

/// The most bytes of a description.
pub const MAX_DESCRIPTION: usize = 5 << 10;
/// The most bytes of an id that is an address.
const MAX_ID: usize = 512;
/// The most addresses of a client.
const MAX_REDIRECTS: usize = 16;
/// The most characters of a name.
const MAX_NAME: usize = 100;

/// The description of a client by itself, and what this server keeps of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientDescription {
    /// Its name for people, which anybody can choose. Without hidden characters.
    pub name: Option<String>,
    /// The addresses that it may be sent back to; never empty.
    pub redirect_uris: Vec<String>,
}

/// The address of a document that is the id of a client: https (or http where `allow` and
/// [`is_private_enough`] permit it), with a path, written as it is requested. `None` for other
/// texts.
pub fn document_url(id: &str, allow: &AllowList) -> Option<Url> {
    let url = Url::parse(id).ok().filter(|url| id.len() <= MAX_ID && url.as_str() == id)?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.path().len() > 1;
    (is_plain && is_private_enough(&url, allow)).then_some(url)
}

// === impl ClientDescription ===

impl ClientDescription {
    /// Reads the document at `id`, which must name this id byte for byte.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn of_document(body: &[u8], id: &str, rules: &RedirectRules) -> Result<Self, Refused> {
        let document = object(body)?;
        if document.get("client_id").and_then(Value::as_str) != Some(id) {
            return Err(invalid("the document does not have its own address as `client_id`"));
        }
        // The document is public, so it cannot have a secret.
        let auth = document.get("token_endpoint_auth_method");
        if auth.is_some_and(|auth| auth != "none") || document.contains_key("client_secret") {
            return Err(invalid("only the token_endpoint_auth_method `none` is supported"));
        }
        Self::read(&document, rules)
    }

    /// Reads the body of a registration.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn of_registration(body: &[u8], rules: &RedirectRules) -> Result<Self, Refused> {
        Self::read(&object(body)?, rules)
    }

    fn read(document: &Map<String, Value>, rules: &RedirectRules) -> Result<Self, Refused> {
        let refused = |description| Refused { code: ErrorCode::InvalidRedirectUri, description };
        let uris = document.get("redirect_uris").and_then(Value::as_array);
        let uris = uris.filter(|uris| (1..=MAX_REDIRECTS).contains(&uris.len()));
        let uris = uris.ok_or(refused("`redirect_uris` has 1 to 16 addresses"))?;
        let texts: Option<Vec<&str>> = uris.iter().map(Value::as_str).collect();
        let texts = texts.ok_or(refused("`redirect_uris` has 1 to 16 addresses"))?;
        for uri in &texts {
            rules.check(uri).map_err(refused)?;
        }
        let includes = |member: &str, needed: &str| match document.get(member) {
            None => true,
            Some(Value::Array(all)) => all.iter().any(|one| one == needed),
            Some(_) => false,
        };
        if !includes("grant_types", "authorization_code") || !includes("response_types", "code") {
            return Err(invalid("only clients that use authorization codes are supported"));
        }
        let name = document.get("client_name").and_then(Value::as_str).and_then(shown);
        Ok(Self { name, redirect_uris: texts.into_iter().map(str::to_owned).collect() })
    }

    /// The answer to a registration as the client `id`, at `now`: this server gives no secrets.
    pub fn registered(&self, id: &str, now: Timestamp) -> Value {
        let mut answer = json!({
            "client_id": id,
            "client_id_issued_at": now.timestamp(),
            "redirect_uris": self.redirect_uris,
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        });
        if let (Some(name), Value::Object(members)) = (&self.name, &mut answer) {
            members.insert("client_name".to_owned(), json!(name));
        }
        answer
    }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Refused> {
    if body.len() > MAX_DESCRIPTION {
        return Err(invalid("the description of the client is longer than 5 KiB"));
    }
    match json::parse_strict(body) {
        Ok(Value::Object(document)) => Ok(document),
        Ok(_) | Err(_) => Err(invalid("the description of the client is not a JSON object")),
    }
}

fn invalid(description: &'static str) -> Refused {
    Refused { code: ErrorCode::InvalidClientMetadata, description }
}

/// A name as people see it; `None` if they would see nothing.
fn shown(name: &str) -> Option<String> {
    let visible: String =
        name.chars().filter(|&c| !text::is_hidden(c) && !c.is_control()).collect();
    let name: String = text::plain_name(&visible).chars().take(MAX_NAME).collect();
    (!text::is_blank(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "https://app.example/client.json";

    fn document(change: impl FnOnce(&mut Value)) -> Result<ClientDescription, ErrorCode> {
        let mut document = json!({
            "client_id": ID,
            "client_name": "An \u{202e}app",
            "redirect_uris": ["http://127.0.0.1/cb"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "logo_uri": "https://app.example/logo.png",
        });
        change(&mut document);
        let body = document.to_string();
        ClientDescription::of_document(body.as_bytes(), ID, &RedirectRules::default())
            .map_err(|refused| refused.code)
    }

    #[test]
    fn a_document_describes_the_client_at_its_address() {
        let client = document(|_| ()).unwrap();
        assert_eq!(client.name.as_deref(), Some("An app"));
        assert_eq!(client.redirect_uris, ["http://127.0.0.1/cb"]);
        let metadata = Err(ErrorCode::InvalidClientMetadata);
        for (member, value) in [
            ("client_id", json!("https://app.example/client.json?")),
            ("client_id", json!(null)),
            ("token_endpoint_auth_method", json!("client_secret_post")),
            ("token_endpoint_auth_method", json!("private_key_jwt")),
            ("client_secret", json!("s")),
            ("grant_types", json!(["implicit"])),
            ("response_types", json!("code")),
            ("padding", json!("x".repeat(MAX_DESCRIPTION))),
        ] {
            assert_eq!(document(|it| it[member] = value.clone()), metadata, "{member} {value}");
        }
        for uris in [
            json!([]),
            json!("x"),
            json!([1]),
            json!(["http://evil.example"]),
            json!(vec!["https://a.example"; 17]),
        ] {
            let refused = document(|it| it["redirect_uris"] = uris.clone());
            assert_eq!(refused, Err(ErrorCode::InvalidRedirectUri), "{uris}");
        }
        for name in [json!(null), json!(1), json!(" \u{200b}")] {
            assert_eq!(document(|it| it["client_name"] = name.clone()).unwrap().name, None);
        }
        let twice = format!(r#"{{"client_id":"{ID}","client_id":"{ID}"}}"#);
        let rules = RedirectRules::default();
        assert!(ClientDescription::of_document(twice.as_bytes(), ID, &rules).is_err());
    }

    #[test]
    fn the_id_of_a_document_is_an_address_as_it_is_requested() {
        let is = |id: &str| document_url(id, &AllowList::default()).is_some();
        assert!(is(ID) && is("http://127.0.0.1:9/c"));
        for other in [
            "https://app.example",
            "https://app.example/",
            "https://app.example/c?x=1",
            "https://app.example/c#x",
            "https://u@app.example/c",
            "https://APP.example/c",
            "https://app.example/a/../c",
            "https://app.example:443/c",
            "http://app.example/c",
            "app",
            "",
        ] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn a_registration_gets_no_secret() {
        let body = json!({ "redirect_uris": ["https://a.example/cb"], "client_name": "A",
            "token_endpoint_auth_method": "client_secret_basic", "scope": "x" });
        let rules = RedirectRules::default();
        let client = ClientDescription::of_registration(body.to_string().as_bytes(), &rules);
        let answer = client.unwrap().registered("tcc_1", Timestamp::default());
        assert_eq!(answer["token_endpoint_auth_method"], "none");
        assert_eq!((&answer["client_id"], &answer["client_name"]), (&json!("tcc_1"), &json!("A")));
        assert!(answer.get("client_secret").is_none());
    }
}
