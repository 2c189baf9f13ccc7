//! Bends a miss ratio curve so that it passes through what is measured at the present size.
//!
//! Shape:      an LRU curve, a size, the miss ratio measured there -> the curve of the cache as it is
//! Invariants: the result falls as the curve does; at the size it has the measured ratio, where the curve falls there at all
//! Source:     ours; the hull is Talus' (Beckmann and Sanchez, HPCA '15). What a sample is off by is the same at every size (keys
//!             that are asked more than their part of all fell into it, or did not): up to `slack` the curve is shifted. What is left
//!             is the order. A better one than LRU has hits where LRU's curve is flat, for it keeps a part of what is asked for in
//!             turn: up to the present the curve goes towards its convex hull as far as the measured ratio says. If that is not
//!             enough the cache is as one that is larger: its sizes are stretched. Beyond the present LRU's curve holds, no higher
//!             than what is measured; where sizes are stretched, both that and a stretch of the misses that memory can avoid are
//!             guesses, one mostly too low, the other too high: the middle

use control::Curve;
use units::Bytes;

/// Misses that no memory avoids are at most this part of what is measured: a curve must not turn flat or over where the
/// sample puts its end too high (guess; .8 to 1 differ by less than .001).
const END_PART: f64 = 0.9;

/// A size in bytes and the miss ratio there.
type Point = (f64, f64);

/// The curve through the miss ratio measured at a size; up to `slack` of the difference is the sample's error.
#[must_use]
pub fn through(curve: &Curve, at: Bytes, measured: f64, slack: f64) -> Curve {
    let falls = curve.points().first().map(|point| point.1) > curve.points().last().map(|point| point.1);
    if !(0.0..=1.0).contains(&measured) || at == Bytes::ZERO || !falls {
        return curve.clone();
    }
    let shift = (measured - curve.miss_ratio(at)).clamp(-slack, slack);
    // Without memory all is missed, whatever was sampled.
    let shift_at = |size: Bytes| if size == Bytes::ZERO { 0.0 } else { shift };
    let shifted = |&(size, ratio): &(Bytes, f64)| (size.0 as f64, (ratio + shift_at(size)).clamp(0.0, 1.0));
    let mut points: Vec<Point> = curve.points().iter().map(shifted).collect();
    let present = (at.0 as f64, measured);
    lower_end(&mut points, measured);
    Curve::new(whole(bend(&towards_hull(&points, present), &points, present)))
        .unwrap_or_else(|_| curve.clone())
}

/// Multiplies the hits so that the curve ends no higher than what is measured; by degrees, for a little better than the end may be its error.
fn lower_end(points: &mut [Point], measured: f64) {
    let end = end_of(points);
    if measured < end && end < 1.0 {
        let part = ((end - measured) / (end * (1.0 - END_PART))).min(1.0);
        let most = measured * (1.0 - (1.0 - END_PART) * part);
        points.iter_mut().for_each(|point| point.1 = 1.0 - (1.0 - point.1) * (1.0 - most) / (1.0 - end));
    }
}

/// A curve that lies above the present, moved towards its convex hull until it passes through the present or is the hull.
fn towards_hull(points: &[Point], (size, measured): Point) -> Vec<Point> {
    let hull = hull(points);
    let (lru, best) = (ratio_at(points, size), ratio_at(&hull, size));
    let is_above = measured < lru && best < lru;
    let part = if is_above { ((lru - measured) / (lru - best)).min(1.0) } else { 0.0 };
    points.iter().map(|point| (point.0, point.1 + (ratio_at(&hull, point.0) - point.1) * part)).collect()
}

