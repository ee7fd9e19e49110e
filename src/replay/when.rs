//! `cbsim when`: runs a live cluster's state forward on the virtual clock until the requested jobs
//! have started. Owns the messages; takes no lock and changes nothing.

mod published;

use super::estimate::{SimulationStart, StartEstimate, estimate};
use super::files;
use super::live_cluster::{self, LiveCluster, PresentWorkload};
use super::trace::load;
use super::virtual_leader::LiveSetting;
use crate::config::Config;
use crate::language::{answer, tell};
use crate::model::JobKey;
use crate::spool::{Layout, Site};
use crate::sys;
use crate::text::duration::{self, DefaultUnit};
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of elements of one array that are printed.
const ELEMENTS_MAX: usize = 20;

/// Prints when jobs of a live cluster will start if every job runs until its run limit.
#[derive(clap::Args)]
pub struct WhenArgs {
    /// Jobs as 12, arrays as 12 (all elements) or 12[3]
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// The cluster's shared directory [default: that of CB_ENVDIR's cb.conf]
    #[arg(long, value_name = "DIR")]
    from_state: Option<PathBuf>,
    /// Another cb.yaml than the cluster's
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How long jobs without a run limit run
    #[arg(long, value_name = "TIME", default_value = "1h")]
    assume: String,
    /// A JSON object for each job
    #[arg(long)]
    json: bool,
}

/// A live cluster, with what is waiting and running in it.
pub struct LiveWorkload {
    pub live: LiveCluster,
    pub present: PresentWorkload,
}

impl LiveWorkload {
    /// The initial setting of a virtual cluster under `config`.
    pub fn setting(&self, config: Arc<Config>) -> (Arc<Config>, LiveSetting) {
        let (config, samples) = self.live.under(config);
        let setting = LiveSetting {
            state: self.live.state.clone(),
            samples,
            keys: self.present.keys.clone(),
            zone: TimeZone::system(),
        };
        (config, setting)
    }
}

/// Reads a share; jobs without a run limit run for `assume`.
///
/// # Errors
/// It cannot be read, or `assume` is not a time.
pub fn read_cluster(share: &Path, assume: &str) -> Result<LiveWorkload, String> {
    let assume_ms = duration::parse_ms(assume, DefaultUnit::Minutes)
        .map_err(|e| format!("--assume:\n{}", e.caret(assume)))?;
    let live = live_cluster::read(share)?;
    for note in &live.notes {
        tell!("cbsim: {note}");
    }
    let present = live_cluster::present(&live.state, live.now, assume_ms)?;
    if present.unlimited > 0 {
        tell!(
            "cbsim: {} jobs have no run limit and are taken to run for {assume} (--assume)",
            present.unlimited
        );
    }
    Ok(LiveWorkload { live, present })
}

/// Carries out the command. Returns 0, or 1 if a job does not exist or would never start.
///
/// # Errors
/// A sentence for the user.
pub fn main(args: &WhenArgs) -> Result<i32, String> {
    let share = match &args.from_state {
        Some(dir) => dir.clone(),
        None => Site::find().map_err(|e| e.to_string())?.share,
    };
    let layout = Layout::new(&share);
    if let Err(e) = sys::fs::names(&layout.snapshots(), 1)
        && e.kind() == std::io::ErrorKind::PermissionDenied
    {
        return published::answer(&layout, &args.jobs, args.json);
    }
    let found = read_cluster(&share, &args.assume)?;
    let config = match &args.config {
        Some(path) => load(&files::read(path)?, &path.display().to_string())?,
        None => load(&found.live.config.0, &found.live.config.1)?,
    };
    let mut code = 0;
    let mut wanted = Vec::new();
    for text in &args.jobs {
        let places = job_places(text, &found.present)?;
        if places.is_empty() {
            tell!("cbsim: job {text} does not wait or run");
            code = 1;
        }
        wanted.extend(places);
    }
    let (config, samples) = found.live.under(config);
    let now = found.live.now.0;
    let jobs: Vec<JobKey> = wanted
        .iter()
        .map(|place| found.present.keys[*place as usize])
        .collect();
    let begin = SimulationStart {
        state: found.live.state,
        config,
        samples,
        now: found.live.now,
        present: found.present,
        // Windows are in the time zone of the leader's host, which is assumed to be that of this
        // host.
        zone: TimeZone::system(),
    };
    let estimates = estimate(begin, &jobs, Box::new(|| true));
    for StartEstimate { j: job, at, why } in estimates.jobs {
        let answer = StartAnswer { job, at, now, why };
        code = code.max(i32::from(answer.at.is_none()));
        match args.json {
            true => println!("{}", answer.json()),
            false => answer!("{}", answer.text()),
        }
    }
    Ok(code)
}

/// The places of a job or of the first elements of an array.
fn job_places(text: &str, present: &PresentWorkload) -> Result<Vec<u32>, String> {
    let requested: JobKey = text.parse().map_err(|e| format!("{text:?}: {e}"))?;
    let is = |j: &JobKey| j.id == requested.id && (requested.idx == 0 || requested.idx == j.idx);
    let all = (0u32..).zip(&present.keys).filter(|(_, j)| is(j));
    Ok(all.map(|(place, _)| place).take(ELEMENTS_MAX).collect())
}

struct StartAnswer {
    job: JobKey,
    at: Option<i64>,
    now: i64,
    why: String,
}

impl StartAnswer {
    fn text(&self) -> String {
        let job = self.job;
        match self.at {
            None => format!("{job} would never start: {}", self.why),
            Some(at) if at <= self.now => {
                format!("{job} runs since {}", sys::clock::local_text(at))
            }
            Some(at) => {
                let wait = duration::short((at - self.now).unsigned_abs());
                format!("{job} starts in {wait}, {}", sys::clock::local_text(at))
            }
        }
    }

    fn json(&self) -> String {
        let in_s = self.at.map(|at| (at - self.now) as f64 / 1000.0);
        let why = self.at.is_none().then_some(&self.why);
        serde_json::json!({
            "job": self.job.to_string(),
            "start": self.at,
            "in_s": in_s,
            "never": why,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Language;

    #[test]
    fn an_answer_for_a_person_is_translated_and_json_is_not() {
        let answer = |at: Option<i64>| StartAnswer {
            job: JobKey::job(7),
            at,
            now: 1_700_000_000_000,
            why: "it is not there".to_owned(),
        };
        let translated = |at| Language::Chinese.translate(&answer(at).text()).into_owned();
        assert_eq!(translated(None), "7 永远不会启动：它不存在");
        assert!(
            translated(Some(1)).starts_with("7 自 "),
            "{}",
            translated(Some(1))
        );
        let later = translated(Some(1_700_000_060_000));
        assert!(later.starts_with("7 将在 1m 后启动，时间 "), "{later}");
        let json = crate::language::in_chinese(|| answer(None).json());
        assert!(json.contains("\"never\":\"it is not there\""), "{json}");
    }
}
