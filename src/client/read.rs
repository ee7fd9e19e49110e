//! Code shared by all reading commands: the published view, the caller's identity, and the exit
//! path.
//!
//! Takes no lock and writes nothing but standard output and standard error. Knows no command.

use super::cli::Values as _;
use super::env::{Site, cluster_of};
use super::exit::{Exit, Fail};
use super::job_requests::not_a_job_id;
use super::past_view::PastView;
use super::visibility::{UserSets, VisibleJobs};
use crate::language::tell;
use crate::model::{Spec, Stamp};
use crate::record::leader::ClusterDoc;
use crate::record::view::{HostRow, Params, QueueRow};
use crate::show::Dates;
use crate::show::job::Ctx;
use crate::show::job_select::Users;
use crate::spool::Layout;
use crate::spool::view::{CurrentDocument, ViewError, ViewReader};
use crate::sys;
use crate::sys::users::UserFacts;
use crate::text::error::did_you_mean;
use crate::text::jobids::JobSel;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use jiff::tz::TimeZone;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

/// A leader is not called silent before this time, ms, because the clocks of two hosts differ.
const QUIET_MS: u64 = 10_000;
/// Maximum number of warnings about damage that are listed.
const WARNINGS_MAX: usize = 5;
/// Why a user does not see another user's jobs.
pub(crate) const OWN_ONLY: &str =
    "this cluster shows you your own jobs only (general: user_view_alljobs in cb.yaml)";
/// Maximum depth of nested user groups.
pub(super) const GROUP_DEPTH: usize = 16;

/// The view of one cluster, as opened by one command.
pub(crate) struct Source {
    pub name: &'static str,
    pub site: Site,
    pub layout: Layout,
    pub view: ViewReader,
    pub me: UserFacts,
    /// The moment, if the view is that of a past moment.
    pub past_view: Option<PastView>,
    /// Nothing is printed to standard error, because it does not belong to the caller.
    pub silent: bool,
}

impl Source {
    /// Finds the cluster and the caller.
    ///
    /// # Errors
    /// No cluster is configured.
    pub(crate) fn open(name: &'static str) -> Result<Source, Fail> {
        Ok(Source::of(name, Site::find()?))
    }

    /// The cluster at the moment that `--at` names, or its current state.
    ///
    /// # Errors
    /// Those of [`Source::open`]; the moment is invalid, or no records of it are kept.
    pub(crate) fn open_at(name: &'static str, m: &ArgMatches) -> Result<Source, Fail> {
        let mut source = Source::open(name)?;
        if let Some(word) = m.last("at") {
            let past = PastView::make(name, &source.layout, word)?;
            source.view = ViewReader::new(&Layout::new(past.dir()));
            source.past_view = Some(past);
        }
        Ok(source)
    }

    /// The view of a cluster that has already been found.
    pub(crate) fn of(name: &'static str, site: Site) -> Source {
        let layout = site.layout();
        Source {
            name,
            view: ViewReader::new(&layout),
            layout,
            site,
            me: sys::users::current_user(),
            past_view: None,
            silent: false,
        }
    }

