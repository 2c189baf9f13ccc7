//! What each tenant keeps of what a pass has seen, and the ranks that follow from it.
//!
//! Shape:      bytes by rank and tenant, targets, floors, how much goes -> bytes kept per tenant -> a threshold per tenant
//! Invariants: nobody falls below its floor while another keeps something beyond its own; what can go to a tier goes first;
//!             tenants that compete by worth keep together what need gives them together
//! Units:      bytes charged

use super::cut::Cut;
use super::worth::by_worth;
use super::{Census, floor_of, seen_in};
use crate::sources::Sums;
use crate::store::Store;
use crate::survivors::{Candidate, Contender, compete, keep, part_of};
use control::GroupId;
use units::{Bytes, TenantId};

/// What is counted of a tenant with records in tiers is believed down to one part in so many of what samples say (guess: twice what few
/// samples are off by).
const COUNTED_LEAST: u64 = 4;

/// How a tenant competes by worth in a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pooled {
    /// With whom: the others of its group, or all that are in none.
    group: Option<GroupId>,
    /// Ranks by which its items are worth more than theirs.
    more: i16,
    /// Which of the pass's rows has its bytes by what they are worth.
    row: usize,
}

impl Census {
    /// Of each tenant the sources hold the same part of what it holds, `part` of `whole`: that is surer than what samples of a
    /// few of its items stand for. And of the bytes that `come` each writes as of late: from `written` on, which is brought up to
    /// date. Who writes nothing is not to lose what others will need. Notes what hits the ranks let expect while that was written
    /// which no survey of any thread has seen.
    pub(crate) fn expect(
        &mut self,
        store: &Store,
        (part, whole): (u64, u64),
        come: u64,
        written: &mut Vec<u64>,
    ) {
        let tenant_of = |i: usize| store.tenant(TenantId(u32::try_from(i).unwrap_or(u32::MAX)));
        // For a thread that has not surveyed yet it began when another last did.
        written.extend((written.len()..self.seen.len()).map(|i| tenant_of(i).surveyed_until()));
        let mut unsurveyed = 0;
        for (i, seen) in self.seen.iter_mut().enumerate() {
            let Some(seen) = seen else { continue };
            let tenant = tenant_of(i);
            let below = seen.below.as_ref().map_or(0, |below| below.sampled);
            let counted = part_of(tenant.held_here().0, part, whole);
            // What has expired in tiers is taken off what is counted here: then samples are surer.
            let has_below = tenant.held_below() != Bytes::ZERO;
            let least = if has_below { (seen.sampled + below) / COUNTED_LEAST } else { 0 };
            let inside = counted.max(least);
            let inside_below = part_of(inside, below, seen.sampled + below);
            seen.expected *= inside as f64 / (seen.sampled + below).max(1) as f64;
            seen.inside = inside - inside_below;
            seen.below.iter_mut().for_each(|below| below.inside = inside_below);
            let now = store.raw_totals(tenant.id).dram_write.bytes;
            unsurveyed += tenant.take_unsurveyed(now);
            seen.coming = now.saturating_sub(std::mem::replace(&mut written[i], now));
        }
        let turned = store.turned(Bytes(unsurveyed));
        let ticks = turned as f64 / store.tick_bytes as f64 * whole as f64 / part.max(1) as f64;
        for (i, seen) in self.seen.iter().enumerate() {
            let Some(seen) = seen else { continue };
            tenant_of(i).expect_hits(seen.expected * ticks);
        }
        let all = self.seen.iter().flatten().map(|seen| seen.coming).sum();
        self.seen.iter_mut().flatten().for_each(|seen| seen.coming = part_of(come, seen.coming, all));
    }

    /// Gathers what each tenant has in the sources and elsewhere, and what it should have. Returns what of the sources
    /// belongs to floors.
    pub(crate) fn gather(&mut self, store: &Store) -> u64 {
        self.order.clear();
        self.candidates.clear();
        let all = Sums::of(store);
        for (i, seen) in self.seen.iter_mut().enumerate() {
            let Some(seen) = seen else { continue };
            let tenant = store.tenant(TenantId(u32::try_from(i).unwrap_or(u32::MAX)));
            let target = tenant.share().target;
            let worth = tenant.worth();
            seen.floor = floor_of(tenant);
            seen.least = seen.floor;
            // Who competes has no part but its floor.
            seen.is_over = if worth.is_some() { seen.floor < tenant.held().0 } else { all.is_over(tenant) };
            let row = match (seen.hits, &seen.spec.rank) {
                _ if worth.is_none() => None,
                (_, rank) if rank.is_absolute() => Some(seen.row),
                (Some(hits), _) => {
                    self.rows.push(by_worth(&self.rows[seen.row], &self.hits[hits], seen.pinned));
                    Some(self.rows.len() - 1)
                }
                // Who began to compete while samples were taken does so from the next survey on.
                (None, _) => None,
            };
            if let Some(below) = &mut seen.below {
                below.by_worth = match (below.hits, worth) {
                    (_, None) => None,
                    (Some(hits), _) => {
                        self.rows.push(by_worth(&self.rows[below.row], &self.hits[hits], 0));
                        Some(self.rows.len() - 1)
                    }
                    (None, _) => seen.spec.rank.is_absolute().then_some(below.row),
                };
            }
            seen.pool = worth.zip(row).map(|(worth, row)| Pooled {
                group: seen.spec.claim.group.filter(|_| worth.within_group),
                more: worth.more,
                row,
            });
            self.order.push(i);
            self.candidates.push(Candidate {
                inside: seen.inside,
                elsewhere: tenant.held().0.saturating_sub(seen.inside) + seen.coming,
                target: target.0,
                floor: seen.floor,
            });
        }
        self.candidates.iter().map(Candidate::below_floor).sum()
    }

