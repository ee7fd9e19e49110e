//! Parses resource requirements: alternatives, groups and sections, without the expressions of
//! `select`.
//!
//! Owns the grammar down to a single section. `select` parses the expressions inside `select`.

use crate::text::error::nearest;
use crate::text::scan::{Cursor, MAX_DEPTH};
use crate::text::{ParseError, duration, names, width};

use super::select::{Reader, STORED_DEPTH, is_short, is_word, split_suffix};
use super::table::{AmountSteps, Kind, Resources};
use super::{
    Alternative, AmountScope, Body, Cu, CuPref, Group, MAX_ALTERNATIVES, MAX_GROUPS, MAX_SLOTS,
    Order, OrderKey, ResReq, Simple, Span, Usage,
};

const MAX_TEXT: usize = 64 * 1024;
const MAX_STORED: usize = 4 * 1024 * 1024;
/// Maximum amount of `rusage`, in units of the resource.
const MAX_AMOUNT: u64 = 1_000_000_000_000_000;
const SECTIONS: [&str; 7] = ["select", "order", "rusage", "span", "same", "cu", "filter"];

pub(super) fn parse(text: &str, resources: &dyn Resources) -> Result<ResReq, ParseError> {
    if text.len() > MAX_TEXT {
        return Err(ParseError::too_long(
            "resource requirement",
            MAX_TEXT,
            text.len(),
        ));
    }
    read(text, resources, MAX_DEPTH)
}

/// As [`parse`] for printed text: merging may have made it longer and deeper.
pub(super) fn parse_stored(text: &str, resources: &dyn Resources) -> Result<ResReq, ParseError> {
    if text.len() > MAX_STORED {
        return Err(ParseError::too_long(
            "resource requirement",
            MAX_STORED,
            text.len(),
        ));
    }
    read(text, resources, STORED_DEPTH)
}

fn read(text: &str, resources: &dyn Resources, depth: usize) -> Result<ResReq, ParseError> {
    let mut reader = Reader {
        cursor: Cursor::new(text),
        resources,
        depth,
    };
    let mut alternatives = Vec::new();
    loop {
        reader.cursor.blanks();
        let at = reader.cursor.at();
        let (alternative, braced) = reader.alternative()?;
        alternatives.push(alternative);
        let more = reader.cursor.eat("||");
        if !braced && (more || alternatives.len() > 1) {
            return Err(ParseError::new(at, 0, "every alternative needs braces")
                .hint("write {...} || {...}"));
        }
        if alternatives.len() > MAX_ALTERNATIVES {
            let message = format!("more than {MAX_ALTERNATIVES} alternatives");
            return Err(ParseError::new(at, 0, message));
        }
        if !more {
            break;
        }
    }
    if !reader.cursor.done() {
        return Err(reader.cursor.expected("a section such as rusage[...]"));
    }
    Ok(ResReq { alternatives })
}

