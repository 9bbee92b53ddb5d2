//! The recipes of the guide, tried at servers that behave as the documentation of their providers
//! says.
//!
//! The configuration is read from the page itself. Only the addresses and the tenant are replaced.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use toolcrib_core::{
    call::UpstreamErrorKind,
    clock::Clock as _,
    credential::{AccountOf, CredentialProblem, GrantTerms, Owner, Secret},
    source::{SourceFactory as _, SourceSpec, UpstreamSpec, connector::OpenApiLocation},
};
use toolcrib_testkit::upstream::{Dialect, OAuthBehaviour, OAuthServer, Wording};

use super::{Stage, call, person, tenant};

const PAGE: &str = include_str!("../../../../../docs/guides/accounts.md");
const CLIENT_SECRET: &str = "client-canary";
const YEAR: u64 = 365 * 86_400;

/// One recipe: a block of the page, with one of its addresses.
struct Recipe {
    /// The host of the service.
    host: String,
    text: String,
}

/// How a provider behaves, and what its recipe has to achieve there.
struct Provider {
    host: &'static str,
    behaviour: OAuthBehaviour,
    /// The settings of the recipe without which it works at this server, too.
    spare: &'static [&'static str],
    check: fn(&Facts),
}

/// What arrived at the server, and what was connected.
struct Facts {
    origin: String,
    /// The authorization request.
    asked: BTreeMap<String, String>,
    /// The token requests of the account: for the code, then for each renewal.
    forms: Vec<BTreeMap<String, String>>,
    registrations: usize,
    terms: GrantTerms,
    /// Whether the renewal brought another refresh token.
    has_rotated: bool,
    /// Whether its tokens were revoked at the end.
    is_revoked: bool,
}

struct Secrets;

impl toolcrib_config::SecretReader for Secrets {
    fn env(&self, _: &str) -> Option<Secret> {
        Some(Secret::new(CLIENT_SECRET.to_owned()))
    }

    fn file(&self, _: &Path) -> Result<Secret, String> {
        Ok(Secret::new("0".repeat(64)))
    }
}

/// The sources with accounts. An example without its source is no recipe.
fn blocks() -> impl Iterator<Item = &'static str> {
    let blocks = PAGE.split("```toml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    blocks.filter(|block| block.contains("[[source]]") && block.contains("[source.oauth]"))
}

/// Every block, once for each of its addresses: further ones are in comments.
fn recipes() -> Vec<Recipe> {
    let first = blocks().next().unwrap();
    let (server, _) = first.split_once("[[source]]").unwrap();
    let (_, rules) = first.split_once("[source.tools").unwrap();
    let mut recipes = Vec::new();
    for block in blocks() {
        let block = block.split("[source.tools").next().unwrap();
        let (_, source) = block.split_once("[[source]]").unwrap();
        let is_service = |line: &str| line.starts_with("url =") || line.starts_with("base_url =");
        let addresses = source.lines().map(|line| line.trim_start_matches("# "));
        for address in addresses.filter(|line| is_service(line)) {
            let lines = source.lines().filter(|line| !line.starts_with("# "));
            let lines = lines.map(|line| if is_service(line) { address } else { line });
            let lines: Vec<_> = lines.collect();
            let url = address.split('"').nth(1).unwrap();
            let host = url.split('/').nth(2).unwrap().to_owned();
            let source = lines.join("\n");
            let text = format!("{server}[[source]]{source}\n[source.tools{rules}");
            recipes.push(Recipe { host, text: text.replace("\"acme\"", "\"tenant\"") });
        }
    }
    recipes
}

fn behaviour(dialect: Dialect) -> OAuthBehaviour {
    OAuthBehaviour { dialect, ..OAuthBehaviour::default() }
}

/// A provider that says nothing of the service.
fn separate(dialect: Dialect) -> OAuthBehaviour {
    let silent = OAuthBehaviour { challenges: false, has_resource: false, ..behaviour(dialect) };
    OAuthBehaviour { registers: false, names_issuer: false, ..silent }
}

fn has_registered_and_rotated(facts: &Facts, resource: &str) {
    assert_eq!(facts.registrations, 1, "once for all people");
    assert!(facts.has_rotated);
    let resource = format!("{}{resource}", facts.origin);
    for form in facts.forms.iter().chain([&facts.asked]) {
        assert_eq!(form.get("resource"), Some(&resource), "{form:?}");
    }
}

