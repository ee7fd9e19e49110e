//! Merging requirements: several `-R` of one job, and a job's over its queue's.

use crate::text::ParseError;

use super::{Body, MAX_ALTERNATIVES, ResReq, Resources, Select, Simple, Usage};

/// Maximum size of all strings of one job together, in bytes.
const MAX_TOGETHER: usize = 64 * 1024;

/// Parses the `-R` options of one job and merges them: selects with `&&`, amounts combined, every
/// other section at most once.
///
/// ```
/// use corral::text::resreq::{Builtins, merge_all};
/// let req = merge_all(&["mem>10", "rusage[mem=5]", "select[swp>1]"], &Builtins).unwrap();
/// assert_eq!(req.to_string(), "select[mem > 10 && swp > 1] rusage[mem=5]");
/// ```
///
/// # Errors
/// The number of the text, from 0, that is invalid or cannot be merged with those before it, and
/// the reason.
pub fn merge_all(texts: &[&str], resources: &dyn Resources) -> Result<ResReq, (usize, ParseError)> {
    let mut all = ResReq::default();
    let mut bytes = 0;
    for (n, text) in texts.iter().enumerate() {
        bytes += text.len();
        if bytes > MAX_TOGETHER {
            let e = ParseError::too_long("resource requirement", MAX_TOGETHER, bytes);
            return Err((n, e));
        }
        let next = ResReq::parse(text, resources).map_err(|e| (n, e))?;
        let joined = if n == 0 || all.is_empty() {
            Ok(next)
        } else if next.is_empty() {
            Ok(all)
        } else {
            match (all.into_simple(), next.into_simple()) {
                (Some(first), Some(second)) => first.join(second).map(ResReq::from),
                _ => Err("groups and alternatives cannot be joined with another string".to_owned()),
            }
        };
        all = joined.map_err(|message| (n, ParseError::new(0, text.len(), message)))?;
    }
    Ok(all)
}

impl ResReq {
    fn into_simple(mut self) -> Option<Simple> {
        self.simple()?;
        match self.alternatives.remove(0).body {
            Body::Simple(simple) => Some(simple),
            Body::Groups { .. } => None,
        }
    }

    /// The requirement of a job over that of its queue: both selects must be true; the job's order,
    /// span, same and cu replace the queue's; amounts are combined, with precedence for the job's.
    #[must_use]
    pub fn over(&self, queue: &Simple) -> ResReq {
        let mut merged = self.clone();
        for alternative in &mut merged.alternatives {
            match &mut alternative.body {
                Body::Simple(simple) => *simple = simple.over(queue),
                Body::Groups { common, .. } => *common = common.over(queue),
            }
        }
        merged
    }
}

impl Simple {
    /// Merges two strings of the same job; the error states what cannot be merged.
    fn join(self, other: Simple) -> Result<Simple, String> {
        fn once<T>(name: &str, a: Option<T>, b: Option<T>) -> Result<Option<T>, String> {
            if a.is_some() && b.is_some() {
                return Err(format!("{name} is given twice"));
            }
            Ok(a.or(b))
        }
        let list = |name, a: Vec<String>, b: Vec<String>| {
            let some = |v: Vec<String>| (!v.is_empty()).then_some(v);
            once(name, some(a), some(b)).map(Option::unwrap_or_default)
        };
        let rusage = cross(&self.rusage, &other.rusage, |a, b| {
            if let Some(twice) = b.iter().find(|u| a.iter().any(|v| v.name == u.name)) {
                return Err(format!("rusage has {} twice", twice.name));
            }
            Ok(a.iter().chain(b).cloned().collect())
        })?;
        Ok(Simple {
            select: match (self.select, other.select) {
                (Some(a), Some(b)) => Some(a.both(&b)?),
                (a, b) => a.or(b),
            },
            order: once("order", self.order, other.order)?,
            rusage,
            span: once("span", self.span, other.span)?,
            same: list("same", self.same, other.same)?,
            cu: once("cu", self.cu, other.cu)?,
            filter: list("filter", self.filter, other.filter)?,
        })
    }

    /// Merges `self` over a more general requirement; where both have a section, `self` takes
    /// precedence.
    #[must_use]
    pub fn over(&self, general: &Simple) -> Simple {
        let select = match (&self.select, &general.select) {
            // Alternatives of the job override those of the queue; alternatives of the queue are
            // dropped for a plain select of the job.
            (Some(a), Some(b)) if a.alternatives.len() == 1 && b.alternatives.len() == 1 => {
                Some(a.both(b).expect("one alternative each"))
            }
            (Some(a), _) => Some(a.clone()),
            (None, b) => b.clone(),
        };
        let pick = |a: &Vec<String>, b: &Vec<String>| if a.is_empty() { b } else { a }.clone();
        let united = cross(&self.rusage, &general.rusage, |a, b| {
            let mut list: Vec<Usage> = a.clone();
            for usage in b {
                match list.iter_mut().find(|u| u.name == usage.name) {
                    None => list.push(usage.clone()),
                    Some(own) => {
                        own.duration_s = match (own.duration_s, usage.duration_s) {
                            (Some(x), Some(y)) => Some(x.min(y)),
                            (x, y) => x.or(y),
                        };
                        own.decay |= usage.decay;
                    }
                }
            }
            Ok(list)
        });
        Simple {
            select,
            order: self.order.clone().or_else(|| general.order.clone()),
            // Too many combinations: use only the job's own amounts.
            rusage: united.unwrap_or_else(|_: String| self.rusage.clone()),
            span: self.span.or(general.span),
            same: pick(&self.same, &general.same),
            cu: self.cu.clone().or_else(|| general.cu.clone()),
            filter: pick(&self.filter, &general.filter),
        }
    }
}

impl Select {
    /// Both must be true: every alternative of one with every alternative of the other.
    fn both(&self, other: &Select) -> Result<Select, String> {
        let alternatives = cross(&self.alternatives, &other.alternatives, |a, b| {
            Ok(a.clone().and(b.clone()))
        })?;
        Ok(Select { alternatives })
    }
}

/// Every combination of two lists; an empty list leaves the other unchanged.
fn cross<T: Clone>(
    first: &[T],
    second: &[T],
    pair: impl Fn(&T, &T) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    if first.is_empty() || second.is_empty() {
        return Ok([first, second].concat());
    }
    if first.len() * second.len() > MAX_ALTERNATIVES {
        return Err(format!(
            "more than {MAX_ALTERNATIVES} alternatives together"
        ));
    }
    first
        .iter()
        .flat_map(|a| second.iter().map(move |b| (a, b)))
        .map(|(a, b)| pair(a, b))
        .collect()
}
