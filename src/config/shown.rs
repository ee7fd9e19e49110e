//! Scheduling settings as text in the syntax of cb.yaml, for `cparams`, `cqueues` and the digest.
//! Owns the text of a setting, never where it is printed.

use super::policy::{
    Ageing, Backfill, FairFactors, HostSpec, Packing, Policy, PreemptMethod, PreemptOrder,
    Preemption, ShareEntry, ShareSubject, Shares, Threshold, ThresholdAction, WARN_SIGNALS,
    control_signal_name, warn_signal_name,
};
use super::types::{AppProfile, Queue};
use crate::model::{ControlAct, Controls, OomKill};
use crate::text::duration;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;

/// Thousandths as a decimal number: `0.7`, `3`.
fn milli(n: i64) -> String {
    let sign = if n < 0 { "-" } else { "" };
    let n = n.unsigned_abs();
    let text = format!("{sign}{}.{:03}", n / 1000, n % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Milliseconds in a form that cb.yaml accepts.
fn time(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        duration::exact(ms / 1000)
    } else {
        format!("{ms}ms")
    }
}

impl FairFactors {
    /// Key and value as in cb.yaml.
    pub fn settings(&self) -> [(&'static str, String); 5] {
        let hours = i64::try_from(self.hist_ms / 3600).unwrap_or(i64::MAX);
        [
            ("cpu_time_factor", milli(self.cpu_time)),
            ("run_time_factor", milli(self.run_time)),
            (
                "run_job_factor",
                self.run_job.map_or("auto".to_owned(), milli),
            ),
            ("gpu_time_factor", milli(self.gpu_time)),
            ("hist_hours", milli(hours)),
        ]
    }
}

impl Serialize for FairFactors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.settings();
        let mut out = serializer.serialize_struct("FairFactors", all.len())?;
        for (key, value) in &all {
            out.serialize_field(key, value)?;
        }
        out.end()
    }
}

impl fmt::Display for Ageing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.points, self.every_ms / 60_000)
    }
}

impl Serialize for Ageing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The name alone: its factor is a setting of the host or model.
impl Serialize for HostSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl fmt::Display for ShareEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, each) = match &self.subject {
            ShareSubject::User(name) | ShareSubject::Group(name) => (name.as_str(), ""),
            ShareSubject::GroupEach(name) => (name.as_str(), "@"),
            ShareSubject::Default => ("default", ""),
            ShareSubject::Others => ("others", ""),
        };
        write!(f, "[{name}{each},{}]", self.shares)
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, entry) in self.entries.iter().enumerate() {
            write!(f, "{}{entry}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.depth {
            0 => f.write_str("no"),
            1 => f.write_str("yes"),
            u32::MAX => f.write_str("all"),
            n => write!(f, "{n}"),
        }
    }
}

impl fmt::Display for Threshold {
    /// `r1m: 0.7/2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |m: Option<i64>| m.map_or("-".to_owned(), milli);
        let (sched, stop) = (mark(self.sched), mark(self.stop));
        write!(f, "{}: {sched}/{stop}", self.index)
    }
}

impl fmt::Display for Preemption {
    /// `low med+1, method suspend, grace 30s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, v) in self.victims.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { " " } else { "" }, v.queue)?;
            if v.preference > 0 {
                write!(f, "+{}", v.preference)?;
            }
        }
        let method = match self.method {
            PreemptMethod::Suspend => "suspend",
            PreemptMethod::Requeue => "requeue",
        };
        write!(f, ", method {method}")?;
        if self.order == PreemptOrder::Youngest {
            f.write_str(", order youngest")?;
        }
        if self.grace_ms > 0 {
            write!(f, ", grace {}", time(self.grace_ms))?;
        }
        let name = WARN_SIGNALS.iter().find(|(_, n)| *n == self.warn_signal);
        if let Some((name, _)) = name.filter(|known| **known != WARN_SIGNALS[0]) {
            write!(f, ", warn_signal {name}")?;
        }
        match self.max_victims {
            Some(most) => write!(f, ", max_victims {most}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ThresholdAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ThresholdAction::Suspend => "suspend",
            ThresholdAction::Kill => "kill",
            ThresholdAction::Requeue => "requeue",
        })
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Packing::Pack => "pack",
            Packing::Spread => "spread",
            Packing::Fit => "fit",
            Packing::Frag => "frag",
        })
    }
}

impl Policy {
    /// The word for `policy` in cb.yaml.
    pub fn word(&self) -> &'static str {
        match self {
            Policy::Fifo => "fifo",
            Policy::RoundRobin => "rr",
            Policy::Fairshare(_) => "fairshare",
            Policy::Drf(_) => "drf",
        }
    }
}

