//! The page.

use super::{F, Host, Reply};

impl Host {
    pub(super) fn page(&self) -> Reply {
        let title = match self.fault {
            Some(F::TitleRaw) => "Tools <script>alert(1)</script>",
            Some(F::PlaceholderLeft) => "{{TITLE}}",
            _ => "Tools &lt;b&gt;",
        };
        let heading = if self.has(F::OtherHeading) { "Welcome" } else { title };
        let runs = self.runs() != self.has(F::FlagLies);
        let flag = if self.has(F::FlagQuoted) { "\"true\"".to_owned() } else { runs.to_string() };
        let project = match self.fault {
            Some(F::LinkWithoutName) => "<a href=\"https://project.example\"></a>",
            Some(F::LinkRuns) => "<a href=\" java\tscript:alert(1)\">project</a>",
            _ => "<a href=\"https://project.example\" rel=\"noopener\">project</a>",
        };
        let style = match self.has(F::LoadsFromElsewhere) {
            true => "<link rel=\"stylesheet\" href=\"https://cdn.example/style.css\">",
            false => "<style>body { margin: 0 }</style>",
        };
        let html = format!(
            "<!doctype html><html><head><title>{title}</title>{style}\
             <script>var executeEnabled = {flag};</script></head>\
             <body><h1>{heading}</h1><footer>Explorer &middot; {project}</footer></body></html>"
        );
        let mut reply = Reply::json(200, &serde_json::Value::Null);
        let (kind, body) = match self.has(F::PageIsText) {
            true => ("text/plain", "Tools".to_owned()),
            false => ("text/html; charset=utf-8", html),
        };
        reply.set("content-type", kind);
        reply.body = body.into_bytes();
        reply
    }
}
