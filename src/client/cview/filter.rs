//! The filter of a list: words that must all match. A word is a part of any text of a row, or
//! `field:pattern`.
//!
//! Owns the fields by which rows can be filtered. Upper and lower case are equal; a pattern may
//! contain `*` and `?`.

use super::view_data::JobItem;
use crate::model::JobStat;
use crate::record::view::{HostRow, QueueRow};
use crate::show::job_select::matches;
use crate::show::queue;
use std::fmt::Write as _;

/// Maximum length of the text of a filter, in bytes.
pub(crate) const FILTER_MAX: usize = 256;

/// The fields that can precede the colon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FilterField {
    Id,
    User,
    State,
    Queue,
    Host,
    Name,
    Project,
}

const FIELDS: &[(&str, FilterField)] = &[
    ("id", FilterField::Id),
    ("job", FilterField::Id),
    ("user", FilterField::User),
    ("state", FilterField::State),
    ("stat", FilterField::State),
    ("status", FilterField::State),
    ("queue", FilterField::Queue),
    ("host", FilterField::Host),
    ("name", FilterField::Name),
    ("project", FilterField::Project),
];

#[derive(Clone, PartialEq, Eq, Debug)]
struct Term {
    /// `None`: the pattern may be part of any text.
    field: Option<FilterField>,
    pattern: String,
}