    /// Divides a budget among the tenants gathered, and sets their thresholds. What can go to a tier goes first: that costs
    /// the time of slower hits, the rest costs hits.
    pub(crate) fn divide(&mut self, store: &Store, budget: u64) {
        self.divide_deeply(store, self.inside().saturating_sub(budget), (1, 1));
    }

    /// From now on nobody is brought below what it has when all are level and `cut` bytes have gone.
    pub(crate) fn level(&mut self, store: &Store, cut: u64) {
        self.candidates.clear();
        let tenant_of = |i: usize| store.tenant(TenantId(u32::try_from(i).unwrap_or(u32::MAX)));
        self.candidates.extend(self.seen.iter().enumerate().filter_map(|(i, seen)| {
            let (seen, tenant) = (seen.as_ref()?, tenant_of(i));
            let target = tenant.share().target.0;
            Some(Candidate { inside: tenant.held().0, elsewhere: 0, target, floor: seen.floor })
        }));
        let held: u64 = self.candidates.iter().map(|c| c.inside).sum();
        keep(held.saturating_sub(cut), &self.candidates, &mut self.kept);
        for (seen, kept) in self.seen.iter_mut().flatten().zip(&self.kept) {
            // By worth nobody has a level.
            seen.least = if seen.pool.is_some() { seen.floor } else { seen.floor.max(*kept) };
        }
    }

    /// Divides what is left when `cut` of it goes, and sets the thresholds as if each lost `times` as much.
    pub(crate) fn divide_deeply(&mut self, store: &Store, cut: u64, (times, of): (u64, u64)) {
        let below = self.inside_below();
        let goes_below = cut.min(below);
        if 0 < goes_below {
            let deeply = goes_below.saturating_mul(times) / of;
            self.divide_below(store, below.saturating_sub(deeply));
        }
        let inside: u64 = self.candidates.iter().map(|c| c.inside).sum();
        keep(inside.saturating_sub(cut - goes_below), &self.candidates, &mut self.kept);
        if of < times {
            for (candidate, kept) in self.candidates.iter().zip(&mut self.kept) {
                let goes = (candidate.inside - *kept).saturating_mul(times) / of;
                *kept = candidate.inside.saturating_sub(goes).max(candidate.below_floor());
            }
        }
        self.divide_by_worth();
        self.set_thresholds(store);
    }

    /// Divides what tenants that compete by worth keep together among them, so that what is worth least goes.
    fn divide_by_worth(&mut self) {
        let pooled = self.order.iter().zip(&self.candidates).map(|(&i, candidate)| {
            let (seen, pool) = self.seen[i].as_ref().and_then(|seen| Some((seen, seen.pool?)))?;
            // Who is at its floor loses nothing before it has written more: the next survey is soon enough.
            let now = Candidate { elsewhere: candidate.elsewhere - seen.coming, ..*candidate };
            let contender = Contender {
                by_worth: &self.rows[pool.row],
                sampled: seen.sampled,
                inside: candidate.inside,
                below_floor: now.below_floor(),
                more: pool.more,
            };
            Some((pool.group, contender))
        });
        compete(&pooled.collect::<Vec<_>>(), &mut self.kept);
    }

    /// The same for what can go to a tier: who holds most for its share has the least of it in DRAM; of those that compete by worth
    /// what is worth least goes there, but where somebody says what of DRAM each is to have.
    fn divide_below(&mut self, store: &Store, budget: u64) {
        let tenant_of = |i: usize| store.tenant(TenantId(u32::try_from(i).unwrap_or(u32::MAX)));
        let below_of = |i: usize| self.seen[i].as_ref().and_then(|seen| seen.below.as_ref());
        let candidate = |i: &usize| {
            let inside = below_of(*i).map_or(0, |below| below.inside);
            let (held, target) = tenant_of(*i).near();
            Candidate { inside, elsewhere: held.0.saturating_sub(inside), target: target.0, floor: 0 }
        };
        let candidates: Vec<Candidate> = self.order.iter().map(candidate).collect();
        keep(budget, &candidates, &mut self.kept);
        let pooled = self.order.iter().map(|&i| {
            let below = below_of(i)?;
            let pool = self.seen[i].as_ref()?.pool.filter(|_| tenant_of(i).dram_target().is_none())?;
            let contender = Contender {
                by_worth: &self.rows[below.by_worth?],
                sampled: below.sampled,
                inside: below.inside,
                below_floor: 0,
                more: pool.more,
            };
            Some((pool.group, contender))
        });
        compete(&pooled.collect::<Vec<_>>(), &mut self.kept);
        for (&i, &kept) in self.order.iter().zip(&self.kept) {
            if let Some(below) = self.seen[i].as_mut().and_then(|seen| seen.below.as_mut()) {
                let kept_of_sampled = of_sampled(below.sampled, kept, below.inside);
                below.cut = Cut::keeping(kept_of_sampled, &self.rows[below.row]);
            }
        }
    }

