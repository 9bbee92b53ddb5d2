//! I-115: two people with two browsers, in every mix of caller (by a key or a session), link,
//! cookie, state, code and source. The service is a real authorization server with PKCE.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use toolcrib_testkit::{
    gateway::{Actor, Reply, TestGateway},
    upstream::{OAuthBehaviour, OAuthServer},
};

const NAMES: [&str; 2] = ["anneke", "boris"];
const SESSION: &str = "toolcrib-session";

/// How a caller is identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    Nothing,
    /// The key of a person.
    Key(usize),
    /// The session of a page: whose cookie, and whose header.
    Session {
        cookie: usize,
        header: usize,
    },
}

/// A response of the service, as it reaches the gateway.
#[derive(Debug, Clone, Copy)]
struct Mix {
    proof: Proof,
    /// Whose browser began.
    cookie: Option<usize>,
    state: usize,
    code: usize,
    source: &'static str,
}

/// The answer to a [`Mix`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Connected,
    /// No caller is identified.
    Unproven,
    NotOurs,
    /// The service refuses the code.
    OtherCode,
}

struct Person {
    key: Actor,
    /// Both halves of the session of the page.
    cookie: String,
    header: String,
}

/// A person who comes back from the service.
struct Back {
    cookie: String,
    parameters: BTreeMap<String, String>,
}

struct Stage {
    server: OAuthServer,
    gw: TestGateway,
    people: [Person; 2],
}

// === impl Proof ===

impl Proof {
    fn all() -> Vec<Self> {
        let sessions = (0..4).map(|mix| Self::Session { cookie: mix & 1, header: mix >> 1 });
        [Self::Nothing, Self::Key(0), Self::Key(1)].into_iter().chain(sessions).collect()
    }

    /// The identified caller.
    fn person(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Key(person) => Some(person),
            Self::Session { cookie, header } => (cookie == header).then_some(cookie),
        }
    }
}

// === impl Mix ===

impl Mix {
    /// That of one person alone.
    fn right(person: usize) -> Self {
        let proof = Proof::Session { cookie: person, header: person };
        Self { proof, cookie: Some(person), state: person, code: person, source: "notes" }
    }

    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for proof in Proof::all() {
            for cookie in [Some(0), Some(1), None] {
                for (state, code) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    all.push(Self { proof, cookie, state, code, source: "notes" });
                    if state == code {
                        all.push(Self { proof, cookie, state, code, source: "mail" });
                    }
                }
            }
        }
        all
    }

    fn answer(self) -> Answer {
        let Some(person) = self.proof.person() else { return Answer::Unproven };
        let is_own = [Some(self.state), self.cookie] == [Some(person); 2];
        match is_own && self.source == "notes" {
            false => Answer::NotOurs,
            true if self.code == person => Answer::Connected,
            true => Answer::OtherCode,
        }
    }
}

// === impl Stage ===

impl Stage {
    async fn start() -> Self {
        let server = OAuthServer::start(OAuthBehaviour::default());
        let source = |id: &str| {
            format!(
                "[[source]]\nid = \"{id}\"\nkind = \"mcp\"\nurl = \"{}\"\ntenants = [\"acme\"]\n\
                 [source.oauth]\nof = \"principal\"\n\
                 [source.tools.\"*\"]\nscopes = [\"{id}:use\"]\n",
                server.url("/mcp")
            )
        };
        let public = "[server]\npublic_url = \"https://crib.example\"\n";
        let config = format!("{public}{}{}", source("notes"), source("mail"));
        let gw = TestGateway::builder().config(&config).upstreams().start().await;
        let people = [Person::start(&gw, 0).await, Person::start(&gw, 1).await];
        let stage = Self { server, gw, people };
        stage.connect_tenant().await;
        stage
    }

