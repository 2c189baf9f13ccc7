//! What tiers of memory take beside what they hold: their notes, which are this process's.

use super::checks::{ConfigError, refuse};
use crate::limits::TIER_NOTES_PART;
use media::TierSpec;
use units::Bytes;

/// Refuses tiers whose notes leave the memory above them too little. Those of files are mapped from the files.
///
/// # Errors
/// If they take more of the memory than one part in `TIER_NOTES_PART`.
pub fn check_notes<'a>(memory: Bytes, tiers: impl Iterator<Item = &'a TierSpec>) -> Result<(), ConfigError> {
    let notes: Bytes = tiers.map(TierSpec::notes_in_memory).sum();
    let most = Bytes(memory.0 / TIER_NOTES_PART);
    if notes <= most {
        return Ok(());
    }
    refuse(
        format!("the notes of tiers in memory take {notes} of the memory of {memory}, and may take {most}"),
        "raise the memory (-m), or make the tiers smaller: 2 bytes for each KiB of them",
    )
}
