//! Dependency conditions of `-w`: `done(12) && (ended("prep*") || numdone(7,>= 10))`.
//!
//! Owns grammar, printer, name resolution and evaluation. Never looks jobs up: facts about them
//! come through [`DependencyFacts`].

mod count;

use super::indexset::{IndexSet, MAX_INDEX, index};
use super::jobids::MAX_ID;
pub use super::scan::Op;
use super::scan::{Cursor, MAX_DEPTH};
use super::{ParseError, error, names};
use count::COUNTS;
pub use count::{Count, CountValue};
use std::fmt;

const MAX_TEXT: usize = 16 * 1024;
/// Maximum number of conditions of an expression as it is written.
const MAX_CONDITIONS: usize = 1000;
/// Maximum number of conditions after names were replaced by ids.
pub const MAX_RESOLVED: usize = 100_000;
const HINT: &str = "write for example done(12) && ended(\"prep*\")";

/// A condition on other jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// All are true; at least two.
    And(Vec<Expr>),
    /// One is true; at least two.
    Or(Vec<Expr>),
    /// The inner one is not true.
    Not(Box<Expr>),
    /// A single condition.
    Is(Cond),
}

/// A single condition on the jobs that a target names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cond {
    /// The required state.
    pub test: Test,
    /// The jobs that must be in this state.
    pub target: Target,
}

/// The test of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// All ended with success.
    Done,
    /// All ended.
    Ended,
    /// All ended, at least one without success; with a comparison, with a matching exit code.
    Exit(Option<(Op, u32)>),
    /// All were started.
    Started,
    /// The post-exec command of all succeeded.
    PostDone,
    /// The post-exec command of one failed.
    PostErr,
    /// A message with this text was posted.
    External(String),
    /// The number of elements in a state.
    Num(Count, CountValue),
}

/// The jobs of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// By id or by name.
    pub job: JobRef,
    /// Which elements of an array.
    pub elements: Elements,
}

/// A job, by id or by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobRef {
    /// A job id.
    Id(u32),
    /// The submitter's jobs with this name; a trailing `*` matches any text.
    Name(String),
}

/// The elements of an array that a target means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elements {
    /// The job or the whole array.
    Whole,
    /// `[*]`: the element with the index of the element that waits.
    Same,
    /// These.
    Some(IndexSet),
}

/// The result of evaluating a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The condition is true.
    True,
    /// The condition is not true yet.
    False,
    /// The condition is not true, and no future event can make it true.
    Never,
}

/// The number of elements of a target in each state; a job that is not an array counts 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ElementStates {
    /// Pending.
    pub pend: u64,
    /// Held before the start.
    pub hold: u64,
    /// Running.
    pub run: u64,
    /// Suspended after the start, or on an unreachable host.
    pub susp: u64,
    /// Ended with success.
    pub done: u64,
    /// Ended without success, or killed before the start.
    pub exit: u64,
}

impl ElementStates {
    fn total(&self) -> u64 {
        self.pend + self.hold + self.run + self.susp + self.ended()
    }

    fn ended(&self) -> u64 {
        self.done + self.exit
    }
}

/// The facts about jobs that the evaluation needs.
pub trait DependencyFacts {
    /// The states of the elements that `target` names; `None` if the job no longer exists.
    fn element_states(&self, target: &Target) -> Option<ElementStates>;
    /// True if an element that ended without success has an exit code that passes `test`.
    fn exit_code(&self, target: &Target, test: &dyn Fn(i32) -> bool) -> bool;
    /// The number of ended elements whose post-exec command failed.
    fn post_failed(&self, target: &Target) -> u64;
    /// True if the message `word` was posted to the job.
    fn external(&self, target: &Target, word: &str) -> bool;
}

impl Expr {
    /// Parses an expression; depth up to 32, up to 1,000 conditions.
    ///
    /// ```
    /// use corral::text::depend::Expr;
    /// let expr = Expr::parse("12 && !exit('prep',>3)").unwrap();
    /// assert_eq!(expr.to_string(), "done(12) && !exit(\"prep\",>3)");
    /// assert!(Expr::parse("done(12").is_err());
    /// ```
    ///
    /// # Errors
    /// Names what is wrong and its column: a condition, a job, the depth, too many conditions.
    pub fn parse(text: &str) -> Result<Expr, ParseError> {
        if text.len() > MAX_TEXT {
            return Err(ParseError::too_long("dependency", MAX_TEXT, text.len()));
        }
        Expr::parse_with(text, MAX_CONDITIONS, MAX_DEPTH)
    }

