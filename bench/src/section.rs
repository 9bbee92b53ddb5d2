//! One section of a page that also has other authors.

/// Replaces the section with the first line `heading`, or adds it at the end.
pub(crate) fn replace_section(page: &str, heading: &str, section: &str) -> String {
    let (before, old) = page.find(heading).map_or((page, ""), |at| page.split_at(at));
    let after = old
        .get(heading.len()..)
        .and_then(|rest| rest.find("\n## ").and_then(|at| rest.get(at..)))
        .unwrap_or_default();
    format!("{}\n\n{}\n{after}", before.trim_end_matches('\n'), section.trim_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_is_replaced_and_its_neighbours_stay() {
        let heading = "\n## Several servers\n";
        let section = format!("{heading}\nnew\n");
        let page = "# Page\n\n## One\n\ntext\n";
        let added = replace_section(page, heading, &section);
        assert_eq!(added, "# Page\n\n## One\n\ntext\n\n## Several servers\n\nnew\n");
        let later = format!("{added}\n## Two\n\nend\n");
        let newer = replace_section(&later, heading, &section.replace("new", "newer"));
        assert_eq!(newer, later.replace("new", "newer"));
    }
}
