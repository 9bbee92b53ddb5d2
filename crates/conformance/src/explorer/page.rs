//! `GET /`, the page (F1).

use super::common::{call_absent, flag, page, statement};
use crate::{Check, CheckResult, Target, checks, fail, skip, skip_unless};

pub(super) const CHECKS: &[Check] = checks! {
    "explorer.page.html", Must, "PROTOCOL.md, `GET /`; F1 TC-1", html:
        "the page returns 200 and `text/html`";
    "explorer.page.both-paths", Should, "PROTOCOL.md, `GET /`; F1 FR-6", both_paths:
        "the page exists with and without a trailing slash; one may redirect to the other";
    "explorer.page.title", Must, "F1 FR-7, TC-2", title:
        "the title is in `<title>` and in the heading";
    "explorer.page.title-escaped", Must, "PROTOCOL.md, Security Checklist; F1 TC-3", title_escaped:
        "the title is escaped";
    "explorer.page.placeholders", Must, "PROTOCOL.md, HTML Frontend; F1 TC-4", placeholders:
        "the page contains no placeholder";
    "explorer.page.execute-flag", Must, "F1 FR-7", execute_flag:
        "the page contains `var executeEnabled = true;` or `false`";
    "explorer.page.flag-agrees", Must, "F1 FR-7; F3, Security", flag_agrees:
        "the host agrees with the page: calls return 403 if and only if the flag is `false`";
    "explorer.page.project", Must, "PROTOCOL.md, HTML Frontend", project:
        "the footer names the project as text or as a link, and no link is without a name";
    "explorer.page.link-schemes", Must, "PROTOCOL.md, Security Checklist", link_schemes:
        "no link of the page has the scheme `javascript:`, `data:` or `vbscript:`";
    "explorer.page.self-contained", Must, "PROTOCOL.md, HTML Frontend", self_contained:
        "the page loads no resources from other hosts";
};

async fn html(target: &Target) -> CheckResult {
    let response = page(target).await?;
    let media_type = response.media_type();
    response.expect(media_type == "text/html", "`text/html`", format!("`{media_type}`"))?;
    let has_root = response.text().to_ascii_lowercase().contains("<html");
    response.expect(has_root, "an HTML document", "something else")
}

async fn both_paths(target: &Target) -> CheckResult {
    let has_prefix = !target.path().is_empty();
    skip_unless(has_prefix, "the explorer is at the root, which has only one path")?;
    let page = page(target).await?;
    for path in ["", "/"] {
        let mut response = target.send_once(target.get(path)).await?;
        if response.is_unauthorized() {
            response = target.fetch(path).await?;
        }
        let other = if path.is_empty() { "/" } else { "" };
        let location = response.header_text("location");
        // Absolute, relative to the root, or relative to the folder.
        let is_other = location.ends_with(&format!("{}{other}", target.path()))
            || location == format!(".{other}");
        let is_redirect = matches!(response.status(), 301 | 302 | 303 | 307 | 308);
        if is_redirect && is_other || response.body() == page.body() {
            continue;
        }
        // The page may contain its own path, so the bodies may differ.
        response.expect_status(&[200])?;
        let is_html = response.text().to_ascii_lowercase().contains("<html");
        response.expect(is_html, "the page", "another body")?;
    }
    Ok(())
}

async fn title(target: &Target) -> CheckResult {
    let response = page(target).await?;
    let text = response.text();
    let title = content(&text, "<title", "</title>").unwrap_or_default().trim();
    response.expect(!title.is_empty(), "a non-empty `<title>`", "none")?;
    let heading = content(&text, "<h1", "</h1>").unwrap_or_default();
    response.expect(heading.contains(title), "the title in the first `<h1>`", "another text")
}

async fn title_escaped(target: &Target) -> CheckResult {
    let response = page(target).await?;
    let text = response.text();
    let title = content(&text, "<title", "</title>").unwrap_or_default();
    response.expect(!title.contains('<'), "no markup in `<title>`", "a `<`")?;
    let heading = content(&text, "<h1", "</h1>").unwrap_or_default().to_ascii_lowercase();
    response.expect(!heading.contains("<script"), "no script in the heading", "a script")
}

async fn placeholders(target: &Target) -> CheckResult {
    let response = page(target).await?;
    let text = response.text();
    for name in ["{{TITLE}}", "{{ALLOW_EXECUTE}}", "{{PROJECT_LINK}}"] {
        response.expect(!text.contains(name), "no placeholder", format!("`{name}`"))?;
    }
    Ok(())
}

async fn execute_flag(target: &Target) -> CheckResult {
    let response = page(target).await?;
    let text = response.text();
    let count = [true, false].iter().filter(|flag| text.contains(&statement(**flag))).count();
    let expected = format!("`{}` or `{}`", statement(true), statement(false));
    response.expect(count == 1, expected, if count == 0 { "neither" } else { "both" })
}

