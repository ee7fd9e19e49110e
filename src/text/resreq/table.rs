//! The built-in resources, and the interface by which a parser looks up any other.
//!
//! Owns names, kinds, directions and units of resources that every host has. Never knows a value.

use crate::text::{ErrorKind, ParseError, names};

/// The kind of a resource's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Number,
    /// A word, compared with `==` and `!=`.
    Text,
    /// Present or absent.
    Tag,
    /// Unknown: a string that was checked earlier is parsed without its declarations.
    Unknown,
}

/// Which values of a number are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It increases with the load: lower is better.
    Increase,
    /// It decreases with the load: higher is better.
    Decrease,
    /// It has no order.
    None,
}

/// Valid amounts of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmountSteps {
    Any,
    Whole,
    /// Whole units, assigned individually, or a part of one unit.
    UnitsOrPart,
}

/// The properties of a resource that a parser needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceDef<'a> {
    /// The canonical name; differs from the requested one for an alias.
    pub name: &'a str,
    /// Kind of value.
    pub kind: Kind,
    /// Which values are better.
    pub direction: Direction,
    /// True if `rusage` may reserve it.
    pub reserve: bool,
    /// Valid amounts.
    pub steps: AmountSteps,
    /// True if it is counted in megabytes, so that a number may have a suffix K, M, G or T.
    pub megabytes: bool,
}

/// The resources of a cluster.
pub trait Resources {
    /// The resource called `name`, aliases included.
    fn find<'a>(&'a self, name: &'a str) -> Option<ResourceDef<'a>>;
    /// All names, for the hint about a misspelled one.
    fn names(&self) -> Vec<&str>;
}

/// A resource that every cluster has.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Kind of value.
    pub kind: Kind,
    /// Which values are better.
    pub direction: Direction,
    /// Unit of the number, empty for plain counts.
    pub unit: &'static str,
    /// Seconds between two measurements; 0 if the value never changes.
    pub interval_s: u32,
    /// True if a suspended job releases it.
    pub release: bool,
    /// True if `rusage` may reserve it.
    pub reserve: bool,
    /// A line of description for users.
    pub about: &'static str,
}

impl Builtin {
    /// The definition for the parser.
    pub fn def(&self) -> ResourceDef<'static> {
        ResourceDef {
            name: self.name,
            kind: self.kind,
            direction: self.direction,
            reserve: self.reserve,
            steps: match self.name {
                "gpu" => AmountSteps::UnitsOrPart,
                "cores" => AmountSteps::Whole,
                _ => AmountSteps::Any,
            },
            megabytes: self.unit == "MB",
        }
    }
}

const fn row(name: &'static str, kind: Kind, direction: Direction, about: &'static str) -> Builtin {
    let (unit, interval_s, release, reserve) = ("", 0, false, false);
    Builtin {
        name,
        kind,
        direction,
        unit,
        interval_s,
        release,
        reserve,
        about,
    }
}

const fn load(
    name: &'static str,
    direction: Direction,
    unit: &'static str,
    interval_s: u32,
    about: &'static str,
) -> Builtin {
    let mut row = row(name, Kind::Number, direction, about);
    row.unit = unit;
    row.interval_s = interval_s;
    row.reserve = true;
    row.release = matches!(name.as_bytes(), [b'r', b'1', ..]);
    row
}

const fn size(name: &'static str, about: &'static str) -> Builtin {
    let mut row = row(name, Kind::Number, Direction::Decrease, about);
    row.unit = "MB";
    row
}

