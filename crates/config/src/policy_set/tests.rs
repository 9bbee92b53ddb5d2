use serde_json::json;
use toolcrib_core::{
    authorize::{CallContext, Subject},
    call::{CallInput, CallerInput},
    catalog::Entry,
    descriptor::{SafetyTier, SourceKind},
    scope::ScopeSet,
};

use super::{PolicyFile, PolicySet};

fn file(name: &str, text: &str) -> PolicyFile {
    PolicyFile { name: name.to_owned(), text: text.to_owned() }
}

fn problems(text: &str) -> Vec<String> {
    let refused = PolicySet::parse(&[file("p/a.cedar", text)], None).unwrap_err();
    refused.iter().map(ToString::to_string).collect()
}

fn entry() -> Entry {
    let source = "files".parse().unwrap();
    Entry::new(SourceKind::Mcp, &source, "read", SafetyTier::Read).unwrap()
}

/// The judgement about a call with `arguments`, or about every call.
fn judged(policies: &str, arguments: Option<&serde_json::Value>) -> super::PolicyDecision {
    let input = arguments.map(|arguments| CallInput::from(arguments.clone()));
    judged_input(policies, input.as_ref())
}

/// The judgement about a call with `input`, or about every call.
fn judged_input(policies: &str, input: Option<&CallInput>) -> super::PolicyDecision {
    let policies = PolicySet::parse(&[file("a.cedar", policies)], None).unwrap();
    let (tenant, principal) = ("acme".parse().unwrap(), "ann".parse().unwrap());
    let scopes = ScopeSet::parse(["files:*"]).unwrap();
    let subject = Subject { tenant: &tenant, scopes: &scopes, principal: &principal };
    let call = input.map(|input| CallContext { surface: "otc", input });
    policies.judge(subject, entry().resource(), call)
}

#[test]
fn what_is_wrong_with_policies_is_told_with_its_line() {
    for (text, line, said) in [
        (
            "permit(principal, action, resource);\n\npermit(principal, action resource);",
            "p/a.cedar:3: ",
            "unexpected",
        ),
        (
            "\nforbid(principal, action, resource)\nwhen { resource.teir == \"exec\" };",
            "p/a.cedar:3: ",
            "teir",
        ),
        (
            "permit(principal, action, resource)\nwhen { resource.tier == 7 };",
            "p/a.cedar:2: ",
            "types",
        ),
        (
            "permit(principal, action, resource) when { context.arguments.values == 7 };",
            "p/a.cedar:1: ",
            "values",
        ),
        ("permit(principal == ?principal, action, resource);", "p/a.cedar: ", "template"),
        ("permit(principal, action == Action::\"read\", resource);", "p/a.cedar:1: ", "Action"),
    ] {
        let found = problems(text);
        assert!(found[0].starts_with(line) && found[0].contains(said), "{text}: {found:?}");
    }
    // All of them at once, and those of other files.
    let wrong = "permit(principal, action, resource) when { resource.a };\n\
                 permit(principal, action, resource) when { resource.b };";
    let files = [file("one.cedar", wrong), file("two.cedar", "permit(")];
    let text = PolicySet::parse(&files, None).unwrap_err();
    let places: Vec<String> =
        text.iter().map(|error| format!("{}:{:?}", error.file, error.line)).collect();
    assert!(places.contains(&"one.cedar:Some(1)".to_owned()), "{places:?}");
    assert!(places.contains(&"one.cedar:Some(2)".to_owned()), "{places:?}");
    assert!(places.iter().any(|place| place.starts_with("two.cedar")), "{places:?}");
    let many = "permit(principal, action, resource);\n".repeat(501);
    assert!(problems(&many)[0].contains("more than 500"));
    let twice = "@id(\"a\") permit(principal, action, resource);";
    let same = PolicySet::parse(&[file("a", twice), file("a", twice)], None).unwrap_err();
    assert!(same[0].to_string().contains("twice"), "{same:?}");
}

/// I-83
#[test]
fn without_a_permit_nothing_passes_and_a_forbid_counts_more() {
    let any = json!({});
    for (policies, allowed) in [
        ("forbid(principal, action, resource) when { resource.tier == \"exec\" };", Some(false)),
        ("permit(principal, action, resource);", Some(true)),
        ("permit(principal, action, resource); forbid(principal, action, resource);", Some(false)),
        (
            "permit(principal in Tenant::\"acme\", action == Action::\"call\", resource in Source::\"files\");",
            Some(true),
        ),
        ("permit(principal in Tenant::\"other\", action, resource);", Some(false)),
        (
            "permit(principal, action, resource) when { principal.scopes.contains(\"files:*\") };",
            Some(true),
        ),
        (
            "permit(principal, action, resource) when { resource.name like \"files__*\" };",
            Some(true),
        ),
    ] {
        assert_eq!(judged(policies, Some(&any)).allowed, allowed, "{policies}");
        assert_eq!(judged(policies, None).allowed, allowed, "{policies}");
    }
}

