//! What holds threads back that a start has made, until it is sure to serve.
//!
//! Invariants: whoever waits acts if and only if the gate was opened; a start that fails lets all of them go

use crossbeam_channel::{Receiver, Sender};

/// The gate: those behind it act once it is open.
#[derive(Default)]
pub(super) struct Gate(Vec<Sender<()>>);

/// A place behind the gate.
pub(super) struct Pass(Receiver<()>);

impl Gate {
    /// Another place.
    pub(super) fn pass(&mut self) -> Pass {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        self.0.push(sender);
        Pass(receiver)
    }

    /// Lets everybody act.
    pub(super) fn open(self) {
        for sender in self.0 {
            // One whose thread is not there any more needs nothing.
            let _gone = sender.send(());
        }
    }
}

impl Pass {
    /// Acts once the gate is open; not at all if it never is.
    pub(super) fn wait(self, act: impl FnOnce()) {
        if self.0.recv().is_ok() {
            act();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_acts_only_where_the_gate_was_opened() {
        let acted = |is_opened: bool| {
            let mut gate = Gate::default();
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    let pass = gate.pass();
                    std::thread::spawn(move || {
                        let mut acted = false;
                        pass.wait(|| acted = true);
                        acted
                    })
                })
                .collect();
            if is_opened {
                gate.open()
            } else {
                drop(gate)
            }
            waiting.into_iter().filter_map(|thread| thread.join().ok()).filter(|acted| *acted).count()
        };
        assert_eq!((acted(true), acted(false)), (3, 0));
    }
}