/// The built-in resources in the order they are listed.
pub static BUILTINS: &[Builtin] = {
    use Direction::{Decrease, Increase, None};
    use Kind::{Number, Tag, Text};
    &[
        load(
            "r15s",
            Increase,
            "",
            15,
            "run queue length, average of 15 seconds",
        ),
        load(
            "r1m",
            Increase,
            "",
            15,
            "run queue length, average of 1 minute",
        ),
        load(
            "r15m",
            Increase,
            "",
            15,
            "run queue length, average of 15 minutes",
        ),
        load(
            "ut",
            Increase,
            "fraction",
            15,
            "cpu utilization from 0 to 1",
        ),
        load("pg", Increase, "pages/s", 15, "paging rate"),
        load("io", Increase, "KB/s", 15, "disk transfer rate"),
        load("ls", Increase, "", 30, "login sessions"),
        load(
            "it",
            Decrease,
            "minutes",
            30,
            "time since the last input at a terminal",
        ),
        load("tmp", Decrease, "MB", 120, "free space in /tmp"),
        load("swp", Decrease, "MB", 15, "free swap space"),
        load("mem", Decrease, "MB", 15, "free memory"),
        load("gpu", Decrease, "", 15, "free gpus"),
        load(
            "gpu_mem",
            Decrease,
            "MB",
            15,
            "free memory of the emptiest gpu",
        ),
        load(
            "gpu_util",
            Increase,
            "fraction",
            15,
            "utilization of the busiest gpu",
        ),
        load("netio", Increase, "KB/s", 15, "network transfer rate"),
        load(
            "stio",
            Increase,
            "KB/s",
            15,
            "transfer rate of the shared storage",
        ),
        row("slots", Number, Decrease, "unused slots"),
        row("ncpus", Number, Decrease, "processors"),
        row("cores", Number, Decrease, "processor cores"),
        row("sockets", Number, Decrease, "processor sockets"),
        row("nthreads", Number, Decrease, "hardware threads"),
        row("ndisks", Number, Decrease, "local disks"),
        size("maxmem", "memory"),
        size("maxswp", "swap space"),
        size("maxtmp", "space in /tmp"),
        row("cpuf", Number, Decrease, "cpu factor"),
        row("rexpri", Number, None, "nice value of remote tasks"),
        row("type", Text, None, "host type"),
        row("model", Text, None, "host model"),
        row("status", Text, None, "host status"),
        row("hname", Text, None, "host name"),
        row("os", Text, None, "operating system"),
        row("kernel", Text, None, "kernel release"),
        row("gpu_model", Text, None, "gpu model"),
        row("server", Tag, None, "runs jobs"),
    ]
};

const ALIASES: [(&str, &str); 4] = [
    ("cpu", "r1m"),
    ("idle", "it"),
    ("login", "ls"),
    ("swap", "swp"),
];

/// The built-in resource called `name`, aliases included.
///
/// ```
/// assert_eq!(corral::text::resreq::builtin("swap").map(|b| b.unit), Some("MB"));
/// ```
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    let proper = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, p)| p);
    BUILTINS.iter().find(|b| b.name == proper)
}

/// True for built-in resources that Corral does not measure itself but a sensor may.
pub fn left_to_sensors(name: &str) -> bool {
    const LEFT: [&str; 10] = [
        "gpu",
        "gpu_mem",
        "gpu_util",
        "gpu_model",
        "netio",
        "stio",
        "sockets",
        "nthreads",
        "os",
        "kernel",
    ];
    LEFT.contains(&name)
}

/// Only the built-in resources.
#[derive(Debug, Clone, Copy, Default)]
pub struct Builtins;

impl Resources for Builtins {
    fn find<'a>(&'a self, name: &'a str) -> Option<ResourceDef<'a>> {
        builtin(name).map(Builtin::def)
    }

    fn names(&self) -> Vec<&str> {
        BUILTINS.iter().map(|b| b.name).collect()
    }
}

/// Accepts every name: for strings that were checked when they were submitted, some of whose
/// declarations may have been removed since.
#[derive(Clone, Copy)]
pub struct AnyResource<'r>(
    /// The current declarations.
    pub &'r dyn Resources,
);

impl Resources for AnyResource<'_> {
    fn find<'a>(&'a self, name: &'a str) -> Option<ResourceDef<'a>> {
        let unknown = ResourceDef {
            name,
            kind: Kind::Unknown,
            direction: Direction::Decrease,
            reserve: true,
            steps: AmountSteps::Any,
            megabytes: true,
        };
        self.0.find(name).or(Some(unknown))
    }

    fn names(&self) -> Vec<&str> {
        self.0.names()
    }
}

/// Accepts names for declared resources: a letter or `_`, then letters, digits, `_` and `.`, up to
/// 64 characters, except built-in names and keywords of the language. (`-` would be parsed as a
/// subtraction.)
///
/// # Errors
/// The reason why the name is refused.
pub fn check_resource_name(name: &str) -> Result<(), ParseError> {
    const WORDS: [&str; 6] = ["any", "local", "defined", "duration", "decay", "others"];
    names::check_name(name)?;
    let first_bad = match name.find(|c: char| !super::select::is_word(c)) {
        None if name.starts_with(|c: char| c.is_ascii_digit()) => Some(0),
        other => other,
    };
    if let Some(at) = first_bad {
        return Err(
            ParseError::new(at, 1, format!("{name} is not a valid resource name"))
                .hint("a letter or _ comes first, then letters, digits, _ and ."),
        );
    }
    if builtin(name).is_some() || WORDS.contains(&name) {
        let message = format!("{name} is a built-in name");
        return Err(ParseError::new(0, name.len(), message).kind(ErrorKind::Reserved));
    }
    Ok(())
}
