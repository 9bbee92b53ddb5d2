use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;

use super::*;
use crate::{
    authorize::{CallContext, DenialReason, Resource, ScopeAuthorizer},
    call::CallInput,
    canonical::Digest,
    descriptor::{Auth, SafetyTier, SourceKind},
    id::{SourceId, ToolId},
    principal::{AuthMethod, Principal},
    scope::{Grant, Scope},
};

fn source(id: &str) -> SourceId {
    SourceId::parse(id).unwrap()
}

pub(super) fn tool(
    kind: SourceKind,
    source_id: &str,
    name: &str,
    scopes: Option<&[&str]>,
) -> Entry {
    let mut entry = Entry::new(kind, &source(source_id), name, SafetyTier::Read).unwrap();
    entry.tool.auth = scopes.map(|scopes| Auth {
        scopes: Some(scopes.iter().map(|s| Scope::parse(s).unwrap()).collect()),
        credential_ref: None,
    });
    entry
}

pub(super) fn caller(tenant: &str, grants: &[&str]) -> Principal {
    Principal {
        id: PrincipalId::parse("ann").unwrap(),
        tenant: TenantId::parse(tenant).unwrap(),
        scopes: ScopeSet::parse(grants.iter().copied()).unwrap(),
        roles: Vec::new(),
        makers: Vec::new(),
        session: None,
        auth: AuthMethod::Anonymous,
    }
}

fn tenant(id: &str) -> TenantId {
    TenantId::parse(id).unwrap()
}

fn acme() -> TenantId {
    tenant("acme")
}

pub(super) fn catalog(entries: Vec<Entry>) -> Catalog {
    let (catalog, collisions) =
        Catalog::build(Generation(7), entries.into_iter().map(Arc::new).collect());
    assert_eq!(collisions, []);
    catalog
}

