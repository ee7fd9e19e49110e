//! What a job asks of hosts, read against a configuration: requirement strings (`-R`, a queue's
//! `res_req`) merged into a [`Request`], and asked hosts (`-m`). Judging hosts is the scheduler's
//! part.

use super::{Config, HostPrefs, HostSet, HostTable, ResourceDecl, ResourceKind};
use crate::model::Spec;
use crate::text::resreq::{
    BUILTINS, Builtin, Def, Direction, Feature, Kind, Order, Per, ResReq, Resources, Select,
    Simple, Span, builtin,
};
use crate::text::{ParseError, names};

/// Constructs of requirement strings that scheduling honours; all others are refused by name.
const HONOURED: [Feature; 7] = [
    Feature::Select,
    Feature::SelectAlternatives,
    Feature::Order,
    Feature::Rusage,
    Feature::SpanHosts,
    Feature::SpanFree,
    Feature::SpanPtile,
];

/// A merged requirement.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub min: u32,
    pub max: u32,
    pub exclusive: bool,
    pub select: Option<Select>,
    pub order: Option<Order>,
    /// Most hosts the slots may be spread over (`span[hosts=1]`).
    pub hosts_max: Option<u32>,
    /// Slots per host (`span[ptile=n]`); the last host may hold the rest.
    pub ptile: Option<u32>,
    /// Reservations of `rusage[]`.
    pub rusage: Vec<Amount>,
}

/// One reserved amount.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    pub name: String,
    pub amount: f64,
    pub per_slot: bool,
}

impl Request {
    /// Merges the job's string with its queue's.
    ///
    /// # Errors
    /// A sentence when a string cannot be understood (any more) or asks for what is not honoured.
    pub fn new(spec: &Spec, queue: Option<&str>, config: &Config) -> Result<Request, String> {
        let mut request = Request {
            min: spec.min,
            max: spec.max.max(spec.min),
            exclusive: spec.exclusive,
            ..Request::default()
        };
        if spec.res_req.is_empty() && queue.is_none() {
            return Ok(request);
        }
        let read = |text: &str| ResReq::parse_stored(text, config).map_err(|e| e.caret(text));
        let job = read(&spec.res_req)?;
        let merged = match queue {
            None => job,
            Some(text) => {
                let queue = read(text)?;
                job.over(
                    queue
                        .simple()
                        .ok_or("a queue's res_req must be one simple string")?,
                )
            }
        };
        honoured(&merged, &config.hosts)?;
        let simple = merged
            .simple()
            .ok_or("alternatives are not implemented in this version")?;
        request.take(simple, config);
        Ok(request)
    }

    fn take(&mut self, simple: &Simple, config: &Config) {
        self.select = simple.select.clone();
        self.order = simple.order.clone();
        match simple.span {
            Some(Span::Hosts { .. }) => self.hosts_max = Some(1),
            Some(Span::Ptile(n)) => self.ptile = Some(n),
            _ => {}
        }
        for usage in simple.rusage.iter().flatten() {
            let decl = config.hosts.resources.get(&usage.name);
            let each = decl.is_some_and(|d| d.slotresource);
            let per = usage.scope(each || config.general.resource_reserve_per_task, false);
            self.rusage.push(Amount {
                name: usage.name.clone(),
                amount: usage.amount as f64 / 1000.0,
                per_slot: per == Per::Task,
            });
        }
    }
}

fn honoured(req: &ResReq, hosts: &HostTable) -> Result<(), String> {
    for feature in req.features() {
        if feature != Feature::RusagePer && !HONOURED.contains(&feature) {
            return Err(format!(
                "{} is not implemented in this version",
                feature.word()
            ));
        }
    }
    let Some(simple) = req.simple() else {
        return Ok(());
    };
    for usage in simple.rusage.iter().flatten() {
        if usage.per == Per::Job {
            return Err("rusage[.../job] is not implemented in this version".to_owned());
        }
        if usage.name == "gpu" && !hosts.resources.contains_key("gpu") {
            let what = "rusage[gpu=...]: no host has resources: {gpu: N} in cb.yaml";
            return Err(what.to_owned());
        }
    }
    Ok(())
}

/// Reads a queue's requirement string against the resources of its hosts and gives its canonical
/// form.
///
/// # Errors
/// Where it is wrong, or (code `not-implemented`) what this version does not honour.
pub(super) fn check_queue(
    text: &str,
    hosts: &HostTable,
) -> Result<String, (&'static str, ParseError)> {
    let req = ResReq::parse(text, hosts).map_err(|e| ("res-req", e))?;
    let whole = |message: String| ("not-implemented", ParseError::new(0, text.len(), message));
    honoured(&req, hosts).map_err(whole)?;
    if req.simple().is_none() {
        return Err(whole("a queue's res_req must be one simple string".into()));
    }
    Ok(if req.is_empty() {
        String::new()
    } else {
        req.to_string()
    })
}

/// Reads a job's requirement string and gives its canonical form.
///
/// # Errors
/// A message with a caret for what is wrong, or the section that this version does not honour.
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
    honoured(&req, &config.hosts).map_err(|e| format!("-R: {e}"))?;
    Ok(req.to_string())
}

/// Reads `-m` (canonical text) against the configuration's groups.
///
/// # Errors
/// A sentence when it names something that does not exist (any more).
pub fn asked_hosts(text: &str, config: &Config) -> Result<Option<HostPrefs>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let set = names::HostSet::parse_stored(text).map_err(|e| e.to_string())?;
    let mut prefs = HostPrefs {
        text: text.to_owned(),
        ..HostPrefs::all()
    };
    prefs.others = None;
    for item in &set.items {
        let resolve = |name: &str| {
            config
                .hosts_named(name)
                .ok_or_else(|| format!("no host or host group {name:?}"))
        };
        match item.name.as_str() {
            "others" | "all" if !item.exclude => prefs.others = Some(item.preference),
            name if item.exclude => prefs.exclude = prefs.exclude.union(&resolve(name)?),
            name => prefs.terms.push((resolve(name)?, item.preference)),
        }
    }
    if prefs.terms.is_empty() && prefs.others.is_none() {
        let none = prefs.exclude == HostSet::none();
        prefs.others = (!none).then_some(0);
    }
    Ok(Some(prefs))
}

/// The resources that requirement strings may name here: built in, and declared by hosts.
impl Resources for HostTable {
    fn find<'a>(&'a self, name: &'a str) -> Option<Def<'a>> {
        let declared = |decl: &ResourceDecl| Def {
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
            whole: false,
            megabytes: false,
        };
        builtin(name)
            .map(Builtin::def)
            .or_else(|| self.resources.get(name).map(declared))
    }

    fn names(&self) -> Vec<&str> {
        let own = self.resources.keys().map(String::as_str);
        BUILTINS.iter().map(|b| b.name).chain(own).collect()
    }
}

impl Resources for Config {
    fn find<'a>(&'a self, name: &'a str) -> Option<Def<'a>> {
        self.hosts.find(name)
    }

    fn names(&self) -> Vec<&str> {
        self.hosts.names()
    }
}
