//! Accounts of a source: `[source.oauth]`.

use toolcrib_core::credential::{
    AccountOf, AccountSpec, ClientAuth, ResourceParameter, TokenExchange,
};

use crate::support::{complaint, parse};

const HUB: &str = "[[source]]\nid = \"hub\"\nkind = \"mcp\"\nurl = \"https://hub.example/mcp\"\n";

fn accounts(tenants: &str, oauth: &str) -> String {
    format!("{HUB}tenants = {tenants}\n[source.oauth]\n{oauth}\n")
}

fn account(oauth: &str) -> AccountSpec {
    let config = parse(&accounts("[\"acme\"]", oauth));
    AccountSpec::clone(config.sources[0].spec.account.as_ref().unwrap())
}

#[test]
fn accounts_need_only_whose_they_are() {
    let account = account("of = \"principal\"");
    assert_eq!(account.of, AccountOf::Principal);
    assert_eq!(account.tenant.as_str(), "acme");
    assert_eq!(account.resource, ResourceParameter::OfServer);
    assert_eq!(account.scope_separator, " ");
    assert!(account.client.is_none() && account.endpoints.is_none() && account.scopes.is_empty());
    assert!(!account.trusts_unannounced_pkce);
}

#[test]
fn a_service_without_metadata_has_its_endpoints_and_client_in_the_file() {
    let account = account(
        "of = \"tenant\"\nscopes = [\"repo\", \"read:org\"]\nclient_id = \"c1\"\n\
         client_secret = { env = \"SET\" }\nclient_auth = \"post\"\nresource = \"\"\n\
         authorization_url = \"https://id.example/authorize\"\n\
         token_url = \"https://id.example/token\"\npkce = \"unannounced\"\n\
         scope_separator = \",\"\nparameters = { access_type = \"offline\" }\n\
         scope_texts = { repo = \"read and write your code\" }",
    );
    let client = account.client.as_ref().unwrap();
    assert_eq!((client.id.as_str(), client.auth), ("c1", ClientAuth::Post));
    assert_eq!(client.secret.as_ref().unwrap().0.expose(), "s3cret-value");
    assert_eq!(account.endpoints.as_ref().unwrap().token, "https://id.example/token");
    assert_eq!(account.resource, ResourceParameter::Omitted);
    assert_eq!(account.parameters, [("access_type".to_owned(), "offline".to_owned())]);
    assert_eq!(account.scope_texts["repo"], "read and write your code");
    assert!(account.trusts_unannounced_pkce && account.of == AccountOf::Tenant);
    assert!(!format!("{account:?}").contains("s3cret"), "{account:?}");
}

#[test]
fn tokens_of_callers_are_exchanged_at_a_configured_endpoint() {
    let endpoints = "client_id = \"c1\"\nauthorization_url = \"https://id.example/authorize\"\n\
                     token_url = \"https://id.example/token\"";
    let exchange = |word: &str| {
        account(&format!("of = \"principal\"\nexchange = {word}\n{endpoints}")).exchange
    };
    let audience = Some("notes".to_owned());
    assert_eq!(
        exchange("\"token-exchange\"\naudience = \"notes\""),
        Some(TokenExchange::Standard { audience })
    );
    assert_eq!(exchange("\"on-behalf-of\""), Some(TokenExchange::OnBehalfOf));
}

#[test]
fn accounts_that_cannot_work_are_refused_with_a_reason() {
    let of = "of = \"principal\"\n";
    for (tenants, oauth, said) in [
        ("[\"a\"]", format!("{of}exchange = \"on-behalf-of\""), "needs `client_id`"),
        ("[\"a\"]", format!("{of}audience = \"x\""), "is for `exchange"),
        (
            "[\"a\"]",
            "of = \"tenant\"\nexchange = \"token-exchange\"\nclient_id = \"c\"\n\
             authorization_url = \"https://id.example/a\"\ntoken_url = \"https://id.example/t\""
                .to_owned(),
            "with `of = \"principal\"` only",
        ),
        ("[\"a\", \"b\"]", of.to_owned(), "those of one tenant"),
        ("[\"a\"]", String::new(), "missing field `of`"),
        ("[\"a\"]", format!("{of}scopes = [\"a b\"]"), "is not a scope"),
        (
            "[\"a\"]",
            format!("{of}scopes = [\"a\"]\nscope_texts = {{ b = \"x\" }}"),
            "\"b\" is not one of `scopes`",
        ),
        ("[\"a\"]", format!("{of}scope_texts = {{ b = \"\" }}"), "expected a line"),
        ("[\"a\"]", format!("{of}scope_texts = {{ b = \"x\\ny\" }}"), "expected a line"),
        ("[\"a\"]", format!("{of}client_secret = {{ env = \"SET\" }}"), "give its `client_id`"),
        (
            "[\"a\"]",
            format!("{of}client_id = \"c\"\nclient_secret = \"plain\""),
            "a secret must not be in this file",
        ),
        ("[\"a\"]", format!("{of}token_url = \"https://id.example/t\""), "belong together"),
        (
            "[\"a\"]",
            format!(
                "{of}token_url = \"https://id.example/t\"\n\
                 authorization_url = \"https://id.example/a\""
            ),
            "registers no clients",
        ),
        ("[\"a\"]", format!("{of}issuer = \"http://id.example\""), "expected an https address"),
        ("[\"a\"]", format!("{of}parameters = {{ state = \"x\" }}"), "set by the protocol itself"),
        ("[\"a\"]", format!("{of}scope_separator = \";\""), "expected \" \""),
        ("[\"a\"]", format!("{of}resource = \"a b\""), "without a fragment"),
        ("[\"a\"]", format!("{of}colour = 1"), "colour"),
    ] {
        let message = complaint(&accounts(tenants, &oauth));
        assert!(message.contains(said), "{oauth}: {message}");
        assert!(!message.contains("plain"), "{message}");
    }
    for (line, said) in [
        ("credential = \"hub\"\n", "both would authorize it"),
        ("headers = { Authorization = { env = \"SET\" } }\n", "both would authorize it"),
    ] {
        let text = format!("{HUB}tenants = [\"a\"]\n{line}[source.oauth]\n{of}");
        let message = complaint(&text);
        assert!(message.contains(said), "{message}");
    }
}
