//! Whether segments that are half dead are cleaned before anybody needs room: as long as cleaning keeps to its limit with it.
//!
//! Shape:      whether the limit was kept, and with time to spare -> whether what is mostly dead is reclaimed without need
//! Invariants: above the limit it ends at once, for no level has its cost in it; it begins again after a time with time to spare,
//!             which doubles whenever it went well for less than that, and halves whenever it went well for longer
//! Units:      time in `INTERVAL_MAX`

/// How long there has to be time to spare, at least and at most: some seconds, some minutes (guess).
const PATIENCE: (f64, f64) = (8.0, 512.0);

/// Whether it is done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spare {
    is_done: bool,
    /// How long it has been done, or there has been time to spare while it was not.
    calm: f64,
    patience: f64,
}

impl Spare {
    pub(super) fn new() -> Self {
        // The first time that it is too much it begins again after the least.
        Self { is_done: true, calm: 0.0, patience: PATIENCE.0 / 2.0 }
    }

    pub(super) fn is_done(self) -> bool {
        self.is_done
    }

    /// Cleaning was above its limit.
    pub(super) fn exceeded(&mut self) {
        if self.is_done {
            let times = if self.calm < self.patience { 2.0 } else { 0.5 };
            self.patience = (self.patience * times).clamp(PATIENCE.0, PATIENCE.1);
        }
        (self.is_done, self.calm) = (false, 0.0);
    }

    /// It was within, for a time.
    pub(super) fn kept(&mut self, time: f64, has_time_to_spare: bool) {
        if !self.is_done && !has_time_to_spare {
            self.calm = 0.0;
            return;
        }
        self.calm += time;
        if !self.is_done && self.patience <= self.calm {
            (self.is_done, self.calm) = (true, 0.0);
        }
    }

    #[cfg(test)]
    pub(super) fn patience(self) -> f64 {
        self.patience
    }
}
