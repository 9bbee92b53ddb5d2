//! Roles from named tools.

use serde_json::{Map, json};
use toolcrib_config::edit::{Change, ChangeKind, EditAction};
use toolcrib_core::id::TenantId;
use toolcrib_store::MemoryCatalogs;

use crate::support::{offer, rig_with};

/// A person decides about everything that a role reaches: tools of other tenants, and tools in
/// quarantine, too.
#[tokio::test]
async fn the_reach_of_a_role_includes_other_tenants_and_the_quarantine() {
    let source = |id: &str, more: &str| {
        format!(
            "[[source]]\nid = \"{id}\"\nkind = \"mcp\"\ncommand = [\"x\"]\n{more}\n\
             [source.tools.\"*\"]\nscopes = [\"up:use\"]\n"
        )
    };
    let text = [
        source("s", ""),
        source("theirs", "tenants = [\"other\"]"),
        source("held", "pin_first = \"approve\""),
    ];
    let rig = rig_with(Some(Ok(offer(&["echo"]))), &text.concat(), MemoryCatalogs::default()).await;
    let mut settings = Map::new();
    settings.insert("scopes".to_owned(), json!([]));
    let mut change = Change::new(EditAction::Add, ChangeKind::Role, "support", settings);
    change.tools = vec!["s__echo".to_owned()];
    let own = TenantId::parse("t").unwrap();
    let config = rig.gateway.config();
    let (_, reach) = rig.gateway.resolve_tools(&config, Some(&own), vec![change.clone()]).unwrap();
    assert_eq!(reach[0].named, ["s__echo"]);
    assert_eq!(reach[0].others, ["held__echo", "theirs__echo"]);
    change.tools = vec!["theirs__echo".to_owned()];
    let refused = rig.gateway.resolve_tools(&config, Some(&own), vec![change]);
    assert!(refused.is_err(), "a tool of another tenant cannot be named");
}