fn has_sent_no_resource(facts: &Facts) {
    for form in facts.forms.iter().chain([&facts.asked]) {
        assert_eq!(form.get("resource"), None, "{form:?}");
    }
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn providers() -> Vec<Provider> {
    vec![
        Provider {
            host: "mcp.linear.app",
            behaviour: behaviour(Dialect::default()),
            spare: &[],
            check: |facts| {
                has_registered_and_rotated(facts, "/mcp");
                assert_eq!(facts.asked["scope"], "read", "what the challenge says");
            },
        },
        Provider {
            host: "mcp.notion.com",
            behaviour: OAuthBehaviour { challenges: false, ..behaviour(Dialect::default()) },
            spare: &[],
            check: |facts| {
                has_registered_and_rotated(facts, "/mcp");
                assert_eq!(facts.asked["scope"], "read write admin", "what the metadata says");
            },
        },
        // No metadata of the resource: it is its own authorization server.
        Provider {
            host: "mcp.atlassian.com",
            behaviour: OAuthBehaviour {
                challenges: false,
                has_resource: false,
                names_issuer: false,
                has_sessions: true,
                ..behaviour(Dialect { paths: &[("/v1/mcp", "/mcp")], ..Dialect::default() })
            },
            spare: &[],
            check: |facts| {
                has_registered_and_rotated(facts, "/v1/mcp");
                assert_eq!(facts.terms.issuer, facts.origin);
                assert_eq!(facts.asked.get("scope"), None);
            },
        },
        // It fetches client documents; clients without an address for them are registered.
        Provider {
            host: "mcp.sentry.dev",
            behaviour: OAuthBehaviour { documents: true, ..behaviour(Dialect::default()) },
            spare: &[],
            check: |facts| has_registered_and_rotated(facts, "/mcp"),
        },
        // Clients that register themselves have one scope, and the metadata lists all of GitLab.
        Provider {
            host: "gitlab.com",
            behaviour: OAuthBehaviour {
                lifetime: 7_200,
                ..behaviour(Dialect {
                    paths: &[("/api/v4/mcp", "/mcp")],
                    scopes: &["mcp"],
                    ..Dialect::default()
                })
            },
            spare: &[],
            check: |facts| {
                has_registered_and_rotated(facts, "/api/v4/mcp");
                assert_eq!(facts.asked["scope"], "mcp");
            },
        },
        // No metadata and no end of tokens.
        Provider {
            host: "api.githubcopilot.com",
            behaviour: OAuthBehaviour {
                lifetime: 0,
                metadata_answer: Some((404, String::new(), String::new())),
                ..separate(Dialect {
                    paths: &[
                        ("/mcp/", "/mcp"),
                        ("/login/oauth/authorize", "/authorize"),
                        ("/login/oauth/access_token", "/token"),
                    ],
                    has_no_refresh_tokens: true,
                    reads_secrets_in_forms_only: true,
                    wording: Wording::GitHub,
                    ..Dialect::default()
                })
            },
            // Without scopes, a token reads what is public.
            spare: &["scopes"],
            check: |facts| {
                has_sent_no_resource(facts);
                assert_eq!(facts.forms.len(), 1, "it is never renewed");
                assert_eq!(facts.terms.token_expires_at, None);
                assert_eq!(facts.asked["scope"], "repo read:org");
                assert_eq!(facts.terms.oauth2.scopes, ["repo", "read:org"]);
            },
        },
        Provider {
            host: "www.googleapis.com",
            behaviour: separate(Dialect {
                paths: &[("/calendar/v3/whoami", "/whoami")],
                scopes: &["https://www.googleapis.com/auth/calendar.events"],
                refuses_resource: true,
                offline: &[("access_type", "offline"), ("prompt", "consent")],
                keeps_refresh_tokens: true,
                has_openid_metadata_only: true,
                ..Dialect::default()
            }),
            // The header works, too.
            spare: &["client_auth"],
            check: |facts| {
                has_sent_no_resource(facts);
                assert!(!facts.has_rotated);
            },
        },
        // An issuer with a path, without PKCE in its metadata; `resource` is AADSTS9010010.
        Provider {
            host: "graph.microsoft.com",
            behaviour: OAuthBehaviour {
                issuer_path: "/DIRECTORY/v2.0".to_owned(),
                announces_pkce: false,
                ..separate(Dialect {
                    paths: &[("/v1.0/whoami", "/whoami")],
                    scopes: &["https://graph.microsoft.com/Mail.Read", "offline_access"],
                    refuses_resource: true,
                    offline: &[("scope", "offline_access")],
                    has_openid_metadata_only: true,
                    ..Dialect::default()
                })
            },
            // The header works, too, but Microsoft's examples use the form.
            spare: &["client_auth"],
            check: |facts| {
                has_sent_no_resource(facts);
                assert!(facts.has_rotated);
                assert_eq!(facts.asked["code_challenge_method"], "S256", "sent nevertheless");
            },
        },
        Provider {
            host: "mcp.slack.com",
            behaviour: OAuthBehaviour {
                lifetime: 43_200,
                ..separate(Dialect {
                    paths: &[
                        ("/oauth/v2_user/authorize", "/authorize"),
                        ("/api/oauth.v2.user.access", "/token"),
                    ],
                    scopes: &["search:read.public", "chat:write"],
                    reads_secrets_in_forms_only: true,
                    wording: Wording::Slack,
                    ..Dialect::default()
                })
            },
            spare: &[],
            check: |facts| {
                has_sent_no_resource(facts);
                assert!(facts.has_rotated);
                assert_eq!(facts.asked["scope"], "search:read.public,chat:write");
                assert_eq!(facts.terms.oauth2.scopes, ["search:read.public", "chat:write"]);
            },
        },
        Provider {
            host: "orders.example.com",
            behaviour: OAuthBehaviour {
                issuer_path: "/eu-central-1_AbCdEfGhI".to_owned(),
                announces_pkce: false,
                ..separate(Dialect {
                    refuses_resource: true,
                    keeps_refresh_tokens: true,
                    has_openid_metadata_only: true,
                    ..Dialect::default()
                })
            },
            // Without scopes, a token has all those of the client.
            spare: &["scopes"],
            check: |facts| {
                has_sent_no_resource(facts);
                assert!(!facts.has_rotated);
            },
        },
        Provider {
            host: "wiki.example.com",
            behaviour: separate(Dialect {
                paths: &[("/api/whoami", "/whoami")],
                ..Dialect::default()
            }),
            spare: &["scopes", "revocation_url"],
            check: |facts| assert!(facts.has_rotated && facts.is_revoked),
        },
    ]
}

/// Whether a line of a recipe has an address of its service or its provider.
fn is_address(line: &str) -> bool {
    let name = line.split_once(" =").map(|(name, _)| name);
    let urls = ["url", "base_url", "issuer", "authorization_url", "token_url", "revocation_url"];
    name.is_some_and(|name| urls.contains(&name))
}

// === impl Recipe ===

impl Recipe {
    /// The settings of the account, except whose it is.
    fn settings(&self) -> Vec<&str> {
        let (_, account) = self.text.split_once("[source.oauth]\n").unwrap();
        let lines = account.lines().take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| Some(line.split_once(" =")?.0));
        names.filter(|name| *name != "of").collect()
    }

    /// The recipe for `server`, without one setting. Service and provider have two names, unless
    /// the recipe leaves it to the service to name its provider.
    fn at(&self, server: &OAuthServer, without: Option<&str>) -> String {
        let names_provider = ["issuer =", "token_url ="].iter().any(|it| self.text.contains(it));
        let here = server.url("");
        let service = match names_provider {
            true => here.replace("127.0.0.1", "localhost"),
            false => here.clone(),
        };
        let mut is_account = false;
        let mut lines = Vec::new();
        for line in self.text.lines() {
            if line.starts_with('[') {
                is_account = line == "[source.oauth]";
            }
            let name = line.split_once(" =").map(|(name, _)| name);
            if is_account && name.is_some() && name == without {
                continue;
            }
            match line.split_once("https://").filter(|_| is_address(line)) {
                Some((key, rest)) => {
                    let (host, rest) = rest.split_at(rest.find(['/', '"']).unwrap());
                    let to = if host == self.host { &service } else { &here };
                    lines.push(format!("{key}{to}{rest}"));
                }
                None => lines.push(line.to_owned()),
            }
        }
        lines.join("\n")
    }
}