pub(super) fn ids(entries: &[Arc<Entry>]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

static WRITTEN: AtomicUsize = AtomicUsize::new(0);

fn write_id(entry: &Entry, out: &mut Vec<u8>) {
    WRITTEN.fetch_add(1, Ordering::SeqCst);
    out.extend_from_slice(format!("\"{}\"", entry.id).as_bytes());
}

fn write_wire(entry: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(&entry.wire.get(entry, &IDS));
    out.extend_from_slice(entry.names.wire.as_bytes());
}

const IDS: ListFormat = ListFormat { key: "ids", open: "[", close: "]", item: write_id };
const WIRE: ListFormat = ListFormat { key: "wire", open: "{", close: "}", item: write_wire };

fn sample() -> Vec<Entry> {
    vec![
        tool(SourceKind::Mcp, "files", "write", Some(&["files:write"])),
        tool(SourceKind::Mcp, "files", "read", Some(&["files:read"])),
        tool(SourceKind::Connector, "crm", "find", Some(&["crm:read"])),
        tool(SourceKind::Mcp, "time", "now", Some(&[])),
        tool(SourceKind::Mcp, "time", "unlabelled", None),
    ]
}

#[test]
fn tools_are_sorted_and_found_by_every_name() {
    let catalog = catalog(sample());
    assert_eq!(
        ids(catalog.entries()),
        [
            "connector:crm.find",
            "mcp:files.read",
            "mcp:files.write",
            "mcp:time.now",
            "mcp:time.unlabelled"
        ]
    );
    for entry in catalog.entries() {
        for found in [
            catalog.by_id(&acme(), entry.id.as_str()),
            catalog.by_wire(&acme(), &entry.names.wire),
            catalog.by_otc(&acme(), &entry.names.otc),
        ] {
            assert!(Arc::ptr_eq(found.unwrap(), entry));
        }
    }
    for absent in ["", "files__read@1.0.0", "files.read@1.0.0", "mcp:files.Read"] {
        assert!(catalog.by_id(&acme(), absent).is_none());
        assert!(catalog.by_wire(&acme(), absent).is_none());
        assert!(catalog.by_otc(&acme(), absent).is_none());
    }
    assert!(Catalog::empty().entries().is_empty());
}

// I-8
#[test]
fn a_tool_without_a_label_is_invisible_to_every_caller() {
    let catalog = catalog(sample());
    let view = |grants: &[&str]| {
        let caller = caller("acme", grants);
        let view = catalog.view(&ScopeAuthorizer, caller.subject());
        ids(view.entries()).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(view(&["*"]).len(), 4);
    assert_eq!(view(&["files:*"]), ["mcp:files.read", "mcp:files.write", "mcp:time.now"]);
    assert_eq!(view(&[]), ["mcp:time.now"], "an explicit empty list requires nothing");
    let denied = ScopeAuthorizer
        .authorize(caller("acme", &["*"]).subject(), catalog.entries()[4].resource());
    assert_eq!(denied, Err(DenialReason::Unlabelled));
}

// I-9
#[test]
fn a_tool_of_other_tenants_is_denied_as_such_whatever_is_held() {
    let mut entry = tool(SourceKind::Mcp, "files", "read", Some(&["files:read"]));
    entry.tenants = Tenants::Only(vec![TenantId::parse("acme").unwrap()]);
    let catalog = catalog(vec![entry]);
    for grants in [&[][..], &["*"]] {
        let other = caller("other", grants);
        assert!(catalog.view(&ScopeAuthorizer, other.subject()).entries().is_empty());
        let denied = ScopeAuthorizer.authorize(other.subject(), catalog.entries()[0].resource());
        assert_eq!(denied, Err(DenialReason::Tenant));
    }
    let own = caller("acme", &["files:*"]);
    assert_eq!(catalog.view(&ScopeAuthorizer, own.subject()).entries().len(), 1);
}

/// A call without arguments.
fn call(input: &CallInput) -> CallContext<'_> {
    CallContext { surface: "mcp", input }
}

// I-8
#[test]
fn a_decision_that_fails_is_a_denial() {
    struct FailingAuthorizer;
    impl Authorizer for FailingAuthorizer {
        fn authorize(&self, _: Subject<'_>, _: Resource<'_>) -> Result<(), DenialReason> {
            Err(DenialReason::Undecided("the policy engine is down".to_owned()))
        }
    }
    let catalog = catalog(sample());
    let admin = caller("acme", &["*"]);
    assert!(catalog.view(&FailingAuthorizer, admin.subject()).entries().is_empty());
    assert!(
        Permit::new(
            &FailingAuthorizer,
            &admin,
            &catalog.entries()[0],
            catalog.generation(),
            call(&CallInput::default())
        )
        .is_err()
    );
}

/// I-24, I-84: a principal-specific authorizer gets a view per principal, and no other does.
#[test]
fn a_view_is_shared_unless_the_authorizer_is_principal_specific() {
    struct NameAuthorizer(bool);
    impl Authorizer for NameAuthorizer {
        fn authorize(&self, subject: Subject<'_>, _: Resource<'_>) -> Result<(), DenialReason> {
            match subject.principal.as_str() {
                "bob" if self.0 => Err(DenialReason::Policy),
                _ => Ok(()),
            }
        }
        fn is_principal_specific(&self) -> bool {
            self.0
        }
    }
    let ann = caller("acme", &["*"]);
    let bob = Principal { id: "bob".parse().unwrap(), ..ann.clone() };
    let apart = catalog(sample());
    assert!(!apart.view(&NameAuthorizer(true), ann.subject()).entries().is_empty());
    assert!(apart.view(&NameAuthorizer(true), bob.subject()).entries().is_empty());
    let again = apart.view(&NameAuthorizer(true), ann.subject());
    assert!(Arc::ptr_eq(&again, &apart.view(&NameAuthorizer(true), ann.subject())));
    let together = catalog(sample());
    let view = together.view(&NameAuthorizer(false), ann.subject());
    assert!(Arc::ptr_eq(&view, &together.view(&NameAuthorizer(false), bob.subject())));
}

// I-24
#[test]
fn the_bytes_of_a_list_are_made_once() {
    let catalog = catalog(sample());
    let (ann, bob) = (caller("acme", &["files:*"]), caller("acme", &["files:*"]));
    let view = catalog.view(&ScopeAuthorizer, ann.subject());
    assert!(Arc::ptr_eq(&view, &catalog.view(&ScopeAuthorizer, bob.subject())));
    assert!(!Arc::ptr_eq(
        &view,
        &catalog.view(&ScopeAuthorizer, caller("other", &["files:*"]).subject())
    ));
    assert!(!Arc::ptr_eq(
        &view,
        &catalog.view(&ScopeAuthorizer, caller("acme", &["files:read"]).subject())
    ));

    let body = view.body(&IDS, None);
    assert_eq!(body.bytes, r#"["mcp:files.read","mcp:files.write","mcp:time.now"]"#);
    let written = WRITTEN.load(Ordering::SeqCst);
    assert!(Arc::ptr_eq(&body, &view.body(&IDS, None)));
    // Another view of the same tools, and another format that uses the first one's JSON.
    let wider = catalog.view(&ScopeAuthorizer, caller("acme", &["files:*", "x"]).subject());
    assert_eq!(wider.body(&IDS, None).bytes, body.bytes);
    assert_eq!(wider.body(&IDS, None).etag, body.etag);
    assert_ne!(view.body(&WIRE, None).etag, body.etag);
    assert_eq!(WRITTEN.load(Ordering::SeqCst), written, "each tool was written once");
}

#[test]
fn a_list_can_be_of_one_kind_of_source() {
    let catalog = catalog(sample());
    let view = catalog.view(&ScopeAuthorizer, caller("acme", &["*"]).subject());
    let list = |kind| view.body(&WIRE, kind).bytes.clone();
    assert_eq!(list(Some(SourceKind::Connector)), r#"{"connector:crm.find"crm__find}"#);
    assert_eq!(list(Some(SourceKind::Workflow)), "{}");
    assert_eq!(list(None).iter().filter(|byte| **byte == b',').count(), 3);
}

// I-24
#[test]
fn a_list_is_cut_into_pages_once() {
    fn open(format: &ListFormat, _: &Digest, next: Option<usize>) -> String {
        format!("{next:?}{}", format.open)
    }
    const PAGED: ListFormat = ListFormat {
        key: "paged",
        open: "[",
        close: "]",
        item: |entry, out| out.extend_from_slice(format!("\"{}\"", entry.id).as_bytes()),
    };
    let size = |n| NonZeroUsize::new(n).unwrap();
    let catalog = catalog(sample());
    let view = catalog.view(&ScopeAuthorizer, caller("acme", &["files:*"]).subject());
    let pages = view.pages(&PAGED, size(2), open);
    assert_eq!(pages.count(), 2);
    assert_eq!(pages.at(0).unwrap(), r#"Some(2)["mcp:files.read","mcp:files.write"]"#);
    assert_eq!(pages.at(2).unwrap(), r#"None["mcp:time.now"]"#);
    assert!(pages.at(1).is_none() && pages.at(4).is_none() && pages.at(usize::MAX).is_none());
    assert!(Arc::ptr_eq(&pages, &view.pages(&PAGED, size(2), open)));
    let whole = view.pages(&PAGED, size(3), open);
    assert_eq!((whole.count(), whole.digest), (1, pages.digest));
    let fewer = catalog.view(&ScopeAuthorizer, caller("acme", &["files:read"]).subject());
    assert_ne!(fewer.pages(&PAGED, size(2), open).digest, pages.digest);
    let none = catalog.view(&ScopeAuthorizer, caller("nobody", &[]).subject());
    assert!(none.pages(&PAGED, size(2), open).at(0).is_some(), "an empty list is a page too");
}

/// After a change a client loads the parts that differ, and keeps the others.
#[test]
fn a_change_of_a_tool_changes_its_part_alone() {
    const NAMES: ListFormat = ListFormat {
        key: "names",
        open: "[",
        close: "]",
        item: |entry, out| out.extend_from_slice(entry.id.as_str().as_bytes()),
    };
    fn overview(parts: &[Part]) -> Vec<u8> {
        parts.iter().map(Part::tag).collect::<Vec<_>>().join(" ").into_bytes()
    }
    let parts = |ids: &[String]| {
        let written = ids.iter().map(|id| (id.as_str(), Arc::from(id.as_bytes())));
        Parts::of(written, &NAMES, overview)
    };
    let tags = |parts: &Parts| -> Vec<String> {
        let text = String::from_utf8(parts.overview.bytes.to_vec()).unwrap();
        text.split(' ').map(str::to_owned).collect()
    };
    let all: Vec<String> = (0..5_000).map(|at| format!("tool-{at:05}")).collect();
    let whole = parts(&all);
    let before = tags(&whole);
    assert!((15..=79).contains(&before.len()), "{} parts", before.len());
    let joined: Vec<String> = before
        .iter()
        .flat_map(|tag| {
            let part = whole.find(tag).unwrap();
            let text = str::from_utf8(&part.body.bytes).unwrap();
            let tools: Vec<_> = text[1..text.len() - 1].split(',').map(str::to_owned).collect();
            assert_eq!(tools.len(), part.count);
            tools
        })
        .collect();
    assert_eq!(joined, all, "every tool once, in order");
    for at in [0, 1, 63, 64, 2_500, 4_998, 4_999] {
        let mut fewer = all.clone();
        fewer.remove(at);
        let mut more = all.clone();
        more.insert(at, format!("tool-{at:05}-new"));
        for changed in [fewer, more] {
            let after = tags(&parts(&changed));
            let other = after.iter().filter(|tag| !before.contains(tag)).count();
            assert!((1..=3).contains(&other), "{other} new parts of {} at {at}", after.len());
        }
    }
    assert_eq!(tags(&parts(&[])).len(), 1, "an empty list is a part, too");
    assert!(whole.find("none").is_none());
}

#[test]
fn an_entity_tag_is_quoted_hex_and_differs_between_bodies() {
    let tag = |bytes: &'static str| Body::new(bytes).etag;
    assert_eq!(tag("{}"), "\"44136fa355b3678a1146ad16f7e8649e\"");
    assert_ne!(tag("a"), tag("b"));
}

// I-27
#[test]
fn lists_are_kept_as_long_as_there_is_room() {
    let small = ByteBudget::new(3 * 34);
    let views: Vec<View> = (0..4)
        .map(|i| {
            let entry = Arc::new(tool(SourceKind::Mcp, "s", &format!("t{i}"), None));
            View::new(vec![entry; 3], &small)
        })
        .collect();
    let kept = |view: &View| {
        let [a, b] = [view.body(&IDS, None), view.body(&IDS, None)];
        assert_eq!(a.bytes, b.bytes);
        Arc::ptr_eq(&a, &b)
    };
    let kept: Vec<bool> = views.iter().map(kept).collect();
    assert_eq!(kept, [true, true, true, false], "34 bytes each");
    drop(views);
    assert_eq!(small.held(), 0, "dropped views release their bytes");
}

// I-16
#[test]
fn tools_that_would_share_a_name_are_left_out_and_reported() {
    let entries = vec![
        tool(SourceKind::Mcp, "a", "get.user", Some(&[])),
        tool(SourceKind::Mcp, "a", "get_user", Some(&[])), // wire and OTC name of the one above
        tool(SourceKind::Mcp, "a", "get-it", Some(&[])),
        tool(SourceKind::Mcp, "a", "get_it", Some(&[])), // OTC name of the one above
        tool(SourceKind::Mcp, "b", "twice", Some(&[])),
        tool(SourceKind::Mcp, "b", "twice", Some(&[])),
        tool(SourceKind::Mcp, "b", "fine", Some(&[])),
    ];
    let (catalog, collisions) =
        Catalog::build(Generation(1), entries.into_iter().map(Arc::new).collect());
    assert_eq!(ids(catalog.entries()), ["mcp:b.fine"]);
    let reported: Vec<String> = collisions.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "mcp:a.get-it and mcp:a.get_it would share the name `a.get_it@1.0.0` and are not offered",
            "mcp:a.get.user and mcp:a.get_user would share the name `a.get_user@1.0.0` and are not offered",
            "mcp:a.get.user and mcp:a.get_user would share the name `a__get_user` and are not offered",
            "mcp:b.twice and mcp:b.twice would share the name `b.twice@1.0.0` and are not offered",
            "mcp:b.twice and mcp:b.twice would share the name `b__twice` and are not offered",
            "mcp:b.twice and mcp:b.twice would share the name `mcp:b.twice` and are not offered",
        ]
    );
}

fn bare(source: &str, name: &str, tenants: &[&str]) -> Entry {
    let mut entry = tool(SourceKind::Mcp, source, name, Some(&[]));
    name.clone_into(&mut entry.names.wire);
    entry.tenants = match tenants {
        [] => Tenants::All,
        tenants => Tenants::Only(tenants.iter().map(|id| tenant(id)).collect()),
    };
    entry
}

// I-9, I-16
#[test]
fn tools_of_different_tenants_may_share_a_name() {
    let catalog = catalog(vec![
        bare("a", "search", &["acme"]),
        bare("b", "search", &["other", "third"]),
        bare("c", "alone", &[]),
    ]);
    let found = |id: &str| catalog.by_wire(&tenant(id), "search").unwrap().source.to_string();
    assert_eq!([found("acme"), found("other"), found("third")], ["a", "b", "b"]);
    let stranger = caller("nobody", &["*"]);
    let denied = catalog.by_wire(&stranger.tenant, "search").unwrap();
    assert_eq!(
        ScopeAuthorizer.authorize(stranger.subject(), denied.resource()),
        Err(DenialReason::Tenant)
    );
    assert_eq!(catalog.find_all("search").len(), 2);
}

// I-9, I-16
#[test]
fn a_shared_name_costs_only_the_tenants_that_would_see_both() {
    let entries = vec![
        bare("a", "search", &[]),
        bare("b", "search", &["acme"]),
        bare("c", "search", &["third", "fourth"]),
        bare("d", "search", &["third"]),
    ];
    let (catalog, collisions) =
        Catalog::build(Generation(1), entries.into_iter().map(Arc::new).collect());
    let seen = |id: &str| {
        let view = catalog.view(&ScopeAuthorizer, caller(id, &["*"]).subject());
        ids(view.entries()).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(seen("anybody"), ["mcp:a.search"]);
    for none in ["acme", "third", "fourth"] {
        assert_eq!(seen(none), [] as [&str; 0], "{none}");
    }
    let reported_to = |id: &str| {
        let own = collisions.iter().filter(|collision| collision.tenants.admits(&tenant(id)));
        own.map(Collision::message).collect::<Vec<_>>()
    };
    assert_eq!(reported_to("anybody"), [] as [&str; 0]);
    assert_eq!(
        reported_to("acme"),
        ["mcp:a.search and mcp:b.search would share the name `search` and are not offered"]
    );
    assert_eq!(
        reported_to("third"),
        ["mcp:a.search and mcp:c.search and mcp:d.search would share the name `search` and \
          are not offered"]
    );
    let reported = collisions.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(reported.contains("and are not offered to acme"), "{reported}");
}

/// I-16: every version is a tool of its own, and versions are compared as numbers.
#[test]
fn a_name_without_a_version_is_the_highest_one() {
    let versions = [("t-a", "9.0.0"), ("t.a", "10.0.0"), ("t_a", "1.0.0")];
    let entries = versions.map(|(name, version)| {
        let mut entry = tool(SourceKind::Mcp, "s", name, Some(&[]));
        entry.names.wire = format!("s__{version}").replace('.', "_");
        entry.names.version = version.to_owned();
        entry
    });
    let catalog = catalog(entries.into());
    let versions: Vec<&str> =
        catalog.otc_versions(&acme(), "s.t_a").map(|entry| entry.names.version.as_str()).collect();
    assert_eq!(versions, ["10.0.0", "9.0.0", "1.0.0"]);
    assert_eq!(catalog.by_otc(&acme(), "s.t_a").unwrap().names.otc_id(), "s.t_a@10.0.0");
    assert_eq!(
        catalog.by_otc_version(&acme(), "s.t_a", [9, 0, 0]).unwrap().id.as_str(),
        "mcp:s.t-a"
    );
    assert!(catalog.by_otc_version(&acme(), "s.t_a", [9, 0, 1]).is_none());
}

// I-23
#[test]
fn snapshots_do_not_share_views() {
    let shared = Arc::new(tool(SourceKind::Mcp, "files", "read", Some(&[])));
    let added = Arc::new(tool(SourceKind::Mcp, "files", "stat", Some(&[])));
    let (old, _) = Catalog::build(Generation(1), vec![Arc::clone(&shared)]);
    let ann = caller("acme", &[]);
    let before = old.view(&ScopeAuthorizer, ann.subject());
    let (new, _) = Catalog::build(Generation(2), vec![shared, added]);
    let after = new.view(&ScopeAuthorizer, ann.subject());
    assert_eq!((before.entries().len(), after.entries().len()), (1, 2));
    assert_eq!(old.view(&ScopeAuthorizer, ann.subject()).entries().len(), 1);
    let permit = Permit::new(
        &ScopeAuthorizer,
        &ann,
        &new.entries()[1],
        new.generation(),
        call(&CallInput::default()),
    );
    let permit = permit.unwrap();
    assert_eq!(permit.generation(), Generation(2));
    assert_eq!(permit.entry().id.as_str(), "mcp:files.stat");
    assert_eq!(*permit.principal(), ann);
}

#[test]
fn a_catalog_of_many_tools_is_built_and_viewed() {
    let entries = (0..5_000)
        .map(|i| {
            let scope = format!("team{}:read", i % 250);
            let source = format!("s{}", i % 50);
            tool(SourceKind::Mcp, &source, &format!("tool_{i}"), Some(&[&scope]))
        })
        .chain((0..2_000).map(|i| tool(SourceKind::Mcp, "same", &format!("t{}", i / 2), Some(&[]))))
        .map(Arc::new)
        .collect();
    let (catalog, collisions) = Catalog::build(Generation(1), entries);
    assert_eq!(catalog.entries().len(), 5_000);
    assert_eq!(collisions.len(), 3_000, "1 000 pairs, each of which shares three names");
    for team in [0, 7, 249, 250] {
        let caller = caller("acme", &[&format!("team{team}:*")]);
        let seen = catalog.view(&ScopeAuthorizer, caller.subject()).entries().len();
        assert_eq!(seen, if team < 250 { 20 } else { 0 });
    }
}

// I-7
#[test]
fn more_callers_than_views_are_kept_still_see_their_own() {
    let entries =
        (0..10).map(|i| tool(SourceKind::Mcp, "s", &format!("t{i}"), Some(&[&format!("s:{i}")])));
    let catalog = catalog(entries.collect());
    for i in 0..3 * MAX_VIEWS {
        let own = format!("s:{}", i % 10);
        let caller = caller("acme", &[&own, &format!("own:{i}")]);
        let view = catalog.view(&ScopeAuthorizer, caller.subject());
        assert_eq!(ids(view.entries()), [format!("mcp:s.t{}", i % 10)]);
    }
}

// === properties ===

fn segment() -> impl Strategy<Value = String> {
    proptest::sample::select(&["a", "b", "c"][..]).prop_map(str::to_owned)
}

fn scope_text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => proptest::collection::vec(segment(), 1..4).prop_map(|segments| segments.join(":")),
        1 => "[a:* ]{0,4}", // legal in a descriptor, but outside the grammar of grants
    ]
}

fn grants() -> impl Strategy<Value = ScopeSet> {
    let segment = prop_oneof![3 => segment(), 1 => Just("*".to_owned())];
    let grant = proptest::collection::vec(segment, 1..4).prop_map(|segments| segments.join(":"));
    proptest::collection::vec(grant, 0..4)
        .prop_map(|texts| texts.iter().map(|text| Grant::parse(text).unwrap()).collect())
}

fn tenants() -> impl Strategy<Value = Tenants> {
    let one = proptest::sample::select(&["acme", "other", "third"][..]);
    prop_oneof![
        Just(Tenants::All),
        proptest::collection::vec(one.prop_map(|t| TenantId::parse(t).unwrap()), 0..3)
            .prop_map(Tenants::Only),
    ]
}

proptest! {
    // I-7
    #[test]
    fn listed_is_callable(
        tools in proptest::collection::vec(
            (proptest::option::weighted(0.8, proptest::collection::vec(scope_text(), 0..3)), tenants(), any::<bool>()), 0..12),
        callers in proptest::collection::vec(
            (proptest::sample::select(&["acme", "other"][..]), grants()), 1..6),
    ) {
        let entries = tools.into_iter().enumerate().map(|(i, (scopes, tenants, labelled))| {
            let mut entry = tool(SourceKind::Mcp, "s", &format!("t{i}"), None);
            let scopes = scopes.map(|list| list.iter().map(|text| Scope::declared(text)).collect());
            entry.tool.auth = labelled.then_some(Auth { scopes, credential_ref: None });
            entry.tenants = tenants;
            entry
        });
        let catalog = catalog(entries.collect());
        for (tenant, scopes) in callers.iter().chain(&callers) {
            let principal = Principal { scopes: scopes.clone(), ..caller(tenant, &[]) };
            let view = catalog.view(&ScopeAuthorizer, principal.subject());
            let callable = catalog.entries().iter().filter(|entry| {
                Permit::new(&ScopeAuthorizer, &principal, entry, catalog.generation(), call(&CallInput::default())).is_ok()
            });
            let callable: Vec<&str> = callable.map(|entry| entry.id.as_str()).collect();
            prop_assert_eq!(ids(view.entries()), callable);
        }
    }

    // I-16: wire names and OTC ids are one to one with the tools of any catalog.
    #[test]
    fn names_are_unique_or_reported(
        tools in proptest::collection::btree_set(
            (proptest::sample::select(&["a", "b-c", "b_c", "a-b"][..]),
             prop_oneof!["[a._-]{1,3}", "[a-b]{60,70}", "[a.]{155,165}", any::<String>()],
             proptest::sample::select(SourceKind::ALL),
             "(0|1|2|10)[.](0|9)[.]0"), 0..30),
    ) {
        let mut names_by_id = BTreeMap::new();
        let mut entries = Vec::new();
        for (source_id, name, kind, version) in &tools {
            let mut entry = tool(*kind, source_id, name, None);
            entry.names.version.clone_from(version);
            names_by_id.entry(entry.id.as_str().to_owned()).or_insert_with(Vec::new).push(entry.names.clone());
            entries.push(Arc::new(entry));
        }
        let (catalog, collisions) = Catalog::build(Generation(0), entries);
        let kept: BTreeSet<&str> = ids(catalog.entries()).into_iter().collect();
        prop_assert_eq!(kept.len(), catalog.entries().len());
        let mut wires = BTreeSet::new();
        let mut otcs = BTreeSet::new();
        for entry in catalog.entries() {
            prop_assert!(wires.insert(&entry.names.wire) && otcs.insert(entry.names.otc_id()));
            prop_assert_eq!(&catalog.by_wire(&acme(), &entry.names.wire).unwrap().id, &entry.id);
            let version = entry.names.version_numbers();
            let found = catalog.by_otc_version(&acme(), &entry.names.otc, version).unwrap();
            prop_assert_eq!(&found.id, &entry.id);
            // Without a version it is the highest one, by numbers.
            let highest = catalog.by_otc(&acme(), &entry.names.otc).unwrap();
            prop_assert!(highest.names.version_numbers() >= version);
            prop_assert_eq!(&highest.names.otc, &entry.names.otc);
        }
        // Left out exactly when reported, and reported with a name that they really share.
        let reported: BTreeSet<&str> =
            collisions.iter().flat_map(|c| &c.tools).map(ToolId::as_str).collect();
        for id in names_by_id.keys() {
            prop_assert_ne!(kept.contains(id.as_str()), reported.contains(id.as_str()));
        }
        for collision in &collisions {
            prop_assert!(collision.tools.len() > 1);
            for tool in &collision.tools {
                let names = names_by_id[tool.as_str()].iter();
                prop_assert!(tool.as_str() == collision.name || names.into_iter()
                    .any(|names| names.wire == collision.name || names.otc_id() == collision.name));
            }
        }
    }

    // I-9, I-16: a tenant has and finds the same tools as without any other tenant.
    #[test]
    fn a_tenants_names_do_not_depend_on_other_tenants(
        tools in proptest::collection::vec(
            (proptest::sample::select(&["a", "b-c", "b_c"][..]), "[xy]", any::<bool>(), tenants()), 0..12),
    ) {
        let made = |only: Option<&TenantId>| {
            let entries = tools.iter().filter(|(.., tenants)| only.is_none_or(|id| tenants.admits(id)));
            let entries = entries.map(|(source, name, is_bare, tenants)| {
                let mut entry = tool(SourceKind::Mcp, source, name, Some(&[]));
                if *is_bare {
                    name.clone_into(&mut entry.names.wire);
                }
                entry.tenants = if only.is_some() { Tenants::All } else { tenants.clone() };
                Arc::new(entry)
            });
            Catalog::build(Generation(0), entries.collect())
        };
        let (all, _) = made(None);
        for id in ["acme", "other", "third", "fourth"] {
            let who = caller(id, &["*"]);
            let (own, own_collisions) = made(Some(&who.tenant));
            let seen = |catalog: &Catalog| {
                ids(catalog.view(&ScopeAuthorizer, who.subject()).entries())
                    .into_iter().map(str::to_owned).collect::<Vec<_>>()
            };
            prop_assert_eq!(seen(&all), seen(&own));
            let finds = |catalog: &Catalog, name: &str| {
                let found = [
                    catalog.by_wire(&who.tenant, name),
                    catalog.by_id(&who.tenant, name),
                    catalog.by_otc(&who.tenant, name),
                    catalog.find(&who.tenant, name),
                ];
                found.map(|entry| {
                    let entry = entry?;
                    let usable = ScopeAuthorizer.authorize(who.subject(), entry.resource()).is_ok();
                    usable.then(|| entry.id.to_string())
                })
            };
            for entry in all.entries().iter().chain(own.entries()) {
                for name in [&entry.names.wire, &entry.id.to_string(), &entry.names.otc] {
                    prop_assert_eq!(finds(&all, name), finds(&own, name), "{} {}", id, name);
                }
            }
            let (_, collisions) = made(None);
            let reported_to: BTreeSet<String> = collisions.iter()
                .filter(|collision| collision.tenants.admits(&who.tenant)).map(Collision::message).collect();
            let expected: BTreeSet<String> = own_collisions.iter().map(Collision::message).collect();
            prop_assert_eq!(reported_to, expected);
        }
    }
}

/// I-24
#[test]
fn a_view_decides_only_about_tools_whose_labels_its_caller_has() {
    #[derive(Default)]
    struct CountingAuthorizer(AtomicUsize);
    impl Authorizer for CountingAuthorizer {
        fn authorize(
            &self,
            subject: Subject<'_>,
            resource: Resource<'_>,
        ) -> Result<(), DenialReason> {
            self.0.fetch_add(1, Ordering::SeqCst);
            ScopeAuthorizer.authorize(subject, resource)
        }
        fn denies_all(
            &self,
            subject: Subject<'_>,
            tenants: &Tenants,
            required: Option<&[Scope]>,
        ) -> bool {
            ScopeAuthorizer.denies_all(subject, tenants, required)
        }
    }
    let labelled = |i: usize| {
        let scope = if i.is_multiple_of(100) { "few:use" } else { "all:use" };
        tool(SourceKind::Mcp, "s", &format!("t{i}"), Some(&[scope]))
    };
    let catalog = catalog((0..2_000).map(labelled).collect());
    let counting = CountingAuthorizer::default();
    let view = catalog.view(&counting, caller("acme", &["few:*"]).subject());
    assert_eq!(view.entries().len(), 20);
    assert!(view.entries().is_sorted_by_key(|entry| entry.id.as_str()));
    assert_eq!(counting.0.load(Ordering::SeqCst), 20);
}

#[test]
fn long_lists_are_written_by_the_runner() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    const NAMES: ListFormat = ListFormat {
        key: "names",
        open: "[",
        close: "]",
        item: |entry, out| out.extend_from_slice(entry.names.wire.as_bytes()),
    };
    let runs = || RUNS.load(Ordering::SeqCst);
    let of = |count: usize| {
        let entry = |i: usize| tool(SourceKind::Mcp, "s", &format!("t{i}"), None);
        let entries = (0..count).map(|i| Arc::new(entry(i))).collect();
        View::new(entries, &ByteBudget::new(1 << 20)).with_runner(|work| {
            RUNS.fetch_add(1, Ordering::SeqCst);
            work();
        })
    };
    let short = of(3);
    short.body(&NAMES, None);
    assert_eq!(runs(), 0);
    let long = of(2_000);
    let body = long.body(&NAMES, None);
    assert_eq!(runs(), 1);
    assert_eq!(long.body(&NAMES, None).bytes, body.bytes, "kept");
    assert_eq!(runs(), 1);
    assert_eq!(long.search("t7", None, 5).len(), 1);
    assert_eq!(runs(), 2);
}
