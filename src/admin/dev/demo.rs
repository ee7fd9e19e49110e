//! `cadmin dev demo`: a demonstration for new users. Submits an array, a job that depends on it and
//! a parallel job with the same commands that the user will use, and shows their progress.

use super::progress::ProgressLines;
use super::site::Site;
use crate::client::Fail;
use crate::language::{answer, translated};
use crate::spool::view::{JobSet, ViewReader};
use crate::sys::{clock, fs, reason};
use crate::text::width::pad_left;
use std::path::Path;
use std::process::Command;

const POLL_MS: u64 = 200;
/// The demonstration takes seconds; if it takes longer than this, something is wrong.
const TIMEOUT_MS: u64 = 300_000;
const ELEMENTS: u32 = 40;
/// Width of a job's label before its bar.
const LABEL_COLUMNS: usize = 16;
/// Commands to try next, and their effects.
const EXAMPLES: &[(&str, &str)] = &[
    ("csub -n 2 'hostname; sleep 60'", "submit a job"),
    ("cjobs", "see your jobs"),
    ("chosts; cqueues; cload", "see the cluster"),
    ("chist -l", "see what happened"),
    ("ckill 0", "end all your jobs"),
];

/// One submitted job of the demonstration.
struct DemoJob {
    id: u32,
    elements: u32,
    /// The number of its line of progress.
    line: usize,
    end_reported: bool,
}

/// Submits jobs, shows their progress and what to type next.
///
/// # Errors
/// A submission is refused, or a job fails or takes far too long.
pub(super) fn demo(site: &Site) -> Result<(), Fail> {
    let work = site.dir.join("demo");
    fs::mkdir_p(&work, 0o755)?;
    let mut shown = Vec::new();
    for (label, elements, words) in jobs(site) {
        let id = submit(site, &work, &words)?;
        shown.push((label, id, elements));
    }
    println!();
    let mut progress = ProgressLines::new();
    let mut shown: Vec<DemoJob> = shown
        .into_iter()
        .map(|(label, id, elements)| show(&mut progress, label, id, elements))
        .collect();
    let failed = follow_jobs(site, &mut shown, &mut progress)?;
    println!();
    if failed > 0 {
        return Err(Fail::system(format!(
            "{failed} jobs of the demonstration failed\nhint: see `chist -l` and {}",
            work.display()
        )));
    }
    next_steps(site, &work);
    Ok(())
}

/// Label, number of elements, and command line of each submission.
fn jobs(site: &Site) -> Vec<(&'static str, u32, Vec<String>)> {
    let wide = (site.settings.hosts * site.settings.slots / 2).max(1);
    let text = |words: &[&str]| words.iter().map(|w| w.to_string()).collect::<Vec<String>>();
    let squeeze =
        "seq 1 150000 > in.$LSB_JOBINDEX && gzip -9 -c in.$LSB_JOBINDEX > out.$LSB_JOBINDEX.gz";
    let verify = format!(
        "for i in $(seq 1 {ELEMENTS}); do gzip -dc out.$i.gz | cmp - in.$i || exit 1; done; \
         echo all {ELEMENTS} files are sound"
    );
    let array = format!("squeeze[1-{ELEMENTS}]");
    vec![
        (
            "array",
            ELEMENTS,
            text(&["-J", &array, "-oo", "squeeze.%I.log", squeeze]),
        ),
        (
            "dependent",
            1,
            text(&[
                "-J",
                "verify",
                "-w",
                "done(squeeze)",
                "-oo",
                "verify.log",
                &verify,
            ]),
        ),
        (
            "parallel",
            1,
            text(&[
                "-J",
                "wide",
                "-n",
                &wide.to_string(),
                "-oo",
                "wide.log",
                "echo $LSB_MCPU_HOSTS; sleep 3",
            ]),
        ),
    ]
}

