//! Resource requirements: `select[mem>2G] order[ut] rusage[mem=1G] span[hosts=1]`.
//!
//! Owns the whole grammar with several sections, alternatives and slot groups, its printer, the
//! merging of several strings, and the built-in resources. Never chooses a host: it evaluates a
//! string for one host at a time.

mod merge;
mod parse;
mod print;
mod select;
mod table;

use super::ParseError;

pub use super::scan::Op;

pub use merge::merge_all;
pub use print::amount;
pub use select::{HostFacts, Select, SelectExpr};
pub use table::{
    AmountSteps, AnyResource, BUILTINS, Builtin, Builtins, Direction, Kind, ResourceDef, Resources,
    builtin, check_resource_name, left_to_sensors,
};

/// Maximum number of groups `n{...}` of a request.
pub const MAX_GROUPS: usize = 100;
/// Maximum number of alternatives of a request, of its select and of its rusage.
pub const MAX_ALTERNATIVES: usize = 16;
/// Maximum number of slots of a group.
pub const MAX_SLOTS: u32 = 10_000_000;

/// A whole requirement: alternatives that are tried in order; an empty text is one empty
/// alternative.
#[derive(Debug, Clone, PartialEq)]
pub struct ResReq {
    /// At least one.
    pub alternatives: Vec<Alternative>,
}

/// One way to satisfy a requirement.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The content of the request.
    pub body: Body,
    /// Time in seconds after submission before it may be used.
    pub delay_s: Option<u32>,
}

/// One set of sections, or groups of slots with their own.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The same for all slots.
    Simple(Simple),
    /// `4{...} 5{...}`: groups that start together.
    Groups {
        /// At least one.
        groups: Vec<Group>,
        /// The sections after the groups, which apply to all of them.
        common: Simple,
    },
}

/// `n{...}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Slots, 1 or more.
    pub slots: u32,
    /// The request of each slot.
    pub req: Simple,
}

/// Sections; all may be absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Simple {
    /// Which hosts.
    pub select: Option<Select>,
    /// Which hosts first.
    pub order: Option<Order>,
    /// Reserved amounts: alternatives that are tried in order, each with its amounts; may be empty.
    pub rusage: Vec<Vec<Usage>>,
    /// How slots are distributed over hosts.
    pub span: Option<Span>,
    /// Resources whose values must be equal on all hosts of the job.
    pub same: Vec<String>,
    /// Compute units.
    pub cu: Option<Cu>,
    /// Names of external host filters.
    pub filter: Vec<String>,
}

/// Sort keys of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Written with `!`: sort by these keys alone.
    pub strict: bool,
    /// Most important first, at least one.
    pub keys: Vec<OrderKey>,
}

/// One sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderKey {
    /// A number resource or `slots`.
    pub name: String,
    /// Worst first instead of best first.
    pub reverse: bool,
}

/// A reserved amount of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// A number resource.
    pub name: String,
    /// Thousandths of the resource's unit (of a megabyte for memory).
    pub amount: u64,
    /// The scope of the amount.
    pub per: AmountScope,
    /// Time in seconds after the start when the reservation ends; `None`: the whole run.
    pub duration_s: Option<u32>,
    /// True if the amount decreases linearly to zero over the duration.
    pub decay: bool,
}

/// The scope of a reserved amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmountScope {
    /// Not written: see [`Usage::scope`].
    Default,
    /// Once for the job.
    Job,
    /// Once for each host of the job.
    Host,
    /// Once for each slot.
    Task,
}

/// How slots are distributed over hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// `hosts=1` or `hosts=min,max`.
    Hosts {
        /// Minimum number of hosts, at least 1.
        min: u32,
        /// Maximum number of hosts.
        max: u32,
    },
    /// `hosts=-1`: no restriction, even if the queue has one.
    Free,
    /// `ptile=n`: n slots on each host, the remainder on the last.
    Ptile(u32),
    /// `ptile='!'`: as many slots on each host as it has.
    PtileAll,
    /// `block=n`: slots in blocks of n.
    Block(u32),
    /// `stride=n`: n slots on each host in turn.
    Stride(u32),
}

