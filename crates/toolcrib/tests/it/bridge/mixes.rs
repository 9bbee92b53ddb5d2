//! Two people with two browsers and two clients, in every mix of cookie, form, state, code,
//! verifier, address and refresh token. The right mix succeeds, and the others get the answer to
//! unknown ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use toolcrib_testkit::gateway::{Reply, TestGateway, TestProvider};

use super::{
    Browser, back_from, error, field, form, gateway, is_valid, parameters, post_form, query,
    refresh, registered, tokens,
};

const NAMES: [&str; 2] = ["anneke", "boris"];
const REDIRECTS: [&str; 2] = ["http://127.0.0.1:3333/cb", "http://127.0.0.1:4444/cb"];
/// The browsers: both, and one without a cookie.
const BROWSERS: [Option<usize>; 3] = [Some(0), Some(1), None];
/// Between two rounds, so that they do not meet the limit of sign-ins.
const PAUSE: Duration = Duration::from_secs(10);

/// A person whose browser is at the question about a client.
struct Person {
    browser: Browser,
    client: String,
    page: String,
}

struct Stage {
    provider: TestProvider,
    gw: TestGateway,
    people: [Person; 2],
}

fn verifier(person: usize) -> String {
    NAMES[person].repeat(9)
}

fn state(person: usize) -> String {
    format!("the state of {}", NAMES[person])
}

impl Person {
    async fn start(gw: &TestGateway, person: usize) -> Self {
        let (client, mut browser) = (registered(gw).await, Browser::new(gw));
        let query = query(
            &client,
            &[
                ("redirect_uri", REDIRECTS[person]),
                ("state", &state(person)),
                ("code_challenge", &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier(person)))),
                ("resource", TestProvider::PUBLIC),
            ],
        );
        let page = browser.open(&query).await;
        assert_eq!(page.status, 200, "{}", page.text());
        Self { browser, client, page: page.text() }
    }
}

impl Stage {
    async fn start() -> Self {
        let provider = TestProvider::start().await;
        let resource = format!("[auth.resource]\nresource = \"{}\"", TestProvider::PUBLIC);
        let gw = gateway(&provider, &resource).await;
        let people = [Person::start(&gw, 0).await, Person::start(&gw, 1).await];
        assert_ne!(people[0].browser.cookie, people[1].browser.cookie);
        assert_ne!(people[0].client, people[1].client);
        Self { provider, gw, people }
    }

    fn browser(&self, of: Option<usize>) -> Browser {
        let cookie = of.and_then(|person| self.people[person].browser.cookie.clone());
        Browser { actor: self.gw.anonymous(), cookie }
    }

    /// A person consents and signs in at the provider. Returns the parameters of the response.
    async fn away(&self, person: usize) -> BTreeMap<String, String> {
        self.provider.sign_in(NAMES[person]);
        let Person { browser, page, .. } = &self.people[person];
        let away = browser.answer(page, "allow").await;
        assert_eq!(away.status, 303, "{}", away.text());
        let back = back_from(away.header("location")).await;
        parameters(&format!("{}{back}", TestProvider::PUBLIC))
    }

    async fn come_back(&self, browser: Option<usize>, state: &str, code: &str, iss: &str) -> Reply {
        let query = form(&[("state", state), ("code", code), ("iss", iss)]);
        self.browser(browser).actor().get(&format!("/oauth/callback?{query}")).await
    }

    /// As [`come_back`](Self::come_back), with everything of one person.
    async fn come_back_right(&self, person: usize, back: &BTreeMap<String, String>) -> Reply {
        self.come_back(Some(person), &back["state"], &back["code"], &back["iss"]).await
    }

    /// A code of a person's client.
    async fn code(&self, person: usize) -> String {
        let reply = self.come_back_right(person, &self.away(person).await).await;
        returned(&reply, person)["code"].clone()
    }

    async fn exchange(&self, client: usize, code: &str, proofs: (usize, usize)) -> Reply {
        let (of_verifier, of_redirect) = proofs;
        let verifier = verifier(of_verifier);
        let pairs = [
            ("grant_type", "authorization_code"),
            ("client_id", self.people[client].client.as_str()),
            ("code", code),
            ("code_verifier", verifier.as_str()),
            ("redirect_uri", REDIRECTS[of_redirect]),
        ];
        post_form(&self.gw.anonymous(), "/oauth/token", &form(&pairs)).await
    }

