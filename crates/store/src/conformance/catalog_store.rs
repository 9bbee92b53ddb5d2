//! The requirements of [`CatalogStore`](toolcrib_core::store::CatalogStore).

use toolcrib_core::{id::SourceId, store::Storage};

use super::moment;

/// An unsaved catalog cannot be loaded.
pub async fn an_unknown_source_has_no_catalog(storage: &dyn Storage) {
    let catalogs = &*storage.catalogs();
    assert_eq!(catalogs.load(&source("files")).await.unwrap(), None);
}

/// Saving replaces; the text is returned byte for byte.
pub async fn the_last_catalog_is_the_one_that_counts(storage: &dyn Storage) {
    let catalogs = &*storage.catalogs();
    let long = format!("[\"{}\"]", "ü".repeat(200_000));
    for (index, text) in ["[]", "[ 1.0, \"\\u0000\" ]", &long].into_iter().enumerate() {
        let at = moment(i64::try_from(index).unwrap());
        catalogs.save(&source("files"), text.to_owned(), at).await.unwrap();
        let loaded = catalogs.load(&source("files")).await.unwrap();
        assert_eq!(loaded, Some((text.to_owned(), at)));
    }
}

/// Each source has its own catalog.
pub async fn sources_do_not_share_a_catalog(storage: &dyn Storage) {
    let catalogs = &*storage.catalogs();
    catalogs.save(&source("a"), "1".to_owned(), moment(1)).await.unwrap();
    catalogs.save(&source("b"), "2".to_owned(), moment(2)).await.unwrap();
    assert_eq!(catalogs.load(&source("a")).await.unwrap(), Some(("1".to_owned(), moment(1))));
    assert_eq!(catalogs.load(&source("b")).await.unwrap(), Some(("2".to_owned(), moment(2))));
}

fn source(id: &str) -> SourceId {
    SourceId::parse(id).unwrap()
}