    /// The cluster file: its id and name.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn cluster(&self) -> Result<ClusterDoc, Fail> {
        cluster_of(&self.site)
    }

    /// Turns a failure to read the view into one for the user.
    pub(crate) fn failed(&self, e: ViewError) -> Fail {
        match e {
            ViewError::None(_) if !sys::fs::exists(&self.layout.cluster()) => {
                Fail::system(self.site.diagnose())
            }
            ViewError::None(_) => Fail::system(format!(
                "{e}\nhint: cbsched publishes the view within seconds of its start; \
                 'cid' names the leader"
            )),
            ViewError::Io(e) => Fail::from(e),
            other => Fail::system(other.to_string()),
        }
    }

    /// The parameters of the cluster.
    ///
    /// # Errors
    /// There is no view yet, or it cannot be read.
    pub(crate) fn params(&self) -> Result<Params, Fail> {
        self.view.params().map_err(|e| self.failed(e))
    }

    /// The published hosts, by name.
    ///
    /// # Errors
    /// As [`Source::params`].
    pub(crate) fn hosts(&self) -> Result<Vec<HostRow>, Fail> {
        let hosts = self.view.hosts().map_err(|e| self.failed(e))?;
        Ok(by_name(hosts))
    }

    /// The published hosts with their current counts of slots in use and jobs.
    ///
    /// # Errors
    /// As [`Source::params`].
    pub(crate) fn counted_hosts(&self) -> Result<Vec<HostRow>, Fail> {
        self.with_current_counts(ViewReader::counted_hosts)
            .map(by_name)
    }

    /// The published queues, highest priority first.
    ///
    /// # Errors
    /// As [`Source::params`].
    pub(crate) fn queues(&self) -> Result<Vec<QueueRow>, Fail> {
        let queues = self.view.queues().map_err(|e| self.failed(e))?;
        Ok(by_priority(queues))
    }

    /// The published queues with their current counts.
    ///
    /// # Errors
    /// As [`Source::params`].
    pub(crate) fn counted_queues(&self) -> Result<Vec<QueueRow>, Fail> {
        self.with_current_counts(ViewReader::counted_queues)
            .map(by_priority)
    }

    /// The rows of a summary view with their current counts.
    ///
    /// # Errors
    /// As [`Source::params`].
    pub(crate) fn with_current_counts<T>(
        &self,
        read: fn(&ViewReader) -> Result<CurrentDocument<T>, ViewError>,
    ) -> Result<Vec<T>, Fail> {
        let counted = read(&self.view).map_err(|e| self.failed(e))?;
        self.warn(&counted.warnings);
        Ok(counted.rows)
    }

    /// Whether the caller may see the jobs of all users.
    pub(crate) fn may_see_all(&self, params: &Params) -> bool {
        params.view_all_jobs || self.is_administrator(params) || self.is_service()
    }

    /// Whether the caller administers the whole cluster.
    pub(crate) fn is_administrator(&self, params: &Params) -> bool {
        let administrators = params.administrators.join(" ");
        self.me.uid == 0
            || UserSets::new(params, &os_groups).contains_user(&administrators, &self.me.name)
    }

    /// Whether the share belongs to the caller.
    pub(crate) fn is_service(&self) -> bool {
        let cluster = sys::fs::stat(&self.layout.cluster()).ok().flatten();
        cluster.is_some_and(|s| s.uid == self.me.uid)
    }

    /// Whether the caller may see this job.
    pub(crate) fn may_see(&self, params: &Params, spec: &Spec) -> bool {
        if spec.uid == self.me.uid || self.may_see_all(params) {
            return true;
        }
        let visible = self.visible(params);
        let within = Users::Within {
            requested: Box::new(Users::All),
            uid: self.me.uid,
            names: visible.users,
            queues: visible.queues,
        };
        within.has(spec.uid, &spec.user, &spec.queue)
    }

    /// Of these users, those whose jobs the caller may see; `None`: only the caller's own.
    pub(crate) fn visible_users(&self, users: Users, params: &Params) -> Option<Users> {
        if users == Users::one(self.me.uid) || self.may_see_all(params) {
            return Some(users);
        }
        let visible = self.visible(params);
        (!visible.is_empty()).then(|| Users::Within {
            requested: Box::new(users),
            uid: self.me.uid,
            names: visible.users,
            queues: visible.queues,
        })
    }

    /// Whose jobs the caller sees as an administrator of user groups and queues.
    fn visible(&self, params: &Params) -> VisibleJobs {
        let queues = self.queues().unwrap_or_default();
        let users = self.view.users().unwrap_or_default();
        let known = users.into_iter().filter(|u| !u.group).map(|u| u.name);
        let known: Vec<String> = known.collect();
        VisibleJobs::of(&self.me.name, params, &queues, &known, &os_groups)
    }

    /// The clock and the time zone for printed times.
    pub(crate) fn ctx(&self) -> Ctx {
        let past = self.past_view.as_ref().map(PastView::moment);
        let now = past.map_or_else(sys::clock::wall_ms, |moment| moment.0);
        Ctx {
            now: Stamp(now),
            dates: Dates::new(TimeZone::system()).now(now),
            estimates: Default::default(),
            queue_requests: Default::default(),
            app_requests: Default::default(),
        }
    }

    /// The same, plus the estimated starts of jobs and the requirements of their queues and
    /// applications: this reads three more files.
    pub(crate) fn ctx_with_estimates(&self) -> Ctx {
        let rows = self.view.estimates().unwrap_or_default();
        let estimates = rows.into_iter().map(|row| (row.j, row)).collect();
        let queues = self.view.queues().unwrap_or_default();
        let requests = queues.into_iter().filter_map(|q| {
            let mut settings = q.settings.into_iter();
            let (_, request) = settings.find(|(title, _)| title == "RES_REQ")?;
            Some((q.name, request))
        });
        let apps = self.view.params().map(|params| params.apps);
        let of_apps = apps.unwrap_or_default().into_iter();
        let of_apps = of_apps
            .filter(|app| !app.res_req.is_empty())
            .map(|app| (app.name, app.res_req));
        Ctx {
            estimates: Arc::new(estimates),
            queue_requests: Arc::new(requests.collect()),
            app_requests: Arc::new(of_apps.collect()),
            ..self.ctx()
        }
    }

    /// Reports damage that lost rows: an incomplete table must not look complete.
    pub(crate) fn warn(&self, warnings: &[String]) {
        if self.silent {
            return;
        }
        for text in warnings.iter().take(WARNINGS_MAX) {
            tell!("{}: warning: {text}", self.name);
        }
        let more = warnings.len().saturating_sub(WARNINGS_MAX);
        if more > 0 {
            tell!("{}: warning: and {more} more", self.name);
        }
    }

    /// Prints alarms of the cluster and a silent leader, if standard error is a terminal.
    pub(crate) fn banner(&self, params: &Params) {
        let silent = self.silent || self.past_view.is_some();
        if silent || !std::io::stderr().is_terminal() {
            return;
        }
        for alarm in params.alarms.iter().take(WARNINGS_MAX) {
            tell!(
                "{}: alarm: {}",
                self.name,
                crate::text::width::escape(alarm)
            );
        }
        if let Some(quiet) = self.quiet_ms().filter(|ms| *ms > quiet_limit_ms(params)) {
            tell!(
                "{}: the leader has been silent for {}; this output may be out of date",
                self.name,
                crate::text::duration::short(quiet)
            );
        }
    }

    /// Milliseconds since the leader's last beat, by the clocks of the file server and this host;
    /// `None`: there is no beat.
    pub(crate) fn quiet_ms(&self) -> Option<u64> {
        let path = self.layout.beat();
        // Opening the file makes a network file system ask its server for the current time stamp.
        drop(sys::fs::read_optional(&path, 4096));
        let beat = sys::fs::stat(&path).ok().flatten()?;
        let quiet = sys::clock::wall_ms().saturating_sub(beat.mtime_ms);
        Some(u64::try_from(quiet).unwrap_or(0))
    }

    /// The users that `-u` names: `all`, a group, a name or an id.
    pub(crate) fn users(&self, word: &str, params: &Params) -> Users {
        if word == "all" {
            return Users::All;
        }
        let (mut uids, mut names) = (HashSet::new(), HashSet::new());
        for user in members(word, params) {
            match sys::users::by_name(&user) {
                Some(facts) => drop(uids.insert(facts.uid)),
                None => {
                    if let Ok(uid) = user.parse() {
                        uids.insert(uid);
                    }
                    names.insert(user);
                }
            }
        }
        Users::These(uids, names)
    }

    /// The hosts that operands name (hosts, groups; none = all), and the exit code: words that
    /// match nothing are reported on standard error.
    pub(crate) fn hosts_named<'h>(
        &self,
        hosts: &'h [HostRow],
        words: &[String],
        params: &Params,
    ) -> (Vec<&'h HostRow>, Exit) {
        let mut names = HashSet::new();
        let mut exit = Exit::Ok;
        for word in words {
            match expand(word, hosts, params) {
                Ok(list) => names.extend(list),
                Err(fail) => {
                    tell!("{}", fail.text);
                    exit = Exit::NotFound;
                }
            }
        }
        let wanted = |h: &&HostRow| words.is_empty() || names.contains(&h.name);
        (hosts.iter().filter(wanted).collect(), exit)
    }

    /// The names of the hosts that words of a command line select (hosts, groups, `all`).
    ///
    /// # Errors
    /// Names the first word that matches nothing.
    pub(crate) fn host_names(
        &self,
        words: &[String],
        params: &Params,
    ) -> Result<HashSet<String>, Fail> {
        let hosts = self.hosts()?;
        let mut names = HashSet::new();
        for word in words {
            names.extend(expand(word, &hosts, params)?);
        }
        Ok(names)
    }
}