/// I-82, I-102
#[test]
fn policies_see_the_shape_of_answers_and_of_a_state() {
    let round = |responses: serde_json::Value, state: Option<&str>| CallInput {
        caller: Some(CallerInput {
            responses: responses.as_object().cloned(),
            state: state.map(str::to_owned),
            ..CallerInput::default()
        }),
        ..json!({ "n": 1 }).into()
    };
    let first = CallInput::from(json!({ "n": 1 }));
    let answered = round(json!({ "who": { "action": "accept" } }), Some("s7"));
    let resumed = round(json!(null), Some("s7"));
    for (test, of_first, of_answered, of_resumed) in [
        ("context.round.isFurther", false, true, true),
        ("context.round.responses.contains(\"who\")", false, true, false),
        ("context.round.bytes > 20", false, true, false),
        ("context.round.bytes > 0", false, true, true),
        ("context.arguments.count == 1", true, true, true),
    ] {
        let policies = format!("permit(principal, action, resource) when {{ {test} }};");
        let allowed = |input| judged_input(&policies, Some(input)).allowed;
        let said = [&first, &answered, &resumed].map(allowed);
        assert_eq!(said, [of_first, of_answered, of_resumed].map(Some), "{test}");
    }
    let many: serde_json::Map<_, _> = (0..1_001).map(|n| (n.to_string(), json!(1))).collect();
    let said =
        judged_input("permit(principal, action, resource);", Some(&round(many.into(), None)));
    assert_eq!(said.allowed, Some(false), "more answers than a shape has is a denial");
}

/// I-84
#[test]
fn lists_are_decided_by_what_holds_of_every_call() {
    for (policies, allowed) in [
        ("permit(principal, action, resource) when { context.surface == \"mcp\" };", None),
        ("permit(principal, action, resource) unless { context.arguments.depth > 3 };", None),
        (
            "permit(principal, action, resource); forbid(principal, action, resource)
             when { resource.tier == \"read\" || context.arguments.count > 3 };",
            Some(false),
        ),
        (
            "permit(principal, action, resource)
             when { resource.tier == \"exec\" && context.arguments.count > 3 };",
            Some(false),
        ),
    ] {
        assert_eq!(judged(policies, None).allowed, allowed, "{policies}");
    }
    let broken = "permit(principal, action, resource);
                  forbid(principal, action, resource) when { 9223372036854775807 + 1 > 0 };";
    let said = judged(broken, None);
    assert_eq!(said.allowed, Some(false), "it fails at every call: {said:?}");
    let said = judged(broken, Some(&json!({})));
    assert_eq!((said.allowed, said.errors.len()), (Some(false), 1));
}

#[test]
fn a_policy_is_known_by_its_id_and_its_place() {
    let policies = "// one\n@id(\"everybody\")\npermit(principal, action, resource);\n\n\
                    forbid(principal, action, resource) when { resource.tier == \"read\" };\n";
    assert_eq!(judged(policies, Some(&json!({}))).by, ["a.cedar:5"]);
    let first = policies.lines().take(3).collect::<Vec<_>>().join("\n");
    assert_eq!(judged(&first, Some(&json!({}))).by, ["everybody (a.cedar:2)"]);
}

#[test]
fn only_policies_that_look_at_who_calls_tell_principals_apart() {
    for (policy, apart) in [
        ("permit(principal, action, resource);", false),
        ("permit(principal in Tenant::\"acme\", action, resource);", false),
        ("permit(principal, action, resource) when { principal.tenant == \"acme\" };", false),
        ("permit(principal, action, resource) when { principal.scopes.contains(\"a\") };", false),
        ("permit(principal == Principal::\"acme/ann\", action, resource);", true),
        ("permit(principal, action, resource) when { principal.id like \"ann*\" };", true),
        (
            "permit(principal, action, resource) when { principal in [Principal::\"acme/a\"] };",
            true,
        ),
    ] {
        let policies = PolicySet::parse(&[file("a", policy)], None).unwrap();
        assert_eq!(policies.is_principal_specific(), apart, "{policy}");
    }
}

#[test]
fn a_schema_has_a_place_for_everything_that_is_given() {
    let usual = include_str!("schema.cedarschema");
    let policy = [file("a", "permit(principal, action, resource);")];
    assert!(PolicySet::parse(&policy, Some(&file("own", usual))).is_ok());
    let lacking = usual.replace("  tier: String,\n", "");
    let text = PolicySet::parse(&policy, Some(&file("own", &lacking))).unwrap_err();
    assert!(text[0].message.contains("does not describe"), "{text:?}");
    let broken = format!("{usual}\nentity ;\n");
    let text = PolicySet::parse(&policy, Some(&file("own", &broken))).unwrap_err();
    assert_eq!(text[0].line, Some(usual.lines().count() + 2), "{text:?}");
}

// I-83: both ids can contain the separator.
#[test]
fn no_two_principals_have_one_name_in_a_policy() {
    let named = r#"permit(principal == Principal::"a%2Fb/c", action, resource);"#;
    let policies = PolicySet::parse(&[file("a.cedar", named)], None).unwrap();
    let scopes = ScopeSet::parse(["files:*"]).unwrap();
    for (tenant, principal, allowed) in
        [("a/b", "c", true), ("a", "b/c", false), ("a%2Fb", "c", false)]
    {
        let (tenant, principal) = (tenant.parse().unwrap(), principal.parse().unwrap());
        let subject = Subject { tenant: &tenant, scopes: &scopes, principal: &principal };
        let input = CallInput::from(json!({}));
        let call = Some(CallContext { surface: "otc", input: &input });
        let judgement = policies.judge(subject, entry().resource(), call);
        assert_eq!(judgement.allowed, Some(allowed), "{tenant} {principal}");
    }
}
