//! A discovered offer together with its pin form.

use std::{ops::Deref, sync::OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::DiscoveredOffer;
use crate::pin::PinForm;

/// A [`DiscoveredOffer`] and its [`PinForm`], which is created once: a source, its catalog and its
/// pins all need it, and for a large document it is the slowest part of a discovery.
///
/// Invariant: the offer does not change in here, so the form always matches it.
#[derive(Debug, Clone)]
pub struct FormedOffer {
    offer: DiscoveredOffer,
    form: OnceLock<Box<PinForm>>,
}

impl FormedOffer {
    /// The form, created on first use.
    pub fn form(&self) -> &PinForm {
        self.form.get_or_init(|| Box::new(PinForm::of(&self.offer)))
    }

    /// Splits it into the offer and its form.
    pub fn into_parts(self) -> (DiscoveredOffer, PinForm) {
        let form = self.form.into_inner();
        let form = form.map_or_else(|| PinForm::of(&self.offer), |form| *form);
        (self.offer, form)
    }

    /// Extracts the offer.
    pub fn into_offer(self) -> DiscoveredOffer {
        self.offer
    }
}

impl From<DiscoveredOffer> for FormedOffer {
    fn from(offer: DiscoveredOffer) -> Self {
        Self { offer, form: OnceLock::new() }
    }
}

impl Deref for FormedOffer {
    type Target = DiscoveredOffer;

    fn deref(&self) -> &DiscoveredOffer {
        &self.offer
    }
}

impl PartialEq for FormedOffer {
    fn eq(&self, other: &Self) -> bool {
        self.offer == other.offer
    }
}

impl Serialize for FormedOffer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.offer.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FormedOffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DiscoveredOffer::deserialize(deserializer).map(Self::from)
    }
}
