//! `credential = "name"`: the stored credential for a source's requests.

use toolcrib_core::{
    catalog::Tenants,
    credential::CredentialRef,
    descriptor::SourceKind,
    id::{CredentialName, SourceId},
};

use crate::config::resolve::{Resolver, file};

impl Resolver<'_> {
    /// Resolves the credential. Its owner depends on the kind of source: the callers of an MCP
    /// server share one connection, so a caller's own credential would be used for all of them.
    pub(super) fn credential(
        &mut self,
        id: &SourceId,
        kind: SourceKind,
        typed: &file::Source,
        tenants: &Tenants,
    ) -> Option<CredentialRef> {
        let key = format!("source.{id}.credential");
        let at = typed.credential.as_ref()?.span().start;
        let name =
            self.read(&key, typed.credential.as_ref(), |text| CredentialName::parse(text))?;
        let header =
            typed.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if let Some((_, value)) = header {
            let message = "the source has a `credential`; both would authorize it";
            let key = format!("source.{id}.headers.authorization");
            self.complain(value.span().start, &key, message);
        }
        match (kind, tenants) {
            (SourceKind::Mcp, _) if typed.command.is_some() => {
                let message = "only a source with `url` has a credential; give a program its \
                               secrets with `env`";
                self.complain(at, &key, message);
                None
            }
            (SourceKind::Mcp, Tenants::Only(only)) if only.len() == 1 => {
                only.iter().next().map(|tenant| CredentialRef::of_tenant(name, tenant.clone()))
            }
            (SourceKind::Mcp, _) => {
                let message = "callers of an MCP server share its connection, so its credential \
                               is one tenant's: say whose with `tenants = [\"…\"]`";
                self.complain(at, &key, message);
                None
            }
            _ => Some(CredentialRef::of_caller(name)),
        }
    }
}
