//! `toolcrib-bench growth`: what limits a number of servers over PostgreSQL, and at which rate.
//!
//! `model.rs` computes the utilisation of each resource from the constants in `bench/growth.toml`,
//! and `page.rs` writes it for a list of deployments into `docs/reference/growth.md`. `measure.rs`
//! measures the constants.

mod constants;
mod measure;
mod model;
mod page;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use self::constants::Constants;
use self::model::Scenario;
use crate::terminal::say;

/// The generated page, in the tree.
const PAGE: &str = "docs/reference/growth.md";

#[derive(Debug, clap::Args)]
pub(crate) struct GrowthOptions {
    #[command(flatten)]
    scenario: Scenario,
    /// Measure the constants in this empty database instead
    #[arg(long, value_name = "URL")]
    measure: Option<String>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5, requires = "measure")]
    seconds: u32,
    /// The file to write the constants to
    #[arg(long, requires = "measure")]
    write: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: &GrowthOptions) -> Result<()> {
    let Some(url) = &options.measure else {
        let report = model::report(&Constants::embedded()?, &options.scenario);
        return match options.json {
            true => say(&serde_json::to_string_pretty(&report)?),
            false => say(&page::tables(&[("load", report)])),
        };
    };
    let text = measure::run(url, options.seconds).await?.text()?;
    match &options.write {
        Some(file) => Ok(fs::write(file, text)?),
        None => say(&text),
    }
}

/// Writes the generated page under `folder`.
pub(crate) fn generate(folder: &Path) -> Result<()> {
    let file = folder.join(PAGE);
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(fs::write(file, page::page(&Constants::embedded()?))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        fs::read_to_string(root.join(page)).unwrap()
    }

    #[test]
    fn the_page_of_the_tree_is_the_output_of_the_model() {
        // I-6
        assert_eq!(read(PAGE), page::page(&Constants::embedded().unwrap()));
    }

    #[test]
    fn every_bold_figure_of_the_explanation_is_on_the_generated_page() {
        let (explanation, page) = (read("docs/explanation/growth.md"), read(PAGE));
        let is_figure = |text: &&str| text.starts_with(|first: char| first.is_ascii_digit());
        let bold = explanation.split("**").skip(1).step_by(2);
        let figures: Vec<&str> = bold.filter(is_figure).collect();
        assert!(figures.len() > 20, "{figures:?}");
        for figure in figures {
            assert!(page.contains(&format!(" {figure} ")), "`{figure}` is not on the page");
        }
    }
}