    /// An administrator connects the account that lists the tools.
    async fn connect_tenant(&self) {
        let root = self.gw.principal("root", ["connections:manage", "notes:use"]).await;
        let body = json!({ "source": "notes", "tenant": true });
        let begun = root.post("/v1/connections/begin", body).await;
        let back = self.back(&begun, "robot");
        let body = back.body("notes", &back);
        let reply = root.with("cookie", &back.cookie).post("/v1/connections/finish", body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        for _ in 0..500 {
            if root.get("/v1/tools").await.json().as_array().unwrap().len() == 2 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("the tools are not listed");
    }

    /// A caller with a proof, whose browser has a further cookie unless it is empty.
    fn actor(&self, proof: Proof, further: &str) -> Actor {
        let (actor, session) = match proof {
            Proof::Nothing => (self.gw.anonymous(), None),
            Proof::Key(person) => (self.people[person].key.clone(), None),
            Proof::Session { cookie, header } => {
                let actor = self.gw.anonymous().with(SESSION, &self.people[header].header);
                (actor, Some(self.people[cookie].cookie.as_str()))
            }
        };
        let further = (!further.is_empty()).then_some(further);
        let cookies: Vec<&str> = session.into_iter().chain(further).collect();
        match cookies.is_empty() {
            true => actor,
            false => actor.with("cookie", &cookies.join("; ")),
        }
    }

    fn own(&self, person: usize) -> Actor {
        self.actor(Proof::Session { cookie: person, header: person }, "")
    }

    /// Follows the address of an answer: `account` signs in at the service and consents.
    fn back(&self, begun: &Reply, account: &str) -> Back {
        assert_eq!(begun.status, 200, "{}", begun.text());
        let cookie = begun.header("set-cookie").split(';').next().unwrap().to_owned();
        self.server.sign_in(account);
        let parameters = self.server.consent(begun.json()["address"].as_str().unwrap());
        Back { cookie, parameters }
    }

    /// A person begins, and is about to come back.
    async fn away(&self, person: usize) -> Back {
        let body = json!({ "source": "notes" });
        let begun = self.own(person).post("/v1/connections/begin", body).await;
        self.back(&begun, NAMES[person])
    }

    async fn finish(&self, mix: Mix, back: &[Back; 2]) -> Reply {
        let cookie = mix.cookie.map_or("", |person| back[person].cookie.as_str());
        let body = back[mix.state].body(mix.source, &back[mix.code]);
        self.actor(mix.proof, cookie).post("/v1/connections/finish", body).await
    }

    /// A new link of a person.
    async fn link(&self, person: usize) -> String {
        let body = json!({ "source": "notes" });
        let made = self.people[person].key.post("/v1/connections/link", body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["link"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
    }

    /// Opens a link. A browser that begins does not come back with a code.
    async fn open(&self, actor: &Actor, route: &str, link: &str) -> Reply {
        let reply = actor.post(&format!("/v1/connections/{route}"), json!({ "link": link })).await;
        if reply.status == 200 && route == "begin" {
            let address = reply.json()["address"].as_str().unwrap().to_owned();
            let query = reqwest::Url::parse(&address).unwrap();
            let state = query.query_pairs().find(|(name, _)| name == "state").unwrap().1;
            let body = json!({ "source": "notes", "state": state });
            let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
            let ended = actor.with("cookie", &cookie).post("/v1/connections/finish", body).await;
            assert_eq!(ended.status, 403, "{}", ended.text());
        }
        reply
    }

    /// The ids of the people's accounts. Each person has none or the own one.
    async fn accounts(&self) -> [Value; 2] {
        let mut ids = [Value::Null, Value::Null];
        for (person, id) in ids.iter_mut().enumerate() {
            let listed = self.people[person].key.get("/v1/connections").await.json();
            let all = listed["connections"].as_array().unwrap();
            assert_eq!(all.len(), 1, "{listed}");
            *id = all[0]["id"].clone();
            if !id.is_null() {
                assert_eq!(all[0]["account"], format!("{}@service.example", NAMES[person]));
            }
        }
        ids
    }

    /// The account that the service sees in a call, or the status of a refusal.
    async fn call(&self, person: usize) -> Result<&'static str, u16> {
        let reply =
            self.people[person].key.post("/explorer/tools/notes__whoami/call", json!({})).await;
        let text = reply.text();
        let names = NAMES.into_iter().chain(["robot"]);
        let seen = names.filter(|name| text.contains(&format!("\"{name}\""))).collect::<Vec<_>>();
        match (reply.status, &seen[..]) {
            (200, [name]) => Ok(*name),
            (status, _) => Err(status),
        }
    }

    /// The status and the text of a refusal. They name nothing of either person or of the service.
    fn refusal(&self, reply: &Reply, back: &[Back]) -> (u16, String) {
        let text = reply.text();
        let brought = back.iter().flat_map(|back| back.parameters.values());
        let secrets = brought.map(String::as_str).chain(NAMES).chain(["notes", "mail", ":use"]);
        for secret in secrets.chain(["service.example", "127.0.0.1"]) {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        // A refused response uses its request up, so its cookie ends.
        let cookie = reply.header("set-cookie");
        assert!(
            cookie.is_empty() || cookie.contains("=; ") && cookie.contains("Max-Age=0"),
            "{text}"
        );
        (reply.status, text)
    }
}

impl Person {
    async fn start(gw: &TestGateway, person: usize) -> Self {
        let key = gw.principal(NAMES[person], ["notes:use", "mail:use"]).await;
        let session = key.with("origin", &gw.url).post("/v1/sessions", json!({})).await;
        assert_eq!(session.status, 201, "{}", session.text());
        let cookie = session.header("set-cookie").split(';').next().unwrap().to_owned();
        let header = session.json()["secret"].as_str().unwrap().to_owned();
        Self { key, cookie, header }
    }
}

impl Back {
    /// The body with which a page finishes, with the code of another response.
    fn body(&self, source: &str, other: &Self) -> Value {
        let of = |back: &Self, name: &str| back.parameters[name].clone();
        json!({
            "source": source, "state": of(self, "state"), "iss": of(self, "iss"),
            "code": of(other, "code"),
        })
    }
}

/// The only member of a set of refusals, which has the code `code`.
fn only(refusals: &BTreeSet<(u16, String)>, status: u16, code: &str) {
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let (found, text) = refusals.first().unwrap();
    let body: Value = serde_json::from_str(text).unwrap();
    assert_eq!((*found, body["error"].as_str()), (status, Some(code)), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_responses_the_right_one_connects_once() {
    let stage = Stage::start().await;
    let mut refusals: BTreeMap<Answer, BTreeSet<(u16, String)>> = BTreeMap::new();
    let mut connected = 0;
    for mix in Mix::all() {
        let (answer, owner, other) = (mix.answer(), mix.state, 1 - mix.state);
        let back = [stage.away(0).await, stage.away(1).await];
        let before = stage.accounts().await;
        let reply = stage.finish(mix, &back).await;
        let after = stage.accounts().await;
        let is_right = answer == Answer::Connected;
        assert_eq!(reply.status == 200, is_right, "{mix:?}: {}", reply.text());
        if !is_right {
            refusals.entry(answer).or_default().insert(stage.refusal(&reply, &back));
        }
        assert_eq!(before[owner] != after[owner], is_right, "{mix:?}");
        assert_eq!(before[other], after[other], "{mix:?}");

        // Only a caller without a proof leaves the state usable, once.
        for is_usable in [answer == Answer::Unproven, false] {
            let again = stage.finish(Mix::right(owner), &back).await;
            match is_usable {
                true => assert_eq!(again.status, 200, "{mix:?}: {}", again.text()),
                false => {
                    let refusal = stage.refusal(&again, &back);
                    refusals.entry(Answer::NotOurs).or_default().insert(refusal);
                }
            }
            connected += usize::from(is_usable);
        }
        // The other person is not disturbed, unless the service got the code.
        let of_other = stage.finish(Mix::right(other), &back).await;
        match answer == Answer::OtherCode {
            false => assert_eq!(of_other.status, 200, "{mix:?}: {}", of_other.text()),
            true => {
                let refusal = stage.refusal(&of_other, &back);
                refusals.entry(Answer::OtherCode).or_default().insert(refusal);
            }
        }
        connected += usize::from(is_right) + usize::from(answer != Answer::OtherCode);
    }
    only(&refusals[&Answer::NotOurs], 403, "not_this_browser");
    only(&refusals[&Answer::OtherCode], 403, "upstream_refused");
    assert_eq!(refusals[&Answer::Unproven].len(), 2, "{refusals:?}: no key, and half a session");
    assert!(refusals[&Answer::Unproven].iter().all(|(status, _)| *status == 401));

    for person in [0, 1] {
        assert_eq!(stage.call(person).await, Ok(NAMES[person]));
    }
    let events = stage.gw.events().await;
    let events = events.iter().map(|logged| serde_json::to_value(&logged.event).unwrap());
    let events: Vec<_> = events.filter(|event| event["type"] == "account.connected").collect();
    let by_people = events.iter().filter(|event| event["payload"]["principal"] != "root");
    assert_eq!(by_people.count(), connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_links_the_own_one_opens_once() {
    let stage = Stage::start().await;
    let unknown = "A".repeat(43);
    let used = stage.link(0).await;
    assert_eq!(stage.open(&stage.own(0), "begin", &used).await.status, 200);
    let mut askers: Vec<_> =
        Proof::all().into_iter().map(|proof| (proof.person(), stage.actor(proof, ""))).collect();
    // Nobody else has a link: of another tenant with the same name, without the scope, and an
    // administrator.
    let others = [
        stage.gw.principal_of("other", NAMES[0], &["*"]).await,
        stage.gw.principal("cas", ["mail:use"]).await,
        stage.gw.principal("admin", ["*"]).await,
    ];
    let nobody = NAMES.len();
    askers.extend(others.into_iter().map(|actor| (Some(nobody), actor)));
    let (mut unproven, mut refusals) = (BTreeSet::new(), BTreeSet::new());
    let mut of_owners = BTreeSet::new();
    for (person, asker) in &askers {
        let set = if person.is_some() { &mut refusals } else { &mut unproven };
        let mut refused = |reply: &Reply| set.insert(stage.refusal(reply, &[]));
        for link in [&unknown, &used, ""] {
            for route in ["preview", "begin"] {
                refused(&stage.open(asker, route, link).await);
            }
        }
        for owner in [0, 1] {
            let link = stage.link(owner).await;
            let is_own = *person == Some(owner);
            for route in ["preview", "begin"] {
                let reply = stage.open(asker, route, &link).await;
                match is_own {
                    true => assert_eq!(reply.status, 200, "{route}: {}", reply.text()),
                    false => drop(refused(&reply)),
                }
            }
            // Nobody else has used it up.
            for is_usable in [!is_own, false] {
                let reply = stage.open(&stage.own(owner), "begin", &link).await;
                match is_usable {
                    true => assert_eq!(reply.status, 200, "{}", reply.text()),
                    false => drop(of_owners.insert(stage.refusal(&reply, &[]))),
                }
            }
        }
    }
    refusals.extend(of_owners);
    only(&refusals, 404, "not_found");
    assert_eq!(unproven.len(), 2, "{unproven:?}: no key, and half a session");
    assert!(unproven.iter().all(|(status, _)| *status == 401));
    assert_eq!(stage.accounts().await, [Value::Null, Value::Null]);
    for person in [0, 1] {
        assert_eq!(stage.call(person).await, Err(403));
    }
}

/// The accounts of others cannot be told from unknown ones, and stay.
#[tokio::test(flavor = "multi_thread")]
async fn of_all_accounts_the_own_one_is_listed_and_removed() {
    let stage = Stage::start().await;
    let mut refusals = BTreeSet::new();
    for proof in Proof::all() {
        let Some(person) = proof.person() else { continue };
        let back = [stage.away(0).await, stage.away(1).await];
        for owner in [0, 1] {
            assert_eq!(stage.finish(Mix::right(owner), &back).await.status, 200);
        }
        let (asker, ids) = (stage.actor(proof, ""), stage.accounts().await);
        let listed = asker.get("/v1/connections").await.text();
        let path = |id: &str| format!("/v1/connections/{id}");
        for (owner, id) in ids.iter().enumerate() {
            let id = id.as_str().unwrap();
            assert_eq!(listed.contains(id), owner == person, "{proof:?}: {listed}");
            assert_eq!(listed.contains(NAMES[owner]), owner == person, "{proof:?}: {listed}");
            let removed = asker.delete(&path(id)).await;
            match owner == person {
                true => assert_eq!(removed.status, 200, "{}", removed.text()),
                false => drop(refusals.insert(stage.refusal(&removed, &back))),
            }
            let again = asker.delete(&path(id)).await;
            refusals.insert(stage.refusal(&again, &back));
        }
        for unknown in ["x", "unknown", &"A".repeat(64)] {
            refusals.insert(stage.refusal(&asker.delete(&path(unknown)).await, &back));
        }
        assert_eq!(stage.call(person).await, Err(403));
        assert_eq!(stage.call(1 - person).await, Ok(NAMES[1 - person]));
    }
    only(&refusals, 404, "not_found");
}
