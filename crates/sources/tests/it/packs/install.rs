//! Packs that are installed by name.

use serde_json::json;
use toolcrib_core::source::{
    SourceLimits,
    pack::{PackLocation, PackSpec, PackVerification},
};
use toolcrib_sources::{Library, PackCode, inspect};

use super::{
    everyday::{CRON, DIFF},
    make, pack_of_the_tree as everyday, spec,
};
use crate::rig::Rig;

fn by_name(version: Option<&str>) -> PackSpec {
    let name = "vendor.toolcrib.everyday".to_owned();
    let location = PackLocation::Installed { name, version: version.map(str::to_owned) };
    PackSpec { location, ..spec(&everyday()) }
}

#[tokio::test]
async fn an_installed_pack_is_served_as_long_as_it_is_what_was_installed() {
    let dir = tempfile::tempdir().unwrap();
    let library = Library::new(dir.path().join("packs"));
    assert_eq!(library.list().unwrap(), []);
    let none = PackVerification::default();
    let added = library.add(&everyday(), &none).unwrap();
    assert_eq!(added.nodes, [DIFF, CRON]);
    assert_eq!(library.add(&everyday(), &none).unwrap().integrity, added.integrity, "again");
    let installed = library.list().unwrap();
    assert_eq!((installed.len(), &installed[0].integrity), (1, &added.integrity));

    let rig = Rig::installed(by_name(None), library.clone(), SourceLimits::default());
    assert_eq!(rig.names().await, [DIFF, CRON]);
    let other = Rig::installed(by_name(Some("2.0.0")), library.clone(), SourceLimits::default());
    let detail = other.degraded().await.detail.unwrap();
    assert!(detail.starts_with("pack_lockfile_incomplete"), "{detail}");

    // A pack of the same name and version must be the same.
    let changed = dir.path().join("changed");
    make::copy(&everyday(), &changed);
    let mut manifest = make::manifest(&changed);
    manifest["description"] = json!("another");
    make::write_manifest(&changed, &manifest);
    assert_eq!(library.add(&changed, &none).unwrap_err().code, PackCode::IntegrityMismatch);
    manifest["version"] = json!("1.10.0");
    make::write_manifest(&changed, &manifest);
    library.add(&changed, &none).unwrap();
    assert_eq!(rig.discover().await.version.as_deref(), Some("1.10.0"), "the newest");

    // The archive is verified at each load.
    let archive = library.archive(&library.find("vendor.toolcrib.everyday", None).unwrap());
    let good = std::fs::read(&archive).unwrap();
    let mut bytes = good.clone();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&archive, &bytes).unwrap();
    let pack = library.find("vendor.toolcrib.everyday", None).unwrap();
    assert!(library.verify(&pack, &[]).is_err());
    assert!(rig.source.discover().await.is_err());
    std::fs::write(&archive, good).unwrap();
    library.verify(&pack, &[]).unwrap();

    assert_eq!(library.remove("vendor.toolcrib.everyday", Some("1.10.0")).unwrap().len(), 1);
    assert!(!archive.exists());
    assert_eq!(library.remove("vendor.toolcrib.everyday", None).unwrap().len(), 1);
    let gone = library.remove("vendor.toolcrib.everyday", None).unwrap_err();
    assert_eq!(gone.code, PackCode::LockfileIncomplete);
}

#[test]
fn nothing_of_a_bad_pack_is_installed() {
    let dir = tempfile::tempdir().unwrap();
    let library = Library::new(dir.path().join("packs"));
    let pack = dir.path().join("pack");
    make::copy(&everyday(), &pack);
    std::fs::write(pack.join("everyday.wasm"), b"\0asm nonsense").unwrap();
    let none = PackVerification::default();
    assert_eq!(library.add(&pack, &none).unwrap_err().code, PackCode::InvalidManifest);
    let signed = PackVerification { integrity: None, keys: vec![[7; 32]] };
    let unsigned = library.add(&everyday(), &signed).unwrap_err();
    assert_eq!(unsigned.code, PackCode::SignatureInvalid);
    let meant = PackVerification { integrity: Some("sha256-x".to_owned()), keys: Vec::new() };
    assert_eq!(inspect(&everyday(), &meant).unwrap_err().code, PackCode::IntegrityMismatch);
    assert_eq!(library.list().unwrap(), []);
}

/// A removal deletes files only while it holds the lock, so that it never deletes those of an
/// installation that follows it.
#[test]
fn a_removal_beside_an_installation_leaves_a_complete_pack_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let library = Library::new(dir.path().join("packs"));
    let (name, none) = ("vendor.toolcrib.everyday", PackVerification::default());
    for round in 0..20 {
        library.add(&everyday(), &none).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| library.remove(name, None).unwrap());
            scope.spawn(|| library.add(&everyday(), &none).unwrap());
        });
        for pack in library.list().unwrap() {
            library.verify(&pack, &[]).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}