/// Compute units: groups of hosts that are close to each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cu {
    /// Kind of unit, such as rack.
    pub kind: Option<String>,
    /// Maximum number of units that the job may span.
    pub max: Option<u32>,
    /// Which units first.
    pub pref: Option<CuPref>,
    /// Spread evenly.
    pub balance: bool,
    /// Whole units, with no other job.
    pub excl: bool,
    /// Minimum number of slots used in each unit.
    pub usable_slots: Option<u32>,
}

/// Order of compute units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CuPref {
    /// As configured.
    Config,
    /// Fewest free slots first.
    MinAvail,
    /// Most free slots first.
    MaxAvail,
}

impl Default for ResReq {
    fn default() -> Self {
        ResReq::from(Simple::default())
    }
}

impl From<Simple> for ResReq {
    fn from(simple: Simple) -> Self {
        ResReq {
            alternatives: vec![Alternative {
                body: Body::Simple(simple),
                delay_s: None,
            }],
        }
    }
}

impl ResReq {
    /// Parses one string; `resources` knows the names that may be used. At most 64 KiB and 32
    /// levels; linear in the text.
    ///
    /// ```
    /// use corral::text::resreq::{Builtins, ResReq};
    /// let text = "select[mem>2G && type==any] rusage[mem=500] span[hosts=1]";
    /// let req = ResReq::parse(text, &Builtins).unwrap();
    /// let shown = "select[mem > 2048 && type==any] rusage[mem=500] span[hosts=1]";
    /// assert_eq!(req.to_string(), shown);
    /// let simple = req.simple().unwrap();
    /// assert_eq!(simple.rusage[0][0].amount, 500_000);
    ///
    /// let e = ResReq::parse("selct[mem>2]", &Builtins).unwrap_err();
    /// assert_eq!(e.hint.as_deref(), Some("did you mean select?"));
    /// ```
    ///
    /// # Errors
    /// Names the error with its column: a section, an unknown resource, a value.
    pub fn parse(text: &str, resources: &dyn Resources) -> Result<ResReq, ParseError> {
        parse::parse(text, resources)
    }

    /// Parses printed text, even if a declaration has been removed since: `resources` are those
    /// declared now. The text may be longer and deeper than [`ResReq::parse`] allows, since merging
    /// increases both.
    ///
    /// # Errors
    /// As [`ResReq::parse`].
    pub fn parse_stored(text: &str, resources: &dyn Resources) -> Result<ResReq, ParseError> {
        parse::parse_stored(text, &AnyResource(resources))
    }

    /// The sections if there is one alternative without groups.
    pub fn simple(&self) -> Option<&Simple> {
        match &self.alternatives[..] {
            [
                Alternative {
                    body: Body::Simple(simple),
                    delay_s: None,
                },
            ] => Some(simple),
            _ => None,
        }
    }

    /// True if the requirement is empty.
    pub fn is_empty(&self) -> bool {
        self.simple().is_some_and(|s| *s == Simple::default())
    }
}

impl Body {
    /// Slots of all groups; `None` if the number of slots is specified elsewhere.
    pub fn slots(&self) -> Option<u32> {
        match self {
            Body::Simple(_) => None,
            Body::Groups { groups, .. } => {
                Some(groups.iter().fold(0, |n, g| n.saturating_add(g.slots)))
            }
        }
    }

    /// The groups with the common sections merged in and every amount without a scope counted per
    /// task; one group without a number of slots if there are no groups.
    pub fn effective(&self) -> Vec<(Option<u32>, Simple)> {
        match self {
            Body::Simple(simple) => vec![(None, simple.clone())],
            Body::Groups { groups, common } => groups
                .iter()
                .map(|g| {
                    let mut req = g.req.clone();
                    for usage in req.rusage.iter_mut().flatten() {
                        if usage.per == AmountScope::Default {
                            usage.per = AmountScope::Task;
                        }
                    }
                    (Some(g.slots), req.over(common))
                })
                .collect(),
        }
    }
}

impl Simple {}

impl Usage {
    /// The scope of the amount: as written; else per slot for a resource declared so, per job for
    /// one that all hosts share, else per host.
    pub fn scope(&self, slot_resource: bool, shared: bool) -> AmountScope {
        match self.per {
            AmountScope::Default if slot_resource => AmountScope::Task,
            AmountScope::Default if shared => AmountScope::Job,
            AmountScope::Default => AmountScope::Host,
            written => written,
        }
    }
}

#[cfg(test)]
mod tests;
