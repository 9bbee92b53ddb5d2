//! Handles of series by their labels.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

use arc_swap::ArcSwap;

/// A map for lock-free reads and rare changes: each change copies it.
#[derive(Debug)]
pub(super) struct Handles<K, V>(ArcSwap<HashMap<K, V>>);

impl<K, V> Default for Handles<K, V> {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(HashMap::new()))
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Handles<K, V> {
    pub(super) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.load().get(key).cloned()
    }

    /// Returns the value of `key`; if it is missing, `make` creates it.
    pub(super) fn get_or_insert(&self, key: &K, make: impl FnOnce() -> V) -> V {
        if let Some(found) = self.get(key) {
            return found;
        }
        self.insert(key.clone(), make())
    }

    /// Returns the value of `key`: that of another thread if it was faster.
    pub(super) fn insert(&self, key: K, value: V) -> V {
        self.0.rcu(|map| {
            let mut map = HashMap::clone(map);
            map.entry(key.clone()).or_insert_with(|| value.clone());
            map
        });
        self.get(&key).unwrap_or(value)
    }

    pub(super) fn len(&self) -> usize {
        self.0.load().len()
    }

    /// Removes the entries that do not satisfy `keep`, and returns them.
    pub(super) fn retain(&self, keep: impl Fn(&K, &V) -> bool) -> Vec<(K, V)> {
        let before = self.0.rcu(|map| {
            let kept = map.iter().filter(|(key, value)| keep(key, value));
            kept.map(|(key, value)| (key.clone(), value.clone())).collect::<HashMap<K, V>>()
        });
        let removed = before.iter().filter(|(key, value)| !keep(key, value));
        removed.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub(super) fn entries(&self) -> Vec<(K, V)> {
        self.0.load().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}
