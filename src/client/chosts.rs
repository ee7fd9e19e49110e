//! `chosts` (`bhosts`): the hosts as places for jobs: state, slots, jobs.

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use crate::record::host_status::HostKind;
use crate::record::view::HostRow;
use crate::show::host;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

const LIST: Listing<HostRow> = Listing {
    command: "chosts",
    records_key: "HOSTS",
    fields: host::FIELDS,
    json_default: host::JSON_DEFAULT,
    put_json: host::put_json,
};

const NOT_BUILT: &[&str] = &["S", "E", "x", "X", "e", "a", "gpu"];

/// The options of `chosts`.
pub(super) fn options() -> Command {
    let cmd = command("chosts", "List hosts with their state and slots in use")
        .arg(flag("w", "Wide: full names and states"))
        .arg(flag(
            "l",
            "Long: load, reservations, jobs and the administrator's comment",
        ))
        .arg(flag(
            "c",
            "Closed hosts only, with the administrator and the comment",
        ))
        .arg(flag(
            "j",
            "Add the IDs of the jobs on each host with their slots",
        ))
        .arg(flag(
            "s",
            "Resources of hosts: total and reserved; operands name resources",
        ))
        .arg(opt(
            "R",
            "REQ",
            "Hosts that satisfy this select[...] expression",
        ))
        .arg(super::past_view::option())
        .arg(operands(
            "names",
            "HOST",
            "Hosts or host groups; default: all",
        ));
    let hidden = |id: &'static str| flag(id, "not implemented").hide(true);
    let cmd = NOT_BUILT.iter().fold(cmd, |cmd, id| cmd.arg(hidden(id)));
    table::options(cmd)
}

/// Runs `chosts`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open_at("chosts", &m).and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("chosts", answer)
}

pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    read::refuse_unbuilt(m, NOT_BUILT, "chosts")?;
    if m.last("at").is_some() && m.last("R").is_some() {
        let text = "-R cannot be given with --at: the load of past moments is not kept";
        return Err(Fail::usage(text));
    }
    let params = source.params()?;
    let hosts = source.counted_hosts()?;
    let operands = m.all("names");
    source.banner(&params);
    if m.has("s") {
        let all: Vec<&HostRow> = hosts.iter().collect();
        let put = |out: &mut String, names: &[String]| host::put_resources(out, &all, names);
        let out = read::resources_table("chosts", host::RESOURCES_HEADER, &operands, put);
        return Ok((out, Exit::Ok));
    }
    let (mut rows, exit) = source.hosts_named(&hosts, &operands, &params);
    read::require(m, &mut rows, &params)?;
    rows.retain(|h| !m.has("c") || h.status.kind() == HostKind::Closed);
    if m.has("l") && !Listing::<HostRow>::wants_table(m) {
        let ctx = source.ctx();
        let mut out = String::new();
        for (n, h) in rows.iter().enumerate() {
            if n > 0 {
                out.push('\n');
            }
            host::put_long(&mut out, h, &ctx.dates);
        }
        return Ok((out, exit));
    }
    let table = || {
        if m.has("c") {
            host::closed_table()
        } else {
            host::table(m.has("w"), m.has("j"))
        }
    };
    Ok((LIST.render(m, &rows, table)?, exit))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::client::read::test_view::TestView;
    use crate::record::view::{self, Params};

    pub(crate) fn bed() -> TestView {
        let bed = TestView::new();
        let host = |name: &str, status: &str| HostRow {
            name: name.into(),
            status: status.into(),
            slots: 4,
            ..HostRow::default()
        };
        bed.put(
            view::HOSTS,
            &[
                host("h10", "ok"),
                host("h2", "closed_Adm"),
                host("h1", "unavail"),
            ],
        );
        bed.put(
            view::PARAMS,
            &[Params {
                host_groups: vec![("g".into(), vec!["h10".into(), "h1".into()])],
                ..Params::default()
            }],
        );
        bed
    }

    fn run_line(line: &[&str]) -> (String, Exit) {
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(options(), &read::split_json(&args)).unwrap();
        show(&m, &bed().source("chosts", 10)).unwrap()
    }

    fn names(line: &[&str]) -> String {
        let mut line = line.to_vec();
        line.extend(["-noheader", "-o", "host_name:"]);
        run_line(&line).0.replace('\n', " ")
    }

    #[test]
    fn hosts_and_groups() {
        assert_eq!(names(&[]), "h1 h2 h10 ");
        assert_eq!(names(&["g"]), "h1 h10 ");
        assert_eq!(names(&["h2", "h1", "h2"]), "h1 h2 ");
        assert_eq!(names(&["-c"]), "h2 ");
        let (out, exit) = run_line(&["-noheader", "-o", "host_name:", "h3", "h1"]);
        assert_eq!((out.as_str(), exit), ("h1\n", Exit::NotFound));
    }

    #[test]
    fn all_forms() {
        assert!(
            run_line(&[])
                .0
                .starts_with("HOST_NAME          STATUS       JL/U    MAX")
        );
        assert!(run_line(&["-l"]).0.contains("HOST  h2\n"));
        assert!(run_line(&["-c"]).0.contains("CLOSED_BY"));
        assert_eq!(run_line(&["--json"]).0.lines().count(), 3);
        assert_eq!(run_line(&["-s"]).0, "", "no header without rows");
    }

    #[test]
    fn requirements_and_what_is_not_built() {
        assert_eq!(names(&["-R", "select[status==ok]"]), "h10 ");
        let refused = |line: &[&str]| {
            let args: Vec<OsString> = line.iter().map(OsString::from).collect();
            let m = cli::parse(options(), &args).unwrap();
            show(&m, &bed().source("chosts", 10)).unwrap_err()
        };
        let fail = refused(&["-R", "select[mem>"]);
        assert_eq!(fail.exit, Exit::Usage);
        assert!(fail.text.starts_with("-R: "), "{}", fail.text);
        let fail = refused(&["-S"]);
        assert!(
            fail.text.contains("option -S is not available"),
            "{}",
            fail.text
        );
    }

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = test_cluster::cluster();
        test_cluster::compare(
            "chosts",
            &["", "-w", "-j", "-c", "-l h1", "-s", "-json h3"],
            |words| {
                let m = test_cluster::parse(options(), words);
                show(&m, &bed.source("chosts", 10)).expect("it answers").0
            },
        );
    }
}