async fn flag_agrees(target: &Target) -> CheckResult {
    let Some(is_enabled) = flag(target).await else {
        return skip("the page has no `executeEnabled`");
    };
    let (page, call) = (page(target).await?, call_absent(target).await?);
    match (is_enabled, call.status()) {
        (true, 403) => fail("a status other than 403", "status 403", &[&call, &page]),
        (true, _) | (false, 403) => Ok(()),
        (false, status) => fail("status 403", format!("status {status}"), &[&call, &page]),
    }
}

async fn project(target: &Target) -> CheckResult {
    let response = page(target).await?;
    let text = response.text();
    for after in text.split("&middot;").skip(1) {
        let after = after.trim_start();
        let name = match after.strip_prefix("<a") {
            Some(anchor) => content(anchor, "", "</a>").unwrap_or_default(),
            None => after.split('<').next().unwrap_or_default(),
        };
        response.expect(!name.trim().is_empty(), "a name", "no name after `&middot;`")?;
    }
    Ok(())
}

async fn link_schemes(target: &Target) -> CheckResult {
    let response = page(target).await?;
    let text = response.text();
    for (_, attributes) in tags(&text).filter(|(tag, _)| tag == "a") {
        let Some(link) = attribute(attributes, "href") else { continue };
        // Browsers ignore these characters.
        let link: String =
            link.chars().filter(|letter| !matches!(letter, '\t' | '\n' | '\r')).collect();
        let link = link.trim().to_ascii_lowercase();
        for scheme in ["javascript:", "data:", "vbscript:"] {
            let is_safe = !link.starts_with(scheme);
            response.expect(is_safe, "only links to pages", format!("a link to `{scheme}`"))?;
        }
    }
    Ok(())
}

async fn self_contained(target: &Target) -> CheckResult {
    const LOADED: [&str; 5] = ["stylesheet", "icon", "preload", "modulepreload", "manifest"];
    let response = page(target).await?;
    let text = response.text();
    for (tag, attributes) in tags(&text) {
        let rel = attribute(attributes, "rel").unwrap_or_default().to_ascii_lowercase();
        let url = match tag.as_str() {
            "link" if LOADED.iter().any(|kind| rel.split(' ').any(|word| word == *kind)) => {
                attribute(attributes, "href")
            }
            "script" | "img" | "iframe" | "source" | "video" | "audio" | "embed" => {
                attribute(attributes, "src")
            }
            _ => None,
        };
        let Some(url) = url.map(str::to_ascii_lowercase) else { continue };
        let is_absolute =
            ["http://", "https://", "//"].iter().any(|prefix| url.starts_with(prefix));
        let is_own = url.starts_with(&format!("{}/", target.host().base()));
        response.expect(!is_absolute || is_own, "only own resources", format!("`<{tag}>`"))?;
    }
    Ok(())
}

/// Finds the text from the end of the tag that starts with `start` up to `end`. With an empty
/// `start`, `text` starts within the tag.
fn content<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    // It has the same length, so offsets are valid in both.
    let lower = text.to_ascii_lowercase();
    let tag = lower.find(start)?;
    let open = tag + lower.get(tag..)?.find('>')? + 1;
    let close = open + lower.get(open..)?.find(end)?;
    text.get(open..close)
}

/// Finds the names, in lower case, and the attributes of all tags.
fn tags(text: &str) -> impl Iterator<Item = (String, &str)> {
    text.split('<').skip(1).filter_map(|part| {
        let tag = part.split('>').next()?;
        let (name, attributes) = tag.split_once(char::is_whitespace)?;
        Some((name.to_ascii_lowercase(), attributes))
    })
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let lower = attributes.to_ascii_lowercase();
    let marker = format!("{name}=");
    let (at, _) = lower.match_indices(&marker).find(|(at, _)| {
        *at == 0 || lower.as_bytes().get(at - 1).is_some_and(u8::is_ascii_whitespace)
    })?;
    let value = attributes.get(at + marker.len()..)?;
    match value.chars().next()? {
        quote @ ('"' | '\'') => value.get(1..)?.split(quote).next(),
        _ => value.split_whitespace().next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_attributes_are_found() {
        let page =
            "<a data-href=x HREF='java\tscript:1' rel=noopener>n</a><title class=a>T</title>";
        let (tag, attributes) = tags(page).next().unwrap();
        assert_eq!(tag, "a");
        assert_eq!(attribute(attributes, "href"), Some("java\tscript:1"));
        assert_eq!(attribute(attributes, "rel"), Some("noopener"));
        assert_eq!(attribute(attributes, "src"), None);
        assert_eq!(content(page, "<title", "</title>"), Some("T"));
        assert_eq!(content(page, "<h1", "</h1>"), None);
    }
}