impl Reader<'_> {
    fn alternative(&mut self) -> Result<(Alternative, bool), ParseError> {
        let braced = self.cursor.eat("{");
        let body = self.body()?;
        if braced {
            self.cursor.expect("}")?;
        }
        let delayed = (braced || matches!(body, Body::Groups { .. })) && self.cursor.eat("@");
        let delay_s = if delayed {
            Some(self.integer("a delay in seconds", 0, 10_000_000)?)
        } else {
            None
        };
        let closed = braced || matches!(body, Body::Groups { .. });
        Ok((Alternative { body, delay_s }, closed))
    }

    fn body(&mut self) -> Result<Body, ParseError> {
        if !self.group_ahead() {
            return self.simple(true).map(Body::Simple);
        }
        let mut groups = Vec::new();
        loop {
            if groups.len() == MAX_GROUPS {
                let message = format!("more than {MAX_GROUPS} groups");
                return Err(ParseError::new(self.cursor.at(), 0, message));
            }
            let slots = self.integer("a number of slots", 1, MAX_SLOTS)?;
            self.cursor.eat("*");
            self.cursor.expect("{")?;
            let req = self.simple(true)?;
            self.cursor.expect("}")?;
            groups.push(Group { slots, req });
            let plus = self.cursor.eat("+");
            if !self.group_ahead() {
                if plus {
                    return Err(self.cursor.expected("another group such as 2*{...}"));
                }
                break;
            }
        }
        let common = self.simple(false)?;
        Ok(Body::Groups { groups, common })
    }

    /// True if `n{` or `n*{` comes next.
    fn group_ahead(&mut self) -> bool {
        let mut ahead = self.cursor.clone();
        ahead.blanks();
        let digits = ahead.take_while(|c| c.is_ascii_digit());
        ahead.eat("*");
        !digits.is_empty() && ahead.eat("{")
    }

    /// Parses sections up to the end, a closing brace or `||`; they may begin with a bare
    /// expression if `leading` is true.
    fn simple(&mut self, leading: bool) -> Result<Simple, ParseError> {
        let mut simple = Simple::default();
        let mut first = leading;
        while let Some(c) = self.cursor.peek() {
            if c == '}' || c == '@' || self.cursor.rest().starts_with("||") {
                break;
            }
            let mut ahead = self.cursor.clone();
            let word = ahead.take_while(is_word);
            if !word.is_empty() && ahead.rest().starts_with('[') {
                self.section(&mut simple, word)?;
            } else if first {
                simple.select = Some(self.bare()?);
            } else {
                return Err(self.not_a_section(word, ahead));
            }
            first = false;
        }
        Ok(simple)
    }

    fn not_a_section(&mut self, word: &str, mut ahead: Cursor<'_>) -> ParseError {
        if SECTIONS.contains(&word) && ahead.eat("[") {
            let at = self.cursor.at();
            return ParseError::new(at, word.len(), format!("'[' must follow {word} directly"))
                .hint(format!("write {word}[...]"));
        }
        self.cursor.expected("a section such as rusage[...]")
    }

    /// A select expression without its keyword.
    fn bare(&mut self) -> Result<super::Select, ParseError> {
        let mut ahead = self.cursor.clone();
        let run = ahead.take_while(|c| !c.is_ascii_whitespace() && c != '}');
        let last = match ahead.peek() {
            None | Some('}') => true,
            Some(_) => !ahead.take_while(is_word).is_empty() && ahead.rest().starts_with('['),
        };
        if last && is_short(run) {
            self.short_form(run)
        } else {
            self.select()
        }
    }

    fn section(&mut self, simple: &mut Simple, word: &str) -> Result<(), ParseError> {
        let at = self.cursor.at();
        self.cursor.skip(word.len() + 1);
        let repeated = match word {
            "select" => simple.select.is_some(),
            "order" => simple.order.is_some(),
            "rusage" => !simple.rusage.is_empty(),
            "span" => simple.span.is_some(),
            "same" => !simple.same.is_empty(),
            "cu" => simple.cu.is_some(),
            "filter" => !simple.filter.is_empty(),
            _ => {
                let e = ParseError::new(at, word.len(), format!("'{word}' is not a section"));
                return Err(match nearest(word, SECTIONS) {
                    _ if word == "affinity" => e.hint(
                        "queues bind their jobs: key cpu_bind of cb.yaml; cqueues -l shows it",
                    ),
                    Some(near) => e.hint(format!("did you mean {near}?")),
                    None => e.hint(format!("the sections are {}", SECTIONS.join(" "))),
                });
            }
        };
        if repeated {
            return Err(ParseError::new(
                at,
                word.len(),
                format!("{word} is given twice"),
            ));
        }
        match word {
            "select" => simple.select = Some(self.select_section()?),
            "order" => simple.order = Some(self.order()?),
            "rusage" => simple.rusage = self.rusage()?,
            "span" => simple.span = Some(self.span()?),
            "same" => simple.same = self.names_list(true)?,
            "cu" => simple.cu = Some(self.cu()?),
            _ => simple.filter = self.names_list(false)?,
        }
        self.cursor.expect("]")
    }

    fn select_section(&mut self) -> Result<super::Select, ParseError> {
        self.cursor.blanks();
        let mut ahead = self.cursor.clone();
        let inside = ahead.take_while(|c| c != ']').trim_end();
        if is_short(inside) {
            self.short_form(inside)
        } else {
            self.select()
        }
    }

    fn order(&mut self) -> Result<Order, ParseError> {
        let strict = self.cursor.eat("!");
        let mut keys = Vec::new();
        loop {
            let reverse = self.cursor.eat("-");
            let (at, word) = self.word();
            let def = self.find(word, at)?;
            if !matches!(def.kind, Kind::Number | Kind::Unknown) {
                return Err(
                    ParseError::new(at, word.len(), format!("{word} is not a number"))
                        .hint("hosts are ordered by number resources"),
                );
            }
            keys.push(OrderKey {
                name: def.name.to_owned(),
                reverse,
            });
            if !self.cursor.eat(":") {
                return Ok(Order { strict, keys });
            }
        }
    }

    fn rusage(&mut self) -> Result<Vec<Vec<Usage>>, ParseError> {
        let mut alternatives = Vec::new();
        loop {
            if alternatives.len() == MAX_ALTERNATIVES {
                let message = format!("more than {MAX_ALTERNATIVES} alternatives");
                return Err(ParseError::new(self.cursor.at(), 0, message));
            }
            alternatives.push(self.usage_list()?);
            if !self.cursor.eat("||") {
                return Ok(alternatives);
            }
        }
    }

    /// Parses groups separated by commas; `duration` and `decay` apply to the amounts of their
    /// group, or to all amounts if their group has none.
    fn usage_list(&mut self) -> Result<Vec<Usage>, ParseError> {
        let mut all: Vec<Usage> = Vec::new();
        // What groups without an amount set also applies to the amounts after them.
        let (mut common_life, mut common_decay) = (None, None);
        loop {
            let from = all.len();
            let (mut life, mut decay) = (None, None);
            loop {
                let (at, word) = self.word();
                match word {
                    "duration" => life = Some(self.life()?),
                    "decay" => decay = Some(self.decay()?),
                    _ => {
                        let usage = self.usage(word, at)?;
                        if all.iter().any(|u| u.name == usage.name) {
                            let message = format!("{word} is given twice");
                            return Err(ParseError::new(at, word.len(), message));
                        }
                        all.push(usage);
                    }
                }
                if !self.cursor.eat(":") {
                    break;
                }
            }
            let from = if from == all.len() {
                common_life = life.or(common_life);
                common_decay = decay.or(common_decay);
                0
            } else {
                (life, decay) = (life.or(common_life), decay.or(common_decay));
                from
            };
            for usage in &mut all[from..] {
                usage.duration_s = life.or(usage.duration_s);
                usage.decay = decay.unwrap_or(usage.decay);
            }
            if !self.cursor.eat(",") {
                break;
            }
        }
        if all.is_empty() {
            return Err(self.cursor.expected("an amount such as mem=500"));
        }
        for usage in &mut all {
            usage.decay &= usage.duration_s.is_some();
        }
        Ok(all)
    }

    fn usage(&mut self, word: &str, at: usize) -> Result<Usage, ParseError> {
        let resources = self.resources;
        if word.is_empty() {
            return Err(self.cursor.expected("a resource name"));
        }
        let Some(def) = resources.find(word) else {
            return Err(self.unknown(word, at));
        };
        if !def.reserve || !matches!(def.kind, Kind::Number | Kind::Unknown) {
            return Err(
                ParseError::new(at, word.len(), format!("{word} cannot be reserved"))
                    .hint("use it in select[...]"),
            );
        }
        let def_name = def.name.to_owned();
        self.cursor.expect("=")?;
        self.cursor.blanks();
        let at = self.cursor.at();
        let number = self.cursor.take_while(|c| is_word(c) || c == '-');
        if number.starts_with('-') {
            return Err(ParseError::new(
                at,
                number.len(),
                "an amount cannot be negative",
            ));
        }
        if number.is_empty() {
            return Err(self.cursor.expected("an amount"));
        }
        let (amount, sized) = milli(number).map_err(|e| e.shifted(at))?;
        if sized && !def.megabytes {
            let message = format!("{def_name} is not counted in bytes");
            return Err(ParseError::new(at, number.len(), message).hint("leave out the unit"));
        }
        let even = amount.is_multiple_of(1000);
        let message = match def.steps {
            AmountSteps::Whole if !even => Some("is only given in whole numbers"),
            AmountSteps::UnitsOrPart if !even && amount > 1000 => {
                Some("is given in whole units, or as a part of one unit: a number below 1")
            }
            AmountSteps::Any | AmountSteps::Whole | AmountSteps::UnitsOrPart => None,
        };
        if let Some(why) = message {
            let message = format!("{def_name} {why}");
            return Err(ParseError::new(at, number.len(), message));
        }
        let per = self.per()?;
        Ok(Usage {
            name: def_name,
            amount,
            per,
            duration_s: None,
            decay: false,
        })
    }

    fn per(&mut self) -> Result<AmountScope, ParseError> {
        if !self.cursor.eat("/") {
            return Ok(AmountScope::Default);
        }
        let (at, word) = self.word();
        match word {
            "job" => Ok(AmountScope::Job),
            "host" => Ok(AmountScope::Host),
            "task" => Ok(AmountScope::Task),
            _ => Err(
                ParseError::new(at, word.len(), "an amount is per job, host or task")
                    .hint("write /job, /host or /task"),
            ),
        }
    }

    fn life(&mut self) -> Result<u32, ParseError> {
        self.cursor.expect("=")?;
        let (at, word) = self.word();
        let seconds =
            duration::parse_s(word, duration::DefaultUnit::Minutes).map_err(|e| e.shifted(at))?;
        Ok(u32::try_from(seconds).expect("durations end at ten years"))
    }

    fn decay(&mut self) -> Result<bool, ParseError> {
        self.cursor.expect("=")?;
        let (at, word) = self.word();
        match word {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(ParseError::new(at, word.len(), "decay is 0 or 1")),
        }
    }

    fn span(&mut self) -> Result<Span, ParseError> {
        const HINT: &str = "write hosts=1, hosts=min,max, hosts=-1, ptile=n, block=n or stride=n";
        let (at, word) = self.word();
        if !["hosts", "ptile", "block", "stride"].contains(&word) {
            let shown = if word.is_empty() { "this" } else { word };
            return Err(ParseError::new(
                at,
                word.len().max(1),
                format!("{shown} is not a kind of span"),
            )
            .hint(HINT));
        }
        self.cursor.expect("=")?;
        let number = |reader: &mut Self| reader.integer("a number", 1, MAX_SLOTS);
        let span = match word {
            "hosts" if self.cursor.eat("-") => {
                self.integer("1", 1, 1)?;
                Span::Free
            }
            "hosts" => {
                let at = self.cursor.at();
                let min = number(self)?;
                let max = if self.cursor.eat(",") {
                    Some(number(self)?)
                } else {
                    None
                };
                match max {
                    None if min != 1 => {
                        return Err(ParseError::new(
                            at,
                            0,
                            "a single number of hosts can only be 1",
                        )
                        .hint(format!("write hosts={min},{min}")));
                    }
                    Some(max) if max < min => {
                        return Err(ParseError::new(
                            at,
                            0,
                            format!("{min},{max} is a descending range"),
                        )
                        .hint(format!("write hosts={max},{min}")));
                    }
                    _ => Span::Hosts {
                        min,
                        max: max.unwrap_or(min),
                    },
                }
            }
            "ptile" if self.cursor.eat("'!'") || self.cursor.eat("!") => Span::PtileAll,
            "ptile" => Span::Ptile(number(self)?),
            "block" => Span::Block(number(self)?),
            _ => Span::Stride(number(self)?),
        };
        Ok(span)
    }

    /// Parses names separated by `:` or `,`; `resources`: they must be names of resources.
    fn names_list(&mut self, resources: bool) -> Result<Vec<String>, ParseError> {
        let mut list: Vec<String> = Vec::new();
        loop {
            let (at, word) = self.word();
            let name = if resources {
                self.find(word, at)?.name
            } else {
                names::check_name(word).map_err(|e| e.shifted(at))?;
                word
            };
            if list.iter().any(|n| n == name) {
                return Err(ParseError::new(
                    at,
                    word.len(),
                    format!("{name} is given twice"),
                ));
            }
            list.push(name.to_owned());
            if !(self.cursor.eat(":") || self.cursor.eat(",")) {
                return Ok(list);
            }
        }
    }

    fn cu(&mut self) -> Result<Cu, ParseError> {
        let mut cu = Cu::default();
        loop {
            let (at, word) = self.word();
            match word {
                "type" => {
                    self.cursor.expect("=")?;
                    let (at, name) = self.word();
                    names::check_name(name).map_err(|e| e.shifted(at))?;
                    cu.kind = Some(name.to_owned());
                }
                "maxcus" => {
                    self.cursor.expect("=")?;
                    cu.max = Some(self.integer("a number", 1, MAX_SLOTS)?);
                }
                "usablecuslots" => {
                    self.cursor.expect("=")?;
                    cu.usable_slots = Some(self.integer("a number", 1, MAX_SLOTS)?);
                }
                "pref" => {
                    self.cursor.expect("=")?;
                    let (at, pref) = self.word();
                    cu.pref = Some(match pref {
                        "config" => CuPref::Config,
                        "minavail" => CuPref::MinAvail,
                        "maxavail" => CuPref::MaxAvail,
                        _ => {
                            return Err(ParseError::new(at, pref.len(), "no such preference")
                                .hint("write config, minavail or maxavail"));
                        }
                    });
                }
                "balance" => cu.balance = true,
                "excl" => cu.excl = true,
                _ => {
                    return Err(ParseError::new(at, word.len(), "no such key in cu")
                        .hint("write type=, maxcus=, pref=, balance, excl or usablecuslots="));
                }
            }
            if !self.cursor.eat(":") {
                return Ok(cu);
            }
        }
    }

    fn integer(&mut self, what: &str, low: u32, high: u32) -> Result<u32, ParseError> {
        self.cursor.blanks();
        let at = self.cursor.at();
        let digits = self.cursor.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.cursor.expected(what));
        }
        let value = digits
            .parse::<u32>()
            .ok()
            .filter(|v| (low..=high).contains(v));
        value.ok_or_else(|| {
            let shown = width::truncate(digits, 24);
            ParseError::new(
                at,
                digits.len(),
                format!("{shown} is not in {low} to {high}"),
            )
        })
    }
}

/// An amount in thousandths, rounded up, and whether it had a unit of size.
fn milli(word: &str) -> Result<(u64, bool), ParseError> {
    let (digits, factor) = split_suffix(word)?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let part = &part[..part.len().min(12)];
    let number = |t: &str| t.bytes().fold(0u128, |n, b| n * 10 + u128::from(b - b'0'));
    let scale = 10u128.pow(u32::try_from(part.len()).expect("at most 12"));
    let mut value = (number(whole) * scale + number(part)) * 1000;
    // The factor is a power of 1024, so both ways are exact in integers.
    let divisor = if factor < 1.0 {
        scale * 1024
    } else {
        value *= factor as u128;
        scale
    };
    let amount = value.div_ceil(divisor);
    match u64::try_from(amount) {
        Ok(amount) if amount <= MAX_AMOUNT => Ok((amount, digits.len() < word.len())),
        _ => Err(ParseError::new(0, word.len(), "the amount is too big")),
    }
}