fn by_name(mut hosts: Vec<HostRow>) -> Vec<HostRow> {
    hosts.sort_by_key(|a| natural(&a.name));
    hosts
}

fn by_priority(mut queues: Vec<QueueRow>) -> Vec<QueueRow> {
    queues.sort_by(|a, b| (-a.priority, &a.name).cmp(&(-b.priority, &b.name)));
    queues
}

/// The hosts that one word names: a host, a host group, or all.
fn expand(word: &str, hosts: &[HostRow], params: &Params) -> Result<Vec<String>, Fail> {
    let word = word.trim_end_matches('/');
    if word == "all" {
        return Ok(hosts.iter().map(|h| h.name.clone()).collect());
    }
    if hosts.iter().any(|h| h.name == word) {
        return Ok(vec![word.to_owned()]);
    }
    match params.host_groups.iter().find(|(name, _)| name == word) {
        Some((_, list)) => Ok(list.clone()),
        None => {
            let known = hosts.iter().map(|h| h.name.as_str());
            Err(unknown("host or host group", word, known))
        }
    }
}

/// The rows with these names (all rows without names) in their order, and the exit code: names
/// without a row are reported on standard error.
pub(crate) fn rows_by_name<'r, R>(
    what: &str,
    rows: &'r [R],
    name: impl Fn(&R) -> &str,
    names: &[String],
) -> (Vec<&'r R>, Exit) {
    let mut exit = Exit::Ok;
    for word in names {
        if !rows.iter().any(|r| name(r) == word) {
            tell!("{}", unknown(what, word, rows.iter().map(&name)).text);
            exit = Exit::NotFound;
        }
    }
    let wanted = |r: &&R| names.is_empty() || names.iter().any(|n| n == name(r));
    (rows.iter().filter(wanted).collect(), exit)
}

