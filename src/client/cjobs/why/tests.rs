//! Scenarios of waiting jobs: the explanation names the cause, and a change that it shows starts
//! the job if it is made on another copy of the cluster.

mod advice;
mod ended_jobs;
mod waiting_jobs;

use super::pending::{self, HelpEffect, WaitingJob};
use super::text;
use crate::client::cluster_copy::{ClusterCopy, Samples};
use crate::client::cmod;
use crate::client::csub::spec::ParseContext;
use crate::config::{Config, OsNames};
use crate::intake;
use crate::model::{JobKey, JobStat, Limits, Spec, Stamp};
use crate::record::event::{Event, Submitted};
use crate::record::load::LoadDoc;
use crate::record::request::{HostAct, QueueAct};
use crate::state::State;
use crate::text::command::split_words;
use crate::text::size::Unit;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Sat Nov 21 03:07:09 2026 UTC.
const NOW: Stamp = Stamp(1_795_230_429_000);

/// A cluster from which copies are made.
#[derive(Clone)]
struct TestCluster {
    config: Arc<Config>,
    state: State,
    samples: Samples,
}

/// A job of one slot and user u1000.
fn job() -> Spec {
    Spec {
        uid: 1000,
        user: "u1000".into(),
        queue: "normal".into(),
        min: 1,
        max: 1,
        sub_host: "h1".into(),
        cwd: "/".into(),
        ..Spec::default()
    }
}

impl TestCluster {
    /// Hosts have 4 cores and 64 GB unless cb.yaml says otherwise.
    fn new(text: &str) -> TestCluster {
        let text = format!("cluster: {{name: demo, administrators: [root]}}\n{text}");
        let loaded = crate::config::load(text.as_bytes(), "cb.yaml", &OsNames::ANY)
            .unwrap_or_else(|p| panic!("{}", p[0]));
        let config = Arc::new(loaded.config);
        let (mut state, mut samples) = (State::new(), Samples::new());
        for name in config.host_names() {
            let (up, boot, t) = (true, "b".to_owned(), NOW);
            let name = name.to_owned();
            let doc = LoadDoc {
                host: name.clone(),
                executor: true,
                ncpus: 4,
                maxmem: 65_536,
                mem: 65_536.0,
                maxswp: 8192,
                swp: 8192.0,
                maxtmp: 100_000,
                tmp: 100_000.0,
                host_type: "X".into(),
                ..LoadDoc::default()
            };
            samples.insert(name.clone(), (doc, 0));
            state.apply(&Event::HostSeen { name, up, boot, t });
        }
        TestCluster {
            config,
            state,
            samples,
        }
    }

    fn submit(&mut self, spec: Spec) -> u32 {
        self.submit_array(spec, "", 0)
    }

    fn submit_array(&mut self, mut spec: Spec, array: &str, array_limit: u32) -> u32 {
        spec.res_req = crate::config::require::check_request(&spec.res_req, &self.config)
            .unwrap_or_else(|e| panic!("{e}"));
        let s = self.state.next_spec().expect("numbers are left");
        let spec = Box::new(spec);
        self.state.apply(&Event::Spec { id: s, spec });
        let id = self.state.next_id(1_000_000).expect("ids are left");
        self.state.apply(&Event::Submitted(Box::new(Submitted {
            id,
            s,
            t: Stamp(NOW.0 - 60_000),
            command: "true".into(),
            array: array.into(),
            array_limit,
            line: id,
            ..Submitted::default()
        })));
        id
    }

    /// Submits a job with a requirement.
    fn ask(&mut self, slots: u32, res_req: &str) -> u32 {
        self.submit(Spec {
            min: slots,
            max: slots,
            res_req: res_req.into(),
            ..job()
        })
    }

    fn copy(&self) -> ClusterCopy {
        let groups = BTreeMap::new();
        let (config, samples) = (self.config.clone(), self.samples.clone());
        let zone = TimeZone::UTC;
        ClusterCopy::new(self.state.clone(), config, samples, groups, zone, NOW)
    }

