//! `GET /`, the page (F1).

use super::{flag, page, runs, statement};
use crate::conformance::{Check, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "explorer.page.html",
        Must,
        "PROTOCOL.md, `GET /`; F1 TC-1",
        "the page is 200 and `text/html`",
        html
    ),
    check!(
        "explorer.page.both-paths",
        Should,
        "PROTOCOL.md, `GET /`; F1 FR-6",
        "the page is there with and without a slash at the end of the prefix; one may lead to the \
         other",
        both_paths
    ),
    check!(
        "explorer.page.title",
        Must,
        "F1 FR-7, TC-2",
        "the title stands in `<title>` and in the heading",
        title
    ),
    check!(
        "explorer.page.title-escaped",
        Must,
        "PROTOCOL.md, Security Checklist; F1 TC-3",
        "the title is escaped",
        title_escaped
    ),
    check!(
        "explorer.page.placeholders",
        Must,
        "PROTOCOL.md, HTML Frontend; F1 TC-4",
        "no placeholder is left in the page",
        placeholders
    ),
    check!(
        "explorer.page.execute-flag",
        Must,
        "F1 FR-7",
        "the page says `var executeEnabled = true;` or `false`",
        execute_flag
    ),
    check!(
        "explorer.page.flag-agrees",
        Must,
        "F1 FR-7; F3, Security",
        "the host itself does as the page says: calls are refused as disabled when and only when \
         it says `false`",
        flag_agrees
    ),
    check!(
        "explorer.page.project",
        Must,
        "PROTOCOL.md, HTML Frontend",
        "the footer names the project as text or as a link, and there is no link without a name",
        project
    ),
    check!(
        "explorer.page.link-schemes",
        Must,
        "PROTOCOL.md, Security Checklist",
        "no link of the page runs something: neither `javascript:` nor `data:` nor `vbscript:`",
        link_schemes
    ),
    check!(
        "explorer.page.self-contained",
        Must,
        "PROTOCOL.md, HTML Frontend",
        "the page loads nothing from other hosts",
        self_contained
    ),
];

async fn html(site: &Site) -> Verdict {
    let got = page(site).await?;
    let kind = got.header("content-type").unwrap_or_default().to_ascii_lowercase();
    got.expect(kind.starts_with("text/html"), "`text/html`", format!("`{kind}`"))?;
    let has_root = got.text().to_ascii_lowercase().contains("<html");
    got.expect(has_root, "an HTML document", "something else")
}

async fn both_paths(site: &Site) -> Verdict {
    if site.base().is_empty() {
        return skip("the explorer starts at the root, where there is one form only");
    }
    let page = page(site).await?;
    for path in ["", "/"] {
        let mut got = site.once(site.get(path)).await?;
        if super::is_refused(&got) {
            got = site.once(site.get(path).by_first()).await?;
        }
        let leads = matches!(got.status(), 301 | 302 | 303 | 307 | 308);
        let other = if path.is_empty() { "/" } else { "" };
        let there = format!("{}{other}", site.base());
        let target = got.header("location").unwrap_or_default();
        // Absolute, from the root, or relative to the folder.
        let reaches = leads && (target.ends_with(&there) || target == format!(".{other}"));
        if reaches || got.body() == page.body() {
            continue;
        }
        // A page may be told where it is.
        got.expect_status(&[200])?;
        got.expect(got.text().to_ascii_lowercase().contains("<html"), "the page", "another")?;
    }
    Ok(())
}

async fn title(site: &Site) -> Verdict {
    let got = page(site).await?;
    let text = got.text();
    let title = between(&text, "<title", "</title>").unwrap_or_default().trim();
    got.expect(!title.is_empty(), "a `<title>` with a text", "none")?;
    let heading = between(&text, "<h1", "</h1>").unwrap_or_default();
    got.expect(heading.contains(title), "the title in the first `<h1>` too", "another text")
}

async fn title_escaped(site: &Site) -> Verdict {
    let got = page(site).await?;
    let text = got.text();
    let title = between(&text, "<title", "</title>").unwrap_or_default();
    got.expect(!title.contains('<'), "no markup in `<title>`", "a `<`")?;
    let heading = between(&text, "<h1", "</h1>").unwrap_or_default().to_ascii_lowercase();
    got.expect(!heading.contains("<script"), "no script in the heading", "one")
}

