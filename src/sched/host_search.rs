//! Choosing hosts for one job: all or nothing, best ranked hosts first, one alternative after the
//! other. Reads the usage of hosts, never changes it: the caller books what a start takes.

use super::compiled_request::TrialUse;
use super::gang;
use super::host_ranking::Candidate;
use super::job_terms::JobTerms;
use super::placement::{FoundHosts, HostSlots, Shortfall};
use super::shape::{ClusterView, HostQuery, Shape, TrialHosts};
use smallvec::SmallVec;

/// Finds between the request's minimum and `terms.most` slots; returns the alternative that was
/// taken.
///
/// # Errors
/// Returns how far the search got.
pub(super) fn find(
    shape: &mut Shape,
    view: &ClusterView<'_>,
    terms: &mut JobTerms<'_>,
) -> Result<FoundHosts, Shortfall> {
    let mut short: Option<Shortfall> = None;
    if shape.alternatives_compete()
        && let Some(found) = cheapest(shape, view, terms)
    {
        return Ok(found);
    }
    let all = terms.most;
    for alt in 0..shape.alternatives.len() {
        let Some(most) = terms.max_slots_after(alt, shape.alternatives[alt].after_ms) else {
            continue;
        };
        terms.most = most;
        let number = u8::try_from(alt).expect("a request has at most 250 alternatives");
        let found = match shape.alternatives[alt].is_plain {
            true => search_plain(shape, alt, view, terms),
            false => gang::find(shape, alt, view, terms),
        };
        terms.most = all;
        match found {
            Ok(placed) => return Ok((number, placed)),
            Err(new) => {
                short.get_or_insert(Shortfall { alt: number, ..new });
            }
        }
    }
    Err(short.unwrap_or_default())
}

/// The alternative whose best host is the best of all alternatives, if a single host can hold the
/// job.
fn cheapest(
    shape: &mut Shape,
    view: &ClusterView<'_>,
    terms: &mut JobTerms<'_>,
) -> Option<FoundHosts> {
    let mut best: Option<(Candidate, u8, u32)> = None;
    for alt in 0..shape.alternatives.len() {
        let Some(most) = terms.max_slots_after(alt, shape.alternatives[alt].after_ms) else {
            continue;
        };
        let min = shape.alternatives[alt].parts[0].min;
        let mut rank = shape.take_rank((alt, 0), view, terms.limit_group);
        let mut taken_out: SmallVec<[Candidate; 8]> = SmallVec::new();
        while let Some(candidate) = rank.pop(view.usage) {
            let better = best
                .as_ref()
                .is_none_or(|(known, ..)| candidate.compare(known).is_gt());
            taken_out.push(candidate.clone());
            if !better {
                break;
            }
            let at = candidate.host();
            let trial_use = TrialUse::default();
            let query = HostQuery::new(alt, 0, &trial_use);
            let can = shape.fit(&query, view, at);
            let take = (terms.room)(shape, &query, at, can).min(most);
            terms.limited.take();
            if take >= min {
                let number = u8::try_from(alt).expect("a request has at most 250 alternatives");
                best = Some((candidate, number, take));
                break;
            }
        }
        rank.put_back(taken_out);
        shape.put_rank((alt, 0), rank, terms.limit_group);
    }
    let (candidate, number, take) = best?;
    let placed = HostSlots::from_slice(&[(candidate.position, take)]);
    Some((number, placed))
}

/// One part, hosts by rank.
fn search_plain(
    shape: &mut Shape,
    alt: usize,
    view: &ClusterView<'_>,
    terms: &mut JobTerms<'_>,
) -> Result<HostSlots, Shortfall> {
    let mut rank = shape.take_rank((alt, 0), view, terms.limit_group);
    let part = &shape.alternatives[alt].parts[0];
    let (spread, min) = (part.spread, part.min);
    let most = terms.most.min(part.max).max(min);
    let mut taken_out: SmallVec<[Candidate; 8]> = SmallVec::new();
    let mut placed = HostSlots::new();
    let mut found = 0;
    let trial_use = TrialUse::default();
    while let Some(candidate) = rank.pop(view.usage) {
        let at = candidate.host();
        let query = HostQuery {
            trial_hosts: TrialHosts::Slots(&placed),
            ..HostQuery::new(alt, 0, &trial_use)
        };
        let can = shape.fit(&query, view, at);
        let can = match spread.tile {
            0 => can,
            tile => can.min(tile),
        };
        let take = (terms.room)(shape, &query, at, can).min(most - found);
        let enough = match (spread.one_host(), spread.tile) {
            (true, _) => min,
            // A tile must be complete unless it is the remainder.
            (_, tile) => tile.min(min.saturating_sub(found)).max(1),
        };
        if take == 0 && placed.is_empty() && terms.limited.take() {
            rank.note_limited(at, view.usage);
            continue;
        }
        taken_out.push(candidate);
        if take < enough {
            continue;
        }
        placed.push((at as u32, take));
        found += take;
        if found >= most || spread.one_host() {
            break;
        }
    }
    rank.put_back(taken_out);
    shape.put_rank((alt, 0), rank, terms.limit_group);
    if found >= min {
        return Ok(placed);
    }
    Err(Shortfall {
        found,
        ..Shortfall::default()
    })
}