    /// Explains a job that must wait.
    fn explain(&self, id: u32) -> WaitingJob {
        let waiting = pending::explain(&mut self.copy(), JobKey::job(id), &mut || true);
        assert!(waiting.reason.is_some(), "job {id} starts");
        waiting
    }

    /// Enters a command of the explanation, as the leader would carry it out.
    fn type_in(&mut self, command: &str) {
        let mut words = split_words(command).expect("a good line");
        let target = words.pop().expect("a target");
        let id = || target.parse::<u32>().expect("a job");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (t, by, comment) = (NOW, "test".to_owned(), String::new());
        let event = match &words[..] {
            ["cmod", "-J", limit] => Event::Renamed {
                j: JobKey::job(id()),
                name: None,
                command: None,
                array_limit: limit.trim_start_matches('%').parse().ok(),
                by,
                t,
            },
            ["cmod", options @ ..] => return self.modify(id(), options),
            ["cresume"] => Event::Held {
                j: JobKey::job(id()),
                held: false,
                admin: false,
                by,
                t,
            },
            ["cadmin", act @ ("hopen" | "lsunlock")] => Event::Host {
                name: target,
                act: match *act {
                    "hopen" => HostAct::Open,
                    _ => HostAct::Unlock,
                },
                by,
                comment,
                t,
            },
            ["cadmin", "qact"] => Event::Queue {
                name: target,
                act: QueueAct::Activate,
                by,
                comment,
                t,
            },
            other => panic!("what is {other:?}?"),
        };
        self.state.apply(&event);
    }

    fn modify(&mut self, id: u32, options: &[&str]) {
        let parse_context = ParseContext {
            now_ms: NOW.0,
            cwd: Path::new("/"),
            umask: 0,
            host: "h1",
            default_queue: "",
            default_project: "",
            unit: &|| Unit::M,
        };
        let words: Vec<String> = options.iter().map(|w| (*w).to_owned()).collect();
        let changes = cmod::changes_of_words(&words, &parse_context).expect("good options");
        let old = self.state.spec_of(id).expect("a job").clone();
        let owner = self.copy().owner(&old);
        let spec = intake::modify(&old, &changes, &owner, &self.config, &self.state, NOW)
            .unwrap_or_else(|e| panic!("{}", e.text));
        let s = self.state.next_spec().expect("numbers are left");
        let spec = Box::new(spec);
        self.state.apply(&Event::Spec { id: s, spec });
        let (j, by, what) = (JobKey::job(id), "test".to_owned(), String::new());
        self.state.apply(&Event::Changed {
            j,
            s,
            by,
            what,
            t: NOW,
        });
    }

    /// Checks that the explanation has `verdict` and offers `command`, which starts the job.
    fn check(mut self, id: u32, verdict: &str, command: &str) -> WaitingJob {
        let waiting = self.explain(id);
        let output = text::verdict(&waiting);
        assert!(output.contains(verdict), "{output}");
        let offered: Vec<String> = waiting
            .helpful_changes
            .iter()
            .map(|help| help.candidate.command(id))
            .collect();
        let Some(at) = offered.iter().position(|c| c == command) else {
            panic!("{command} is not in {offered:#?}");
        };
        let effect = &waiting.helpful_changes[at].effect;
        assert!(matches!(effect, HelpEffect::Starts(_)), "{effect:?}");
        self.type_in(command);
        let copy = self.copy();
        let job = copy.state.job(id).expect("a job");
        let started = match job.array() {
            Some(array) => array.started() > self.started_elements(id),
            None => copy.state.stat(JobKey::job(id)) == Some(JobStat::Run),
        };
        assert!(started, "it does not start after {command}");
        waiting
    }

    fn started_elements(&self, id: u32) -> u32 {
        let array = self.state.job(id).and_then(|job| job.array());
        array.map_or(0, |array| array.started())
    }
}

fn limited(run_s: u64, spec: Spec) -> Spec {
    Spec {
        limits: Limits {
            run_s: Some(run_s),
            ..Limits::default()
        },
        ..spec
    }
}
