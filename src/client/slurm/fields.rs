//! The fields of squeue: letters of `-o`, names of `-O`, headings and values.

use super::format::moment;
use super::jobs::SlurmItem;
use crate::text::slurm::clock;
use jiff::tz::TimeZone;

/// The context in which values are computed.
pub(crate) struct Ctx {
    pub now: i64,
    pub zone: TimeZone,
    /// The estimated starts of jobs with a reservation.
    pub estimates: std::collections::HashMap<crate::model::JobKey, i64>,
}

type Get = fn(&SlurmItem, &Ctx) -> String;

/// A field: its letter (blank: none), its name, its heading.
pub(crate) struct JobField {
    pub letter: char,
    pub name: &'static str,
    pub header: &'static str,
    pub get: Get,
    /// Whether values are sorted as numbers.
    pub number: bool,
}

const fn text(letter: char, name: &'static str, header: &'static str, get: Get) -> JobField {
    JobField {
        letter,
        name,
        header,
        get,
        number: false,
    }
}

const fn number(letter: char, name: &'static str, header: &'static str, get: Get) -> JobField {
    JobField {
        number: true,
        ..text(letter, name, header, get)
    }
}

fn none(_: &SlurmItem, _: &Ctx) -> String {
    "(null)".to_owned()
}

fn or_null(text: &str) -> String {
    match text {
        "" => "(null)".to_owned(),
        text => text.to_owned(),
    }
}

fn limit(item: &SlurmItem) -> String {
    item.spec
        .limits
        .run_s
        .map_or_else(|| "UNLIMITED".to_owned(), clock)
}

fn time_left(item: &SlurmItem, ctx: &Ctx) -> String {
    match item.spec.limits.run_s {
        None => "UNLIMITED".to_owned(),
        Some(s) => clock(s.saturating_sub(item.run_s(ctx.now))),
    }
}

fn start(item: &SlurmItem, ctx: &Ctx) -> String {
    let expected = ctx.estimates.get(&item.key()).copied();
    let at = match item.row.stat.is_waiting() {
        true => expected.unwrap_or(0),
        false => item.row.start,
    };
    moment(at, &ctx.zone, "N/A")
}

fn end(item: &SlurmItem, ctx: &Ctx) -> String {
    let row = &item.row;
    let at = match (row.stat.is_finished(), row.start, item.spec.limits.run_s) {
        (true, ..) => row.end,
        (false, start, Some(s)) if start > 0 && !row.stat.is_waiting() => {
            let ms = i64::try_from(s.saturating_mul(1000)).unwrap_or(i64::MAX);
            start.saturating_add(ms)
        }
        _ => 0,
    };
    moment(at, &ctx.zone, "N/A")
}

/// Memory in the form of Slurm: whole gigabytes with G, else M.
pub(crate) fn memory(bytes: Option<u64>) -> String {
    match bytes.map(|b| b.div_ceil(1 << 20)) {
        None => "0".to_owned(),
        Some(mb) if mb >= 1024 && mb.is_multiple_of(1024) => format!("{}G", mb / 1024),
        Some(mb) => format!("{mb}M"),
    }
}

fn place_or_reason(item: &SlurmItem) -> String {
    let with_reason = item.row.stat.is_waiting()
        || item.row.hosts.is_empty()
        || !item.state().why_ended().is_empty();
    match with_reason {
        true => format!("({})", item.reason()),
        false => item.node_list(),
    }
}

/// The dependency, in the form of `csub -w`.
fn depend(item: &SlurmItem) -> String {
    or_null(&item.spec.depend)
}

fn file(item: &SlurmItem, path: &str) -> String {
    let index = match item.key().idx {
        0 => 0,
        idx => item.spec.submitters_index(idx),
    };
    let path = crate::text::subst::subst(path, item.id(), index);
    match path.is_empty() || path.starts_with('/') {
        true => path,
        false => format!("{}/{path}", item.spec.cwd),
    }
}