    /// The first condition that can never become true.
    pub fn never(&self, facts: &impl DependencyFacts) -> Option<&Cond> {
        let never = |cond: &&Cond| cond.judge(facts) == Answer::Never;
        self.conditions().into_iter().find(never)
    }

    /// As [`Expr::parse`] for printed text: names that became many ids make it longer than users
    /// may write, up to [`MAX_RESOLVED`] conditions.
    ///
    /// # Errors
    /// As [`Expr::parse`].
    pub fn parse_stored(text: &str) -> Result<Expr, ParseError> {
        Expr::parse_with(text, MAX_RESOLVED, 2 * MAX_DEPTH + 2)
    }

    fn parse_with(text: &str, most: usize, depth: usize) -> Result<Expr, ParseError> {
        let cursor = Cursor::new(text);
        let mut parser = Parser {
            cursor,
            conditions: most,
            depth,
        };
        if parser.cursor.done() {
            return Err(ParseError::new(0, text.len(), "the dependency is empty").hint(HINT));
        }
        let expr = parser.or(depth)?;
        if parser.cursor.done() {
            return Ok(expr);
        }
        Err(parser.cursor.expected("&&, || or the end").hint(HINT))
    }

    /// All conditions from left to right.
    pub fn conditions(&self) -> Vec<&Cond> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Cond>) {
        match self {
            Expr::And(parts) | Expr::Or(parts) => parts.iter().for_each(|p| p.collect(found)),
            Expr::Not(inner) => inner.collect(found),
            Expr::Is(cond) => found.push(cond),
        }
    }

    /// Replaces every name by the ids that `ids_of` returns for it, all of which must satisfy the
    /// condition. `ids_of` must refuse a name without jobs (an empty list leaves the name in
    /// place), and must ensure that all names together yield at most [`MAX_RESOLVED`] ids and a
    /// text that its caller can store.
    ///
    /// # Errors
    /// The first error of `ids_of`.
    pub fn resolve<E>(
        self,
        ids_of: &mut impl FnMut(&str) -> Result<Vec<u32>, E>,
    ) -> Result<Expr, E> {
        let all = |parts: Vec<Expr>, f: &mut _| parts.into_iter().map(|p| p.resolve(f)).collect();
        Ok(match self {
            Expr::And(parts) => {
                let parts: Result<Vec<Expr>, E> = all(parts, ids_of);
                Expr::And(flat(parts?))
            }
            Expr::Or(parts) => Expr::Or(all(parts, ids_of)?),
            Expr::Not(inner) => Expr::Not(Box::new(inner.resolve(ids_of)?)),
            Expr::Is(Cond {
                test,
                target:
                    Target {
                        job: JobRef::Name(name),
                        elements,
                    },
            }) => {
                let ids = ids_of(&name)?;
                if ids.is_empty() {
                    let target = Target {
                        job: JobRef::Name(name),
                        elements,
                    };
                    return Ok(Expr::Is(Cond { test, target }));
                }
                let mut parts: Vec<Expr> = ids
                    .into_iter()
                    .map(|id| {
                        let target = Target {
                            job: JobRef::Id(id),
                            elements: elements.clone(),
                        };
                        Expr::Is(Cond {
                            test: test.clone(),
                            target,
                        })
                    })
                    .collect();
                if parts.len() == 1 {
                    parts.remove(0)
                } else {
                    Expr::And(parts)
                }
            }
            by_id @ Expr::Is(_) => by_id,
        })
    }

    /// The jobs that are given by id, each once, in the order of the text.
    pub fn ids(&self) -> Vec<u32> {
        let mut ids_seen = std::collections::BTreeSet::new();
        let mut ids = Vec::new();
        for cond in self.conditions() {
            if let JobRef::Id(id) = cond.target.job
                && ids_seen.insert(id)
            {
                ids.push(id);
            }
        }
        ids
    }

    /// Evaluates the expression. With `!`, `Never` is returned only for conditions that stay true.
    pub fn eval(&self, facts: &impl DependencyFacts) -> Answer {
        match self {
            Expr::And(parts) => {
                let mut answer = Answer::True;
                for part in parts {
                    match part.eval(facts) {
                        Answer::Never => return Answer::Never,
                        Answer::False => answer = Answer::False,
                        Answer::True => {}
                    }
                }
                answer
            }
            Expr::Or(parts) => {
                let mut answer = Answer::Never;
                for part in parts {
                    match part.eval(facts) {
                        Answer::True => return Answer::True,
                        Answer::False => answer = Answer::False,
                        Answer::Never => {}
                    }
                }
                answer
            }
            Expr::Not(inner) => match inner.eval(facts) {
                Answer::True if inner.is_permanent() => Answer::Never,
                Answer::True => Answer::False,
                Answer::False | Answer::Never => Answer::True,
            },
            Expr::Is(cond) => cond.judge(facts),
        }
    }

    /// True if the expression, once true, stays true (except after a requeue).
    fn is_permanent(&self) -> bool {
        match self {
            Expr::And(parts) | Expr::Or(parts) => parts.iter().all(Expr::is_permanent),
            Expr::Not(_) => false,
            Expr::Is(cond) => !matches!(cond.test, Test::Num(..)),
        }
    }
}

