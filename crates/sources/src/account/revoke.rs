//! Ends the tokens of a grant at their authorization server (RFC 7009).

use toolcrib_core::credential::{AccountGrant, GrantSecrets};
use toolcrib_oauth::token::{Client, TokenKind};

use super::hub::Hub;

/// Revokes the tokens of a grant that is not used any more, each with one request of at most ten
/// seconds. Returns whether the server confirmed it for the refresh token, or else for the access
/// token; servers end the latter with the former.
pub(crate) async fn revoke(hub: &Hub, grant: &AccountGrant, secrets: &GrantSecrets) -> bool {
    let (oauth2, reach) = (&grant.terms.oauth2, hub.reach(&grant.place.source));
    let tokens =
        [(&secrets.refresh_token, TokenKind::Refresh), (&secrets.access_token, TokenKind::Access)];
    let Some(url) = &grant.terms.revocation_url else {
        tracing::info!(grant = %grant.id, "the service has no address to revoke tokens");
        return false;
    };
    let secret = secrets.client_secret.as_ref();
    let client =
        Client { id: &oauth2.client_id, secret: secret.map(|secret| (secret, oauth2.client_auth)) };
    let mut is_confirmed = None;
    for (token, kind) in tokens {
        let Some(token) = token else { continue };
        let form = client.revocation(token, kind);
        let is_revoked = match reach.post_form(&hub.network, url, &form).await {
            Ok(answer) if answer.status == 200 => true,
            Ok(answer) => {
                let status = answer.status;
                tracing::warn!(grant = %grant.id, status, "a token was not revoked");
                false
            }
            Err(problem) => {
                tracing::warn!(grant = %grant.id, problem, "a token was not revoked");
                false
            }
        };
        is_confirmed.get_or_insert(is_revoked);
    }
    is_confirmed.unwrap_or(true)
}
