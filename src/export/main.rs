//! `cb-export`: events, accounting records and load of a cluster to Elasticsearch.
//!
//! Owns the command line. Reads the shared directory like the commands and never writes there; its
//! own state is in a separate directory. Only this program links HTTP and TLS for this purpose.

// Unit tests make their own files and servers; the code they test may not.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod bulk;
mod deliver;
mod documents;
mod http;
mod run;
mod settings;
mod state;
mod templates;
#[cfg(test)]
mod tests;

use clap::Parser;
use corral::api::events;
use corral::program;
use corral::spool::Site;
use corral::sys;
use http::{Client, success};
use run::{ExportRun, RunEnd};
use settings::Settings;
use state::State;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exports events, accounting records and load of a Corral cluster to Elasticsearch
#[derive(Parser)]
#[command(name = "cb-export", version)]
#[command(after_help = "Examples:\n  \
    cb-export --templates  # installs the index templates on the server, once\n  \
    cb-export --check      # checks settings, login, templates, position\n  \
    cb-export              # exports until a signal ends it (as a service: etc/systemd)\n  \
    cb-export --once       # exports everything up to now, for cron\n  \
    cb-export --dry-run    # prints what would be sent")]
struct Options {
    /// Settings [export.yaml beside cb.yaml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Send everything up to now and exit
    #[arg(long, group = "act")]
    once: bool,
    /// Check the settings and the server, show the position of the export; send nothing
    #[arg(long, group = "act")]
    check: bool,
    /// Print the bulk requests on standard output; send and store nothing
    #[arg(long, group = "act")]
    dry_run: bool,
    /// Install the index templates on the server
    #[arg(long, group = "act")]
    templates: bool,
    /// Print the index templates as JSON, one per line after its name
    #[arg(long, group = "act")]
    print_templates: bool,
}

fn main() -> ExitCode {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let options: Options = match program::options(&argv) {
        Ok(options) => options,
        Err(code) => return ExitCode::from(code),
    };
    sys::logging::start("info");
    match run_export(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(RunEnd::Stopped) => ExitCode::SUCCESS,
        Err(RunEnd::Failed(text)) => {
            program::print_error(&format!("cb-export: {text}"));
            ExitCode::FAILURE
        }
    }
}

fn run_export(options: &Options) -> Result<(), RunEnd> {
    let site = Site::find().map_err(|e| e.to_string())?;
    let path = match &options.config {
        Some(path) => path.clone(),
        None => settings::default_path(&site),
    };
    let settings = Settings::read(&path, &site)?;
    if options.print_templates {
        return print_templates(&settings.prefix);
    }
    if options.templates {
        let mut client = Client::new(&settings.connection)?;
        templates::put(&mut client, &settings.prefix)?;
        program::answer(&format!(
            "index templates are installed on {}",
            client.url()
        ));
        return Ok(());
    }
    let cluster = events::identity(&site).map_err(|e| e.to_string())?;
    if !events::may_see_all(&site).map_err(|e| e.to_string())? {
        return Err(RunEnd::Failed(
            "this account sees only its own jobs (general: user_view_alljobs in cb.yaml)\nhint: \
             run it as root, as the owner of the shared directory or as an administrator"
                .to_owned(),
        ));
    }
    let job = ExportRun {
        site,
        cluster,
        settings,
        once: options.once,
    };
    if options.check {
        return check(&job);
    }
    if options.dry_run {
        sys::signals::default_sigpipe();
        return dry_run(&job);
    }
    sys::signals::catch_term().map_err(|e| e.to_string())?;
    run::run(job)
}

fn print_templates(prefix: &str) -> Result<(), RunEnd> {
    for (kind, template) in templates::ALL {
        let text = templates::text(prefix, kind, template);
        let doc: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| format!("template of {kind}: {e}"))?;
        put(&format!("{} {doc}\n", templates::name(prefix, kind)))?;
    }
    Ok(())
}

fn check(job: &ExportRun) -> Result<(), RunEnd> {
    let mut client = Client::new(&job.settings.connection)?;
    let answer = client.get("/")?;
    let body = success("cannot identify the server", answer)?;
    let about: serde_json::Value = serde_json::from_slice(&body)
        .map_err(|e| format!("{}: not an answer of Elasticsearch: {e}", client.url()))?;
    let text = |v: &serde_json::Value| v.as_str().unwrap_or("?").to_owned();
    let state = job.state()?;
    let at = match state.events.as_str() {
        "" => "nothing was sent yet".to_owned(),
        at => format!("events up to {at} are sent"),
    };
    print(&format!(
        "cluster    {} ({})\nserver     {}, cluster {}, version {}\nposition   {at} ({})\n",
        job.cluster.name,
        job.cluster.id,
        client.url(),
        text(&about["cluster_name"]),
        text(&about["version"]["number"]),
        job.settings.state_dir.display(),
    ))?;
    let missing = templates::missing(&mut client, &job.settings.prefix)?;
    let message = match missing.as_deref() {
        None => "the server does not show them to this login",
        Some([]) => "all installed",
        Some(names) => {
            return Err(RunEnd::Failed(format!(
                "the server has no index template {}\nhint: cb-export --templates",
                names.join(", ")
            )));
        }
    };
    print(&format!("templates  {message}\n"))
}

fn dry_run(job: &ExportRun) -> Result<(), RunEnd> {
    let (s, naming) = (&job.settings, job.naming());
    let state: State = job.state()?;
    let (mut events, mut accounting) = job.followers(&state)?;
    let print = |documents: Vec<bulk::Document>| {
        let all: Vec<&bulk::Document> = documents.iter().collect();
        put(&bulk::encode(&all))
    };
    if s.kinds.hosts {
        let rows = corral::api::hosts::samples(&job.site).map_err(|e| e.to_string())?;
        let every = i64::try_from(s.load_interval_s * 1000).unwrap_or(i64::MAX);
        let moment = sys::clock::wall_ms() / every * every;
        print(rows.iter().map(|h| naming.sample(h, moment)).collect())?;
    }
    let mut more = s.kinds.events;
    while more {
        let batch = events.next_events(s.batch_documents, s.batch_bytes);
        let batch = batch.map_err(|e| e.to_string())?;
        batch
            .problems
            .iter()
            .for_each(|text| program::print_error(&format!("cb-export: warning: {text}")));
        print(batch.events.iter().map(|e| naming.event(e)).collect())?;
        more = batch.more;
    }
    more = s.kinds.accounting;
    while more {
        let batch = accounting.next_records(s.batch_documents, s.batch_bytes);
        let batch = batch.map_err(|e| e.to_string())?;
        batch
            .problems
            .iter()
            .for_each(|text| program::print_error(&format!("cb-export: warning: {text}")));
        print(batch.records.iter().map(|r| naming.record(r)).collect())?;
        more = batch.more;
    }
    Ok(())
}

/// Prints a text for a person.
fn print(text: &str) -> Result<(), RunEnd> {
    put(&program::language().translate(text))
}

fn put(text: &str) -> Result<(), RunEnd> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|e| RunEnd::Failed(format!("cannot write the output: {}", sys::reason(&e))))
}
