//! S11: traps of the released allocator that ours does not fall into.

use super::{STEP, close, fig_3_bids, total};
use policy::joint::{Auction, Bidder, Bundle};

/// The released allocator spends 97 % of each budget and leaves 7 % of the bandwidth unsold.
#[test]
fn s11_no_margin_leaves_bandwidth_unsold() {
    let mut auction = Auction::default();
    auction.run(&fig_3_bids());
    let sum = total(auction.bundles());
    assert!(1.0 - 3.0 * STEP <= sum.memory.min(sum.bandwidth), "{sum:?}");
}

/// The released allocator, limited to five steps around the static start, leaves the first bidder below its static share.
#[test]
fn s11_a_window_leaves_nobody_below_static() {
    let mut auction = Auction::default();
    let mut bids = fig_3_bids();
    let mut held: Vec<f64> = bids.iter().map(|bid| bid.terms.endowment.memory).collect();
    for round in 0..60 {
        for (bid, memory) in bids.iter_mut().zip(&held) {
            let now = bid.range.nearest(*memory);
            bid.window = (now.saturating_sub(5), (now + 5).min(200));
        }
        auction.run(&bids);
        for (bid, got) in bids.iter().zip(auction.bundles()) {
            let home = bid.utility(bid.terms.endowment);
            assert!(home * (1.0 - 1e-5) <= bid.utility(*got), "round {round}: {got:?}");
        }
        held = auction.bundles().iter().map(|bundle| bundle.memory).collect();
    }
    // Small steps arrive where one large step does.
    let first = auction.bundles()[0];
    assert!(close(first.memory, 0.434, 0.02) && close(first.bandwidth, 0.1886, 0.03), "{first:?}");
}

/// The released allocator divides by zero once somebody holds no bandwidth.
#[test]
fn s11_a_bidder_may_hold_none_of_one() {
    let mut auction = Auction::default();
    let mut bids = fig_3_bids();
    for bid in &mut bids {
        bid.terms.endowment.bandwidth = 0.0;
    }
    bids[1].terms.endowment = Bundle { memory: 0.0, bandwidth: 1.0 };
    bids[0].terms.endowment.memory = 0.5;
    bids[2].terms.endowment.memory = 0.5;
    auction.run(&bids);
    for (bid, got) in bids.iter().zip(auction.bundles()) {
        assert!(got.memory.is_finite() && got.bandwidth.is_finite(), "{got:?}");
        assert!(bid.utility(bid.terms.endowment) * (1.0 - 1e-5) <= bid.utility(*got), "{got:?}");
    }
}