/// The job ids on the command line; empty if one of them is 0, which means all jobs.
///
/// # Errors
/// Names the first word that is not a job ID.
pub(crate) fn job_ids(m: &ArgMatches) -> Result<Vec<JobSel>, Fail> {
    let mut ids = Vec::new();
    for word in m.all("ids") {
        ids.push(JobSel::parse(&word).map_err(|e| not_a_job_id(&word, &e))?);
    }
    if ids.contains(&JobSel::All) {
        ids.clear();
    }
    Ok(ids)
}

/// The users whose jobs are selected: those of `-u`, else the caller, or with ids every user.
/// Limited to the users whose jobs the caller may see.
///
/// # Errors
/// Jobs of another user were requested by name, and the caller may not see them.
pub(crate) fn selected_users(
    m: &ArgMatches,
    source: &Source,
    params: &Params,
    ids: &[JobSel],
) -> Result<Users, Fail> {
    let own = Users::one(source.me.uid);
    let users = match m.last("u") {
        Some(word) => source.users(word, params),
        None if ids.is_empty() => return Ok(own),
        None => Users::All,
    };
    let by_name = m.last("u").is_some() && !users.has(source.me.uid, &source.me.name, "");
    match source.visible_users(users, params) {
        Some(seen) => Ok(seen),
        None if by_name => Err(Fail::permission(OWN_ONLY)),
        None => Ok(own),
    }
}

impl Source {
    /// Of the requested users, those whose jobs the caller may see.
    pub(crate) fn allowed(&self, params: &Params, requested: Users) -> Users {
        if self.may_see_all(params) {
            return requested;
        }
        let visible = self.visible(params);
        Users::Within {
            requested: Box::new(requested),
            uid: self.me.uid,
            names: visible.users,
            queues: visible.queues,
        }
    }
}

