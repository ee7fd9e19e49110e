//! Requests of a job on hosts, interpreted with a configuration: requirement strings (`-R`, a
//! queue's `res_req`) merged into a [`Request`], and requested hosts (`-m`). The scheduler judges
//! hosts.

use super::read::MAX_GUESSED;
use super::sensed_names;
use super::sets::HostSetUnion;
use super::{Config, HostPrefs, HostSet, HostTable, ResourceDecl, ResourceKind};
use crate::model::Spec;
use crate::text::error::did_you_mean;
use crate::text::resreq::{
    AmountScope, AmountSteps, AnyResource, BUILTINS, Body, Builtin, Builtins, Direction, Kind,
    ResReq, ResourceDef, Resources, Simple, Span, Usage, builtin,
};
use crate::text::{ParseError, names};
use std::collections::{BTreeMap, BTreeSet};

/// Levels of compute units (`rack:` or `unit:` of a host), by the names that `cu[type=...]` may
/// use.
const UNIT_KINDS: [&str; 3] = ["rack", "switch", "unit"];
/// Why GPUs cannot be requested.
const NO_GPUS: &str = "no host has resources: {gpu: N} in cb.yaml, and no sensor reports gpu";
/// Maximum number of resources in a `rusage` list.
const MAX_USAGES: usize = 60;
/// Maximum number of resources of units (such as their memory) in combination with one amount of
/// units.
const MAX_OF_UNITS: usize = 2;
/// Maximum number of different preferences in one `-m`: each host is looked up for each of them.
const MAX_PREFERENCES: usize = 256;

/// A merged requirement.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub min: u32,
    pub max: u32,
    pub exclusive: bool,
    /// The job's string merged over that of its application, over that of its queue.
    pub req: ResReq,
}

impl Request {
    /// Merges the job's string with those of its application and its queue.
    ///
    /// # Errors
    /// A sentence if a string is (no longer) valid or requests something unsupported.
    pub fn new(spec: &Spec, queue: Option<&str>, config: &Config) -> Result<Request, String> {
        let mut request = Request {
            min: spec.min,
            max: spec.max.max(spec.min),
            exclusive: spec.exclusive,
            ..Request::default()
        };
        let app = config.app(&spec.app).and_then(|app| app.res_req.as_deref());
        if spec.res_req.is_empty() && queue.is_none() && app.is_none() {
            return Ok(request);
        }
        let read = |text: &str| ResReq::parse_stored(text, config).map_err(|e| e.caret(text));
        request.req = read(&spec.res_req)?;
        // The application first: its sections take precedence over those of the queue.
        for (whose, text) in [("an application", app), ("a queue", queue)] {
            let Some(text) = text else { continue };
            let general = read(text)?;
            let simple = general.simple();
            let simple = simple
                .ok_or_else(|| format!("the res_req of {whose} must be one simple string"))?;
            request.req = request.req.over(simple);
        }
        check_supported(&request.req, &config.hosts)?;
        Ok(request)
    }
}

/// Number of slots that the sections of a requirement request together, if they state it.
///
/// # Errors
/// A sentence if the alternatives differ in it.
pub fn total_slots(req: &ResReq) -> Result<Option<u32>, String> {
    let mut sums = req.alternatives.iter().filter_map(|a| a.body.slots());
    let Some(first) = sums.next() else {
        return Ok(None);
    };
    match sums.find(|sum| *sum != first) {
        None => Ok(Some(first)),
        Some(other) => Err(format!(
            "its alternatives request {first} and {other} slots; all must request the same number"
        )),
    }
}

/// As [`total_slots`], for a string in canonical form.
///
/// # Errors
/// The same, or the string is (no longer) valid.
pub fn slots_of(text: &str, config: &Config) -> Result<Option<u32>, String> {
    let req = ResReq::parse_stored(text, config).map_err(|e| e.caret(text))?;
    total_slots(&req)
}

/// Every part of a requirement.
fn parts(req: &ResReq) -> impl Iterator<Item = &Simple> {
    req.alternatives.iter().flat_map(|a| {
        let (first, groups) = match &a.body {
            Body::Simple(simple) => (simple, &[][..]),
            Body::Groups { groups, common } => (common, groups.as_slice()),
        };
        let groups = groups.iter().map(|group| &group.req);
        std::iter::once(first).chain(groups)
    })
}

