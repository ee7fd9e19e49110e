//! Changes that could help a waiting job: commands to type, derived from what the hosts lack and
//! what holds the job back. Pure. Owns which changes are worth trying, and their order: the least
//! costly for the job first. Whether a change helps is found by trying it, not here.

use super::units;
use crate::client::cluster_copy::ClusterCopy;
use crate::model::{JobKey, JobStat, PendReason, Spec};
use crate::sched::{AmountRoom, Examination, Stage};
use crate::text::command::quote;
use crate::text::resreq::{
    Alternative, AnyResource, Body, Builtins, ResReq, SelectExpr, Simple, Usage,
};

/// Maximum number of candidates for one job.
pub(super) const CANDIDATES_MAX: usize = 40;
/// Maximum number of queues that are tried, and of closed hosts.
const QUEUES_MAX: usize = 16;
const HOSTS_MAX: usize = 2;
/// Maximum number of conditions of `select[]` that are removed one by one.
const CONDITIONS_MAX: usize = 8;
/// From this size on, in MB, memory is offered in whole gigabytes.
const WHOLE_GB_FROM_MB: i64 = 4096;

/// A command that may help.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// Options of `cmod`.
    Modify(Vec<String>),
    /// `cresume`.
    Release,
    ArrayLimit(u32),
    /// An action of an administrator.
    OpenHost(String),
    UnlockHost(String),
    ActivateQueue(String),
}

/// A change to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub remedy: Remedy,
    /// The effect of the change, for the reader.
    pub description: String,
}

impl Candidate {
    fn modify(words: &[&str], about: impl Into<String>) -> Candidate {
        Candidate {
            remedy: Remedy::Modify(words.iter().map(|w| (*w).to_owned()).collect()),
            description: about.into(),
        }
    }

    /// The command to type.
    pub(super) fn command(&self, id: u32) -> String {
        match &self.remedy {
            Remedy::Modify(words) => {
                let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
                format!("cmod {} {id}", words.join(" "))
            }
            Remedy::Release => format!("cresume {id}"),
            Remedy::ArrayLimit(n) => format!("cmod -J %{n} {id}"),
            Remedy::OpenHost(host) => format!("cadmin hopen {host}"),
            Remedy::UnlockHost(host) => format!("cadmin lsunlock {host}"),
            Remedy::ActivateQueue(queue) => format!("cadmin qact {queue}"),
        }
    }

    /// Whether only an administrator may do it.
    pub(super) fn is_for_admin(&self) -> bool {
        matches!(
            self.remedy,
            Remedy::OpenHost(_) | Remedy::UnlockHost(_) | Remedy::ActivateQueue(_)
        )
    }
}

/// What is known of the job for the search for candidates.
pub(super) struct CandidateContext<'a> {
    pub copy: &'a ClusterCopy,
    pub j: JobKey,
    pub spec: &'a Spec,
    pub reason: &'a PendReason,
    pub hosts: Option<&'a Examination>,
}

/// Changes that are worth trying, the least costly first.
pub(super) fn candidates(case: &CandidateContext<'_>) -> Vec<Candidate> {
    let mut out = Vec::new();
    out.extend(by_reason(case));
    if let Some(hosts) = case.hosts {
        let mut amounts = fewer_amounts(case, hosts);
        let slots = fewer_slots(case.spec, hosts);
        out.extend(both(case, hosts));
        out.append(&mut amounts);
        out.extend(slots);
        out.extend(without_span(case.spec));
        out.extend(without_conditions(case.spec));
        if hosts.excluded_at(Stage::NotAsked) > 0 {
            out.push(Candidate::modify(&["-mn"], "any host of the queue"));
        }
        if hosts.excluded_at(Stage::OtherType) > 0 {
            let req = with_any_type(case.spec);
            out.extend(req.map(|req| Candidate::modify(&["-R", &req], "hosts of any type")));
        }
    }
    if case.spec.exclusive {
        out.push(Candidate::modify(&["-xn"], "share the host with others"));
    }
    out.extend(shorter(case));
    out.extend(other_queues(case));
    out.extend(opened_hosts(case));
    out.dedup();
    out.truncate(CANDIDATES_MAX);
    out
}

