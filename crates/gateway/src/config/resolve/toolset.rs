//! `[toolset.NAME]`.

use toml::Spanned;
use toolcrib_core::catalog::Listing;

use super::{Resolver, file};
use crate::config::{
    ToolsetConfig,
    toolset::{ToolPattern, check_name},
};

impl Resolver<'_> {
    pub(super) fn toolsets(
        &mut self,
        typed: Vec<(String, Spanned<file::Toolset>)>,
    ) -> Vec<ToolsetConfig> {
        typed.into_iter().filter_map(|(name, typed)| self.toolset(name, typed)).collect()
    }

    fn toolset(&mut self, name: String, typed: Spanned<file::Toolset>) -> Option<ToolsetConfig> {
        let offset = typed.span().start;
        let typed = typed.into_inner();
        if let Err(problem) = check_name(&name) {
            self.complain(offset, "toolset", problem);
            return None;
        }
        let key = |member: &str| format!("toolset.{name}.{member}");
        if typed.allow.get_ref().is_empty() {
            let message = "expected at least one glob over tool ids and wire names";
            self.complain(typed.allow.span().start, &key("allow"), message);
        }
        let allow = self.scopes(&key("allow"), &typed.allow, pattern);
        let deny = match &typed.deny {
            Some(deny) => self.scopes(&key("deny"), deny, pattern),
            None => Some(Vec::new()),
        };
        let listing = match typed.meta {
            None | Some(file::Meta::Off) => Listing::Tools,
            Some(file::Meta::Search) => Listing::Search,
        };
        Some(ToolsetConfig { allow: allow?, deny: deny?, title: typed.title, listing, name })
    }
}

fn pattern(text: &str) -> Result<ToolPattern, String> {
    match text {
        "" => Err("an empty glob matches no tool".to_owned()),
        text => ToolPattern::new(text).map_err(|error| format!("is not a glob: {}", error.kind())),
    }
}
