//! An item's place in eviction order, as one of 256 bins per tenant.