/// Moves the parts of inner conjunctions into the outer one, as the parser would.
fn flat(parts: Vec<Expr>) -> Vec<Expr> {
    parts
        .into_iter()
        .flat_map(|p| match p {
            Expr::And(inner) => inner,
            other => vec![other],
        })
        .collect()
}

impl Cond {
    fn judge(&self, facts: &impl DependencyFacts) -> Answer {
        let Some(states) = facts.element_states(&self.target).filter(|s| s.total() > 0) else {
            return Answer::Never;
        };
        let all_ended = states.ended() == states.total();
        let either = |holds: bool, never: bool| match (holds, never) {
            (true, _) => Answer::True,
            (false, true) => Answer::Never,
            (false, false) => Answer::False,
        };
        match &self.test {
            Test::Done => either(states.done == states.total(), states.exit > 0),
            Test::Ended => either(all_ended, false),
            Test::Exit(None) => either(all_ended && states.exit > 0, all_ended),
            Test::Exit(Some((op, code))) => {
                let test = |code_of_job: i32| op.holds(i64::from(code_of_job), i64::from(*code));
                either(all_ended && facts.exit_code(&self.target, &test), all_ended)
            }
            Test::Started => either(states.pend + states.hold == 0, false),
            Test::PostDone | Test::PostErr => {
                let failed = facts.post_failed(&self.target) > 0;
                match self.test {
                    Test::PostErr => either(failed, all_ended),
                    _ => either(all_ended && !failed, failed),
                }
            }
            Test::External(word) => either(facts.external(&self.target, word), false),
            Test::Num(count, wanted) => {
                let (now, least, most) = count.range(&states);
                let (holds, reachable) = wanted.holds(now, (least, most), states.total());
                either(holds, !reachable)
            }
        }
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    /// Remaining number of conditions.
    conditions: usize,
    /// Maximum depth of the whole expression, for the message.
    depth: usize,
}

/// Functions other than those that count.
const FUNCTIONS: [&str; 7] = [
    "done",
    "ended",
    "exit",
    "started",
    "post_done",
    "post_err",
    "external",
];

fn functions() -> impl Iterator<Item = &'static str> {
    let counts = COUNTS.iter().map(|(word, _)| *word);
    FUNCTIONS.into_iter().chain(counts)
}

impl<'a> Parser<'a> {
    fn or(&mut self, depth: usize) -> Result<Expr, ParseError> {
        let mut parts = vec![self.and(depth)?];
        while self.cursor.eat("||") {
            parts.push(self.and(depth)?);
        }
        Ok(join(
            parts,
            |p| match p {
                Expr::Or(inner) => Ok(inner),
                other => Err(other),
            },
            Expr::Or,
        ))
    }

    fn and(&mut self, depth: usize) -> Result<Expr, ParseError> {
        let mut parts = vec![self.unary(depth)?];
        while self.cursor.eat("&&") {
            parts.push(self.unary(depth)?);
        }
        Ok(join(
            parts,
            |p| match p {
                Expr::And(inner) => Ok(inner),
                other => Err(other),
            },
            Expr::And,
        ))
    }

    fn unary(&mut self, depth: usize) -> Result<Expr, ParseError> {
        let Some(deeper) = depth.checked_sub(1) else {
            let message = format!("nested deeper than {} levels", self.depth);
            return Err(ParseError::new(self.cursor.at(), 1, message));
        };
        match self.cursor.peek() {
            Some('!') => {
                self.cursor.skip(1);
                Ok(Expr::Not(Box::new(self.unary(deeper)?)))
            }
            Some('(') => {
                self.cursor.skip(1);
                let inner = self.or(deeper)?;
                self.cursor.expect(")").map_err(|e| e.hint(HINT))?;
                Ok(inner)
            }
            _ => self.condition().map(Expr::Is),
        }
    }