/// All fields.
pub(crate) static FIELDS: &[JobField] = &[
    number('i', "JobArrayID", "JOBID", |i, _| i.text()),
    number('A', "JobID", "JOBID", |i, _| i.id().to_string()),
    number('F', "ArrayJobID", "ARRAY_JOB_ID", |i, _| i.id().to_string()),
    number('K', "ArrayTaskID", "ARRAY_TASK_ID", |i, _| {
        let index = i
            .index()
            .map(|text| text.trim_matches(['[', ']']).to_owned());
        index.unwrap_or_else(|| "N/A".to_owned())
    }),
    text('P', "Partition", "PARTITION", |i, _| i.spec.queue.clone()),
    text('j', "Name", "NAME", |i, _| i.name.to_string()),
    text('u', "UserName", "USER", |i, _| i.spec.user.clone()),
    number('U', "UserID", "USER", |i, _| i.spec.uid.to_string()),
    text('g', "GroupName", "GROUP", |i, _| {
        super::command_line::group_of(i.spec.uid)
    }),
    text('t', "StateCompact", "ST", |i, _| {
        i.state().code().to_owned()
    }),
    text('T', "State", "STATE", |i, _| i.state().word().to_owned()),
    number('M', "TimeUsed", "TIME", |i, c| clock(i.run_s(c.now))),
    number('l', "TimeLimit", "TIME_LIMIT", |i, _| limit(i)),
    number('L', "TimeLeft", "TIME_LEFT", time_left),
    number('D', "NumNodes", "NODES", |i, _| i.nodes().to_string()),
    number('C', "NumCPUs", "CPUS", |i, _| i.slots().to_string()),
    text('R', "ReasonList", "NODELIST(REASON)", |i, _| {
        place_or_reason(i)
    }),
    text('r', "Reason", "REASON", |i, _| i.reason().to_owned()),
    text('N', "NodeList", "NODELIST", |i, _| i.node_list()),
    text('B', "BatchHost", "EXEC_HOST", |i, _| {
        let first = i.row.hosts.first();
        first.map_or_else(|| "n/a".to_owned(), |host| host.0.clone())
    }),
    number('m', "MinMemory", "MIN_MEMORY", |i, _| {
        memory(i.spec.limits.mem_b)
    }),
    text('a', "Account", "ACCOUNT", |i, _| or_null(&i.spec.project)),
    number('p', "Priority", "PRIORITY", |i, _| {
        format!("0.{:010}", i.spec.priority)
    }),
    number('Q', "PriorityLong", "PRIORITY", |i, _| {
        i.spec.priority.to_string()
    }),
    text('q', "QOS", "QOS", none),
    text('k', "Comment", "COMMENT", |i, _| {
        or_null(&i.spec.description)
    }),
    number('S', "StartTime", "START_TIME", start),
    number('e', "EndTime", "END_TIME", end),
    number('V', "SubmitTime", "SUBMIT_TIME", |i, c| {
        moment(i.row.submit, &c.zone, "N/A")
    }),
    text('E', "Dependency", "DEPENDENCY", |i, _| depend(i)),
    text('Z', "WorkDir", "WORK_DIR", |i, _| i.spec.cwd.clone()),
    text('o', "Command", "COMMAND", |i, _| i.command.to_string()),
    text('n', "ReqNodes", "REQ_NODES", |i, _| i.spec.hosts.clone()),
    text('h', "OverSubscribe", "OVER_SUBSCRIBE", |i, _| {
        if i.spec.exclusive { "NO" } else { "OK" }.to_owned()
    }),
    text('f', "Feature", "FEATURES", none),
    text('v', "Reservation", "RESERVATION", none),
    text('w', "WCKey", "WCKEY", none),
    text('y', "Nice", "NICE", |_, _| "0".to_owned()),
    text('x', "ExcNodes", "EXC_NODES", |_, _| String::new()),
    text('Y', "SchedNodes", "SCHEDNODES", none),
    text('b', "tres-per-node", "TRES_PER_NODE", |_, _| {
        "N/A".to_owned()
    }),
    text('z', "SCT", "S:C:T", |_, _| "*:*:*".to_owned()),
    text(' ', "StdOut", "STDOUT", |i, _| file(i, &i.spec.stdout)),
    text(' ', "StdErr", "STDERR", |i, _| file(i, &i.spec.stderr)),
    text(' ', "StdIn", "STDIN", |i, _| file(i, &i.spec.stdin)),
    text(' ', "SubmitHost", "ALLOC_NODE", |i, _| {
        i.spec.sub_host.clone()
    }),
    number(' ', "RestartCnt", "RESTARTCOUNT", |i, _| {
        i.row.attempt.saturating_sub(1).to_string()
    }),
    number(' ', "exit_code", "EXIT_CODE", |i, _| {
        i.row.code.unwrap_or(0).to_string()
    }),
];

/// Aliases of fields.
const ALIASES: &[(&str, &str)] = &[
    ("User", "UserName"),
    ("NodeListReason", "ReasonList"),
    ("Nodes", "NodeList"),
    ("cpus-per-task", "NumCPUs"),
    ("AllocNodes", "NumNodes"),
    ("AllocSID", "SubmitHost"),
];

pub(crate) fn by_letter(letter: char) -> Option<usize> {
    FIELDS
        .iter()
        .position(|f| f.letter == letter && letter != ' ')
}

pub(crate) fn by_name(name: &str) -> Option<usize> {
    let alias = ALIASES.iter().find(|(a, _)| a.eq_ignore_ascii_case(name));
    let name = alias.map_or(name, |(_, name)| name);
    FIELDS
        .iter()
        .position(|f| f.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn letters_and_names_stand_once() {
        let letters: Vec<char> = FIELDS
            .iter()
            .map(|f| f.letter)
            .filter(|c| *c != ' ')
            .collect();
        assert_eq!(letters.iter().collect::<BTreeSet<_>>().len(), letters.len());
        let names: BTreeSet<String> = FIELDS.iter().map(|f| f.name.to_lowercase()).collect();
        assert_eq!(names.len(), FIELDS.len());
        assert!(ALIASES.iter().all(|(_, name)| by_name(name).is_some()));
        assert_eq!(by_letter(' '), None);
        assert_eq!(by_name("username"), by_letter('u'));
    }

    #[test]
    fn memory_is_in_whole_gigabytes_where_it_can_be() {
        assert_eq!(memory(Some(4 << 30)), "4G");
        assert_eq!(memory(Some(1500 << 20)), "1500M");
        assert_eq!(memory(None), "0");
    }
}