impl AppProfile {
    /// What the application gives its jobs besides limits, slots and requirement: title and value.
    pub fn settings(&self) -> Vec<(String, String)> {
        let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
        let texts = [
            ("RERUNNABLE", self.rerunnable.map(yes)),
            (
                "REQUEUE_EXIT_VALUES",
                self.requeue.as_ref().map(ToString::to_string),
            ),
            (
                "MAX_REQUEUE",
                self.max_requeue.map(|n| match n {
                    AppProfile::UNLIMITED => "unlimited".to_owned(),
                    n => n.to_string(),
                }),
            ),
            (
                "SUCCESS_EXIT_VALUES",
                self.success.as_ref().map(ToString::to_string),
            ),
            ("RETRIES", self.retries.map(|n| n.to_string())),
            (
                "WARN_TIME",
                self.warn.map(|warn| time(warn.before_s * 1000)),
            ),
            (
                "WARN_SIGNAL",
                self.warn
                    .map(|warn| warn_signal_name(warn.signal).to_owned()),
            ),
            ("PRE_EXEC", Some(self.pre_exec.clone())),
            ("POST_EXEC", Some(self.post_exec.clone())),
            ("JOB_STARTER", Some(self.job_starter.clone())),
            ("CHKPNT", self.chkpnt.as_ref().map(ToString::to_string)),
            ("PREEMPTABLE", (!self.preemptable).then(|| yes(false))),
        ];
        let given = texts.into_iter().filter_map(|(title, text)| {
            let text = text.filter(|text| !text.is_empty())?;
            Some((title.to_owned(), text))
        });
        let controls = control_settings(&self.controls);
        let env = self
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let env = env.map(|text| ("ENV".to_owned(), text));
        given.chain(controls).chain(env).collect()
    }
}

/// `job_controls` as settings.
fn control_settings(of: &Controls) -> impl Iterator<Item = (String, String)> {
    let acts = [
        ("SUSPEND_CONTROL", &of.suspend),
        ("RESUME_CONTROL", &of.resume),
        ("TERMINATE_CONTROL", &of.terminate),
    ];
    acts.into_iter().filter_map(|(title, act)| {
        let text = match act.as_ref()? {
            ControlAct::Signal(number) => control_signal_name(*number).to_owned(),
            ControlAct::Program(words) => words.clone(),
            ControlAct::Checkpoint => "CHKPNT".to_owned(),
        };
        Some((title.to_owned(), text))
    })
}