/// Refuses, by name, what scheduling does not support.
fn check_supported(req: &ResReq, hosts: &HostTable) -> Result<(), String> {
    total_slots(req)?;
    for alternative in &req.alternatives {
        match &alternative.body {
            Body::Simple(simple) => check_supported_part(simple, hosts)?,
            Body::Groups { groups, common } => {
                check_supported_part(common, hosts)?;
                let even = common.cu.as_ref().is_some_and(|cu| cu.balance);
                for group in groups {
                    check_supported_part(&group.req, hosts)?;
                    check_supported_section(&group.req.over(&only_span(common)), even)?;
                }
            }
        }
    }
    Ok(())
}

/// The span of sections that have none of their own.
fn only_span(common: &Simple) -> Simple {
    Simple {
        span: common.span,
        ..Simple::default()
    }
}

/// `even`: the slots of all sections are distributed evenly over units.
fn check_supported_section(section: &Simple, even: bool) -> Result<(), String> {
    if section.cu.as_ref().is_some_and(|cu| cu.excl) {
        let what = "cu[excl] applies to the whole job: write it after the sections";
        return Err(what.to_owned());
    }
    let set = !section.same.is_empty() || section.cu.is_some();
    let spread = matches!(section.span, Some(Span::Hosts { max, .. }) if max != 1)
        || matches!(section.span, Some(Span::Stride(_)));
    if even && (set || spread) {
        return Err(
            "cu[balance] over sections: a section may not have same[], cu[], span[hosts=N] above \
             1 or span[stride=N] of its own"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether a requirement in canonical form requests whole units (`cu[excl]`).
pub fn wants_units_alone(text: &str, config: &Config) -> bool {
    if !text.contains("excl") {
        return false;
    }
    let excl = |simple: &Simple| simple.cu.as_ref().is_some_and(|cu| cu.excl);
    let wants = |body: &Body| match body {
        Body::Simple(simple) => excl(simple),
        Body::Groups { common, .. } => excl(common),
    };
    let req = ResReq::parse_stored(text, config);
    req.is_ok_and(|req| req.alternatives.iter().any(|a| wants(&a.body)))
}

fn check_supported_part(simple: &Simple, hosts: &HostTable) -> Result<(), String> {
    if !simple.filter.is_empty() {
        return Err("filter[...] is not implemented in this version".to_owned());
    }
    let kind = simple.cu.as_ref().and_then(|cu| cu.kind.as_deref());
    if let Some(kind) = kind.filter(|kind| !UNIT_KINDS.contains(kind)) {
        let known = UNIT_KINDS.join(", ");
        return Err(format!(
            "cu[type={kind}]: hosts here have one level of units, called {known}"
        ));
    }
    for list in &simple.rusage {
        if list.len() > MAX_USAGES {
            return Err(format!(
                "rusage[...] names {} resources, at most {MAX_USAGES} are allowed",
                list.len()
            ));
        }
        if lacks_gpus(list, hosts) {
            return Err(format!("rusage[gpu=...]: {NO_GPUS}"));
        }
        check_unit_resources(list, hosts)?;
    }
    Ok(())
}

/// Whether it requests GPUs, and no host has any.
fn lacks_gpus(list: &[Usage], hosts: &HostTable) -> bool {
    list.iter().any(|u| u.name == "gpu") && hosts.resource("gpu").is_none()
}

/// Resources of units must be requested together with units.
fn check_unit_resources(list: &[Usage], hosts: &HostTable) -> Result<(), String> {
    let of_units = |u: &&Usage| u.amount > 0 && hosts.per_unit(&u.name).is_some();
    for usage in list.iter().filter(of_units) {
        let name = &usage.name;
        let unit = hosts.per_unit(name).unwrap_or_default();
        let own = |u: &&Usage| u.amount > 0 && hosts.per_unit(&u.name) == Some(unit);
        if !list.iter().any(|u| u.name == unit && u.amount > 0) {
            return Err(format!(
                "rusage[{name}=...]: each unit of {unit} has an amount of {name}: request {unit} \
                 in the same list, as in rusage[{unit}=1:{name}=...]"
            ));
        }
        if usage.per != AmountScope::Default || usage.duration_s.is_some() {
            return Err(format!(
                "rusage[{name}=...]: it is counted for each unit of {unit} that the job gets, as \
                 long as it has the unit; leave /job, /host, /task and duration out"
            ));
        }
        if list.iter().filter(own).count() > MAX_OF_UNITS {
            return Err(format!(
                "rusage[...] requests more than {MAX_OF_UNITS} resources of units of {unit}"
            ));
        }
    }
    Ok(())
}

/// Refuses units for only a part of a job's run: they cannot be taken from a running process.
fn units_stay(req: &ResReq, hosts: &HostTable) -> Result<(), String> {
    let parts = req.alternatives.iter().flat_map(|a| match &a.body {
        Body::Simple(simple) => vec![simple],
        Body::Groups { groups, common } => groups.iter().map(|g| &g.req).chain([common]).collect(),
    });
    let mut usages = parts.flat_map(|part| part.rusage.iter().flatten());
    match usages.find(|u| u.duration_s.is_some() && hosts.has_units(&u.name)) {
        None => Ok(()),
        Some(u) => Err(format!(
            "rusage[{0}=...:duration=...]: units of {0} stay with the job until it ends; leave \
             duration and decay out",
            u.name
        )),
    }
}

/// Parses the requirement string of a queue or application (`whose`) with the resources of the
/// hosts; returns its canonical form, and its resources that are not known yet.
///
/// # Errors
/// The place of an error, or (code `not-implemented`) what this version does not support.
pub(super) fn check_general(
    text: &str,
    hosts: &HostTable,
    whose: &str,
) -> Result<(String, Vec<String>), (&'static str, ParseError)> {
    let (req, unknown) = sensed_names::parse(text, hosts).map_err(|e| ("res-req", e))?;
    let whole = |message: String| ("not-implemented", ParseError::new(0, text.len(), message));
    check_supported(&req, hosts).map_err(whole)?;
    units_stay(&req, hosts).map_err(whole)?;
    if req.simple().is_none() {
        return Err(whole(format!(
            "the res_req of {whose} must be one simple string"
        )));
    }
    let text = match req.is_empty() {
        true => String::new(),
        false => req.to_string(),
    };
    Ok((text, unknown))
}

/// Parses a job's requirement string; returns its canonical form.
///
/// # Errors
/// A message with a caret at the error, or the section that this version does not support.
pub fn check_request(text: &str, config: &Config) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let req = ResReq::parse(text, config).map_err(|e| {
        format!(
            "-R: {}\n{}",
            e.message,
            e.caret(text).trim_end_matches('\n')
        )
    })?;
    let lacks = |simple: &Simple| {
        let mut lists = simple.rusage.iter();
        lists.any(|list| lacks_gpus(list, &config.hosts))
    };
    // `-gpu` is sent as a part of the requirement, so the refusal names both options.
    if parts(&req).any(lacks) {
        return Err(format!("-gpu, -R rusage[gpu=...]: {NO_GPUS}"));
    }
    check_supported(&req, &config.hosts).map_err(|e| format!("-R: {e}"))?;
    units_stay(&req, &config.hosts).map_err(|e| format!("-R: {e}"))?;
    Ok(req.to_string())
}

/// Names of the resources in `rusage[]` of a stored requirement without sections and alternatives.
pub fn reserved_names(text: &str) -> Vec<String> {
    let req = ResReq::parse_stored(text, &AnyResource(&Builtins)).ok();
    let lists = req.iter().filter_map(ResReq::simple);
    let items = lists.flat_map(|simple| simple.rusage.iter().flatten());
    items.map(|item| item.name.clone()).collect()
}

/// Interprets `-m` (canonical text) with the configuration's groups.
///
/// # Errors
/// A sentence if it names something that does not exist (any more).
pub fn requested_hosts(text: &str, config: &Config) -> Result<Option<HostPrefs>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let set = names::HostSet::parse_stored(text).map_err(|e| e.to_string())?;
    let mut prefs = HostPrefs {
        text: text.to_owned(),
        ..HostPrefs::all()
    };
    prefs.others = None;
    // Each name once, with its highest preference, even if a forged request repeats names.
    let mut wanted: BTreeMap<&str, u32> = BTreeMap::new();
    let mut excluded: BTreeSet<&str> = BTreeSet::new();
    for item in &set.items {
        let (name, preference) = (item.name.as_str(), item.preference);
        match name {
            "others" | "all" if !item.exclude => prefs.others = prefs.others.max(Some(preference)),
            name if item.exclude => _ = excluded.insert(name),
            name => {
                let known = wanted.entry(name).or_default();
                *known = preference.max(*known);
            }
        }
    }
    let resolve = |name: &str| {
        config
            .hosts_named(name)
            .ok_or_else(|| no_such_host(name, config))
    };
    let mut terms: BTreeMap<u32, HostSetUnion> = BTreeMap::new();
    for (name, preference) in wanted {
        terms.entry(preference).or_default().add(resolve(name)?);
    }
    if terms.len() > MAX_PREFERENCES {
        return Err(format!(
            "{} different preferences, at most {MAX_PREFERENCES} are allowed",
            terms.len()
        ));
    }
    let mut exclude = HostSetUnion::default();
    for name in excluded {
        exclude.add(resolve(name)?);
    }
    prefs.terms = terms.into_iter().map(|(p, set)| (set.set(), p)).collect();
    prefs.exclude = exclude.set();
    if prefs.terms.is_empty() && prefs.others.is_none() {
        let none = prefs.exclude == HostSet::none();
        prefs.others = (!none).then_some(0);
    }
    Ok(Some(prefs))
}

/// A sentence about the first name of `-m` (canonical text) that the cluster does not have.
pub fn unknown_host(text: &str, config: &Config) -> Option<String> {
    let set = names::HostSet::parse_stored(text).ok()?;
    let mut named = set.items.iter().map(|item| item.name.as_str());
    let missing = |name: &&str| *name != "others" && config.hosts_named(name).is_none();
    named.find(missing).map(|name| no_such_host(name, config))
}

fn no_such_host(name: &str, config: &Config) -> String {
    let groups = config.host_groups.keys().map(String::as_str);
    let known = config.host_names().chain(groups).take(MAX_GUESSED);
    let hint = did_you_mean(name, known);
    format!("there is no host or host group {name:?}{hint}")
}

/// The resources that requirement strings may name here: built-in ones and those declared by hosts.
impl Resources for HostTable {
    fn find<'a>(&'a self, name: &'a str) -> Option<ResourceDef<'a>> {
        let declared = |decl: &ResourceDecl| ResourceDef {
            name,
            kind: match decl.kind {
                ResourceKind::Number => Kind::Number,
                ResourceKind::Text => Kind::Text,
                ResourceKind::Tag => Kind::Tag,
            },
            direction: match decl.increase {
                true => Direction::Increase,
                false => Direction::Decrease,
            },
            reserve: decl.kind == ResourceKind::Number,
            steps: match decl.assign {
                true => AmountSteps::UnitsOrPart,
                false => AmountSteps::Any,
            },
            megabytes: decl.per_unit.is_some(),
        };
        builtin(name)
            .map(Builtin::def)
            .or_else(|| self.resource(name).map(declared))
    }

    fn names(&self) -> Vec<&str> {
        let own = self.declared().map(|(name, _)| name.as_str());
        BUILTINS.iter().map(|b| b.name).chain(own).collect()
    }
}

impl Resources for Config {
    fn find<'a>(&'a self, name: &'a str) -> Option<ResourceDef<'a>> {
        self.hosts.find(name)
    }

    fn names(&self) -> Vec<&str> {
        self.hosts.names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OsNames, load};

    fn config(hosts: &str) -> Config {
        let text = format!(
            "cluster: {{name: c, administrators: [root]}}\nqueues: [{{name: q}}]\nhosts:\n{hosts}"
        );
        let loaded = load(text.as_bytes(), "cb.yaml", &OsNames::ANY);
        loaded.unwrap_or_else(|p| panic!("{}", p[0])).config
    }

    fn parsed_prefs(text: &str, config: &Config) -> HostPrefs {
        let prefs = requested_hosts(text, config).unwrap_or_else(|e| panic!("{e}"));
        prefs.unwrap_or_else(HostPrefs::all)
    }

    /// It fails by its running time: copying all names for each name takes minutes.
    #[test]
    fn many_asked_hosts_are_gathered() {
        let open = config("- {name: default, open: yes}");
        let prefs = parsed_prefs("all ~x[1-90000]", &open);
        assert!(!prefs.contains("x90000") && prefs.contains("x90001"));
        let prefs = parsed_prefs("x[1-90000] x7+3 x7+2 x8+3", &open);
        assert_eq!(prefs.terms.len(), 2);
        let of = |host| prefs.preference(host);
        assert_eq!(
            (of("x7"), of("x8"), of("x9"), of("y")),
            (Some(3), Some(3), Some(0), None)
        );
    }

    #[test]
    fn preferences_are_few() {
        let open = config("- {name: default, open: yes}");
        let most = |n: u32| (0..n).map(|p| format!("h{p}+{p} ")).collect::<String>();
        assert!(requested_hosts(&most(256), &open).is_ok());
        let e = requested_hosts(&most(257), &open).expect_err("one too many");
        assert!(e.contains("at most 256"), "{e}");
    }
}