/// The corners of the largest convex function that is nowhere above the points.
fn hull(points: &[Point]) -> Vec<Point> {
    let slope = |a: Point, b: Point| (b.1 - a.1) / (b.0 - a.0);
    let mut corners: Vec<Point> = Vec::new();
    for &point in points {
        while let [.., before, last] = corners[..]
            && slope(last, point) <= slope(before, last)
        {
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// The curve bent so that it passes through the present: before it that of the hull, stretched in sizes where the present lies below, and in
/// ratios elsewhere; after it LRU's, half stretched in sizes and half in ratios. What is kept of a loop grows by less than the hull says at
/// first, and comes only once all of it was asked for.
fn bend(before: &[Point], after: &[Point], (here, measured): Point) -> Vec<Point> {
    let (end, there) = (end_of(after).min(measured * END_PART), ratio_at(before, here));
    let larger = if measured < there { size_for(before, measured) / here } else { 1.0 };
    let hits = if there < 1.0 { (1.0 - measured) / (1.0 - there) } else { 1.0 };
    let mut bent: Vec<Point> = Vec::with_capacity(before.len() + 1);
    for &(size, ratio) in before.iter().take_while(|point| point.0 < here * larger) {
        let ratio = if measured < there { ratio } else { 1.0 - (1.0 - ratio) * hits };
        bent.push((size / larger, ratio.max(measured)));
    }
    bent.push((here, measured));
    // Where a stretched curve falls it has corners of its own; those within half a byte of the present are the present.
    let mut sizes: Vec<f64> = after.iter().flat_map(|point| [point.0 / larger, point.0]).collect();
    sizes.retain(|size| here + 0.5 <= *size);
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let fewer_misses = |ratio: f64| {
        if end < there { end + (ratio - end) * (measured - end) / (there - end) } else { measured }
    };
    bent.extend(sizes.into_iter().map(|size| {
        let fewer = fewer_misses(ratio_at(after, size)).min(measured);
        let as_larger = ratio_at(after, size * larger).min(measured);
        (size, if measured < there { f64::midpoint(fewer, as_larger) } else { fewer })
    }));
    bent
}

/// Points at whole bytes, one per size, each ratio one that the invariants of a curve allow.
fn whole(points: Vec<Point>) -> Vec<(Bytes, f64)> {
    let mut whole: Vec<(Bytes, f64)> = Vec::with_capacity(points.len());
    let mut least = 1.0_f64;
    for (size, ratio) in points {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
        let size = Bytes(size.round() as u64);
        least = least.min(ratio.clamp(0.0, 1.0));
        match whole.last_mut() {
            Some(last) if last.0 == size => last.1 = least,
            _ => whole.push((size, least)),
        }
    }
    whole
}

fn end_of(points: &[Point]) -> f64 {
    points.last().map_or(0.0, |point| point.1)
}

/// The ratio at a size: linear between points, constant outside.
fn ratio_at(points: &[Point], size: f64) -> f64 {
    let after = points.partition_point(|point| point.0 <= size);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (Some(low), Some(high)) => low.1 + (high.1 - low.1) * (size - low.0) / (high.0 - low.0),
        (Some(point), None) => point.1,
        (None, point) => point.map_or(0.0, |point| point.1),
    }
}

/// The least size at which the ratio is `wanted` or less; the last one if there is none.
fn size_for(points: &[Point], wanted: f64) -> f64 {
    let after = points.partition_point(|point| wanted < point.1);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (Some(high), Some(low)) => high.0 + (low.0 - high.0) * (high.1 - wanted) / (high.1 - low.1),
        (Some(point), None) | (None, Some(&point)) => point.0,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    fn curve() -> Curve {
        let points = [(0, 1.0), (100, 0.6), (200, 0.4), (400, 0.2)];
        Curve::new(points.map(|(size, ratio)| (Bytes(size), ratio))).unwrap()
    }

    fn assert_near(curve: &Curve, size: u64, ratio: f64) {
        let there = curve.miss_ratio(Bytes(size));
        assert!((there - ratio).abs() < 2e-3, "{size}: {there}, not {ratio}");
    }

    #[test]
    fn the_curve_passes_through_what_is_measured() {
        for (at, measured) in [(100, 0.6), (100, 0.3), (200, 0.9), (150, 0.1), (50, 1.0)] {
            for slack in [0.0, 0.05, 1.0] {
                let bent = through(&curve(), Bytes(at), measured, slack);
                assert!((bent.miss_ratio(Bytes(at)) - measured).abs() < 1e-9, "{at} {measured}");
                assert!(bent.miss_ratio(Bytes(at * 2)) <= measured);
            }
        }
    }

    /// Any curve and any present: what comes out is a curve and passes through it, before the curve's end, at it and beyond.
    #[test]
    fn every_curve_passes_through_every_present() {
        let mut rng = Rng::new(7);
        for case in 0..2_000 {
            let (mut size, mut ratio) = (0, 1.0);
            let mut points = vec![(Bytes(0), 1.0)];
            for _ in 0..2 + rng.below(6) {
                size += 1 + rng.below(10_000);
                ratio *= [1.0, 0.99, 0.5, 0.1, 0.0][rng.index(5)];
                points.push((Bytes(size), ratio));
            }
            let curve = Curve::new(points).unwrap();
            let at = Bytes(1 + rng.below(size + size / 2));
            let measured = [0.0, 1.0, 0.5, 0.02, 0.97, curve.miss_ratio(at)][rng.index(6)];
            let slack = [0.0, 0.02, 1.0][rng.index(3)];
            let bent = through(&curve, at, measured, slack);
            let there = bent.miss_ratio(at);
            let is_flat = 1.0 <= ratio;
            assert!(
                is_flat || (there - measured).abs() < 1e-9,
                "{case}: {there} of {measured} at {at:?}, {curve:?}"
            );
        }
    }

    /// A loop of 600 bytes, a third of it in memory: LRU has no hit, the most that can be is a third, a fifth was measured. More memory is
    /// promised nothing before all of it fits.
    #[test]
    fn what_keeps_a_part_of_a_loop_has_hits_in_proportion() {
        for knots in [&[0, 599, 600][..], &[0, 200, 599, 600], &[0, 199, 201, 599, 600]] {
            let looped = |&size: &u64| (Bytes(size), if size < 600 { 1.0 } else { 0.0 });
            let looped = Curve::new(knots.iter().map(looped).collect::<Vec<_>>()).unwrap();
            let bent = through(&looped, Bytes(200), 0.8, 0.0);
            for (size, ratio) in
                [(0, 1.0), (50, 0.95), (100, 0.9), (200, 0.8), (300, 0.8), (400, 0.8), (600, 0.0)]
            {
                assert_near(&bent, size, ratio);
            }
            // Better than the hull by a little: a cache that is larger by a little, not one that holds the loop.
            for measured in [0.66, 0.6] {
                let larger = 600.0 * (1.0 - measured) / 200.0;
                let bent = through(&looped, Bytes(200), measured, 0.0);
                assert!(
                    (bent.miss_ratio(Bytes(67)) - (1.0 - 67.0 * larger / 600.0)).abs() < 0.01,
                    "{bent:?}"
                );
                assert_near(&bent, 200, measured);
                assert_near(&bent, 490, measured);
            }
        }
        // What is measured is the line's own ratio, but for rounding.
        let looped = Curve::new([(0, 1.0), (399, 1.0), (400, 0.0)].map(|(s, r)| (Bytes(s), r))).unwrap();
        for measured in [0.33, 0.4, 0.45, 0.47] {
            let bent = through(&looped, Bytes(280), measured, 0.0);
            assert_near(&bent, 140, f64::midpoint(1.0, measured));
            assert_near(&bent, 350, measured);
        }
    }

    /// Where LRU gains nothing beyond the present no other order is taken to.
    #[test]
    fn a_flat_end_stays_flat() {
        let flat =
            Curve::new([(0, 1.0), (100, 0.5), (200, 0.5), (400, 0.5)].map(|(s, r)| (Bytes(s), r))).unwrap();
        for measured in [0.6, 0.5, 0.499, 0.45, 0.3] {
            let bent = through(&flat, Bytes(150), measured, 0.0);
            assert_near(&bent, 150, measured);
            assert_near(&bent, 400, measured);
        }
    }

    /// A sample that stands for too few look-ups: LRU's curve is too high at every size but none.
    #[test]
    fn without_memory_all_is_missed_whatever_was_sampled() {
        for (measured, slack) in [(0.55, 0.1), (0.95, 0.1), (0.3, 0.05)] {
            let bent = through(&curve(), Bytes(100), measured, slack);
            assert_near(&bent, 0, 1.0);
            assert_near(&bent, 100, measured);
        }
    }

    /// Without memory all is missed, however good the order.
    #[test]
    fn a_better_order_than_lru_is_a_larger_lru() {
        let bent = through(&curve(), Bytes(100), 0.4, 0.0);
        for (size, ratio) in [(0, 1.0), (25, 0.8), (50, 0.6), (100, 0.4), (400, 0.2)] {
            assert_near(&bent, size, ratio);
        }
        // Halfway between twice the memory (.3) and half of what memory can avoid, which is between .2 and .4.
        assert_near(&bent, 200, 0.25);
    }

    #[test]
    fn nothing_measured_and_flat_curves_change_nothing() {
        assert_eq!(through(&curve(), Bytes(100), f64::NAN, 0.1), curve());
        let flat = Curve::new([(0, 0.5), (100, 0.5)].map(|(size, ratio)| (Bytes(size), ratio))).unwrap();
        assert_eq!(through(&flat, Bytes(50), 0.5, 0.1), flat);
        let none = Curve::new([(0, 0.0), (100, 0.0)].map(|(size, ratio)| (Bytes(size), ratio))).unwrap();
        assert_eq!(through(&none, Bytes(50), 0.0, 0.1), none);
    }
}
