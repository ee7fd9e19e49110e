//! `cusers` (`busers`): slot limits and slots in use of users and user groups.

use super::cli::{self, Values, command, flag, operands};
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use crate::record::view::UserRow;
use crate::show::user;
use crate::spool::view::ViewReader;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

const LIST: Listing<UserRow> = Listing {
    command: "cusers",
    records_key: "USERS",
    fields: user::FIELDS,
    json_default: user::JSON_DEFAULT,
    put_json: user::put_json,
};

/// The options of `cusers`.
pub(super) fn options() -> Command {
    let cmd = command(
        "cusers",
        "List slot limits and slots in use of users: yours, or those named",
    )
    .arg(flag("w", "Wide: limits and number of pending jobs as well"))
    .arg(super::past_view::option())
    .arg(operands(
        "names",
        "USER",
        "Users or user groups; all = every known user",
    ));
    table::options(cmd)
}

/// Runs `cusers`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open_at("cusers", &m).and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("cusers", answer)
}

pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    let params = source.params()?;
    let mut users = source.with_current_counts(ViewReader::counted_users)?;
    users.sort_by(|a, b| (a.group, &a.name).cmp(&(b.group, &b.name)));
    source.banner(&params);
    let mut names = m.all("names");
    let all = names.iter().any(|n| n == "all");
    if names.is_empty() {
        names.push(source.me.name.clone());
        // A user who never had a job is shown with zeros.
        if !users.iter().any(|u| u.name == source.me.name) {
            let name = source.me.name.clone();
            users.push(UserRow {
                name,
                ..UserRow::default()
            });
        }
    }
    if all {
        names.clear();
    }
    let names: Vec<String> = names
        .iter()
        .map(|n| n.trim_end_matches('/').to_owned())
        .collect();
    let (rows, exit) = read::rows_by_name("user or user group", &users, |u| &u.name, &names);
    Ok((LIST.render(m, &rows, || user::table(m.has("w")))?, exit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::TestView;
    use crate::record::view;

    fn run_line(uid: u32, line: &[&str]) -> (String, Exit) {
        let bed = TestView::new();
        let user = |name: &str, group| UserRow {
            name: name.into(),
            group,
            max: Some(8),
            ..UserRow::default()
        };
        bed.put(
            view::USERS,
            &[user("g", true), user("u10", false), user("alice", false)],
        );
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(options(), &read::split_json(&args)).unwrap();
        show(&m, &bed.source("cusers", uid)).unwrap()
    }

    #[test]
    fn own_row_named_rows_all_rows() {
        let format = ["-noheader", "-o", "user: max:"];
        let with = |more: &'static str| [&format[..], &[more]].concat();
        assert_eq!(run_line(10, &format).0, "u10 8\n");
        assert_eq!(run_line(77, &format).0, "u77 -\n");
        assert_eq!(run_line(10, &with("all")).0, "alice 8\nu10 8\ng/ 8\n");
        assert_eq!(run_line(10, &with("g/")).0, "g/ 8\n");
        assert_eq!(run_line(10, &["no-such-user"]).1, Exit::NotFound);
        assert_eq!(run_line(10, &["--json", "all"]).0.lines().count(), 3);
    }

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = test_cluster::cluster();
        test_cluster::compare("cusers", &["", "all", "-w all"], |words| {
            let m = test_cluster::parse(options(), words);
            show(&m, &bed.source("cusers", 10)).expect("it answers").0
        });
    }
}
