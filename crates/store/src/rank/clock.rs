//! What time is to ranks: ticks of the rank clock, which counts bytes written, and seconds made of them.
//!
//! Shape:      at each tick a mark (stamps drawn so far, tick) -> the tick of any stamp, straight between marks
//! Invariants: marks rise; an item was stored no later than it was last used
//! Units:      ticks since the store was made; a turnover of the memory is 64. Seconds are ticks times the mean seconds
//!             of those remembered; while the seconds stand still (a replay without times to live) a tick is a second
//! Cost:       4 KiB per store and per cleaning thread; a binary search in 256 marks for the age of an item
//! Failure:    threads draw stamps in blocks of 64: an item of a thread that writes little looks older by what the others
//!             wrote meanwhile

use super::Usage;

/// Marks kept. The youngest 100 or so are a tick apart, the older the wider.
const MARKS: usize = 256;

/// So many stamps had been drawn when a tick began.
#[derive(Clone, Copy, Default, Debug)]
struct Mark {
    stamp: u64,
    tick: f64,
}

/// Marks of the ticks so far.
#[derive(Clone, Debug)]
pub(crate) struct History {
    marks: Vec<Mark>,
}

impl Default for History {
    fn default() -> Self {
        let mut marks = Vec::with_capacity(MARKS);
        marks.push(Mark::default());
        Self { marks }
    }
}

impl History {
    /// Marks a tick that begins. Of too many marks the one goes that is missed least: the least gap for its age.
    pub(crate) fn begin_tick(&mut self, tick: u32, stamp: u64) {
        let tick = f64::from(tick);
        if self.marks.last().is_some_and(|last| tick <= last.tick) {
            // The ticks have come round: what was before is as good as new.
            self.marks.clear();
        }
        if self.marks.len() == MARKS {
            let gap =
                |i: usize| (self.marks[i + 1].tick - self.marks[i - 1].tick) / (tick - self.marks[i].tick);
            let least = (1..MARKS - 1).min_by(|a, b| gap(*a).total_cmp(&gap(*b))).unwrap_or(1);
            self.marks.remove(least);
        }
        self.marks.push(Mark { stamp, tick });
    }

    fn copy_to(&self, marks: &mut Vec<Mark>) {
        marks.clear();
        marks.extend_from_slice(&self.marks);
    }

    fn tick_of(marks: &[Mark], stamp: u64, now: Mark) -> f64 {
        let after = marks.partition_point(|mark| mark.stamp <= stamp);
        let Some(low) = after.checked_sub(1).map(|i| marks[i]) else {
            return marks.first().map_or(now.tick, |first| first.tick);
        };
        let high = marks.get(after).copied().unwrap_or(now);
        let part = (stamp - low.stamp) as f64 / high.stamp.saturating_sub(low.stamp).max(1) as f64;
        low.tick + part.min(1.0) * (high.tick - low.tick)
    }
}

/// The time of one pass.
#[derive(Clone, Default, Debug)]
pub(crate) struct Clock {
    marks: Vec<Mark>,
    now: Mark,
    now_secs: u32,
    secs_per_tick: f64,
}

impl Clock {
    /// Takes the time: `tick` with its passed part, stamps drawn so far, seconds now and at the oldest tick known, and
    /// the ticks since that.
    pub(crate) fn take(&mut self, history: &History, tick: f64, stamp: u64, secs: (u32, u32), ticks: u32) {
        history.copy_to(&mut self.marks);
        self.now = Mark { stamp, tick };
        self.now_secs = secs.0;
        let passed = secs.0.saturating_sub(secs.1);
        self.secs_per_tick = if passed == 0 { 1.0 } else { f64::from(passed) / f64::from(ticks.max(1)) };
    }

    /// Ticks since an item was last used, at least half of one: it was used somewhere in its tick.
    #[inline]
    fn ticks_unused(item: &Usage) -> f64 {
        f64::from(item.age) + 0.5
    }

    /// Ticks since an item was stored.
    #[inline]
    pub(super) fn ticks_stored(&self, item: &Usage) -> f64 {
        let stored = self.now.tick - History::tick_of(&self.marks, item.stamp, self.now);
        stored.max(Self::ticks_unused(item))
    }

    /// Seconds since an item was last used.
    #[inline]
    pub(super) fn secs_unused(&self, item: &Usage) -> f64 {
        Self::ticks_unused(item) * self.secs_per_tick
    }

    /// Seconds since an item was stored.
    #[inline]
    pub(super) fn secs_stored(&self, item: &Usage) -> f64 {
        self.ticks_stored(item) * self.secs_per_tick
    }

    /// Seconds until an item expires; without end if it does not.
    #[inline]
    pub(super) fn secs_left(&self, item: &Usage) -> f64 {
        match item.expires_at {
            0 => f64::INFINITY,
            at => f64::from(at.saturating_sub(self.now_secs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that draws so many stamps in each tick.
    fn clock(stamps_per_tick: impl Fn(u32) -> u64, ticks: u32) -> Clock {
        let mut history = History::default();
        let mut stamp = 0;
        for tick in 1..=ticks {
            stamp += stamps_per_tick(tick);
            history.begin_tick(tick, stamp);
        }
        assert!(history.marks.len() <= MARKS && history.marks.capacity() == MARKS);
        let mut clock = Clock::default();
        clock.take(&history, f64::from(ticks), stamp, (2, 2), ticks);
        clock
    }

    #[test]
    fn ages_are_exact_while_young_and_within_three_percent_when_old() {
        for ticks in [10, 200, 1_000, 100_000] {
            // Ticks of 1,000 stamps and of 3,000 in turn.
            let clock = clock(|tick| 1_000 + u64::from(tick % 2) * 2_000, ticks);
            for age in [1, 3, 50, 190, 900, 40_000].into_iter().filter(|age| *age < ticks) {
                let stamp = u64::from((ticks - age) / 2 * 4_000 + (ticks - age) % 2 * 3_000);
                let told = clock.ticks_stored(&Usage { stamp, ..Usage::default() });
                let error = (told - f64::from(age)).abs();
                assert!(error <= 1.0 + 0.03 * f64::from(age), "{ticks}: {age} told as {told}");
            }
        }
    }

    #[test]
    fn nothing_was_stored_after_its_last_use_or_before_the_store() {
        let clock = clock(|_| 100, 50);
        let age = |stamp, age| clock.ticks_stored(&Usage { stamp, age, ..Usage::default() });
        assert!((age(5_000, 20) - 20.5).abs() < 1e-9);
        assert!((age(u64::MAX, 0) - 0.5).abs() < 1e-9);
        assert!((age(0, 0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_tick_is_its_mean_in_seconds_or_one() {
        let history = History::default();
        let mut clock = Clock::default();
        let item = Usage { age: 9, expires_at: 500, ..Usage::default() };
        clock.take(&history, 10.0, 0, (402, 2), 100);
        assert!((clock.secs_unused(&item) - 38.0).abs() < 1e-9);
        assert!((clock.secs_left(&item) - 98.0).abs() < 1e-9);
        assert!(clock.secs_left(&Usage::default()).is_infinite());
        clock.take(&history, 10.0, 0, (402, 402), 100);
        assert!((clock.secs_unused(&item) - 9.5).abs() < 1e-9);
    }
}
