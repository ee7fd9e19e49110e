//! Conditions that are checked while jobs run: time windows, load thresholds, `stop_cond` and
//! `resume_cond`. Owns their text in cb.yaml; never compares a value.

use super::brackets::amount;
use super::policy::Threshold;
use super::read::{Ctx, Fields, Words};
use super::sensed_names;
use super::types::HostTable;
use crate::text::ParseError;
use crate::text::resreq::{Direction, Kind, ResourceDef, Resources, Simple};
use crate::text::window::Windows;
use crate::text::yaml::{Entry, Node, Value};

/// Windows, as one text or a list; `None`: always open.
pub(super) fn windows(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> Option<Windows> {
    let w = f.read_words(ctx, key)?;
    match Windows::parse(&w.text) {
        Ok(windows) => Some(windows),
        Err(e) => {
            ctx.parse_error(&w, "window", &e);
            None
        }
    }
}

/// `thresholds: {r1m: '0.7/2.0', mem: '100/10'}`.
pub(super) fn thresholds(ctx: &mut Ctx<'_>, node: &Node, hosts: &HostTable) -> Vec<Threshold> {
    let mut out: Vec<Threshold> = Vec::new();
    let entries = match &node.value {
        Value::Map(entries) => entries,
        Value::Refused => return out,
        _ => {
            let hint = "write thresholds: {r1m: '0.7/2.0', mem: '100/10'}";
            ctx.problem_hint(
                node.pos,
                "type",
                "thresholds must map load indices to values",
                hint,
            );
            return out;
        }
    };
    for e in entries {
        let Some(threshold) = threshold(ctx, e, hosts) else {
            continue;
        };
        if out.iter().any(|t| t.index == threshold.index) {
            let message = format!("{} has thresholds twice", threshold.index);
            ctx.problem_hint(e.key_pos, "duplicate", message, "keep one of the two");
        } else {
            out.push(threshold);
        }
    }
    out
}

fn threshold(ctx: &mut Ctx<'_>, e: &Entry, hosts: &HostTable) -> Option<Threshold> {
    let w = match &e.value.value {
        Value::Text { text, quoted } => Words::one_word(text, e.value.pos, *quoted),
        Value::Refused => return None,
        _ => {
            let message = format!("threshold {} must be one text", e.key);
            ctx.problem_hint(e.value.pos, "type", message, "write 'SCHED/STOP'");
            return None;
        }
    };
    let known = hosts.find(&e.key);
    let new = known.is_none();
    let def = known.or_else(|| sensed_names::number(ctx, e.key_pos, &e.key, hosts))?;
    // If the resource is not known yet, the order of the two marks shows which side is bad.
    let def = match new && rises(&w.text) {
        true => ResourceDef {
            direction: Direction::Increase,
            ..def
        },
        false => def,
    };
    if def.kind != Kind::Number || def.direction == Direction::None {
        let message = format!(
            "{} is not a load index or number that has a direction",
            e.key
        );
        let hint = "thresholds watch load indices and number resources";
        ctx.problem_hint(e.key_pos, "threshold", message, hint);
        return None;
    }
    match marks(&w.text, &def) {
        Ok((sched, stop)) => Some(Threshold {
            index: def.name.to_string(),
            increase: def.direction == Direction::Increase,
            sched,
            stop,
        }),
        Err(e) => {
            ctx.parse_error(&w, "threshold", &e);
            None
        }
    }
}

/// Whether the second mark is above the first.
fn rises(text: &str) -> bool {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let marks = text.split_once('/');
    let marks = marks.and_then(|(sched, stop)| Some((number(sched)?, number(stop)?)));
    marks.is_some_and(|(sched, stop)| sched < stop)
}

/// `SCHED/STOP`, where `-` stands for no mark; or `SCHED` alone.
fn marks(text: &str, def: &ResourceDef<'_>) -> Result<(Option<i64>, Option<i64>), ParseError> {
    const HINT: &str = "write 'SCHED/STOP', with - for a threshold that is not wanted";
    let mark = |part: &str, at: usize| {
        let blanks = part.len() - part.trim_start().len();
        match part.trim() {
            "-" => Ok(None),
            "" => Err(ParseError::new(at, part.len(), "a threshold is missing").hint(HINT)),
            word => amount(def, word)
                .map(Some)
                .map_err(|e| e.shifted(at + blanks)),
        }
    };
    let (sched, stop) = match text.split_once('/') {
        None => (mark(text, 0)?, None),
        Some((sched, stop)) => (mark(sched, 0)?, mark(stop, sched.len() + 1)?),
    };
    if sched.is_none() && stop.is_none() {
        return Err(ParseError::new(0, text.len(), "neither threshold is given").hint(HINT));
    }
    if let (Some(a), Some(b)) = (sched, stop) {
        let increase = def.direction == Direction::Increase;
        if increase && a > b || !increase && a < b {
            let (name, order) = (def.name, if increase { "above" } else { "below" });
            let message = format!(
                "the first threshold of {name} is {order} the second: jobs would start and \
                 be suspended"
            );
            let hint = format!(
                "{} {name} is better: write the {} value first",
                if increase { "less" } else { "more" },
                if increase { "lower" } else { "higher" },
            );
            return Err(ParseError::new(0, text.len(), message).hint(hint));
        }
    }
    Ok((sched, stop))
}

/// `stop_cond` and `resume_cond`: a requirement that only selects, in canonical form.
pub(super) fn condition(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    key: &str,
    hosts: &HostTable,
) -> Option<String> {
    let w = f.scalar(ctx, key)?;
    let req = match sensed_names::parse(&w.text, hosts) {
        Ok((req, unknown)) => {
            for name in unknown {
                let pos = w.pos_of(&name, ctx);
                sensed_names::warn(ctx, pos, &name, hosts);
            }
            req
        }
        // The missing resource may be defined in a part that could not be read.
        Err(_) if ctx.partial => return None,
        Err(e) => {
            ctx.parse_error(&w, "res-req", &e);
            return None;
        }
    };
    let selects = req.simple().is_some_and(|s| {
        let only = Simple {
            select: s.select.clone(),
            ..Simple::default()
        };
        s.select.is_some() && *s == only
    });
    if !selects {
        let message = format!("{key} must be one select[...]");
        ctx.problem_hint(w.pos, "res-req", message, "write 'select[mem<100]'");
        return None;
    }
    Some(req.to_string())
}
