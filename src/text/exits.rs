//! Exit values that requeue a job, `30 40-45 all ~9 EXCLUDE(20)`, and those that count as success.

use super::ParseError;
use std::fmt;

/// The effect of an exit value on a job that ended with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequeueExits {
    /// Inclusive ranges of values that requeue the job.
    ranges: Vec<(u8, u8)>,
    /// Likewise, but the job does not run on that host again.
    exclude: Vec<(u8, u8)>,
}

impl RequeueExits {
    /// Parses values 1 to 255, ranges, `all`, `~` before values to exclude, and the same in
    /// `EXCLUDE( )`; 0 is success and never requeues.
    ///
    /// # Errors
    /// The first word that is not valid.
    pub fn parse(text: &str) -> Result<RequeueExits, ParseError> {
        let (mut requeue, mut exclude) = ([false; 256], [false; 256]);
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let skip = rest.len() - rest.trim_start_matches([' ', ',']).len();
            if skip > 0 {
                at += skip;
                continue;
            }
            if let Some(inner) = rest.strip_prefix("EXCLUDE(") {
                let Some(len) = inner.find(')') else {
                    return Err(ParseError::new(at, rest.len(), "EXCLUDE( has no )"));
                };
                let begin = at + "EXCLUDE(".len();
                let before = exclude;
                mark_all(&inner[..len], begin, &mut exclude)?;
                if exclude == before {
                    return Err(ParseError::new(begin, len, "EXCLUDE( ) names no value"));
                }
                at = begin + len + 1;
                continue;
            }
            let len = rest.find([' ', ',']).unwrap_or(rest.len());
            mark(&rest[..len], at, &mut requeue)?;
            at += len;
        }
        // A value in both lists belongs to EXCLUDE.
        for (b, e) in requeue.iter_mut().zip(exclude) {
            *b &= !e;
        }
        Ok(RequeueExits {
            ranges: ranges(&requeue),
            exclude: ranges(&exclude),
        })
    }

    /// Whether a job that ended with this value is requeued.
    pub fn requeues(&self, exit: u8) -> bool {
        within(&self.ranges, exit) || self.excludes(exit)
    }

    /// Whether it is requeued and never runs on that host again.
    pub fn excludes(&self, exit: u8) -> bool {
        within(&self.exclude, exit)
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.exclude.is_empty()
    }
}

/// Exit values other than 0 that count as success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuccessExits {
    /// Inclusive ranges.
    ranges: Vec<(u8, u8)>,
}

impl SuccessExits {
    /// Parses values 1 to 255, ranges, `all`, and `~` before values to exclude.
    ///
    /// # Errors
    /// The first word that is not valid.
    pub fn parse(text: &str) -> Result<SuccessExits, ParseError> {
        let mut marks = [false; 256];
        mark_all(text, 0, &mut marks)?;
        Ok(SuccessExits {
            ranges: ranges(&marks),
        })
    }

    /// Whether a job that ended with this value counts as successful.
    pub fn holds(&self, exit: i32) -> bool {
        u8::try_from(exit).is_ok_and(|exit| within(&self.ranges, exit))
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

fn within(ranges: &[(u8, u8)], exit: u8) -> bool {
    ranges.iter().any(|&(a, b)| (a..=b).contains(&exit))
}

fn mark_all(text: &str, from: usize, marks: &mut [bool; 256]) -> Result<(), ParseError> {
    for word in text.split([' ', ',']).filter(|w| !w.is_empty()) {
        let at = from + (word.as_ptr() as usize - text.as_ptr() as usize);
        mark(word, at, marks)?;
    }
    Ok(())
}

fn mark(word: &str, at: usize, marks: &mut [bool; 256]) -> Result<(), ParseError> {
    let (text, value) = match word.strip_prefix('~') {
        Some(rest) => (rest, false),
        None => (word, true),
    };
    let exit = |t: &str| {
        let plain = !t.starts_with(['0', '+']);
        t.parse::<u8>().ok().filter(|&n| n > 0 && plain)
    };
    let bounds = match text.split_once('-') {
        _ if text == "all" => Some((1, 255)),
        Some((a, b)) => exit(a).zip(exit(b)),
        None => exit(text).map(|n| (n, n)),
    };
    let Some((from, to)) = bounds.filter(|(from, to)| from <= to) else {
        let message = format!("{word:?} is not an exit value");
        let hint = "write exit values 1 to 255, ranges 40-45, all, ~9, EXCLUDE(20)";
        return Err(ParseError::new(at, word.len(), message).hint(hint));
    };
    marks[usize::from(from)..=usize::from(to)].fill(value);
    Ok(())
}

fn ranges(marks: &[bool; 256]) -> Vec<(u8, u8)> {
    let mut out: Vec<(u8, u8)> = Vec::new();
    for n in (1..=255u8).filter(|&n| marks[usize::from(n)]) {
        match out.last_mut() {
            Some((_, end)) if *end + 1 == n => *end = n,
            _ => out.push((n, n)),
        }
    }
    out
}

fn words(list: &[(u8, u8)]) -> String {
    let word = |(first, last): &(u8, u8)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    list.iter().map(word).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for SuccessExits {
    /// `1 30-35`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(&self.ranges))
    }
}

impl fmt::Display for RequeueExits {
    /// `30-35 99 EXCLUDE(20)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(&self.ranges))?;
        if self.exclude.is_empty() {
            return Ok(());
        }
        let blank = if self.ranges.is_empty() { "" } else { " " };
        write!(f, "{blank}EXCLUDE({})", words(&self.exclude))
    }
}

impl serde::Serialize for SuccessExits {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl serde::Serialize for RequeueExits {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_prints_as_it_means() {
        for (text, printed) in [
            ("30 EXCLUDE(20)", "30 EXCLUDE(20)"),
            ("40-45,30  42", "30 40-45"),
            ("all ~9", "1-8 10-255"),
            ("EXCLUDE(all ~1) 7", "EXCLUDE(2-255)"),
            ("EXCLUDE(3)EXCLUDE(4, 9) 1", "1 EXCLUDE(3-4 9)"),
            ("", ""),
        ] {
            let read = RequeueExits::parse(text).unwrap();
            assert_eq!(read.to_string(), printed);
            assert_eq!(RequeueExits::parse(printed).unwrap(), read);
        }
        let read = RequeueExits::parse("30 EXCLUDE(20)").unwrap();
        assert!(read.requeues(30) && !read.excludes(30));
        assert!(read.requeues(20) && read.excludes(20) && !read.requeues(21));
    }

    #[test]
    fn values_of_a_success_are_a_set_without_zero() {
        let read = SuccessExits::parse("3,7-9 ~8").unwrap();
        assert_eq!(read.to_string(), "3 7 9");
        assert!(read.holds(3) && read.holds(9) && !read.holds(8));
        assert!(!read.holds(0) && !read.holds(-1) && !read.holds(259));
        assert!(SuccessExits::parse("").unwrap().is_empty());
        for (text, at) in [("3 0", 2), ("EXCLUDE(3)", 0), ("4 256", 2), ("x", 0)] {
            assert_eq!(SuccessExits::parse(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn what_is_not_valid_is_pointed_at() {
        for (text, at) in [
            ("30 0", 3),
            ("256", 0),
            ("9-3", 0),
            ("1 EXCLUDE(2 x)", 12),
            ("EXCLUDE(3", 0),
            ("EXCLUDE()", 8),
            ("exclude(3)", 0),
            ("03", 0),
        ] {
            assert_eq!(RequeueExits::parse(text).unwrap_err().at, at, "{text}");
        }
    }
}