    /// Exchanges a code of a person's client. Returns the access and the refresh token of this
    /// person.
    async fn tokens(&self, person: usize, code: &str) -> (String, String) {
        let tokens = tokens(&self.exchange(person, code, (person, person)).await);
        let who = self.gw.bearer(&tokens.0).get("/v1/whoami").await.json();
        assert_eq!(who["principal"], json!(format!("id|{}", NAMES[person])));
        assert_eq!(who["clientId"], json!(self.people[person].client));
        tokens
    }

    async fn refresh(&self, client: usize, token: &str) -> Reply {
        refresh(&self.gw, &self.people[client].client, token).await
    }

    /// The status and the text of a refusal. They name nothing of either person.
    fn refusal(&self, reply: &Reply) -> (u16, String) {
        assert_eq!(reply.header("location"), "");
        let all = format!("{:?} {}", reply.headers, reply.text());
        let clients = self.people.iter().map(|person| person.client.as_str());
        for secret in clients.chain(NAMES).chain(REDIRECTS).chain(["provider-"]) {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
        (reply.status, reply.text())
    }
}

/// The parameters with which the browser goes back to the client of a person.
fn returned(reply: &Reply, person: usize) -> BTreeMap<String, String> {
    assert_eq!(reply.status, 303, "{}", reply.text());
    let location = reply.header("location");
    assert!(location.starts_with(&format!("{}?", REDIRECTS[person])), "{location}");
    let back = parameters(location);
    assert_eq!(back["state"], state(person));
    assert_eq!(back.contains_key("code"), !back.contains_key("error"), "{back:?}");
    back
}

/// The text `secret`, with another last character.
fn altered(secret: &str) -> String {
    let (rest, last) = secret.split_at(secret.len() - 1);
    format!("{rest}{}", if last == "A" { "B" } else { "A" })
}

// I-117
#[tokio::test]
async fn only_the_form_of_this_browser_and_request_is_answered() {
    let stage = Stage::start().await;
    let pages = [0, 1].map(|person| stage.people[person].page.as_str());
    let guess = "A".repeat(43);
    let (mut refusals, mut answered) = (BTreeSet::new(), 0);
    for browser in BROWSERS {
        for of_query in [0, 1] {
            let query = field(pages[of_query], "query");
            for of_proof in [Some(0), Some(1), None] {
                let proof = of_proof.map_or(guess.clone(), |it| field(pages[it], "proof"));
                for answer in ["allow", "deny"] {
                    let form = form(&[("query", &query), ("proof", &proof), ("answer", answer)]);
                    let actor = stage.browser(browser).actor();
                    let reply = post_form(&actor, "/oauth/consent", &form).await;
                    if browser != Some(of_query) || of_proof != browser {
                        refusals.insert(stage.refusal(&reply));
                        continue;
                    }
                    answered += 1;
                    let location = reply.header("location");
                    match answer {
                        "allow" => assert!(location.starts_with(&stage.provider.url), "{location}"),
                        _ => assert_eq!(returned(&reply, of_query)["error"], "access_denied"),
                    }
                }
            }
        }
    }
    assert_eq!((answered, refusals.len()), (4, 1), "{refusals:?}");
    assert_eq!(refusals.pop_first().unwrap().0, 400);
    assert!(stage.provider.requests().is_empty(), "no browser was sent there");
}

// I-117
#[tokio::test]
async fn only_the_response_to_this_browser_gives_a_code_once() {
    let stage = Stage::start().await;
    let own = stage.provider.url.clone();
    let (mut refusals, mut codes) = (BTreeSet::new(), 0);
    for mix in 0..24_usize {
        let browser = BROWSERS[mix % 3];
        let (of_state, of_code, is_own) = ((mix / 3) & 1, (mix / 6) & 1, mix < 12);
        let iss = if is_own { own.as_str() } else { "https://evil.example" };
        stage.gw.advance(PAUSE).await;
        let back = [stage.away(0).await, stage.away(1).await];
        let (state, code) = (&back[of_state]["state"], &back[of_code]["code"]);
        let reply = stage.come_back(browser, state, code, iss).await;
        let is_browser = browser == Some(of_state);
        if !is_browser {
            refusals.insert(stage.refusal(&reply));
        } else if of_code == of_state && is_own {
            let code = returned(&reply, of_state)["code"].clone();
            stage.tokens(of_state, &code).await;
            codes += 1;
        } else {
            // The nonce, the verifier or the issuer is another one.
            assert_eq!(returned(&reply, of_state)["error"], "access_denied", "{mix}");
        }
        // It was used up, also for the browser that it belongs to.
        let again = stage.come_back_right(of_state, &back[of_state]).await;
        refusals.insert(stage.refusal(&again));
        // The other person is not disturbed, unless the provider got the code.
        let other = 1 - of_state;
        let reply = stage.come_back_right(other, &back[other]).await;
        match is_browser && of_code == other && is_own {
            true => assert_eq!(returned(&reply, other)["error"], "access_denied", "{mix}"),
            false => {
                let code = returned(&reply, other)["code"].clone();
                stage.tokens(other, &code).await;
            }
        }
    }
    for state in ["", "unknown"] {
        let reply = stage.come_back(Some(0), state, "provider-code", &own).await;
        refusals.insert(stage.refusal(&reply));
    }
    assert_eq!((codes, refusals.len()), (2, 1), "{refusals:?}");
    assert_eq!(refusals.pop_first().unwrap().0, 400);
}

// I-117, I-118
#[tokio::test]
async fn only_the_client_that_asked_exchanges_a_code_once() {
    let stage = Stage::start().await;
    let mut refusals = BTreeSet::new();
    for mix in 0..16_usize {
        let [owner, client, of_verifier, of_redirect] = [0, 1, 2, 3].map(|bit| (mix >> bit) & 1);
        stage.gw.advance(PAUSE).await;
        let code = stage.code(owner).await;
        if [client, of_verifier, of_redirect] != [owner; 3] {
            let reply = stage.exchange(client, &code, (of_verifier, of_redirect)).await;
            assert_eq!(error(&reply), "invalid_grant", "{mix}");
            let refusal = stage.refusal(&reply);
            if client != owner {
                refusals.insert(refusal);
            }
        }
        // A wrong request ends nothing, and a second one ends what the first one gave.
        let (access, token) = stage.tokens(owner, &code).await;
        let again = stage.exchange(owner, &code, (owner, owner)).await;
        refusals.insert(stage.refusal(&again));
        assert!(!is_valid(&stage.gw, &access).await, "{mix}");
        assert_eq!(error(&stage.refresh(owner, &token).await), "invalid_grant");
    }
    let code = stage.code(0).await;
    for unknown in [&altered(&code), "tcd_x.y", "x"] {
        refusals.insert(stage.refusal(&stage.exchange(0, unknown, (0, 0)).await));
    }
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(refusals.pop_first().unwrap().0, 400);
}

// I-118
#[tokio::test]
async fn only_the_client_of_a_refresh_token_uses_it() {
    let stage = Stage::start().await;
    let mut refusals = BTreeSet::new();
    for mix in 0..12_usize {
        let (owner, client, age) = (mix & 1, (mix >> 1) & 1, mix >> 2);
        stage.gw.advance(PAUSE).await;
        let (_, oldest) = stage.tokens(owner, &stage.code(owner).await).await;
        let (_, last) = tokens(&stage.refresh(owner, &oldest).await);
        let (access, current) = tokens(&stage.refresh(owner, &last).await);
        let shown = [&current, &last, &oldest][age];
        let reply = stage.refresh(client, shown).await;
        let is_right = client == owner && age < 2;
        if is_right {
            // The last one gets the same successor once more.
            let successor = tokens(&reply).1;
            assert_eq!(successor == current, age == 1, "{mix}");
            continue;
        }
        refusals.insert(stage.refusal(&reply));
        // Another client ends nothing; an old token of the client itself ends everything.
        let stays = client != owner;
        assert_eq!(is_valid(&stage.gw, &access).await, stays, "{mix}");
        let renewed = stage.refresh(owner, &current).await;
        match stays {
            true => drop(tokens(&renewed)),
            false => drop(refusals.insert(stage.refusal(&renewed))),
        }
    }
    let (_, token) = stage.tokens(0, &stage.code(0).await).await;
    for unknown in [&altered(&token), "tcr_x.y", "x"] {
        refusals.insert(stage.refusal(&stage.refresh(0, unknown).await));
    }
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(refusals.pop_first().unwrap().0, 400);
}
