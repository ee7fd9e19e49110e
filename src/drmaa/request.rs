//! Converts a job template to a submission. Pure except for the clock and the question whether a
//! path is a directory.

use super::codes::{Code, Problem, Result};
use super::dates;
use super::paths::{self, PathContext, PathUse};
use super::template::{self, AttributeValues, HostContext};
use corral::api::JobRequest;
use corral::sys::caller;
use corral::text::IndexSet;
use corral::text::indexset::MAX_INDEX;

/// Builds the request. `array`: the index list of bulk jobs.
pub(crate) fn build(
    values: &AttributeValues,
    context: &HostContext,
    array: Option<&IndexSet>,
) -> Result<JobRequest> {
    let mut job = JobRequest {
        options: options(values, context)?,
        command: command(values)?,
        name: values.get(template::NAME).unwrap_or_default().to_owned(),
        array: array.map_or(String::new(), IndexSet::to_string),
        hold: values.get(template::STATE) == Some(template::ON_HOLD),
        ..JobRequest::default()
    };
    for text in values.all(template::ENVIRONMENT) {
        job.env.push(template::variable(text)?);
    }
    let now = template::now_here();
    let moment = |name: &str| {
        let given = values.get(name).map(|text| dates::moment(text, &now));
        given.transpose().map_err(|e| invalid(name, &e))
    };
    job.begin_ms = moment(template::START_TIME)?;
    job.deadline_ms = moment(template::DEADLINE)?;
    let limit = values.get(template::RUN_LIMIT).map(dates::length_s);
    job.run_limit_s = limit
        .transpose()
        .map_err(|e| invalid(template::RUN_LIMIT, &e))?;
    let blocked = values.get(template::BLOCK_EMAIL) == Some("1");
    if !blocked && !values.all(template::EMAIL).is_empty() {
        job.named_options
            .push(("u", values.all(template::EMAIL).join(",")));
    }
    files(&mut job, values, context, array.is_some())?;
    Ok(job)
}

/// The indices of bulk jobs: `start`, `start + incr` and so on, up to `end`.
///
/// # Errors
/// They are not a list of indices from 1 on.
pub(crate) fn indices(start: i64, end: i64, incr: i64) -> Result<IndexSet> {
    let wrong = |why: &str| Problem::argument(format!("indices {start} to {end} by {incr}: {why}"));
    let (low, high) = match incr {
        0 => return Err(wrong("the increment is 0")),
        up if up > 0 => (start, end),
        // The same indices in reverse: the last one that is reached comes first.
        down => (start - (start - end) / -down * -down, start),
    };
    if low < 1 || high > i64::from(MAX_INDEX) || high < low || (incr < 0 && start < end) {
        return Err(wrong("they must go from one number above 0 to another"));
    }
    let text = format!("{low}-{high}:{}", incr.abs().min(i64::from(MAX_INDEX)));
    IndexSet::parse(&text, 1, MAX_INDEX).map_err(|e| wrong(&e.message))
}

fn invalid(name: &str, why: &str) -> Problem {
    Problem::new(Code::InvalidAttributeValue, format!("{name}: {why}"))
}

/// The options of the category, then those of the job itself, which take precedence.
fn options(values: &AttributeValues, context: &HostContext) -> Result<Vec<String>> {
    let mut words = match values.get(template::CATEGORY) {
        Some(name) => template::category_words(context, name)?,
        None => Vec::new(),
    };
    if let Some(text) = values.get(template::NATIVE) {
        words.extend(template::native_words(text)?);
    }
    Ok(words)
}

fn command(values: &AttributeValues) -> Result<Vec<String>> {
    let Some(program) = values.get(template::COMMAND) else {
        return Err(invalid(template::COMMAND, "it is not set"));
    };
    let arguments = values.all(template::ARGUMENTS).iter().cloned();
    Ok(std::iter::once(program.to_owned())
        .chain(arguments)
        .collect())
}