/// A filter as typed, and its terms.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    pub text: String,
    terms: Vec<Term>,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// Names the word whose field is unknown.
    pub(crate) fn parse(text: &str) -> Result<Filter, String> {
        if text.len() > FILTER_MAX {
            return Err(format!("a filter has at most {FILTER_MAX} bytes"));
        }
        let mut terms = Vec::new();
        for word in text.split_whitespace() {
            let word = word.to_ascii_lowercase();
            let (field, pattern) = match word.split_once(':') {
                None => (None, word.as_str()),
                Some((name, pattern)) => {
                    let known = FIELDS.iter().find(|(field, _)| *field == name);
                    let Some((_, field)) = known else {
                        return Err(format!(
                            "no field {}; there are: id user state queue host name project",
                            crate::text::width::escape(name)
                        ));
                    };
                    (Some(*field), pattern)
                }
            };
            // A field without a pattern is still being typed.
            if !pattern.is_empty() {
                terms.push(Term {
                    field,
                    pattern: pattern.to_owned(),
                });
            }
        }
        Ok(Filter {
            text: text.trim().to_owned(),
            terms,
        })
    }

    /// The filter of one field.
    pub(crate) fn by(field: &str, value: &str) -> Filter {
        Filter::parse(&format!("{field}:{value}")).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether all terms match. `row` calls its argument with the texts of a field, or of all
    /// fields for `None`, until one matches. `text` is a buffer.
    fn fits(
        &self,
        text: &mut String,
        row: &dyn Fn(Option<FilterField>, FieldMatcher<'_>) -> bool,
    ) -> bool {
        self.terms.iter().all(|term| {
            let mut matcher = |value: &str| {
                text.clear();
                text.push_str(value);
                text.make_ascii_lowercase();
                match term.field {
                    None => text.contains(&term.pattern),
                    Some(_) => matches(&term.pattern, text),
                }
            };
            row(term.field, &mut matcher)
        })
    }

    /// Whether a job matches, or an array by its own row.
    pub(crate) fn fits_job(&self, item: &JobItem, text: &mut String) -> bool {
        self.fits(text, &|field, matches| job_texts(item, field, matches))
    }

    /// Whether the elements of an array that have not started match.
    pub(crate) fn fits_waiting(&self, array: &JobItem, text: &mut String) -> bool {
        self.fits(text, &|field, matches| match field {
            Some(FilterField::State) => matches(array.stat.word()),
            None => any_text(array, matches) || matches(array.stat.word()),
            field => job_texts(array, field, matches),
        })
    }

    pub(crate) fn fits_host(&self, host: &HostRow, text: &mut String) -> bool {
        self.fits(text, &|field, matches| match field {
            None => [
                &host.name,
                host.status.word(),
                &host.host_type,
                &host.model,
                &host.comment,
            ]
            .into_iter()
            .chain(host.tags.iter().map(String::as_str))
            .any(matches),
            Some(FilterField::Host | FilterField::Name | FilterField::Id) => matches(&host.name),
            Some(FilterField::State) => {
                matches(host.status.word()) || matches(host.status.short_word())
            }
            Some(FilterField::User | FilterField::Queue | FilterField::Project) => false,
        })
    }

    pub(crate) fn fits_queue(&self, q: &QueueRow, text: &mut String) -> bool {
        self.fits(text, &|field, matches| match field {
            None => matches(&q.name) || matches(queue::status(q)) || matches(&q.description),
            Some(FilterField::Queue | FilterField::Name | FilterField::Id) => matches(&q.name),
            Some(FilterField::State) => matches(queue::status(q)),
            Some(FilterField::Host) => q.hosts.iter().any(|host| matches(host)),
            Some(FilterField::User | FilterField::Project) => false,
        })
    }
}

/// Checks one text.
type FieldMatcher<'t> = &'t mut dyn FnMut(&str) -> bool;

fn job_texts(item: &JobItem, field: Option<FilterField>, matches: FieldMatcher<'_>) -> bool {
    let spec = &item.spec;
    match field {
        Some(FilterField::Id) => with_id(item, matches),
        Some(FilterField::User) => matches(&spec.user),
        Some(FilterField::Queue) => matches(&spec.queue),
        Some(FilterField::Project) => matches(&spec.project),
        Some(FilterField::Name) => matches(&item.name),
        Some(FilterField::State) => in_states(item, matches),
        Some(FilterField::Host) => item.hosts().split(':').any(|host| {
            let name = host.split_once('*').map_or(host, |(_, name)| name);
            !name.is_empty() && matches(name)
        }),
        None => any_text(item, matches) || in_states(item, matches),
    }
}

/// Checks every text except the state.
fn any_text(item: &JobItem, matches: FieldMatcher<'_>) -> bool {
    let spec = &item.spec;
    matches(&item.name)
        || matches(&spec.user)
        || matches(&spec.queue)
        || matches(item.hosts())
        || matches(&spec.project)
        || with_id(item, matches)
}

fn with_id(item: &JobItem, matches: FieldMatcher<'_>) -> bool {
    let mut id = String::with_capacity(16);
    write!(id, "{}", item.key).expect("a string takes every write");
    // An element is also found by the id of its array.
    matches(&id) || (item.key.idx > 0 && id.split_once('[').is_some_and(|(id, _)| matches(id)))
}

fn in_states(item: &JobItem, matches: FieldMatcher<'_>) -> bool {
    match &item.array {
        None => matches(item.stat.word()),
        Some(array) => {
            let has = |stat: &&JobStat| array.count(**stat) > 0;
            JobStat::ALL
                .iter()
                .filter(has)
                .any(|stat| matches(stat.word()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobKey, Share, Spec};
    use crate::record::view::{ArrayRow, JobRow};
    use std::sync::Arc;

    fn job() -> JobItem {
        let row = JobRow {
            j: JobKey::element(12, 3),
            stat: JobStat::Run,
            name: "Weather".into(),
            hosts: vec![Share("h1".into(), 2), Share("h10".into(), 1)],
            ..JobRow::default()
        };
        let spec = Spec {
            user: "u1".into(),
            queue: "normal".into(),
            project: "p".into(),
            ..Spec::default()
        };
        JobItem::of(&row, &Arc::new(spec), (0, 0, 0, row.j))
    }

    fn fits(text: &str, item: &JobItem) -> bool {
        let filter = Filter::parse(text).unwrap();
        filter.fits_job(item, &mut String::new())
    }

    #[test]
    fn words_are_parts_and_fields_are_whole() {
        let item = job();
        for text in [
            "",
            "eath",
            "NORM",
            "user:u1",
            "state:RUN queue:normal",
            "stat:run",
            "host:h10",
            "host:h1",
            "host:h*",
            "id:12",
            "id:12[3]",
            "2[3",
            "name:weather",
            "user:",
            "project:p",
        ] {
            assert!(fits(text, &item), "{text}");
        }
        for text in [
            "user:u",
            "host:h",
            "eath x",
            "state:pend",
            "id:1",
            "queue:norm",
            "host:2*h1",
        ] {
            assert!(!fits(text, &item), "{text}");
        }
    }

    #[test]
    fn an_array_is_in_the_states_of_its_elements() {
        let row = JobRow {
            j: JobKey::job(4),
            arr: Some(Box::new(ArrayRow {
                all: "1-2".into(),
                waiting: "2".into(),
                counts: [("DONE".to_owned(), 1)].into(),
                ..ArrayRow::default()
            })),
            ..JobRow::default()
        };
        let item = JobItem::of(&row, &Arc::default(), (0, 0, 0, row.j));
        assert!(fits("state:done", &item) && fits("state:PEND", &item));
        assert!(!fits("state:run", &item));
    }

    #[test]
    fn hosts_and_queues_have_fields_too() {
        let host = HostRow {
            name: "h1".into(),
            status: "closed_Adm".into(),
            ..HostRow::default()
        };
        let fits = |text: &str| {
            let filter = Filter::parse(text).unwrap();
            filter.fits_host(&host, &mut String::new())
        };
        assert!(fits("state:closed") && fits("state:closed_adm") && fits("adm") && fits("host:h1"));
        assert!(!fits("state:ok") && !fits("user:u1"));
        let queue = QueueRow {
            name: "night".into(),
            open: true,
            hosts: vec!["h2".into()],
            ..QueueRow::default()
        };
        let fits = |text: &str| {
            let filter = Filter::parse(text).unwrap();
            filter.fits_queue(&queue, &mut String::new())
        };
        assert!(fits("host:h2") && fits("queue:night") && fits("inact"));
        assert!(!fits("host:h1"));
    }

    #[test]
    fn an_unknown_field_is_named() {
        let wrong = Filter::parse("usr:x").unwrap_err();
        assert!(
            wrong.starts_with("no field usr; there are: id user"),
            "{wrong}"
        );
        assert!(Filter::parse(&"x".repeat(FILTER_MAX + 1)).is_err());
        assert!(
            Filter::parse("a:\u{1b}b")
                .unwrap_err()
                .contains("no field a")
        );
        assert_eq!(Filter::by("queue", "n").text, "queue:n");
    }
}
