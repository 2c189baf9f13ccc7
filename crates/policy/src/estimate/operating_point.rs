//! Bends a miss ratio curve so that it passes through what is measured at the present size.
//!
//! Shape:      an LRU curve, a size, the miss ratio measured there -> the curve of the cache as it is
//! Invariants: the result falls as the curve does; at the size it has the measured ratio, where the curve falls there at all
//! Source:     ours. A cache whose order is better than LRU misses less at every size, and all that memory can change lies
//!             above the misses that no memory avoids: the part of the curve above its end is stretched. Measured on the 22
//!             tenants of the mixed trace at 10, 20 and 40 % of their footprints under GDSF, as the mean error of the miss
//!             ratio at 20 % more and less: see `lab/tests/sampled_curves.rs`

use control::Curve;
use units::Bytes;

/// The end of the curve counts as at most this part of what is measured: a sample can put the end too high, and a curve
/// must not turn flat or over for that (guess; .8 to 1 give the same within .001).
const END_PART: f64 = 0.9;

/// The curve through the miss ratio measured at a size.
#[must_use]
pub fn through(curve: &Curve, at: Bytes, measured: f64) -> Curve {
    let end = curve.points().last().map_or(0.0, |(_, ratio)| *ratio).min(measured * END_PART);
    let above = curve.miss_ratio(at) - end;
    let stretch = (measured - end) / above;
    if !stretch.is_finite() {
        return curve.clone();
    }
    let bent = |(size, ratio): &(Bytes, f64)| (*size, (end + (ratio - end) * stretch).clamp(0.0, 1.0));
    Curve::new(curve.points().iter().map(bent).collect::<Vec<_>>()).unwrap_or_else(|_| curve.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Curve {
        let points = [(0, 1.0), (100, 0.6), (200, 0.4), (400, 0.2)];
        Curve::new(points.map(|(size, ratio)| (Bytes(size), ratio))).unwrap()
    }

    #[test]
    fn the_curve_passes_through_what_is_measured() {
        for (at, measured) in [(100, 0.6), (100, 0.3), (200, 0.9), (150, 0.1), (50, 1.0)] {
            let bent = through(&curve(), Bytes(at), measured);
            assert!((bent.miss_ratio(Bytes(at)) - measured).abs() < 1e-9, "{at} {measured}");
            assert!(bent.miss_ratio(Bytes(at * 2)) <= measured);
        }
    }

    #[test]
    fn nothing_measured_and_flat_curves_change_nothing() {
        assert_eq!(through(&curve(), Bytes(100), f64::NAN), curve());
        let flat = Curve::new([(0, 0.5), (100, 0.5)].map(|(size, ratio)| (Bytes(size), ratio))).unwrap();
        assert_eq!(through(&flat, Bytes(50), 0.5), flat);
        let none = Curve::new([(0, 0.0), (100, 0.0)].map(|(size, ratio)| (Bytes(size), ratio))).unwrap();
        assert_eq!(through(&none, Bytes(50), 0.0), none);
    }
}
