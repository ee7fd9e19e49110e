//! Prints resource requirements in a form that the parser accepts.

use std::fmt::{self, Display, Formatter, Write as _};

use super::select::{is_short, is_word};
use super::table::builtin;
use super::{
    Alternative, AmountScope, Body, Cu, CuPref, Order, ResReq, Select, SelectExpr, Simple, Span,
    Usage,
};

impl Display for ResReq {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let [
            Alternative {
                body,
                delay_s: None,
            },
        ] = &self.alternatives[..]
        {
            return write!(f, "{body}");
        }
        for (n, alternative) in self.alternatives.iter().enumerate() {
            let sign = if n > 0 { " || " } else { "" };
            write!(f, "{sign}{{{}}}", alternative.body)?;
            if let Some(delay) = alternative.delay_s {
                write!(f, "@{delay}")?;
            }
        }
        Ok(())
    }
}

impl Display for Body {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Body::Simple(simple) => write!(f, "{simple}"),
            Body::Groups { groups, common } => {
                for (n, group) in groups.iter().enumerate() {
                    let blank = if n > 0 { " " } else { "" };
                    write!(f, "{blank}{}{{{}}}", group.slots, group.req)?;
                }
                let common = common.to_string();
                if common.is_empty() {
                    Ok(())
                } else {
                    write!(f, " {common}")
                }
            }
        }
    }
}

impl Display for Simple {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut sections = Vec::new();
        sections.extend(self.select.as_ref().map(|s| format!("select[{s}]")));
        sections.extend(self.order.as_ref().map(|o| format!("order[{o}]")));
        if !self.rusage.is_empty() {
            let lists: Vec<String> = self.rusage.iter().map(|list| joined(list, ",")).collect();
            sections.push(format!("rusage[{}]", lists.join(" || ")));
        }
        sections.extend(self.span.map(|s| format!("span[{s}]")));
        if !self.same.is_empty() {
            sections.push(format!("same[{}]", self.same.join(":")));
        }
        sections.extend(self.cu.as_ref().map(|c| format!("cu[{c}]")));
        if !self.filter.is_empty() {
            sections.push(format!("filter[{}]", self.filter.join(":")));
        }
        f.write_str(&sections.join(" "))
    }
}

fn joined<T: Display>(items: &[T], sign: &str) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(sign)
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = joined(&self.alternatives, ", ");
        // A lone minus sign would be parsed as "not" of the short form.
        if is_short(&text) {
            write!(f, "({text})")
        } else {
            f.write_str(&text)
        }
    }
}

impl SelectExpr {
    /// Precedence of the node: 1 is the lowest.
    fn binding(&self) -> u8 {
        match self {
            SelectExpr::Or(_) => 1,
            SelectExpr::And(_) => 2,
            SelectExpr::Compare(..) | SelectExpr::Text { .. } => 3,
            SelectExpr::Sum(_) => 4,
            SelectExpr::Product(_) => 5,
            _ => 6,
        }
    }

    /// Writes an operand of a node with precedence `outer`, in parentheses if necessary.
    fn part(&self, f: &mut Formatter<'_>, outer: u8) -> fmt::Result {
        if self.binding() <= outer {
            write!(f, "({self})")
        } else {
            write!(f, "{self}")
        }
    }
}

