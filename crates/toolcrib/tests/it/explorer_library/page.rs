use std::collections::BTreeMap;

use http::Method;
use toolcrib::ExplorerConfig;

use super::{config, serve_f};
use crate::support::page_script;

async fn page(config: ExplorerConfig) -> String {
    let reply = serve_f(config).await.anonymous().get("/explorer").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    reply.text()
}

/// 1. Extra: the page is served with and without the slash, and for `HEAD`.
#[tokio::test]
async fn the_page_is_html() {
    assert!(page(config()).await.contains("MCP Tool Explorer"));
    let served = serve_f(config()).await;
    let caller = served.anonymous();
    let (bare, slash) = (caller.get("/explorer").await, caller.get("/explorer/").await);
    assert_eq!((bare.status, slash.status, &bare.body), (200, 200, &slash.body));
    let head = caller.send(Method::HEAD, "/explorer", None).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

/// 2.
#[tokio::test]
async fn the_title_is_the_configured_one() {
    let text = page(config().title("Plant 7")).await;
    assert!(text.contains("<title>Plant 7</title>") && text.contains("<h1>Plant 7</h1>"));
    assert!(!text.contains("{{TITLE}}"));
}

/// 3, 4. The policy allows only the inline script.
#[tokio::test]
async fn the_page_says_whether_tools_may_run() {
    for (allow, script) in
        [(false, "var executeEnabled = false;"), (true, "var executeEnabled = true;")]
    {
        let served = serve_f(config().allow_execute(allow)).await;
        let reply = served.anonymous().get("/explorer").await;
        assert!(reply.text().contains(&format!("<script>{script}</script>")));
        let policy = reply.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self' 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}

/// 5, 6, 7. A name without an address, an address without a name.
#[tokio::test]
async fn the_footer_names_the_project() {
    let none = page(config()).await;
    assert!(!none.contains("{{PROJECT_LINK}}") && !none.contains("&middot;"));
    assert!(page(config().project_name("my-project")).await.contains("&middot; my-project"));
    let linked =
        page(config().project_name("my-project").project_url("https://p.example/a?b=1&c=2")).await;
    assert!(linked.contains("&middot; <a href=\"https://p.example/a?b=1&amp;c=2\""), "{linked}");
    assert!(linked.contains(">my-project</a>"));
    let unnamed = page(config().project_url("https://p.example/")).await;
    assert!(!unnamed.contains("&middot;") && !unnamed.contains("p.example"));
}

/// 8, 36, 42. Extra: inserted text is not expanded again.
#[tokio::test]
async fn configuration_is_inserted_into_the_page_as_text() {
    let attack = "<script>alert(1)</script>";
    let text = page(config().title(attack).project_name(attack)).await;
    assert!(!text.contains("<script>alert"), "{text}");
    assert_eq!(text.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count(), 3);
    let text = page(config().title("{{PROJECT_LINK}}{{ALLOW_EXECUTE}}").project_name("n")).await;
    assert!(text.contains("<title>{{PROJECT_LINK}}{{ALLOW_EXECUTE}}</title>"), "{text}");
    let text = page(config()).await;
    for placeholder in ["{{TITLE}}", "{{ALLOW_EXECUTE}}", "{{PROJECT_LINK}}", "{{"] {
        assert!(!text.contains(placeholder), "{placeholder}");
    }
}

/// Extra: the addresses that become links.
#[tokio::test]
async fn only_addresses_that_lead_to_a_page_become_links() {
    for good in [
        "https://p.example",
        "http://p.example",
        "HTTPS://p.example",
        "mailto:a@p.example",
        "/docs",
    ] {
        let text = page(config().project_name("n").project_url(good)).await;
        assert!(text.contains(&format!("&middot; <a href=\"{good}\"")), "{good}");
    }
    for bad in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "  javascript:alert(1)",
        "java\tscript:alert(1)",
        "java\nscript:alert(1)",
        "java\rscript:alert(1)",
        "data:text/html,<b>",
        "vbscript:x",
    ] {
        let text = page(config().project_name("n").project_url(bad)).await;
        assert!(text.contains("&middot; n<"), "{bad}: the name alone");
        let seen = text.to_lowercase();
        let wrong = ["script:", "data:text", "alert"].iter().any(|word| seen.contains(word));
        assert!(!wrong, "{bad}: {text}");
    }
}

/// 46. Every file that the page or one of its modules refers to exists.
#[tokio::test]
async fn the_page_is_complete() {
    let files = files().await;
    for name in ["app.js", "style.css", "favicon.svg", "record.js", "tools-tool-view.js"] {
        assert!(files.contains_key(name), "{name}: {:?}", files.keys());
    }
}

/// 47, 48. The browser tests show the initial form; this test checks that no values are invented.
#[tokio::test]
async fn the_form_starts_from_the_required_keys() {
    let script = files().await.remove("tools-tool-view.js").unwrap();
    assert!(script.contains("const required = own(schema, 'required');"));
    for made_up in ["''", "0", "false", "[]", "{}"] {
        assert!(!script.contains(&format!("result[key] = {made_up};")), "{made_up}");
    }
}

/// Returns the texts of the page's files, by name: those that the page names, and those that these
/// import.
async fn files() -> BTreeMap<String, String> {
    let served = serve_f(config()).await;
    let caller = served.anonymous();
    let page = caller.get("/explorer").await.text();
    let folder = page_script(&page).trim_end_matches("app.js");
    let names = |text: &str, start: &str, end: char| -> Vec<String> {
        let rest = text.split(start).skip(1);
        rest.map(|rest| rest.split(end).next().unwrap().to_owned()).collect()
    };
    let mut wanted = names(&page, &format!("\"{folder}"), '"');
    let mut seen = BTreeMap::new();
    while let Some(name) = wanted.pop() {
        if seen.contains_key(&name) {
            continue;
        }
        let file = caller.get(&format!("{folder}{name}")).await;
        assert_eq!(file.status, 200, "{name}");
        let text = file.text();
        for start in ["from './", "import('./"] {
            wanted.extend(names(&text, start, '\''));
        }
        seen.insert(name, text);
    }
    seen
}
