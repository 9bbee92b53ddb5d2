//! Principals that are one person: `[[auth.same_person]]`.

use crate::support::{complaint, parse};

const ISSUER: &str = "[[auth.jwt]]\nissuer = \"https://id.example\"\naudiences = [\"crib\"]\n\
                      tenant = \"acme\"\n";

fn group(tenant: &str, principals: &[&str]) -> String {
    let tables = "[[auth.same_person]]";
    format!("{tables}\ntenant = \"{tenant}\"\nprincipals = {principals:?}\n")
}

#[test]
fn groups_are_people_of_their_tenants() {
    let ada = group("acme", &["ada", "id.example|ada"]);
    let ben = group("acme", &["ben", "operator"]);
    let other = group("other", &["ada", "ben"]);
    let people = parse(&format!("{ISSUER}{ada}{ben}{other}")).people;
    let are_one = |tenant: &str, one: &str, other: &str| {
        let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
        people.are_one(&tenant.parse().unwrap(), &one, &other)
    };
    assert!(are_one("acme", "id.example|ada", "ada") && are_one("acme", "operator", "ben"));
    assert!(!are_one("acme", "ada", "ben") && are_one("other", "ada", "ben"));
    // In one line, as a setting of `[auth]`.
    let line = "[auth]\nsame_person = [{ tenant = \"t\", principals = [\"a\", \"b\"] }]\n";
    assert_ne!(parse(line).people, parse("").people);
}

#[test]
fn groups_that_mean_nothing_are_refused_with_a_reason() {
    let many: Vec<String> = (0..17).map(|number| format!("p{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let two = group("acme", &["a", "b"]);
    for (groups, said) in [
        (group("acme", &["a"]), "expected 2 to 16 principals"),
        (group("acme", &many), "expected 2 to 16 principals"),
        (group("acme", &["a", "a"]), "`a` is in a group already"),
        (format!("{two}{}", group("acme", &["c", "b"])), "`b` is in a group already"),
        (group("acme", &["a", "anonymous"]), "is not the principal of a person"),
        (group("acme", &["a", "core.system"]), "is not the principal of a person"),
        (group("acme", &["a", "other.example|a"]), "no [[auth.jwt]] gives this tenant"),
        (group("other", &["a", "id.example|a"]), "no [[auth.jwt]] gives this tenant"),
        (group("acme", &["a", "otc|a"]), "no [[auth.jwt]] gives this tenant"),
        (group("-", &["a", "b"]), "it has no approvals"),
        (group("acme", &["a", "b c"]), "principals"),
        (
            "[[auth.same_person]]\nprincipals = [\"a\", \"b\"]\n".to_owned(),
            "missing field `tenant`",
        ),
        (format!("{two}groups = 1\n"), "unknown field `groups`"),
    ] {
        let complaint = complaint(&format!("{ISSUER}{groups}"));
        assert!(complaint.contains(said), "{groups}: {complaint}");
        assert!(complaint.contains("auth.same_person"), "{complaint}");
    }
}