    fn condition(&mut self) -> Result<Cond, ParseError> {
        let Some(left) = self.conditions.checked_sub(1) else {
            return Err(ParseError::new(self.cursor.at(), 0, "too many conditions"));
        };
        self.conditions = left;
        self.cursor.blanks();
        let from = self.cursor.at();
        let word = self
            .cursor
            .clone()
            .take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let mut after = self.cursor.clone();
        after.skip(word.len());
        if !after.eat("(") {
            return Ok(Cond {
                test: Test::Done,
                target: self.target()?,
            });
        }
        self.cursor = after;
        if !functions().any(|known| known == word) {
            let message = format!("'{word}' is not a condition");
            let e = ParseError::new(from, word.len().max(1), message);
            return Err(match error::nearest(word, functions()) {
                Some(near) => e.hint(format!("did you mean {near}?")),
                None => {
                    let known: Vec<&str> = functions().collect();
                    e.hint(format!("known are {}", known.join(" ")))
                }
            });
        }
        let target = self.target()?;
        let test = self.test(word)?;
        self.cursor.expect(")")?;
        Ok(Cond { test, target })
    }

    /// Parses the rest of a function after its target.
    fn test(&mut self, word: &str) -> Result<Test, ParseError> {
        match word {
            "done" => Ok(Test::Done),
            "ended" => Ok(Test::Ended),
            "started" => Ok(Test::Started),
            "post_done" => Ok(Test::PostDone),
            "post_err" => Ok(Test::PostErr),
            "exit" => {
                let code = if self.cursor.eat(",") {
                    Some(self.comparison(255)?)
                } else {
                    None
                };
                Ok(Test::Exit(code))
            }
            "external" => {
                self.cursor.expect(",")?;
                match self.cursor.peek() {
                    Some(quote @ ('"' | '\'')) => {
                        Ok(Test::External(self.quoted(quote)?.to_owned()))
                    }
                    _ => Err(self.cursor.expected("a message in quotes")),
                }
            }
            word => {
                let named = COUNTS.iter().find(|(known, _)| *known == word);
                let count = named.map_or(Count::Start, |(_, count)| *count);
                Ok(Test::Num(count, self.number()?))
            }
        }
    }

    /// `, op n`, `, op n%` or `, *`.
    fn number(&mut self) -> Result<CountValue, ParseError> {
        self.cursor.expect(",")?;
        if self.cursor.eat("*") {
            return Ok(CountValue::All);
        }
        let op = self.cursor.comparison();
        self.cursor.blanks();
        let at = self.cursor.at();
        let n = self.digits(MAX_INDEX)?;
        let percent = self.cursor.eat("%");
        if percent && n > 100 {
            let most = "a share is at most 100%";
            return Err(ParseError::new(at, self.cursor.at() - at, most));
        }
        Ok(match percent {
            false => CountValue::Number(op.unwrap_or(Op::Eq), n),
            true => CountValue::Percent(op.unwrap_or(Op::Ge), n),
        })
    }

    fn comparison(&mut self, high: u32) -> Result<(Op, u32), ParseError> {
        let op = self.cursor.comparison().unwrap_or(Op::Eq);
        self.cursor.blanks();
        Ok((op, self.digits(high)?))
    }

    fn digits(&mut self, high: u32) -> Result<u32, ParseError> {
        let at = self.cursor.at();
        let digits = self.cursor.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.cursor.expected("a number"));
        }
        index(digits, at, 0, high)
    }

    fn target(&mut self) -> Result<Target, ParseError> {
        match self.cursor.peek() {
            Some(quote @ ('"' | '\'')) => {
                let at = self.cursor.at() + 1;
                let name = self.quoted(quote)?;
                named(name).map_err(|e| e.shifted(at))
            }
            Some(c) if c.is_ascii_digit() => {
                let at = self.cursor.at();
                let digits = self.cursor.take_while(|c| c.is_ascii_alphanumeric());
                let id = index(digits, at, 1, MAX_ID)
                    .map_err(|e| e.hint("a job id is a number; write other names in quotes"))?;
                let list_at = self.cursor.at();
                if !self.cursor.rest().starts_with('[') {
                    return Ok(Target {
                        job: JobRef::Id(id),
                        elements: Elements::Whole,
                    });
                }
                let inside = self.cursor.take_while(|c| c != ']');
                self.cursor.expect("]")?;
                let elements = elements(&inside[1..]).map_err(|e| e.shifted(list_at + 1))?;
                Ok(Target {
                    job: JobRef::Id(id),
                    elements,
                })
            }
            _ => {
                let at = self.cursor.at();
                let plain = |c: char| c.is_alphanumeric() || "_.-*".contains(c);
                let name = self.cursor.take_while(plain);
                if name.is_empty() {
                    return Err(self.cursor.expected("a job id or name").hint(HINT));
                }
                let from = at;
                if self.cursor.rest().starts_with('[') {
                    self.cursor.take_while(|c| c != ']');
                    self.cursor.expect("]")?;
                }
                named(self.cursor.since(from)).map_err(|e| e.shifted(at))
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<&'a str, ParseError> {
        let at = self.cursor.at();
        self.cursor.skip(1);
        let inside = self.cursor.take_while(|c| c != quote);
        if self.cursor.rest().is_empty() {
            return Err(ParseError::new(
                at,
                1,
                format!("the quote {quote} is not closed"),
            ));
        }
        self.cursor.skip(1);
        Ok(inside)
    }
}

fn join(
    parts: Vec<Expr>,
    inner: impl Fn(Expr) -> Result<Vec<Expr>, Expr>,
    whole: impl Fn(Vec<Expr>) -> Expr,
) -> Expr {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match inner(part) {
            Ok(parts) => flat.extend(parts),
            Err(part) => flat.push(part),
        }
    }
    if flat.len() == 1 {
        flat.remove(0)
    } else {
        whole(flat)
    }
}