impl Display for SelectExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let outer = self.binding();
        match self {
            SelectExpr::Or(parts) | SelectExpr::And(parts) => {
                let sign = if outer == 1 { " || " } else { " && " };
                for (n, part) in parts.iter().enumerate() {
                    f.write_str(if n > 0 { sign } else { "" })?;
                    part.part(f, outer)?;
                }
                Ok(())
            }
            SelectExpr::Not(inner) => {
                f.write_char('!')?;
                inner.part(f, 5)
            }
            SelectExpr::Minus(inner) => {
                f.write_char('-')?;
                inner.part(f, 5)
            }
            SelectExpr::Compare(left, op, right) => {
                left.part(f, outer)?;
                write!(f, " {} ", op.sign())?;
                let outer = if looks_like_text(left, right) {
                    u8::MAX
                } else {
                    outer
                };
                right.part(f, outer)
            }
            SelectExpr::Text { name, op, word } => {
                let plain = !word.is_empty() && word.chars().all(|c| is_word(c) || c == '-');
                let quote = match (plain, word.contains('"')) {
                    (true, _) => "",
                    (false, false) => "\"",
                    (false, true) => "'",
                };
                write!(f, "{name}{}{quote}{word}{quote}", op.sign())
            }
            SelectExpr::Sum(parts) | SelectExpr::Product(parts) => {
                let signs = if outer == 4 {
                    [" + ", " - "]
                } else {
                    [" * ", " / "]
                };
                for (n, (second, part)) in parts.iter().enumerate() {
                    f.write_str(if n > 0 {
                        signs[usize::from(*second)]
                    } else {
                        ""
                    })?;
                    part.part(f, outer)?;
                }
                Ok(())
            }
            SelectExpr::Number(value) => write!(f, "{value}"),
            SelectExpr::Value(name) | SelectExpr::Tag(name) => f.write_str(name),
            SelectExpr::Defined(name) => write!(f, "defined({name})"),
        }
    }
}

/// True for a comparison of two declared numbers: without their declarations it would be parsed as
/// the comparison of a text with a word, so the right side is put in parentheses.
fn looks_like_text(left: &SelectExpr, right: &SelectExpr) -> bool {
    let declared = |n: &SelectExpr| matches!(n, SelectExpr::Value(name) if builtin(name).is_none());
    declared(left) && declared(right)
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.strict { "!" } else { "" })?;
        for (n, key) in self.keys.iter().enumerate() {
            let colon = if n > 0 { ":" } else { "" };
            let minus = if key.reverse { "-" } else { "" };
            write!(f, "{colon}{minus}{}", key.name)?;
        }
        Ok(())
    }
}

impl Display for Usage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, amount(self.amount))?;
        f.write_str(match self.per {
            AmountScope::Default => "",
            AmountScope::Job => "/job",
            AmountScope::Host => "/host",
            AmountScope::Task => "/task",
        })?;
        if let Some(seconds) = self.duration_s {
            write!(
                f,
                ":duration={}",
                crate::text::duration::exact(u64::from(seconds))
            )?;
            f.write_str(if self.decay { ":decay=1" } else { "" })?;
        }
        Ok(())
    }
}

/// Thousandths as a decimal number without trailing zeros.
///
/// ```
/// assert_eq!(corral::text::resreq::amount(1500), "1.5");
/// ```
pub fn amount(milli: u64) -> String {
    let (whole, part) = (milli / 1000, milli % 1000);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:03}")
        .trim_end_matches('0')
        .to_owned()
}

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Span::Hosts { min: 1, max: 1 } => f.write_str("hosts=1"),
            Span::Hosts { min, max } => write!(f, "hosts={min},{max}"),
            Span::Free => f.write_str("hosts=-1"),
            Span::Ptile(n) => write!(f, "ptile={n}"),
            Span::PtileAll => f.write_str("ptile='!'"),
            Span::Block(n) => write!(f, "block={n}"),
            Span::Stride(n) => write!(f, "stride={n}"),
        }
    }
}

impl Display for Cu {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.kind.as_ref().map(|k| format!("type={k}")));
        parts.extend(self.max.map(|n| format!("maxcus={n}")));
        parts.extend(self.pref.map(|p| {
            let word = match p {
                CuPref::Config => "config",
                CuPref::MinAvail => "minavail",
                CuPref::MaxAvail => "maxavail",
            };
            format!("pref={word}")
        }));
        parts.extend(self.balance.then(|| "balance".to_owned()));
        parts.extend(self.excl.then(|| "excl".to_owned()));
        parts.extend(self.usable_slots.map(|n| format!("usablecuslots={n}")));
        f.write_str(&parts.join(":"))
    }
}
