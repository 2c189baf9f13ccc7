//! The tag of an operation: what it is for, and which stream.

/// What an operation is for. With number and generation it is the tag of the operation:
///
/// ```text
///  63      56 55         32 31            0
/// +----------+-------------+---------------+
/// | purpose  | generation  | number        |
/// +----------+-------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Wake = 1,
    Ring,
    Receive,
    Send,
    Room,
    Cancel,
    HangUp,
}

impl Purpose {
    const ALL: [Self; 7] =
        [Self::Wake, Self::Ring, Self::Receive, Self::Send, Self::Room, Self::Cancel, Self::HangUp];
}

const NUMBER_BITS: u32 = 32;
pub(super) const GENERATION_BITS: u32 = 24;
const _: () = assert!(NUMBER_BITS + GENERATION_BITS + 8 == u64::BITS);

/// The tag of an operation.
pub(super) fn tag(purpose: Purpose, at: usize, generation: u32) -> u64 {
    (purpose as u64) << (NUMBER_BITS + GENERATION_BITS) | u64::from(generation) << NUMBER_BITS | at as u64
}

/// Purpose, number and generation of a tag.
pub(super) fn parts(tag: u64) -> (Option<Purpose>, usize, u32) {
    let purpose = Purpose::ALL.into_iter().find(|p| *p as u64 == tag >> (NUMBER_BITS + GENERATION_BITS));
    let number = tag & ((1 << NUMBER_BITS) - 1);
    let generation = tag >> NUMBER_BITS & ((1 << GENERATION_BITS) - 1);
    (purpose, usize::try_from(number).unwrap_or(usize::MAX), u32::try_from(generation).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_comes_apart_again() {
        for purpose in Purpose::ALL {
            for (at, generation) in [(0, 0), (1, (1 << GENERATION_BITS) - 1), (u32::MAX as usize, 1)] {
                assert_eq!(parts(tag(purpose, at, generation)), (Some(purpose), at, generation));
            }
        }
        assert_eq!(parts(0).0, None);
    }
}
