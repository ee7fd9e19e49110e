//! Checks whether the names that select jobs exist, if a selection matched nothing, because then a
//! mistyped name is the most likely reason.
//!
//! Only reads the published view. A selection that matched something is never refused, and if the
//! view cannot be read, no name is refused.

use super::exit::Result;
use super::read::{self, Source};
use crate::record::view::Params;
use crate::sys;
use clap::ArgMatches;

/// Checks the values of -q, -m and -u if they exist.
///
/// # Errors
/// Names the first value that does not exist in the cluster.
pub(crate) fn check(m: &ArgMatches, source: &Source) -> Result<()> {
    let Ok(params) = source.params() else {
        return Ok(());
    };
    let queues = last_value_words(m, "q");
    if !queues.is_empty() {
        let rows = source.queues().unwrap_or_default();
        let known = |name: &str| rows.is_empty() || rows.iter().any(|q| q.name == name);
        if let Some(queue) = queues.iter().find(|name| !known(name)) {
            let known = rows.iter().map(|q| q.name.as_str());
            return Err(read::unknown("queue", queue, known));
        }
    }
    let hosts = last_value_words(m, "m");
    if !hosts.is_empty() && source.hosts().is_ok() {
        source.host_names(&hosts, &params)?;
    }
    last_value_words(m, "u")
        .iter()
        .try_for_each(|user| check_user(user, source, &params))
}

/// Checks a value of -u: `all`, a user id, or a user or group known to this host, to cb.yaml or by
/// jobs.
pub(crate) fn check_user(word: &str, source: &Source, params: &Params) -> Result<()> {
    let name = word.trim_end_matches('/');
    let is_group = params.user_groups.iter().any(|(group, ..)| group == name);
    let is_id = name.bytes().all(|b| b.is_ascii_digit());
    if name == "all" || is_group || is_id || sys::users::by_name(name).is_some() {
        return Ok(());
    }
    let users = source.view.users().unwrap_or_default();
    if users.iter().any(|u| u.name == name) {
        return Ok(());
    }
    let groups = params.user_groups.iter().map(|(group, ..)| group.as_str());
    // A user who submits their first job has no row yet.
    let own = sys::users::by_uid(sys::users::effective_uid());
    let own = own.iter().map(|facts| facts.name.as_str());
    let known = users
        .iter()
        .map(|u| u.name.as_str())
        .chain(groups)
        .chain(own);
    Err(read::unknown("user or user group", word, known))
}

/// The names in the last value of an option that the command may not define at all.
fn last_value_words(m: &ArgMatches, id: &str) -> Vec<String> {
    let values = m.try_get_many::<String>(id).ok().flatten();
    let last = values.and_then(|mut values| values.next_back());
    last.map_or(Vec::new(), |text| {
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::cli::{command, opt, parse};
    use super::*;
    use crate::client::read::test_view::TestView;
    use crate::record::view::{self, HostRow, QueueRow, UserRow};
    use std::ffi::OsString;

    fn check_line(line: &[&str]) -> std::result::Result<(), String> {
        let bed = TestView::new();
        let queue = QueueRow {
            name: "medium".into(),
            ..QueueRow::default()
        };
        let host = HostRow {
            name: "node1".into(),
            ..HostRow::default()
        };
        let user = UserRow {
            name: "gone-from-this-host".into(),
            ..UserRow::default()
        };
        bed.put(view::QUEUES, &[queue]);
        bed.put(view::HOSTS, &[host]);
        bed.put(view::USERS, &[user]);
        let cmd = ["q", "m", "u"]
            .into_iter()
            .fold(command("t", "t"), |cmd, id| cmd.arg(opt(id, "NAME", "")));
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = parse(cmd, &args).unwrap();
        check(&m, &bed.source("t", 10)).map_err(|fail| fail.text)
    }

    #[test]
    fn a_mistyped_name_is_named_with_the_nearest_one() {
        for (line, want) in [
            (
                ["-q", "medum"],
                "medum: no such queue; did you mean \"medium\"?",
            ),
            (
                ["-m", "nod1"],
                "nod1: no such host or host group; did you mean \"node1\"?",
            ),
            (
                ["-u", "gone-from-this-hos"],
                "gone-from-this-hos: no such user or user group; did you mean \
                 \"gone-from-this-host\"?",
            ),
        ] {
            assert_eq!(check_line(&line).unwrap_err(), want);
        }
    }

    #[test]
    fn names_that_exist_pass() {
        let good: &[&[&str]] = &[
            &["-q", "medium", "-m", "node1"],
            &["-u", "gone-from-this-host"],
            &["-u", "root"],
            &["-u", "all"],
            &["-u", "4711"],
            &[],
        ];
        for line in good {
            assert_eq!(check_line(line), Ok(()), "{line:?}");
        }
    }
}