async fn placeholders(site: &Site) -> Verdict {
    let got = page(site).await?;
    let text = got.text();
    for name in ["{{TITLE}}", "{{ALLOW_EXECUTE}}", "{{PROJECT_LINK}}"] {
        got.expect(!text.contains(name), "no placeholder", format!("`{name}`"))?;
    }
    Ok(())
}

async fn execute_flag(site: &Site) -> Verdict {
    let got = page(site).await?;
    let count = [true, false].iter().filter(|it| got.text().contains(&statement(**it))).count();
    let expected = format!("`{}` or `{}`", statement(true), statement(false));
    got.expect(count == 1, expected, if count == 0 { "neither" } else { "both" })
}

async fn flag_agrees(site: &Site) -> Verdict {
    let Some(says) = flag(site).await else {
        return skip("the page does not say whether tools run");
    };
    let (page, call) = (page(site).await?, super::unknown_call(site).await?);
    let refused = call.status() == 403;
    match (says, refused) {
        (true, true) => fail("tools that run", "403", &[&call, &page]),
        (false, false) => fail("status 403", format!("status {}", call.status()), &[&call, &page]),
        _ => runs(site).await.map(drop),
    }
}

async fn project(site: &Site) -> Verdict {
    let got = page(site).await?;
    let text = got.text();
    for after in text.split("&middot;").skip(1) {
        let after = after.trim_start();
        let name = match after.strip_prefix("<a") {
            Some(anchor) => between(anchor, "", "</a>").unwrap_or_default(),
            None => after.split('<').next().unwrap_or_default(),
        };
        got.expect(!name.trim().is_empty(), "a name", "none after `&middot;`")?;
    }
    Ok(())
}

async fn link_schemes(site: &Site) -> Verdict {
    let got = page(site).await?;
    let text = got.text();
    for (tag, attributes) in tags(&text) {
        if tag != "a" {
            continue;
        }
        let Some(target) = attribute(attributes, "href") else { continue };
        // As browsers read it.
        let target: String =
            target.chars().filter(|it| !matches!(it, '\t' | '\n' | '\r')).collect();
        let target = target.trim().to_ascii_lowercase();
        for scheme in ["javascript:", "data:", "vbscript:"] {
            let runs = target.starts_with(scheme);
            got.expect(!runs, "links that lead to pages", format!("a link to `{scheme}`"))?;
        }
    }
    Ok(())
}

async fn self_contained(site: &Site) -> Verdict {
    const LOADED: [&str; 5] = ["stylesheet", "icon", "preload", "modulepreload", "manifest"];
    let got = page(site).await?;
    let text = got.text();
    for (tag, attributes) in tags(&text) {
        let rel = attribute(attributes, "rel").unwrap_or_default().to_ascii_lowercase();
        let loaded = match tag.as_str() {
            "link" if LOADED.iter().any(|kind| rel.split(' ').any(|it| it == *kind)) => {
                attribute(attributes, "href")
            }
            "script" | "img" | "iframe" | "source" | "video" | "audio" | "embed" => {
                attribute(attributes, "src")
            }
            _ => None,
        };
        let Some(address) = loaded.map(str::to_ascii_lowercase) else { continue };
        let is_other = ["http://", "https://", "//"].iter().any(|it| address.starts_with(it));
        let is_own = address.starts_with(&format!("{}/", site.host().base()));
        got.expect(!is_other || is_own, "nothing from other hosts", format!("`<{tag}>`"))?;
    }
    Ok(())
}

/// What stands between the end of the tag that starts with `start`, and `end`. An empty `start` is
/// the tag in which `text` starts.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    // Of the same length, so places in one are places in the other.
    let lower = text.to_ascii_lowercase();
    let tag = lower.find(start)?;
    let open = tag + lower.get(tag..)?.find('>')? + 1;
    let close = open + lower.get(open..)?.find(end)?;
    text.get(open..close)
}

/// The names, in small letters, and the attributes of all tags.
fn tags(text: &str) -> impl Iterator<Item = (String, &str)> {
    text.split('<').skip(1).filter_map(|part| {
        let tag = part.split('>').next()?;
        let (name, attributes) = tag.split_once(char::is_whitespace)?;
        Some((name.to_ascii_lowercase(), attributes))
    })
}

/// The value of an attribute.
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
        assert_eq!(between(page, "<title", "</title>"), Some("T"));
        assert_eq!(between(page, "<h1", "</h1>"), None);
    }
}