/// Keeps the hosts that satisfy `-R`, if given.
///
/// # Errors
/// The expression is invalid.
pub(crate) fn require(
    m: &ArgMatches,
    hosts: &mut Vec<&HostRow>,
    params: &Params,
) -> Result<(), Fail> {
    let Some(text) = m.last("R") else {
        return Ok(());
    };
    crate::show::host_select::retain_selected(hosts, text, params)
        .map_err(|e| Fail::usage(format!("-R: {}\n{}", e.message, e.caret(text))))
}

/// The words in the values of an option, separated by blanks or commas.
pub(crate) fn value_words(m: &ArgMatches, id: &str) -> Vec<String> {
    let part = |c: char| c == ' ' || c == ',';
    let values = m.all(id);
    let words = values.iter().flat_map(|text| text.split(part));
    words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// Refuses options of LSF that are not implemented.
///
/// # Errors
/// Names the first such option that was given.
pub(crate) fn refuse_unbuilt(m: &ArgMatches, ids: &[&str], command: &str) -> Result<(), Fail> {
    let given = |id: &str| matches!(m.value_source(id), Some(ValueSource::CommandLine));
    match ids.iter().find(|id| given(id)) {
        None => Ok(()),
        Some(id) => Err(Fail::usage(format!(
            "option -{id} is not available in this version; '{command} -h' lists those that are"
        ))),
    }
}

/// How long a leader may be silent before a warning: several times the takeover time.
pub(crate) fn quiet_limit_ms(params: &Params) -> u64 {
    params.lease_ms().saturating_mul(4).max(QUIET_MS)
}

/// The table of `-s` with the header of `command`: `put` adds the rows of the named resources, or
/// of all if none is named. A resource that no host has is reported but is not a failure: its
/// sensor may not have reported yet.
pub(crate) fn resources_table(
    command: &str,
    header: &str,
    wanted: &[String],
    put: impl Fn(&mut String, &[String]),
) -> String {
    let rows = |names: &[String]| {
        let mut out = String::new();
        put(&mut out, names);
        out
    };
    let all = rows(&[]);
    for name in wanted {
        if rows(std::slice::from_ref(name)).is_empty() {
            let known = all.lines().filter_map(|line| line.split(' ').next());
            let hint = did_you_mean(name, known);
            let name = crate::text::width::escape(name);
            // cload shows what sensors report and what hosts share.
            match command {
                "cload" => tell!("{command}: no sensor reports a resource {name}{hint}"),
                _ => tell!("{command}: no host has a resource {name}{hint}"),
            }
        }
    }
    let out = match wanted {
        [] => all,
        names => rows(names),
    };
    if out.is_empty() {
        if wanted.is_empty() {
            tell!("{command}: no host has such a resource");
        }
        return out;
    }
    format!("{header}{out}")
}

/// The failure for a name that does not exist in the cluster.
pub(crate) fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str>) -> Fail {
    let hint = did_you_mean(word, known);
    let word = crate::text::width::escape(word);
    Fail::not_found(format!("{word}: no such {what}{hint}"))
}

/// The system groups of a user.
pub(crate) fn os_groups(user: &str) -> Vec<String> {
    let gids = sys::users::by_name(user).map(|facts| sys::users::groups_of(&facts));
    let gids = gids.into_iter().flatten();
    gids.filter_map(sys::users::group_by_gid).collect()
}

/// The users of a group, including nested groups; the word itself if it is not a group.
pub(crate) fn members(word: &str, params: &Params) -> Vec<String> {
    let group = |name: &str| params.user_groups.iter().find(|(g, ..)| g == name);
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut open = vec![(word.trim_end_matches('/').to_owned(), 0)];
    while let Some((name, depth)) = open.pop() {
        match group(&name).filter(|_| depth < GROUP_DEPTH) {
            _ if !seen.insert(name.clone()) => {}
            None => found.push(name),
            Some((_, list, _)) => {
                let deeper = list
                    .iter()
                    .map(|n| (n.trim_end_matches('/').to_owned(), depth + 1));
                open.extend(deeper);
            }
        }
    }
    found
}

