//! A browser, played by requests: it reads the forms of pages, keeps cookies, and follows the
//! redirects back to the client.

use std::{collections::BTreeMap, time::Duration};

use reqwest::{RequestBuilder, Response, StatusCode, Url, redirect::Policy};

use crate::rig::http_client;

/// The most pages and redirects of a sign-in.
const MOST_STEPS: usize = 16;

/// A browser. All hosts are one, so all of them get its cookies.
pub(super) struct Browser {
    http: reqwest::Client,
    cookies: BTreeMap<String, String>,
}

// === impl Browser ===

impl Browser {
    pub(super) fn new() -> Self {
        drop(http_client());
        #[expect(clippy::disallowed_methods, reason = "a browser of the test")]
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        Self { http, cookies: BTreeMap::new() }
    }

    /// Answers the page at `address`, signs `person` in at the provider, and goes back to the
    /// client, whose address is that of none of `hosts`. Returns the page.
    pub(super) async fn sign_in(&mut self, address: &str, person: &str, hosts: &[&str]) -> String {
        let asked = self.open(address).await;
        assert_eq!(asked.status(), StatusCode::OK);
        let (at, question) = (asked.url().clone(), asked.text().await.unwrap());
        let mut next = self.submit(&at, &question, ("answer", "allow")).await;
        for _ in 0..MOST_STEPS {
            if !next.status().is_redirection() {
                assert_eq!(next.status(), StatusCode::OK);
                let (at, page) = (next.url().clone(), next.text().await.unwrap());
                next = self.submit(&at, &page, ("person", person)).await;
                continue;
            }
            let location = next.headers()["location"].to_str().unwrap();
            let location = next.url().join(location).unwrap();
            if !hosts.contains(&location.origin().ascii_serialization().as_str()) {
                self.arrive(&location).await;
                return question;
            }
            next = self.open(location.as_str()).await;
        }
        panic!("the sign-in has more than {MOST_STEPS} steps");
    }

    async fn open(&mut self, address: &str) -> Response {
        self.send(self.http.get(address)).await
    }

    /// Sends the form of the `page` at the address `at`, with `answer` instead of its own value.
    async fn submit(&mut self, at: &Url, page: &str, answer: (&str, &str)) -> Response {
        let (_, form) = page.split_once("<form").unwrap_or_else(|| panic!("no form: {page}"));
        let attribute = |text: &str, name: &str| -> Option<String> {
            let (_, value) = text.split_once(&format!("{name}=\""))?;
            Some(plain(value.split('"').next()?))
        };
        let fields = form.split("<input").skip(1).filter_map(|field| {
            let field = field.split('>').next()?;
            Some((attribute(field, "name")?, attribute(field, "value").unwrap_or_default()))
        });
        let (name, value) = (answer.0.to_owned(), answer.1.to_owned());
        let pairs = fields.filter(|(other, _)| *other != name).chain([(name.clone(), value)]);
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in pairs {
            body.append_pair(&name, &value);
        }
        let address = at.join(&attribute(form, "action").unwrap()).unwrap();
        let request = self.http.post(address).body(body.finish());
        self.send(request.header("content-type", "application/x-www-form-urlencoded")).await
    }

    async fn send(&mut self, request: RequestBuilder) -> Response {
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = cookies.collect::<Vec<_>>().join("; ");
        let response = request.header("cookie", cookies).send().await.unwrap();
        for set in response.headers().get_all("set-cookie") {
            let pair = set.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            match value {
                "" => self.cookies.remove(name),
                value => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
        response
    }

    /// Opens the address of the client, which may not listen yet.
    async fn arrive(&self, address: &Url) {
        for _ in 0..100 {
            if let Ok(response) = self.http.get(address.clone()).send().await {
                assert!(response.status().as_u16() < 400, "{}", response.text().await.unwrap());
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the client does not listen at {address}");
    }
}

/// The text of an attribute.
fn plain(value: &str) -> String {
    let escapes = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&amp;", "&")];
    escapes.iter().fold(value.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}
