//! Names for things: small integers that cannot be confused with one another and have no arithmetic.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $raw);

        impl $name {
            /// The id as an index into a dense table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Who owns a share. A store holds fewer (two bytes in an item's header), a global division many.
    TenantId(u32)
}
id! {
    /// A fixed-size append-only piece of the log.
    SegmentId(u32)
}
id! {
    /// A configured piece of a medium, 0 is the fastest.
    TierId(u8)
}
