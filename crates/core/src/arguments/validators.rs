//! Compiled schemas, kept while they are used.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter, sync::DefaultLifecycle};

use super::{
    bounds::SchemaError,
    compiled::{CompiledSchema, compile},
};
use crate::schema::Schema;

/// Compiled schemas of one catalog after the other, up to a number of bytes.
pub struct Validators {
    cache: Cache,
    /// Counts the schemas.
    next: AtomicU64,
    /// The most bytes that count for one schema.
    most: u64,
}

type Cache = quick_cache::sync::Cache<u64, CachedSchema, Bytes>;

/// The text of a schema, compiled on use.
pub(super) struct LazySchema {
    id: u64,
    schema: Schema,
    validators: Arc<Validators>,
}

/// A compiled schema and its bytes.
#[derive(Clone)]
struct CachedSchema {
    compiled: Arc<CompiledSchema>,
    bytes: u64,
}

/// The unit of the cache's size.
#[derive(Clone)]
struct Bytes;

impl Weighter<u64, CachedSchema> for Bytes {
    fn weight(&self, _id: &u64, held: &CachedSchema) -> u64 {
        held.bytes
    }
}

/// The bytes of compiled schemas that are kept by default: those of some hundred ordinary tools.
const DEFAULT_BYTES: u64 = 16 << 20;
/// The longest schema text to compile on the spot: it takes less than a millisecond.
const SMALL: usize = 4 << 10;
/// The size of an ordinary one, for the size of the tables.
const ORDINARY_BYTES: u64 = 32 << 10;

// === impl Validators ===

impl Validators {
    /// Creates a place for compiled schemas of about `bytes` together.
    pub fn new(bytes: u64) -> Self {
        let mut options = OptionsBuilder::new();
        // One shard, because the largest schema must fit into a shard.
        options.shards(1).weight_capacity(bytes);
        options.estimated_items_capacity(usize::try_from(bytes / ORDINARY_BYTES).unwrap_or(0));
        let cache = match options.build() {
            Ok(options) => Cache::with_options(
                options,
                Bytes,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            Err(_) => Cache::with_weighter(0, bytes, Bytes),
        };
        // A schema larger than the cache would be compiled for every call.
        Self { cache, next: AtomicU64::new(0), most: (bytes / 4).max(1) }
    }

    pub(super) fn keep(self: &Arc<Self>, schema: Schema) -> LazySchema {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        LazySchema { id, schema, validators: Arc::clone(self) }
    }

    /// The number of compiled schemas.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether no schema is compiled.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }
}

impl Default for Validators {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES)
    }
}

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validators").field("compiled", &self.len()).finish_non_exhaustive()
    }
}

// === impl LazySchema ===

impl LazySchema {
    /// The compiled schema, compiled now if necessary. Parallel callers wait for the first one.
    pub(super) fn compiled(&self) -> Result<Arc<CompiledSchema>, SchemaError> {
        let Validators { cache, most, .. } = &*self.validators;
        let held = cache.get_or_insert_with(&self.id, || {
            let compiled = compile(&self.schema.to_value())?;
            let bytes = compiled.weight.bytes(self.schema.as_str().len()).min(*most);
            Ok(CachedSchema { compiled: Arc::new(compiled), bytes })
        })?;
        Ok(held.compiled)
    }
}

impl LazySchema {
    /// Whether the schema is compiled, or is so small that this takes no time.
    pub(super) fn is_prepared(&self) -> bool {
        self.schema.as_str().len() <= SMALL || self.validators.cache.peek(&self.id).is_some()
    }
}

/// A removed tool needs no compiled schema.
impl Drop for LazySchema {
    fn drop(&mut self) {
        self.validators.cache.remove(&self.id);
    }
}

impl fmt::Debug for LazySchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazySchema").field("id", &self.id).finish_non_exhaustive()
    }
}