/// Changes that follow from the pending reason.
fn by_reason(case: &CandidateContext<'_>) -> Vec<Candidate> {
    let stat = case.copy.state.stat(case.j);
    let mut out = Vec::new();
    if stat == Some(JobStat::Psusp) {
        out.push(Candidate {
            remedy: Remedy::Release,
            description: "release it".into(),
        });
    }
    if matches!(case.reason, PendReason::DependencyNever { .. }) {
        let about = "run as if its dependency were met";
        out.push(Candidate::modify(&["-orphan", "run"], about));
    }
    match case.reason {
        PendReason::Dependency { .. } | PendReason::DependencyNever { .. } => {
            out.push(Candidate::modify(&["-wn"], "start without its dependency"));
        }
        PendReason::BeginTime { .. } => {
            out.push(Candidate::modify(&["-bn"], "start without waiting for -b"));
        }
        PendReason::ArrayLimit { limit } => out.push(Candidate {
            remedy: Remedy::ArrayLimit(limit + 1),
            description: "one more element at a time".into(),
        }),
        PendReason::QueueInactive { queue } => out.push(Candidate {
            remedy: Remedy::ActivateQueue(queue.clone()),
            description: "an administrator lets the queue dispatch".into(),
        }),
        PendReason::DeadlineShort { .. } => {
            out.push(Candidate::modify(&["-tn"], "without its termination time"));
        }
        _ => out.extend(by_limit(case)),
    }
    out
}

/// Changes that fit what limits and shared resources leave to the job.
fn by_limit(case: &CandidateContext<'_>) -> Vec<Candidate> {
    let mut out = Vec::new();
    match case.reason {
        PendReason::QuotaSlots { used, max, .. } => {
            let left = u32::try_from((max - used).max(0)).unwrap_or(0);
            out.extend(slots(case.spec, left, "as many slots as the limit leaves"));
        }
        PendReason::QueueSlots { limit, .. }
        | PendReason::SlotsNever { limit, .. }
        | PendReason::QueueUserSlots { limit, .. }
        | PendReason::UserSlots { limit, .. } => {
            out.extend(slots(
                case.spec,
                *limit,
                "as many slots as the limit allows",
            ));
            out.extend(slots(case.spec, 1, "one slot"));
        }
        PendReason::QuotaNever { resource, max, .. } if resource == "slots" => {
            let left = u32::try_from(max / 1000).unwrap_or(0);
            out.extend(slots(case.spec, left, "as many slots as the limit allows"));
        }
        PendReason::QuotaResource {
            resource,
            used,
            max,
            ..
        } => {
            let about = "what the limit leaves";
            out.extend(with_amount(case.spec, resource, max - used, 1, about));
        }
        PendReason::QuotaNever { resource, max, .. } => {
            out.extend(with_amount(
                case.spec,
                resource,
                *max,
                1,
                "what the limit allows",
            ));
        }
        PendReason::SharedResource {
            resource,
            used,
            max,
            ..
        } => {
            let about = "what is left of it";
            out.extend(with_amount(case.spec, resource, max - used, 1, about));
            out.extend(without_amount(case.spec, resource));
        }
        PendReason::Slots { free, .. } => {
            out.extend(slots(case.spec, *free, "as many slots as are free"));
        }
        _ => {}
    }
    out
}

/// Fewer slots, if the job requests more than `n`.
fn slots(spec: &Spec, n: u32, about: &str) -> Option<Candidate> {
    let fewer = n > 0 && n < spec.min;
    let plain = simple(&spec.res_req).is_some() || spec.res_req.is_empty();
    (fewer && plain).then(|| Candidate::modify(&["-n", &n.to_string()], about))
}

fn fewer_slots(spec: &Spec, hosts: &Examination) -> Vec<Candidate> {
    let mut out = Vec::new();
    for (n, about) in [
        (hosts.free_all, "as many slots as are free"),
        (hosts.free_one, "as many slots as one host has free"),
        (hosts.slots_all, "as many slots as the hosts have"),
        (hosts.slots_one, "as many slots as one host has"),
    ] {
        out.extend(slots(spec, n, about));
    }
    out
}

/// The job's own requirement, if it has no alternatives and at most one `rusage`.
fn simple(text: &str) -> Option<Simple> {
    let req = ResReq::parse_stored(text, &AnyResource(&Builtins)).ok()?;
    let simple = req.simple().cloned();
    simple.filter(|simple| simple.rusage.len() <= 1)
}