impl Queue {
    /// The scheduling settings that differ from the default, title and value, for `cqueues -l`.
    pub fn scheduling(&self) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> = Vec::new();
        let mut put = |title: &str, value: String| out.push((title.to_owned(), value));
        put("POLICY", self.policy.word().to_owned());
        if let Some(shares) = self.policy.shares() {
            put("USER_SHARES", shares.to_string());
            for (key, value) in self.fair.settings() {
                put(&key.to_ascii_uppercase(), value);
            }
        }
        self.hook_settings(&mut put);
        let flags = [
            ("STRICT", self.strict),
            ("ELASTIC", self.elastic),
            ("IGNORE_DEADLINE", self.ignore_deadline),
        ];
        for (title, _) in flags.iter().filter(|(_, on)| *on) {
            put(title, "yes".to_owned());
        }
        if let Some(ms) = self.slot_reserve_ms {
            put("SLOT_RESERVE", time(ms));
        }
        if self.backfill.depth > 0 {
            let order = if self.backfill.shortest_first {
                " shortest first"
            } else {
                ""
            };
            let hosts = if self.backfill.free_first {
                ", free hosts reserved"
            } else {
                ""
            };
            put("BACKFILL", format!("{}{order}{hosts}", self.backfill));
        }
        if let Some(preemption) = &self.preemption {
            put("PREEMPTION", preemption.to_string());
        }
        self.threshold_settings(&mut put);
        if self.packing != Packing::default() {
            put("PACKING", self.packing.to_string());
        }
        if !self.cpu_bind.is_none() {
            put("CPU_BIND", self.cpu_bind.word().to_owned());
        }
        if self.gpu_by_place {
            put("GPU_ENV", "index".to_owned());
        }
        if self.oom_kill != OomKill::default() {
            put("OOM_KILL", self.oom_kill.word().to_owned());
        }
        if !self.gpu_check.is_off() {
            put("GPU_CHECK", self.gpu_check.word().to_owned());
        }
        for (title, ms) in [
            ("JOB_ACCEPT_INTERVAL", self.job_accept_interval_ms),
            ("NEW_JOB_SCHED_DELAY", self.new_job_sched_delay_ms),
        ] {
            if ms > 0 {
                put(title, time(ms));
            }
        }
        out
    }

    /// The settings that run programs around jobs or act on them.
    fn hook_settings(&self, put: &mut dyn FnMut(&str, String)) {
        for (title, text) in [
            ("PRE_EXEC", &self.hooks.pre),
            ("POST_EXEC", &self.hooks.post),
            ("PRE_POST_EXEC_USER", &self.hooks.user),
            ("JOB_STARTER", &self.hooks.starter),
        ] {
            if !text.is_empty() {
                put(title, text.clone());
            }
        }
        for (title, text) in control_settings(&self.hooks.controls) {
            put(&title, text);
        }
        if let Some(checkpoint) = &self.hooks.checkpoint {
            put("CHKPNT", checkpoint.to_string());
        }
        if let Some(warn) = self.warn {
            put("WARN_TIME", time(warn.before_s * 1000));
            put("WARN_SIGNAL", warn_signal_name(warn.signal).to_owned());
        }
    }

    /// The settings of conditions that are checked while jobs run.
    fn threshold_settings(&self, put: &mut dyn FnMut(&str, String)) {
        if !self.thresholds.is_empty() {
            let all: Vec<String> = self.thresholds.iter().map(Threshold::to_string).collect();
            put("THRESHOLDS", all.join(", "));
        }
        let stops = !self.thresholds.is_empty() || self.stop_cond.is_some();
        if stops {
            put("THRESHOLD_ACTION", self.threshold_action.to_string());
        }
        let texts = [
            ("STOP_COND", self.stop_cond.clone()),
            ("RESUME_COND", self.resume_cond.clone()),
            (
                "RUN_WINDOW",
                self.run_window.as_ref().map(|w| w.to_string()),
            ),
            (
                "WINDOW_ACTION",
                self.run_window
                    .as_ref()
                    .map(|_| self.window_action.to_string()),
            ),
            (
                "DISPATCH_WINDOW",
                self.dispatch_window.as_ref().map(|w| w.to_string()),
            ),
        ];
        for (title, text) in texts {
            if let Some(text) = text {
                put(title, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OsNames, load};

    fn queue(extra: &str) -> Queue {
        let text = format!(
            "cluster: {{administrators: u1}}\nusergroups: [{{name: g1, members: u1}}]\n\
             queues:\n- {{name: low, priority: 1}}\n- {{name: q, priority: 9{extra}}}\n"
        );
        let mut loaded = load(text.as_bytes(), "cb.yaml", &OsNames::ANY).unwrap_or_else(|p| {
            panic!("{text}\n{}", p[0]);
        });
        loaded.config.queues.pop().unwrap()
    }

    fn shown(extra: &str) -> String {
        let all = queue(extra).scheduling();
        let lines: Vec<String> = all.iter().map(|(t, v)| format!("{t} = {v}")).collect();
        lines.join("\n")
    }

    #[test]
    fn a_plain_queue_shows_its_policy_alone() {
        assert_eq!(shown(""), "POLICY = fifo");
    }

    #[test]
    fn settings_are_shown_as_they_are_written() {
        assert_eq!(
            shown(
                ", fairshare: '[g1,2] [u7@,1] [default,1] [others,3]', hist_hours: 2.5, \
                 strict: yes, slot_reserve: 90m, backfill: 7, backfill_order: shortest, \
                 backfill_hosts: free"
            ),
            "POLICY = fairshare\nUSER_SHARES = [g1,2] [u7@,1] [default,1] [others,3]\n\
             CPU_TIME_FACTOR = 0\nRUN_TIME_FACTOR = 0.7\nRUN_JOB_FACTOR = auto\n\
             GPU_TIME_FACTOR = 0\nHIST_HOURS = 2.5\nSTRICT = yes\nSLOT_RESERVE = 1h30m\n\
             BACKFILL = 7 shortest first, free hosts reserved"
        );
        assert_eq!(
            shown(
                ", preemption: {preempt: low+2, method: requeue, grace: 250ms, max_victims: 3}, \
                 thresholds: {r1m: '0.70/-', mem: '-/100'}, threshold_action: kill, \
                 run_window: '18-8', packing: pack, cpu_bind: numa, job_accept_interval: 5"
            ),
            "POLICY = fifo\nPREEMPTION = low+2, method requeue, grace 250ms, max_victims 3\n\
             THRESHOLDS = r1m: 0.7/-, mem: -/100\nTHRESHOLD_ACTION = kill\n\
             RUN_WINDOW = 18:00-08:00\nWINDOW_ACTION = suspend\nPACKING = pack\n\
             CPU_BIND = numa\nJOB_ACCEPT_INTERVAL = 5s"
        );
    }

    #[test]
    fn what_starts_and_controls_jobs_is_shown() {
        let text = ", job_starter: '/usr/bin/env A=1', job_controls: {suspend: SIGTSTP, \
                    terminate: '/site/end  -v'}";
        let wanted = "POLICY = fifo\nJOB_STARTER = /usr/bin/env A=1\nSUSPEND_CONTROL = TSTP\n\
                      TERMINATE_CONTROL = /site/end -v";
        assert_eq!(shown(text), wanted);
    }

    #[test]
    fn general_settings_stand_under_their_keys() {
        let general = crate::config::General {
            job_priority_over_time: Some(Ageing {
                points: 3,
                every_ms: 1_200_000,
            }),
            default_host_spec: Some(HostSpec {
                name: "epyc".into(),
                cpuf: 2.0,
            }),
            ..crate::config::General::default()
        };
        let v = serde_json::to_value(&general).unwrap();
        assert_eq!(v["cpu_time_factor"], "0");
        assert_eq!(v["hist_hours"], "24");
        assert_eq!(v["job_priority_over_time"], "3/20");
        assert_eq!(v["default_host_spec"], "epyc");
        assert_eq!(v["packing"], "spread");
    }
}
