//! A configuration is applied as a whole or not at all.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use toolcrib_core::record::{Delivery, DeliveryError, DeliveryFactory, Destination};
use toolcrib_gateway::{ReloadError, audit};
use toolcrib_store::{Options, SigningKey, SqliteStore, WitnessFile};

use crate::support::{one_source, parse, rig};

/// Destinations, in the order in which they were built.
#[derive(Default)]
struct Destinations(Mutex<Vec<String>>);

struct Accepting;

#[async_trait]
impl Delivery for Accepting {
    async fn deliver_with(
        &self,
        _: &[(&'static str, String)],
        _: &'static str,
        _: Vec<u8>,
    ) -> Result<(), DeliveryError> {
        Ok(())
    }
}

impl DeliveryFactory for Destinations {
    fn build(&self, destination: &Destination) -> Result<Arc<dyn Delivery>, String> {
        let Destination::File(path) = destination else { return Err("not a file".to_owned()) };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.0.lock().push(name);
        Ok(Arc::new(Accepting))
    }
}

fn anchored(anchor: &str, source: &str) -> toolcrib_config::Config {
    parse(&format!("[[record.anchor]]\nfile = \"{anchor}\"\n{source}"))
}

/// The record's part is applied before the sources, and undone if one of them can never work.
#[tokio::test]
async fn a_refused_configuration_leaves_the_anchors_of_the_record() {
    let rig = rig(&["echo"], "").await;
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("test.db"), Options::default()).unwrap();
    let destinations = Arc::<Destinations>::default();
    let parts = audit::Parts {
        storage: Arc::new(store),
        signer: Arc::new(SigningKey::parse(&SigningKey::generate().unwrap()).unwrap()),
        witness: Arc::new(WitnessFile::new(directory.path().join("witness"))),
        key_may_be_new: true,
        deliveries: Arc::clone(&destinations) as Arc<dyn DeliveryFactory>,
    };
    let first = anchored("one", &one_source(""));
    let tasks = rig.gateway.start_audit(parts, &first.record).await.unwrap();
    rig.gateway.apply(first).await.unwrap();

    let impossible = one_source("").replace("\"x\"", "\"impossible\"");
    let refused = rig.gateway.apply(anchored("two", &impossible)).await;
    assert!(matches!(refused, Err(ReloadError::Source(_))), "{refused:?}");
    assert_eq!(*destinations.0.lock(), ["one", "two", "one"]);
    let in_force = anchored("one", &one_source(""));
    assert_eq!(rig.gateway.config().record, in_force.record);
    tasks.close().await;
}
