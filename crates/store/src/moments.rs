//! When something was stored, told from its stamp: how many stamps had been drawn at each second.
//!
//! Shape:      (stamps drawn, second) once a second; of too many, every second one of the older half goes
//! Invariants: both rise; what is told is never later than it was, and earlier by the gap between two marks at most
//! Units:      seconds of the store's clock
//! Cost:       16 KiB per store; a binary search

/// Marks kept. A guess: the last quarter of an hour is exact to a second.
const MARKS: usize = 1024;

/// Marks of the seconds so far.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    marks: Vec<(u64, u32)>,
}

impl Moments {
    /// Marks a second that begins.
    pub(crate) fn begin(&mut self, stamp: u64, secs: u32) {
        if self.marks.last().is_some_and(|last| secs <= last.1) {
            return;
        }
        if self.marks.len() == MARKS {
            let mut at = 0;
            self.marks.retain(|_| {
                at += 1;
                MARKS / 2 < at || at % 2 == 1
            });
        }
        self.marks.push((stamp, secs));
    }

    /// The second in which a stamp was drawn; `start` before the first mark.
    pub(crate) fn secs_of(&self, stamp: u64, start: u32) -> u32 {
        let after = self.marks.partition_point(|mark| mark.0 <= stamp);
        after.checked_sub(1).map_or(start, |i| self.marks[i].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_stamps_are_exact_and_old_ones_not_later_than_they_were() {
        let mut moments = Moments::default();
        for secs in 3..10_000_u32 {
            moments.begin(u64::from(secs) * 100, secs);
        }
        assert!(moments.marks.len() <= MARKS);
        assert_eq!(moments.secs_of(0, 2), 2);
        for secs in [9_999, 9_800, 9_600] {
            assert_eq!(moments.secs_of(u64::from(secs) * 100 + 99, 2), secs);
        }
        for secs in (3..10_000).step_by(7) {
            let told = moments.secs_of(u64::from(secs) * 100 + 5, 2);
            assert!(told <= secs, "{told} for {secs}");
        }
    }
}