/// Runs csub as a user would, and prints the command and its output.
fn submit(site: &Site, work: &Path, words: &[String]) -> Result<u32, Fail> {
    println!(
        "$ csub {}",
        words
            .iter()
            .map(|w| quoted(w))
            .collect::<Vec<_>>()
            .join(" ")
    );
    let csub = site.bin().join("csub");
    let output = Command::new(&csub)
        .args(words)
        .env("CB_ENVDIR", site.etc())
        .env_remove("CB_HOST")
        .current_dir(work)
        .output()
        .map_err(|e| Fail::system(format!("cannot run {}: {}", csub.display(), reason(&e))))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{stdout}");
    let id = stdout
        .strip_prefix("Job <")
        .and_then(|rest| rest.split('>').next()?.parse().ok());
    id.filter(|_| output.status.success()).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        Fail::system(format!(
            "csub failed ({}): {}",
            output.status,
            errors.trim_end()
        ))
    })
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./%".contains(c);
    if word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{word}'")
    }
}

fn show(progress: &mut ProgressLines, label: &str, id: u32, elements: u32) -> DemoJob {
    let label = format!("{} {id}", translated(label));
    let line = progress.add(pad_left(&label, LABEL_COLUMNS), elements);
    progress.set(line, 0, translated("pending").into_owned());
    DemoJob {
        id,
        elements,
        line,
        end_reported: false,
    }
}

/// Numbers of started, ended and failed elements of one job, from the view.
#[derive(Default)]
struct ElementCounts {
    started: u32,
    ended: u32,
    failed: u32,
}

/// Follows the jobs to their ends; returns how many elements failed.
fn follow_jobs(
    site: &Site,
    shown: &mut [DemoJob],
    progress: &mut ProgressLines,
) -> Result<u32, Fail> {
    let reader = ViewReader::new(&site.layout());
    let end = clock::boot_ms() + TIMEOUT_MS;
    loop {
        let (mut open, mut failed) = (0, 0);
        for one in shown.iter_mut() {
            let count = count(&reader, one)?;
            failed += count.failed;
            let ended = count.ended >= one.elements;
            open += u32::from(!ended);
            let running = count.started - count.ended;
            let state = match (ended, count.failed, running) {
                (true, 0, _) => "done".to_string(),
                (_, n, _) if n > 0 => format!("{n} failed"),
                (_, _, 0) => "pending".to_string(),
                (_, _, n) => format!("{n} running"),
            };
            progress.set(one.line, count.ended, translated(&state).into_owned());
            if ended && !one.end_reported && progress.is_hidden() {
                one.end_reported = true;
                answer!(
                    "Job <{}>: {} of {} ended",
                    one.id,
                    count.ended,
                    one.elements
                );
            }
        }
        progress.draw();
        if open == 0 {
            return Ok(failed);
        }
        if clock::boot_ms() > end {
            return Err(Fail::system(format!(
                "{open} jobs of the demonstration have not ended after {} s\nhint: `cjobs -p`",
                TIMEOUT_MS / 1000
            )));
        }
        clock::sleep_ms(POLL_MS);
    }
}

fn count(reader: &ViewReader, one: &DemoJob) -> Result<ElementCounts, Fail> {
    let want = JobSet {
        ids: vec![(one.id, one.id)],
        finished: true,
        ..JobSet::default()
    };
    let (jobs, _) = reader
        .collect(&want)
        .map_err(|e| Fail::system(e.to_string()))?;
    let mut count = ElementCounts::default();
    for job in jobs.iter().filter(|j| j.row.arr.is_none()) {
        count.started += u32::from(job.row.start > 0 || job.row.stat.is_finished());
        count.ended += u32::from(job.row.stat.is_finished());
        count.failed += u32::from(job.row.stat == crate::model::JobStat::Exit);
    }
    Ok(count)
}

fn next_steps(site: &Site, work: &Path) {
    let (cb, dir) = (site.bin().join("cadmin"), site.dir.display());
    let (cb, work) = (cb.display(), work.display());
    answer!("All done; the outputs are in {work}.");
    answer!("The cluster stays up. To use it in this shell:");
    println!("\n  eval \"$({cb} dev env --dir {dir})\"\n");
    answer!("then for example:");
    println!();
    for (command, what) in EXAMPLES {
        println!("  {command:<34} {}", translated(what));
    }
    println!();
    answer!("End the cluster:  {cb} dev down --dir {dir} --purge");
}
