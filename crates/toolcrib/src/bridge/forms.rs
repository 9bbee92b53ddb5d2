//! The forms of the requests, for the description of the API. They are read elsewhere: `page` writes
//! the first, and `toolcrib_oauth::server` reads the others.
#![expect(dead_code, reason = "it only describes what is read")]

use utoipa::ToSchema;

/// The answer of a person. The page contains the other fields.
#[derive(ToSchema)]
pub(super) struct ConsentForm {
    /// The query of the request that the page belongs to.
    query: String,
    /// Binds the form to the browser.
    proof: String,
    /// `allow`; everything else refuses.
    #[schema(required = false)]
    answer: String,
}

/// A request for a token.
#[derive(ToSchema)]
pub(super) struct TokenForm {
    /// `authorization_code`, `refresh_token`, or `urn:ietf:params:oauth:grant-type:jwt-bearer`.
    grant_type: String,
    /// The id of the client, unless the header has it.
    #[schema(required = false)]
    client_id: String,
    /// The secret of the client, unless the header has it.
    #[schema(required = false)]
    client_secret: String,
    /// The code.
    #[schema(required = false)]
    code: String,
    /// The redirect address of the request for the code.
    #[schema(required = false)]
    redirect_uri: String,
    /// The PKCE verifier.
    #[schema(required = false)]
    code_verifier: String,
    /// The refresh token.
    #[schema(required = false)]
    refresh_token: String,
    /// The assertion about a person.
    #[schema(required = false)]
    assertion: String,
    /// The resource that the token is for.
    #[schema(required = false)]
    resource: String,
    /// Ignored: a token has the rights of the person.
    #[schema(required = false)]
    scope: String,
}

/// A request to revoke a token.
#[derive(ToSchema)]
pub(super) struct RevocationForm {
    /// The token.
    token: String,
    /// Ignored.
    #[schema(required = false)]
    token_type_hint: String,
    /// The id of the client, unless the header has it.
    #[schema(required = false)]
    client_id: String,
    /// The secret of the client, unless the header has it.
    #[schema(required = false)]
    client_secret: String,
}
