//! The heads of a tier under generated schedules.

use super::*;
use crate::shuttle_tests::OPTIONS;
use crate::sync::explore;
use media::DaxTier;
use media::faults::Recorder;
use shuttle::thread;
use units::Rng;

/// One thread notes a record while another seals the segment that it is in: whoever is second lets the bit survive.
#[test]
fn a_record_that_is_noted_while_its_segment_is_sealed_survives() {
    explore(300, || {
        let device = Arc::new(DaxTier::recorded(Bytes::mib(1), Recorder::default()).unwrap());
        let tier = Arc::new(Tier::new(0, Arc::clone(&device) as _, &OPTIONS).unwrap());
        let (own_space, stamp, cas, client_flags, expires_wall, state) = (true, 1, None, 0, 0, 0);
        let owner = Owner(0);
        let fields = Fields { owner, own_space, stamp, cas, client_flags, expires_wall, state };
        let epochs = Arc::new(Epochs::new());
        let made = tier.append(&epochs, (0, 0), &fields, b"key", [&[7; 100], &[]]).unwrap();
        let noting = thread::spawn({
            let tier = Arc::clone(&tier);
            move || tier.hold(made)
        });
        tier.seal_parked();
        noting.join().unwrap();
        for seed in 0..6 {
            let crash = device.acts().crash(device.acts().moments(), &mut Rng::new(seed));
            let (after, segment) = (crash.tier(&device).unwrap(), Bytes(tier.segments.bytes()));
            let notes = Notes::new(Arc::new(after), segment, OPTIONS.tenants_max).unwrap();
            assert!(notes.is_live(made.at), "it is forgotten");
        }
    });
}
