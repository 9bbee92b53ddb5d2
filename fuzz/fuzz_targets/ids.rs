//! Ids, scopes, grants and names: what parses prints as itself, and names are what dialects allow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::{
    descriptor::SourceKind,
    id::{PrincipalId, SourceId, TenantId, ToolId},
    names,
    scope::{Grant, Scope},
};

fuzz_target!(|texts: (&str, &str, Option<&str>)| {
    let (first, second, version) = texts;
    if let Ok(id) = ToolId::parse(first) {
        assert_eq!(id.as_str(), first);
    }
    if let Ok(id) = TenantId::parse(first) {
        assert_eq!(id.as_str(), first);
    }
    if let Ok(id) = PrincipalId::parse(first) {
        assert_eq!(id.as_str(), first);
    }
    if let (Ok(grant), Ok(scope)) = (Grant::parse(first), Scope::parse(second)) {
        assert_eq!((grant.as_str(), scope.as_str()), (first, second));
        let exact = Grant::parse(second).is_ok_and(|same| same.covers(&scope));
        assert!(exact, "a scope, read as a grant, covers itself");
        assert!(first != second || grant.covers(&scope));
    }
    if let Ok(source) = SourceId::parse(first) {
        let named = names::names(&source, second, version);
        let wire = &named.wire;
        assert!((1..=64).contains(&wire.len()), "a wire name has 1 to 64 bytes");
        assert!(wire.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
        let otc = named.otc_id();
        let (name, version) = otc.split_once('@').expect("an OTC id has a version");
        let (toolkit, tool) = name.split_once('.').expect("an OTC name has a toolkit and a tool");
        for part in [toolkit, tool] {
            assert!(!part.is_empty());
            assert!(part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        }
        assert_eq!(version.split('.').count(), 3);
        assert!(
            version
                .split('.')
                .all(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        );
        if let Ok(id) = names::tool_id(SourceKind::Mcp, &source, second) {
            assert_eq!(ToolId::parse(id.as_str()), Ok(id.clone()));
        }
    }
});
