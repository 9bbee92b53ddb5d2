use base64::Engine as _;
use sha2::{Digest as _, Sha256};
use toolcrib_testkit::gateway::TestGateway;

use crate::support::{fixture, page_script};

async fn page(config: &str) -> String {
    let gw = TestGateway::builder().config(&format!("[explorer]\n{config}")).start().await;
    gw.anonymous().get("/explorer").await.text()
}

#[tokio::test]
async fn the_page_is_served_with_and_without_the_slash() {
    let gw = fixture().start().await;
    let bare = gw.anonymous().get("/explorer").await;
    let slash = gw.anonymous().get("/explorer/").await;
    assert_eq!((bare.status, slash.status), (200, 200));
    assert_eq!(bare.body, slash.body);
    assert_eq!(bare.header("content-type"), "text/html; charset=utf-8");
    let text = bare.text();
    assert!(text.contains("<title>toolcrib</title>"), "{text}");
    let script = page_script(&text);
    assert!(script.starts_with("/explorer/assets/"), "{script}: found from both addresses");
    assert!(script.ends_with("/app.js"), "{script}");
    let again = gw.anonymous().with("if-none-match", bare.header("etag")).get("/explorer").await;
    assert_eq!(again.status, 304);
}

/// With an invalid key the page is still served, because the key is entered there.
#[tokio::test]
async fn the_page_requires_no_key() {
    let gw = fixture().start().await;
    let page = gw.bearer("junk").get("/explorer").await;
    assert_eq!(page.status, 200);
    assert_eq!(gw.bearer("junk").get(page_script(&page.text())).await.status, 200);
    assert_eq!(gw.bearer("junk").get("/explorer/tools").await.status, 401);
}

#[tokio::test]
async fn the_configuration_is_written_into_the_page() {
    let off = page("allow_execute = false").await;
    assert!(off.contains("var executeEnabled = false;"));
    assert!(!off.contains("&middot;"));
    let on = page("title = \"Plant 7\"\nproject_name = \"my-project\"").await;
    assert!(on.contains("var executeEnabled = true;"));
    assert!(on.contains("<title>Plant 7</title>"));
    assert!(on.contains("&middot; my-project"));
    for text in [off, on] {
        assert!(!text.contains("{{"), "{text}");
    }
    let linked = page("project_name = \"p\"\nproject_url = \"https://p.example/?a=1&b=2\"").await;
    assert!(linked.contains("href=\"https://p.example/?a=1&amp;b=2\""), "{linked}");
}

#[tokio::test]
async fn configured_values_in_the_page_are_text() {
    let attack = "title = '<script>alert(1)</script>{{PROJECT_LINK}}'\nproject_name = '<script>alert(2)</script>'\nproject_url = 'javascript:alert(3)'";
    let text = page(attack).await;
    assert!(!text.contains("<script>alert") && !text.contains("javascript:"), "{text}");
    assert!(
        text.contains("&lt;script&gt;alert(1)&lt;/script&gt;{{PROJECT_LINK}}"),
        "filled in once"
    );
    assert!(text.contains("&lt;script&gt;alert(2)"));
}

/// The policy allows our files and the one inline script, by its hash.
#[tokio::test]
async fn the_policy_fits_the_page() {
    let gw = fixture().start().await;
    let reply = gw.anonymous().get("/explorer").await;
    let text = reply.text();
    let scripts: Vec<&str> = text
        .split("<script>")
        .skip(1)
        .map(|script| script.split("</script>").next().unwrap())
        .collect();
    assert_eq!(scripts[0], "var executeEnabled = true;");
    assert!(scripts[1].contains("mcp-ui-theme") && scripts.len() == 2, "{scripts:?}");
    let hash = |script| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(script));
    let (first, second) = (hash(scripts[0]), hash(scripts[1]));
    let policy = reply.header("content-security-policy");
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; script-src 'self' 'sha256-{first}' 'sha256-{second}'; style-src 'self'; img-src 'self' data:; media-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    );
    for inline in ["onclick=", "onerror=", "style=", "<style"] {
        assert!(!text.contains(inline), "{inline} would be blocked");
    }
    assert_eq!(reply.header("referrer-policy"), "no-referrer");
}

/// Every file that the page refers to exists in its version, and in no other.
#[tokio::test]
async fn the_files_of_the_page_never_change() {
    let gw = fixture().start().await;
    let text = gw.anonymous().get("/explorer").await.text();
    let referred: Vec<_> = text
        .split("\"/explorer/assets/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(referred.len() >= 3, "{referred:?}");
    for name in referred {
        let path = format!("/explorer/assets/{name}");
        let reply = gw.anonymous().get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        let kind = match name.rsplit('.').next().unwrap() {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            _ => "image/svg+xml",
        };
        assert_eq!(reply.header("content-type"), kind, "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("cache-control"), "public, max-age=31536000, immutable");
        let again = gw.anonymous().with("if-none-match", reply.header("etag")).get(&path).await;
        assert_eq!(again.status, 304);
        let (version, file) = name.split_once('/').unwrap();
        for other in [format!("0{version}"), version.to_uppercase(), "latest".to_owned()] {
            let reply = gw.anonymous().get(&format!("/explorer/assets/{other}/{file}")).await;
            assert_eq!(reply.status, 404, "{other} would be kept for a year");
        }
    }
    let version = page_script(&text).trim_end_matches("app.js");
    for absent in [
        "index.html",
        "none.js",
        "app.js.br",
        "..%2Flib.rs",
        "..%2F..%2FCargo.toml",
        "%2Fetc%2Fpasswd",
        "",
    ] {
        let reply = gw.anonymous().get(&format!("{version}{absent}")).await;
        assert_eq!(reply.status, 404, "{absent}");
        assert!(reply.json()["error"].is_string());
    }
}

/// The files are compressed when the program is built; a client chooses the form.
#[tokio::test]
async fn the_files_of_the_page_come_compressed() {
    let gw = fixture().start().await;
    let text = gw.anonymous().get("/explorer").await.text();
    let script = page_script(&text);
    let plain = gw.anonymous().get(script).await;
    assert!(plain.text().contains("(async () => {"));
    let mut tags = vec![plain.header("etag").to_owned()];
    for (accepted, encoding) in [("gzip, br", "br"), ("gzip", "gzip")] {
        let reply = gw.anonymous().with("accept-encoding", accepted).get(script).await;
        assert_eq!(reply.header("content-encoding"), encoding);
        assert_eq!(reply.header("vary"), "Accept-Encoding");
        assert!(reply.body.len() * 2 < plain.body.len(), "{} bytes", reply.body.len());
        tags.push(reply.header("etag").to_owned());
    }
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
}

#[tokio::test]
async fn the_prefix_can_be_another_one() {
    let gw = fixture().config("[explorer]\nprefix = \"/tools-ui\"").start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for path in ["/tools-ui", "/tools-ui/"] {
        let page = reader.get(path).await.text();
        let script = page_script(&page);
        assert!(script.starts_with("/tools-ui/assets/"), "{path}: {script}");
        assert_eq!(reader.get(script).await.status, 200, "{script}");
    }
    assert_eq!(reader.get("/tools-ui/tools").await.status, 200);
    assert_eq!(gw.anonymous().get("/tools-ui/tools").await.status, 401);
    assert_eq!(reader.get("/explorer").await.status, 404);
}