    /// Leaves one tenant so much less than it has in the sources.
    pub(crate) fn take_from(&mut self, store: &Store, tenant: TenantId, excess: u64) {
        let seen = seen_in(&mut self.seen, (&mut self.rows, &mut self.hits), store, tenant);
        self.kept.clear();
        self.kept.push(seen.inside.saturating_sub(excess));
        self.order.clear();
        self.order.push(tenant.index());
        self.set_thresholds(store);
    }

    /// Turns kept bytes into a rank below which items go.
    fn set_thresholds(&mut self, store: &Store) {
        for (&i, &kept) in self.order.iter().zip(&self.kept) {
            let Some(seen) = &mut self.seen[i] else { continue };
            let bytes_by_bin = &self.rows[seen.row];
            let kept_of_sampled = of_sampled(seen.sampled, kept, seen.inside);
            seen.cut = Cut::keeping(kept_of_sampled, bytes_by_bin);
            seen.median = Cut::keeping(kept_of_sampled / 2, bytes_by_bin).rank();
            if kept < seen.inside {
                let tenant = store.tenant(TenantId(u32::try_from(i).unwrap_or(u32::MAX)));
                let kind = &seen.spec.rank;
                tenant.set_level(
                    kind,
                    kind.level_after(&bytes_by_bin.map(u64::from), seen.cut.rank(), seen.level),
                );
            }
        }
    }
}

/// The part of what was sampled that is kept; all of it where nothing is said to be there that anything could be taken from.
fn of_sampled(sampled: u64, kept: u64, inside: u64) -> u64 {
    if inside == 0 { sampled } else { part_of(sampled, kept, inside) }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use crate::{Fields, Mode, Options, RankKind, Space, Store, TenantSpec, Worker};
    use control::Claim;
    use std::sync::Arc;
    use units::{Bytes, TenantId};

    const TENANT: TenantId = TenantId(0);

    fn new_store() -> Arc<Store> {
        let (memory, item_max) = (Bytes::mib(8), Bytes::kib(8));
        let options = Options { memory, item_max, threads: 2, tenants_max: 1, no_evict: false, seed: 1 };
        let store = Store::new(options).unwrap();
        let (name, claim, rank) = ("t".to_owned(), Claim::default(), RankKind::default());
        store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
        store
    }

    /// Items of a KiB that fill the memory.
    const TURNOVER: u32 = 8 << 10;

    /// Stores items, which `cleans` makes room for.
    fn write(worker: &mut Worker, items: std::ops::Range<u32>, mut cleans: impl FnMut(&mut Worker)) {
        for n in items {
            let text = format!("{n:08}");
            loop {
                let key = worker.key(Space::Own(TENANT), text.as_bytes()).unwrap();
                if worker.set(TENANT, &key, Mode::Set, Fields::default(), &[7; 980]).is_ok() {
                    break;
                }
                cleans(worker);
            }
            worker.quiesce();
        }
    }

    /// The first survey of a thread expects hits for what was written since that of another, not since the store began.
    #[test]
    fn a_thread_that_cleans_for_the_first_time_expects_no_more_than_others() {
        let store = new_store();
        let mut first = store.worker().unwrap();
        write(&mut first, 0..20 * TURNOVER, |worker| worker.make_room().unwrap());
        store.tenant(TENANT).take_expected_hits();
        write(&mut first, 20 * TURNOVER..21 * TURNOVER, |worker| worker.make_room().unwrap());
        let of_a_turnover = store.tenant(TENANT).take_expected_hits();
        let mut second = store.worker().unwrap();
        second.clean();
        let of_the_first = store.tenant(TENANT).take_expected_hits();
        assert!(0 < of_a_turnover && of_the_first <= of_a_turnover, "{of_the_first}, {of_a_turnover}");
    }

    /// However many threads clean, what was written is counted once.
    #[test]
    fn threads_that_clean_in_turn_expect_as_many_hits_as_one() {
        let expected = [1, 2].map(|threads| {
            let store = new_store();
            let mut workers = [(); 2].map(|()| store.worker().unwrap());
            let [writer, helper] = &mut workers;
            helper.go_offline();
            let mut turn = 0;
            write(writer, 0..12 * TURNOVER, |writer| {
                turn += 1;
                if turn % threads == 0 {
                    writer.make_room().unwrap();
                } else {
                    writer.go_offline();
                    helper.go_online();
                    helper.make_room().unwrap();
                    helper.go_offline();
                    writer.go_online();
                }
            });
            store.tenant(TENANT).take_expected_hits()
        });
        assert!(expected[1].abs_diff(expected[0]) < expected[0] / 4, "{expected:?}");
    }
}