fn load(text: &str, folder: &Path) -> Result<SourceSpec, String> {
    let config = toolcrib_config::parse("toolcrib.toml", text, folder, &Secrets);
    let config = config.map_err(|error| error.to_string())?;
    let [source] = config.sources.as_slice() else { panic!("one source: {text}") };
    let spec = SourceSpec { id: "crib".parse().unwrap(), ..source.spec.clone() };
    if let UpstreamSpec::Connector(connector) = &spec.upstream {
        let OpenApiLocation::Path(document) = &connector.document else { panic!("{text}") };
        let openapi = serde_json::json!({ "openapi": "3.1.0",
            "info": { "title": "t", "version": "1" },
            "paths": { "/whoami": { "get": { "operationId": "whoami" } } } });
        std::fs::write(document, openapi.to_string()).unwrap();
    }
    Ok(spec)
}

/// The forms that arrived at `path`.
fn forms(server: &OAuthServer, path: &str) -> Vec<BTreeMap<String, String>> {
    let requests = server.arrived(path).into_iter();
    requests.map(|request| serde_json::from_str(&request.body).unwrap()).collect()
}

/// Connects, calls, and calls again when the token has ended. The error is that of the first step
/// that fails.
async fn journey(
    recipe: &Recipe,
    provider: &Provider,
    without: Option<&str>,
) -> Result<Facts, String> {
    let folder = tempfile::tempdir().unwrap();
    let server = OAuthServer::start(provider.behaviour.clone());
    let whole = load(&recipe.at(&server, None), folder.path()).unwrap();
    if let Some(client) = &whole.account.as_ref().unwrap().client {
        server.add_client(&client.id, Some(CLIENT_SECRET));
    }
    let spec = load(&recipe.at(&server, without), folder.path())?;
    let account = spec.account.clone().unwrap();
    let stage = Stage::over(server, spec);
    let owners = match account.of {
        AccountOf::Principal => vec![(Owner::tenant(tenant()), "robot"), (person("ann"), "ann")],
        AccountOf::Tenant => vec![(Owner::tenant(tenant()), "robot")],
    };
    let (owner, name) = owners.last().cloned().unwrap();
    for (owner, name) in owners {
        stage.server.sign_in(name);
        let begun = stage.begin_for(owner, None).await.map_err(|error| error.to_string())?;
        let response = stage.consent(&begun);
        stage.finish(&begun, &response).await.map_err(|error| error.to_string())?;
    }
    let asked = forms(&stage.server, "/authorize").pop().unwrap();
    let first = forms(&stage.server, "/token").len() - 1;
    let refresh_token = async || {
        let (_, secrets) = stage
            .grants
            .get(&stage.place(owner.clone()), stage.clock.now())
            .await
            .unwrap()
            .unwrap();
        secrets.refresh_token.map(|token| token.expose().to_owned())
    };
    let before = refresh_token().await;
    let rig = stage.rig();
    rig.ready().await;
    let lifetime = provider.behaviour.lifetime;
    for _ in 0..2 {
        let said = call(&rig, "ann", "whoami").await.map_err(|error| format!("{error:?}"))?;
        assert!(said.contains(name), "{said}");
        stage.pass(if lifetime == 0 { YEAR } else { lifetime });
        if lifetime > 0 {
            stage.server.end_access_tokens();
        }
    }
    let has_rotated = refresh_token().await != before;
    let forms = forms(&stage.server, "/token").split_off(first);
    let terms = stage.grant(owner.clone()).await.unwrap().terms;
    // The person withdraws the consent at the provider.
    stage.server.end_refresh_tokens();
    stage.server.end_access_tokens();
    let failed = call(&rig, "ann", "whoami").await.unwrap_err();
    let needed = UpstreamErrorKind::Credential(CredentialProblem::NeedsConsent);
    assert_eq!(failed.kind, needed, "{failed:?}");
    // Connected again, and disconnected.
    stage.connect(owner.clone(), name).await;
    let found = stage.grants.get(&stage.place(owner.clone()), stage.clock.now()).await.unwrap();
    let (grant, secrets) = found.unwrap();
    stage.factory.accounts().revoke(&grant, &secrets).await;
    Ok(Facts {
        origin: stage.server.url(""),
        asked,
        forms,
        registrations: stage.server.arrived("/register").len(),
        terms,
        has_rotated,
        is_revoked: stage.server.tokens_of(name) == 0,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipes_of_the_guide_work() {
    let (recipes, providers) = (recipes(), providers());
    let hosts = |all: &mut dyn Iterator<Item = String>| all.collect::<BTreeSet<_>>();
    assert_eq!(
        hosts(&mut recipes.iter().map(|recipe| recipe.host.clone())),
        hosts(&mut providers.iter().map(|provider| provider.host.to_owned())),
        "every recipe has a provider, and every provider a recipe"
    );
    for recipe in &recipes {
        let provider = providers.iter().find(|provider| provider.host == recipe.host).unwrap();
        let facts = journey(recipe, provider, None).await;
        let facts = facts.unwrap_or_else(|error| panic!("{}: {error}", recipe.host));
        assert!(facts.asked.contains_key("code_challenge"), "{}", recipe.host);
        (provider.check)(&facts);
    }
}

/// Otherwise the recipe would say too much, or the server would not be like its provider.
#[tokio::test(flavor = "multi_thread")]
async fn no_setting_of_a_recipe_can_be_left_out() {
    let providers = providers();
    let mut tried = 0;
    for recipe in recipes() {
        let provider = providers.iter().find(|provider| provider.host == recipe.host).unwrap();
        for setting in recipe.settings() {
            let ended = journey(&recipe, provider, Some(setting)).await;
            let is_spare = provider.spare.contains(&setting);
            assert_eq!(
                ended.is_ok(),
                is_spare,
                "{} without {setting}: {:?}",
                recipe.host,
                ended.err()
            );
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried} settings");
}
