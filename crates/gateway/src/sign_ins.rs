//! Browser sessions with their events: each sign-in is recorded before it is valid.

use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, SignInEnded, SignInStarted},
    id::KeyId,
    principal::Principal,
};

use crate::{
    Gateway,
    audit::lone_event,
    authn::session::{NewSession, SessionError, SessionRequest},
};

impl Gateway {
    /// Creates a session for `caller`, after its event is durable.
    ///
    /// # Errors
    /// [`SessionError`]; in that case no session was created.
    pub async fn start_session(
        &self,
        caller: &Principal,
        request: &SessionRequest,
    ) -> Result<NewSession, SessionError> {
        // One at a time, so that parallel requests cannot exceed the limit.
        let _one = self.inner.making_credentials.lock().await;
        let session = self.authenticator().new_session(caller, request)?;
        let started = EventBody::SignInStarted(SignInStarted {
            principal: caller.id.clone(),
            session_id: session.record.id.to_string(),
            expires_at: session.expires_at,
        });
        let event = lone_event(caller.tenant.clone(), started, self.clock().now());
        self.audit().append_or_refuse(event).await.map_err(|_| SessionError::Unrecorded)?;
        self.authenticator().store_session(&session).await?;
        Ok(session)
    }

    /// Creates a session for the key of a link, which works once.
    ///
    /// # Errors
    /// [`SessionError`]; in that case no session was created.
    pub async fn start_session_of_link(
        &self,
        secret: &str,
        request: &SessionRequest,
    ) -> Result<NewSession, SessionError> {
        let holder = self.authenticator().use_sign_in_link(secret)?;
        self.start_session(&holder, request).await
    }

    /// Closes the session `id` of the caller, or of its tenant if it may manage keys. The session
    /// is closed even if its event cannot be recorded immediately.
    ///
    /// # Errors
    /// [`SessionError`]; in that case the session is unchanged.
    pub async fn end_session(
        &self,
        caller: &Principal,
        id: &KeyId,
    ) -> Result<Timestamp, SessionError> {
        let (session, at) = self.authenticator().end_session(caller, id).await?;
        let by = (session.principal != caller.id).then(|| caller.id.clone());
        let ended = EventBody::SignInEnded(SignInEnded {
            principal: session.principal,
            session_id: session.id.to_string(),
            by,
        });
        let event = lone_event(session.tenant, ended, self.clock().now());
        self.audit().append_with_retry(vec![event]).await;
        Ok(at)
    }
}