fn printed(simple: Simple) -> String {
    let req = ResReq {
        alternatives: vec![Alternative {
            body: Body::Simple(simple),
            delay_s: None,
        }],
    };
    units::with_units(&req.to_string())
}

/// The option that sets this requirement.
fn request(simple: Simple, about: impl Into<String>) -> Candidate {
    match printed(simple).as_str() {
        "" => Candidate::modify(&["-Rn"], about),
        text => Candidate::modify(&["-R", text], about),
    }
}

/// A round amount of at most `milli`.
fn rounded(resource: &str, milli: i64) -> i64 {
    let whole = milli / 1000;
    let size = units::SIZES.contains(&resource);
    match (size, whole) {
        (true, mb) if mb >= WHOLE_GB_FROM_MB => mb / 1024 * 1024 * 1000,
        (true, mb) if mb >= 256 => mb / 64 * 64 * 1000,
        (_, n) if n >= 1 => n * 1000,
        _ => milli.max(0),
    }
}

fn set_amount(list: &mut [Usage], resource: &str, milli: i64) -> bool {
    let found = list.iter_mut().find(|usage| usage.name == resource);
    let (Some(usage), Ok(amount)) = (found, u64::try_from(milli)) else {
        return false;
    };
    let fewer = amount < usage.amount && amount > 0;
    usage.amount = amount;
    fewer
}

/// The job with less of a resource: `milli` divided by `times`.
fn with_amount(
    spec: &Spec,
    resource: &str,
    milli: i64,
    times: u32,
    about: &str,
) -> Option<Candidate> {
    let mut simple = simple(&spec.res_req)?;
    let each = rounded(resource, milli / i64::from(times.max(1)));
    let list = simple.rusage.first_mut()?;
    set_amount(list, resource, each).then(|| request(simple, about))
}

fn without_amount(spec: &Spec, resource: &str) -> Option<Candidate> {
    let mut simple = simple(&spec.res_req)?;
    let list = simple.rusage.first_mut()?;
    let before = list.len();
    list.retain(|usage| usage.name != resource);
    let fewer = list.len() < before;
    if list.is_empty() {
        simple.rusage.clear();
    }
    fewer.then(|| request(simple, format!("without {resource} in rusage[]")))
}

/// For each resource, the amount that a host has left, or the total amount of a host.
fn fewer_amounts(case: &CandidateContext<'_>, hosts: &Examination) -> Vec<Candidate> {
    let mut out = Vec::new();
    for room in &hosts.amounts {
        let AmountRoom {
            resource,
            times,
            most_left,
            most_idle,
        } = room;
        let one = |milli, about: &str| with_amount(case.spec, resource, milli, *times, about);
        out.extend(one(
            *most_left,
            &format!("as much {resource} as a host has left"),
        ));
        let whole = most_idle
            .and_then(|most_idle| one(most_idle, &format!("as much {resource} as a host has")));
        out.extend(whole);
    }
    out
}

