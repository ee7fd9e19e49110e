//! Whether the names that select jobs exist: asked when a selection matched nothing, since then a
//! mistyped name is the likeliest reason.
//!
//! Reads the published view only. What matched something is never refused, and a view that cannot
//! be read refuses no name.

use super::exit::Result;
use super::read::{self, Source};
use crate::record::view::Params;
use crate::sys;
use clap::ArgMatches;

/// Checks the values of -q, -m and -u.
///
/// # Errors
/// Names the first one that nothing in the cluster has.
pub(crate) fn check(m: &ArgMatches, source: &Source) -> Result<()> {
    let Ok(params) = source.params() else {
        return Ok(());
    };
    if let Some(queue) = value(m, "q") {
        let queues = source.queues().unwrap_or_default();
        if !queues.is_empty() && !queues.iter().any(|q| q.name == queue) {
            let known = queues.iter().map(|q| q.name.as_str());
            return Err(read::unknown("queue", queue, known));
        }
    }
    if let Some(host) = value(m, "m")
        && source.hosts().is_ok()
    {
        let words: Vec<String> = host.split_whitespace().map(str::to_owned).collect();
        source.host_names(&words, &params)?;
    }
    match value(m, "u") {
        Some(user) => check_user(user, source, &params),
        None => Ok(()),
    }
}

/// Checks a value of -u: `all`, a user id, a user or group of this host, of cb.yaml or with jobs.
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
    let known = users.iter().map(|u| u.name.as_str()).chain(groups);
    Err(read::unknown("user or user group", word, known))
}

/// The last value of an option that the command may not have at all.
fn value<'m>(m: &'m ArgMatches, id: &str) -> Option<&'m str> {
    let mut values = m.try_get_many::<String>(id).ok().flatten()?;
    values.next_back().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::super::cli::{command, opt, parse};
    use super::*;
    use crate::client::read::test_view::TestView;
    use crate::record::view::{self, HostRow, QueueRow, UserRow};
    use std::ffi::OsString;

    fn ask(line: &[&str]) -> std::result::Result<(), String> {
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
            assert_eq!(ask(&line).unwrap_err(), want);
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
            assert_eq!(ask(line), Ok(()), "{line:?}");
        }
    }
}