/// A target by name, with or without an index list at its end.
fn named(text: &str) -> Result<Target, ParseError> {
    let open = text.find('[').unwrap_or(text.len());
    let name = &text[..open];
    names::check_job_name(name)?;
    let stars = name.find('*').filter(|star| star + 1 != name.len());
    if let Some(star) = stars {
        return Err(ParseError::new(
            star,
            1,
            "'*' is only allowed at the end of a name",
        ));
    }
    if name.contains('"') {
        return Err(ParseError::new(
            0,
            name.len(),
            "a quote is not allowed in this name",
        ));
    }
    let job = JobRef::Name(name.to_owned());
    if open == text.len() {
        return Ok(Target {
            job,
            elements: Elements::Whole,
        });
    }
    match text[open + 1..].strip_suffix(']') {
        Some(list) => {
            let elements = elements(list).map_err(|e| e.shifted(open + 1))?;
            Ok(Target { job, elements })
        }
        None => Err(ParseError::new(text.len(), 0, "']' is missing")),
    }
}

fn elements(list: &str) -> Result<Elements, ParseError> {
    if list == "*" {
        return Ok(Elements::Same);
    }
    if list.is_empty() {
        return Err(ParseError::new(0, 0, "an array index is missing"));
    }
    IndexSet::parse(list, 1, MAX_INDEX).map(Elements::Some)
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Expr], sign: &str| {
            for (n, part) in parts.iter().enumerate() {
                if n > 0 {
                    write!(f, " {sign} ")?;
                }
                match part {
                    Expr::And(_) | Expr::Or(_) => write!(f, "({part})")?,
                    _ => write!(f, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Expr::And(parts) => list(f, parts, "&&"),
            Expr::Or(parts) => list(f, parts, "||"),
            Expr::Not(inner) => match **inner {
                Expr::And(_) | Expr::Or(_) => write!(f, "!({inner})"),
                _ => write!(f, "!{inner}"),
            },
            Expr::Is(cond) => write!(f, "{cond}"),
        }
    }
}

impl fmt::Display for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        let word = match &self.test {
            Test::Done => "done",
            Test::Ended => "ended",
            Test::Exit(None) => "exit",
            Test::Exit(Some((op, code))) => return write!(f, "exit({target},{}{code})", op.sign()),
            Test::Started => "started",
            Test::PostDone => "post_done",
            Test::PostErr => "post_err",
            Test::External(word) => {
                let quote = if word.contains('"') { '\'' } else { '"' };
                return write!(f, "external({target},{quote}{word}{quote})");
            }
            Test::Num(count, wanted) => {
                let named = COUNTS.iter().find(|(_, known)| known == count);
                let word = named.map_or("", |(word, _)| word);
                return match wanted {
                    CountValue::All => write!(f, "{word}({target},*)"),
                    CountValue::Number(op, n) => write!(f, "{word}({target},{}{n})", op.sign()),
                    CountValue::Percent(op, n) => write!(f, "{word}({target},{}{n}%)", op.sign()),
                };
            }
        };
        write!(f, "{word}({target})")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = match &self.elements {
            Elements::Whole => String::new(),
            Elements::Same => "[*]".to_owned(),
            Elements::Some(set) => format!("[{set}]"),
        };
        match &self.job {
            JobRef::Id(id) => write!(f, "{id}{list}"),
            JobRef::Name(name) => write!(f, "\"{name}{list}\""),
        }
    }
}

super::serde_by_text!(Expr, Expr::parse_stored);

#[cfg(test)]
mod tests;