/// The amounts and slots of the nearest host, all at once.
fn both(case: &CandidateContext<'_>, hosts: &Examination) -> Option<Candidate> {
    let nearest = hosts.nearest.as_ref()?;
    if nearest.unmet.len() < 2 {
        return None;
    }
    let mut words = Vec::new();
    let mut req = simple(&case.spec.res_req);
    let mut changed = false;
    for unmet_need in &nearest.unmet {
        match unmet_need.stage {
            Stage::Slots | Stage::TooSmall if unmet_need.what == "slots" => {
                let n = unmet_need.has_milli / 1000;
                if n < 1 {
                    return None;
                }
                words.extend(["-n".to_owned(), n.to_string()]);
            }
            Stage::Amount | Stage::TooSmall => {
                let room = hosts
                    .amounts
                    .iter()
                    .find(|room| room.resource == unmet_need.what)?;
                let each = unmet_need.has_milli / i64::from(room.times.max(1));
                let list = req.as_mut()?.rusage.first_mut()?;
                if !set_amount(list, &unmet_need.what, rounded(&unmet_need.what, each)) {
                    return None;
                }
                changed = true;
            }
            _ => return None,
        }
    }
    if changed {
        words.extend(["-R".to_owned(), printed(req?)]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let about = format!("what host {} has", nearest.host);
    Some(Candidate::modify(&words, about))
}

fn without_span(spec: &Spec) -> Option<Candidate> {
    let mut simple = simple(&spec.res_req)?;
    simple.span.take()?;
    Some(request(simple, "its slots on any number of hosts"))
}

/// The requirement without one condition of `select[]`, each in turn, then without all of them.
fn without_conditions(spec: &Spec) -> Vec<Candidate> {
    let mut out = Vec::new();
    let Some(whole) = simple(&spec.res_req) else {
        return out;
    };
    let Some(select) = &whole.select else {
        return out;
    };
    if let [SelectExpr::And(parts)] = &select.alternatives[..] {
        for (at, part) in parts.iter().enumerate().take(CONDITIONS_MAX) {
            let mut left = parts.clone();
            left.remove(at);
            let node = match left.len() {
                1 => left.remove(0),
                _ => SelectExpr::And(left),
            };
            let mut req = whole.clone();
            if let Some(select) = &mut req.select {
                select.alternatives = vec![node];
            }
            out.push(request(req, format!("without the condition {part}")));
        }
    }
    let mut req = whole.clone();
    req.select = None;
    out.push(request(req, "without select[]"));
    out
}

fn with_any_type(spec: &Spec) -> Option<String> {
    let mut simple = match spec.res_req.as_str() {
        "" => Simple::default(),
        text => simple(text)?,
    };
    if simple.select.is_some() {
        return None;
    }
    let any = ResReq::parse("select[type==any]", &AnyResource(&Builtins)).ok()?;
    simple.select.clone_from(&any.simple()?.select);
    Some(printed(simple))
}

/// Run limits that end before a window closes or before a reservation begins.
fn shorter(case: &CandidateContext<'_>) -> Vec<Candidate> {
    let run_s = case.spec.limits.run_s;
    let minutes: Vec<u64> = match case.reason {
        PendReason::RunWindowShort { left_s, .. } | PendReason::DeadlineShort { left_s, .. } => {
            vec![left_s / 60]
        }
        _ => {
            let hosts = case.hosts;
            let is_reserved = hosts.is_some_and(|hosts| {
                hosts.excluded_at(Stage::Reserved) + hosts.excluded_at(Stage::Together) > 0
            });
            match (is_reserved, run_s) {
                (true, Some(s)) => vec![s / 120, s / 240, 60, 10],
                (true, None) => vec![240, 60, 10],
                (false, _) => Vec::new(),
            }
        }
    };
    let fewer = |m: &u64| *m > 0 && run_s.is_none_or(|s| m * 60 < s);
    let mut minutes: Vec<u64> = minutes.into_iter().filter(fewer).collect();
    minutes.sort_unstable_by_key(|m| std::cmp::Reverse(*m));
    minutes.dedup();
    let option = |m: &u64| format!("{}:{:02}", m / 60, m % 60);
    let one = |m: &u64| Candidate::modify(&["-W", &option(m)], "a shorter run limit");
    minutes.iter().map(one).collect()
}

fn other_queues(case: &CandidateContext<'_>) -> Vec<Candidate> {
    let queues = case.copy.config.queues.iter();
    let others = queues.filter(|queue| queue.name != case.spec.queue);
    let one = |name: &str| Candidate::modify(&["-q", name], format!("queue {name}"));
    others
        .take(QUEUES_MAX)
        .map(|queue| one(&queue.name))
        .collect()
}

fn opened_hosts(case: &CandidateContext<'_>) -> Vec<Candidate> {
    let lost = case.hosts.map_or(&[][..], |hosts| &hosts.excluded);
    let at = |stage| {
        let there = lost.iter().filter(move |lost| lost.stage == stage);
        there.flat_map(|lost| &lost.first).take(HOSTS_MAX)
    };
    let opens = |name: &String| Candidate {
        remedy: Remedy::OpenHost(name.clone()),
        description: "an administrator opens the host".into(),
    };
    let unlocks = |name: &String| Candidate {
        remedy: Remedy::UnlockHost(name.clone()),
        description: "an administrator unlocks the host".into(),
    };
    let opened = at(Stage::Closed).map(opens);
    opened.chain(at(Stage::Locked).map(unlocks)).collect()
}