/// The working directory, and the files for input and output.
fn files(
    job: &mut JobRequest,
    values: &AttributeValues,
    context: &HostContext,
    bulk: bool,
) -> Result<()> {
    let cwd = caller::working_directory();
    let cwd = cwd.map_err(|e| Problem::new(Code::InternalError, e.to_string()))?;
    let mut work_dir = cwd.clone();
    if let Some(text) = values.get(template::WORK_DIR) {
        let dir = paths::working_directory(text, &context.home);
        work_dir = cwd.join(dir.map_err(|e| invalid(template::WORK_DIR, &e))?);
        let text = work_dir
            .to_str()
            .ok_or_else(|| invalid(template::WORK_DIR, "it is not UTF-8"))?;
        job.named_options.push(("cwd", text.to_owned()));
    }
    let around = PathContext {
        host: &context.site.host,
        home: &context.home,
        work_dir,
        bulk,
        is_directory: &template::is_directory,
    };
    let joined = values.get(template::JOIN) == Some("y");
    for (name, option, what) in [
        (template::INPUT, "i", PathUse::Input),
        (template::OUTPUT, "o", PathUse::Output),
        (template::ERROR, "e", PathUse::Error),
    ] {
        // Error output without a file of its own goes to the same file as output.
        if joined && what == PathUse::Error {
            continue;
        }
        if let Some(text) = values.get(name) {
            let path = paths::for_csub(text, what, &around).map_err(|e| invalid(name, &e))?;
            job.named_options.push((option, path));
        }
    }
    // A program that reads the output back expects only that of this job.
    if job.named_options.iter().any(|(name, _)| *name == "o") {
        job.named_options.push(("no-report", String::new()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::template::Template;
    use super::*;
    use corral::spool::Site;

    fn context() -> HostContext {
        let conf = "/e/cb.conf".as_ref();
        let site = Site::from_conf(conf, "CB_SHARE=/none", Some("h1".into())).unwrap();
        HostContext {
            site,
            home: "/u/a".into(),
        }
    }

    fn values(set: &[(&str, &str)]) -> AttributeValues {
        let t = Template::new(context());
        for (name, value) in set {
            t.set(name, (*value).to_owned()).unwrap();
        }
        t.set_all(template::ARGUMENTS, vec!["$x".into()]).unwrap();
        t.set_all(template::ENVIRONMENT, vec!["A=b=c".into()])
            .unwrap();
        t.values()
    }

    #[test]
    fn a_template_becomes_a_request() {
        let values = values(&[
            (template::COMMAND, "prog"),
            (template::NAME, "n"),
            (template::NATIVE, "bsub -q night"),
            (template::STATE, "drmaa_hold"),
            (template::WORK_DIR, "$drmaa_hd_ph$/w"),
            (template::OUTPUT, ":o.$drmaa_incr_ph$"),
            (template::ERROR, ":e"),
            (template::JOIN, "y"),
            (template::RUN_LIMIT, "1:00"),
        ]);
        let set = indices(3, 9, 2).unwrap();
        let job = build(&values, &context(), Some(&set)).unwrap();
        assert_eq!(job.command, ["prog", "$x"]);
        assert_eq!(job.options, ["-q", "night"]);
        assert_eq!(job.env, [("A".to_owned(), "b=c".to_owned())]);
        let named = [("cwd", "/u/a/w"), ("o", "o.%I"), ("no-report", "")];
        assert_eq!(job.named_options, named.map(|(n, v)| (n, v.to_owned())));
        assert_eq!((job.array.as_str(), job.run_limit_s), ("3-9:2", Some(60)));
        assert!(job.hold);
    }

    #[test]
    fn mail_goes_to_the_addresses_unless_it_is_blocked() {
        for (blocked, named) in [
            ("0", &[("u", "a@x.org,b@x.org".to_owned())][..]),
            ("1", &[]),
        ] {
            let t = Template::new(context());
            t.set(template::COMMAND, "prog".into()).unwrap();
            t.set(template::BLOCK_EMAIL, blocked.into()).unwrap();
            let to = ["a@x.org", "b@x.org"].map(str::to_owned);
            t.set_all(template::EMAIL, to.into()).unwrap();
            let job = build(&t.values(), &context(), None).unwrap();
            assert_eq!(job.named_options, named, "{blocked}");
        }
    }

    #[test]
    fn a_template_without_a_command_is_no_job() {
        let problem = build(&values(&[]), &context(), None).unwrap_err();
        assert_eq!(problem.code, Code::InvalidAttributeValue);
        assert!(problem.text.contains("drmaa_remote_command"));
    }

    #[test]
    fn indices_run_upwards_and_downwards() {
        let text = |a, b, c| indices(a, b, c).map(|set| set.to_string());
        assert_eq!(text(1, 10, 3).unwrap(), "1-10:3");
        assert_eq!(text(1, 11, 3).unwrap(), "1-10:3");
        assert_eq!(text(10, 2, -3).unwrap(), "4-10:3");
        assert_eq!(text(5, 5, 1).unwrap(), "5");
        for (a, b, c) in [
            (0, 5, 1),
            (1, 5, 0),
            (5, 1, 1),
            (1, 5, -1),
            (1, i64::MAX, 1),
        ] {
            assert_eq!(
                indices(a, b, c).unwrap_err().code,
                Code::InvalidArgument,
                "{a} {b} {c}"
            );
        }
    }
}