/// A key that sorts `h2` before `h10`: its texts and numbers alternate.
pub(crate) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = rest[text..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |n| text + n);
        let value = rest[text..number].parse().unwrap_or(u64::MAX);
        parts.push((rest[..text].to_owned(), value));
        rest = &rest[number..];
    }
    parts
}

/// Whether tables may be coloured: standard output is a terminal and NO_COLOR is not set.
pub(crate) fn colors() -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !forbidden && std::io::stdout().is_terminal()
}

/// The number of columns that a table must fit; `None`: standard output is not a terminal.
pub(crate) fn columns() -> Option<usize> {
    sys::caller::terminal_columns()
}

/// Writes text to standard output. If its reader has ended, the process ends silently (SIGPIPE).
///
/// # Errors
/// Standard output could not take all of it, for example because its disk is full.
pub(crate) fn put(text: &str) -> Result<(), Fail> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| {
            Fail::system(format!(
                "cannot write to standard output: {}",
                sys::reason(&e)
            ))
        })
}

/// Replaces the word `--json` by `-jsonl`, the id of its option: one dash and two are otherwise
/// equivalent, but `-json` is LSF's form.
pub(crate) fn split_json(args: &[OsString]) -> Vec<OsString> {
    let mut rest_is_operands = false;
    args.iter()
        .map(|arg| {
            rest_is_operands |= arg == "--";
            let is_lines = arg == "--json" && !rest_is_operands;
            if is_lines {
                "-jsonl".into()
            } else {
                arg.clone()
            }
        })
        .collect()
}

/// The options `-json` and `--json` of all reading commands.
pub(crate) fn json_options(cmd: Command) -> Command {
    let dashes = "Options of more than one letter take one dash or two, with one exception: \
                  -json is LSF's JSON, --json is JSON Lines.";
    let examples = cmd.get_after_help().map(ToString::to_string);
    let end = match examples {
        Some(text) => format!("{dashes}\n\n{text}"),
        None => dashes.to_owned(),
    };
    cmd.arg(super::cli::flag(
        "json",
        "With one dash, -json: one JSON object in the format of LSF",
    ))
    .arg(super::cli::flag(
        "jsonl",
        "Also --json: JSON Lines, one object with typed values per line",
    ))
    .after_help(end)
}

/// Ends a command: prints a failure and returns the exit code.
pub(crate) fn end(name: &str, result: Result<Exit, Fail>) -> i32 {
    match result {
        Ok(exit) => exit.code(),
        Err(fail) => fail.report(name),
    }
}

pub(crate) mod table;

#[cfg(test)]
pub(crate) mod test_cluster;
#[cfg(test)]
pub(crate) mod test_view;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_followed_and_cycles_end() {
        let params = Params {
            user_groups: vec![
                ("g".into(), vec!["u1".into(), "h/".into()], String::new()),
                ("h".into(), vec!["u2".into(), "g".into()], String::new()),
            ],
            ..Params::default()
        };
        let mut found = members("g", &params);
        found.sort();
        assert_eq!(found, ["u1", "u2"]);
        assert_eq!(members("solo", &params), ["solo"]);
    }

    #[test]
    fn numbers_in_names_count() {
        let mut names = ["h10", "h2", "a", "h1x", "h1"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(names, ["a", "h1", "h1x", "h2", "h10"]);
    }

    #[test]
    fn a_table_of_resources_has_no_header_without_rows() {
        let resource_table = |wanted: &[&str], present: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
            resources_table("chosts", "R N\n", &wanted, |out, names| {
                for name in present {
                    if names.is_empty() || names.iter().any(|n| n == name) {
                        *out += &format!("{name} 1\n");
                    }
                }
            })
        };
        assert_eq!(resource_table(&[], &["a", "b"]), "R N\na 1\nb 1\n");
        assert_eq!(resource_table(&["b", "c"], &["a", "b"]), "R N\nb 1\n");
        assert_eq!(resource_table(&["c"], &["a"]), "");
        assert_eq!(resource_table(&[], &[]), "");
    }

    #[test]
    fn json_lines_have_two_dashes() {
        let args = ["--json", "-json", "--", "--json"].map(OsString::from);
        assert_eq!(split_json(&args), ["-jsonl", "-json", "--", "--json"]);
    }
}
