//! The simulator's own tests, and a few seeds of it as a test of the daemons.

use super::cli::run_seeds;
use super::plan::{CallPattern, Focus, Role, ScriptedFault, Trigger, Variant};
use super::*;
use crate::sys::clock;

fn options(seed: u64, variant: Variant) -> Options {
    Options {
        seed,
        variant,
        ..Options::default()
    }
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn one_seed_is_one_run() {
    let small = Options {
        steps: 600,
        ..options(5, Variant::D11)
    };
    let (a, b) = (run(&small, true), run(&small, true));
    assert!(!a.log.is_empty() && a.figures.takeovers > 0);
    assert_eq!(a, b);
    let quiet = run(&small, false);
    assert_eq!(quiet.digest, a.digest, "a trace must not change the run");
}

/// Runs CB_SIM_SEEDS seeds from CB_SIM_SEED on; a failing one is shown with the command that shows
/// more.
#[test]
fn the_daemons_keep_their_promises() {
    let (seeds, from) = (number("CB_SIM_SEEDS", 2), number("CB_SIM_SEED", 1));
    let began = clock::boot_ms();
    let threads = number("CB_SIM_THREADS", 2) as usize;
    let focus = std::env::var("CB_SIM_FOCUS").unwrap_or_default();
    let options = Options {
        focus: Focus::parse(&focus),
        ..options(from, Variant::D11)
    };
    let until_broken = number("CB_SIM_UNTIL_BROKEN", 0) > 0;
    let all = run_seeds(&options, seeds, threads, until_broken);
    let ms = (clock::boot_ms() - began).max(1);
    println!(
        "{seeds} seeds in {ms} ms: {:.1} seeds/s, {} changes of leader, {} jobs",
        seeds as f64 * 1000.0 / ms as f64,
        all.figures.takeovers,
        all.figures.acked
    );
    let shown: Vec<String> = all
        .failed
        .iter()
        .map(|(seed, text)| format!("cbsim faults --seed {seed} --trace: {text}"))
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert!(all.figures.takeovers > seeds && all.figures.acked > 0);
}

/// Seeds that once broke a promise, before the fix; docs/faults.md describes each. Later changes of
/// the simulator have changed what these numbers produce: they are kept like any other seeds.
#[test]
#[ignore = "a second for each seed: a step of its own in sbin/check, beside the other seeds"]
fn seeds_that_once_failed_pass() {
    let kept = include_str!("seeds").lines();
    for line in kept.filter(|line| !line.starts_with('#')) {
        let word = line.split_whitespace().next().unwrap_or_default();
        let (seed, focus) = word.split_once('/').unwrap_or((word, ""));
        let seed = seed.parse().expect("a line of the file begins with a seed");
        let options = Options {
            focus: Focus::parse(focus),
            ..options(seed, Variant::D11)
        };
        assert_eq!(options.focus.is_some(), !focus.is_empty(), "{line}");
        let outcome = run(&options, false);
        assert_eq!(outcome.broken, Vec::<String>::new(), "seed {seed}");
    }
}

/// Each weaker protocol breaks a promise within 2,000 seeds.
#[test]
#[ignore = "minutes: up to 2,000 seeds for each of eight protocols"]
fn every_weaker_protocol_is_caught() {
    for (name, variant) in Variant::ALL {
        if *variant == Variant::D11 {
            continue;
        }
        let all = run_seeds(&options(1, *variant), 2000, 2, true);
        let (seed, text) = all.failed.first_key_value().expect(name);
        println!("{name}: seed {seed}: {text}");
    }
}

/// Runs a script on the protocol in use with few hosts.
fn play(
    seed: u64,
    script: Vec<(Trigger, Vec<ScriptedFault>)>,
    change: impl Fn(&mut plan::Plan),
) -> Outcome {
    play_variant(options(seed, Variant::D11), script, change)
}

fn play_variant(
    options: Options,
    script: Vec<(Trigger, Vec<ScriptedFault>)>,
    change: impl Fn(&mut plan::Plan),
) -> Outcome {
    let options = Options {
        steps: 900,
        hosts: 3,
        clients: 2,
        ..options
    };
    let mut plan = plan::Plan::scripted(&options, script.into());
    change(&mut plan);
    run_plan(&options, plan, std::env::var_os("CB_SIM_TRACE").is_some())
}

fn kept(outcome: &Outcome) {
    outcome.log.iter().for_each(|line| println!("{line}"));
    assert_eq!(
        outcome.broken,
        Vec::<String>::new(),
        "seed {}",
        outcome.seed
    );
    assert!(outcome.figures.acked > 0 && outcome.figures.starts > 0);
}

const JOURNAL: CallPattern = ("fsync", "/journal.");

/// A candidate that waits for caches to expire does not beat: others must grant it that time in
/// addition to T.
#[test]
fn candidates_do_not_claim_over_each_others_heads() {
    for seed in 1..4 {
        let outcome = play(seed, Vec::new(), |plan| plan.cache_wait_ms = 5000);
        kept(&outcome);
        assert_eq!(outcome.figures.takeovers, 1);
    }
}

/// Two candidates both believe that they hold the lock of the election: the one that lost it gives
/// it up.
#[test]
fn a_lock_that_was_lost_counts_for_nothing() {
    for seed in 1..4 {
        let claimed = Trigger::Call(Role::Leader, ("write", "leader/epoch"));
        let script = vec![(claimed, vec![ScriptedFault::ForgetLocks])];
        kept(&play(seed, script, |_| {}));
    }
}

/// What a new leader seals is made durable first: its predecessor was killed before its sync.
#[test]
fn what_is_sealed_is_not_lost_with_the_server() {
    for seed in 1..6 {
        let script = vec![
            (Trigger::Recovered, vec![]),
            (Trigger::After(3000), vec![]),
            (
                Trigger::Call(Role::Leader, JOURNAL),
                vec![ScriptedFault::Perish(200)],
            ),
            (Trigger::Recovered, vec![]),
            (Trigger::After(200), vec![ScriptedFault::Restart(500)]),
            (
                Trigger::Call(Role::Leader, JOURNAL),
                vec![ScriptedFault::Kill],
            ),
        ];
        kept(&play(seed, script, |plan| plan.caches.write_back_ms = 50));
    }
}

/// A host announces reports with early beats; it must not be silent for longer afterwards.
#[test]
fn a_host_without_faults_beats_regularly() {
    for seed in 1..4 {
        let outcome = play(seed, Vec::new(), |_| {});
        kept(&outcome);
        let (pause, most) = (outcome.longest_silence_ms, crate::host::ls::EVERY_MS + 500);
        assert!((1000..most).contains(&pause), "{pause} ms");
    }
}

/// A host that lost power forgets starts that were not synced yet: it must not report that they
/// never happened.
#[test]
fn a_start_that_power_loss_wiped_out_is_not_denied() {
    for seed in 1..6 {
        let script = vec![
            (Trigger::Started, vec![ScriptedFault::PowerOff(3000)]),
            (Trigger::Started, vec![ScriptedFault::PowerOff(3000)]),
        ];
        kept(&play(seed, script, |_| {}));
    }
}

/// Answers and orders are synced: a kernel may keep written data for half a minute.
#[test]
fn answers_do_not_wait_for_the_kernel_to_write_back() {
    for seed in 1..4 {
        let outcome = play(seed, Vec::new(), |_| {});
        kept(&outcome);
        assert!(outcome.longest_ms < 2000, "{} ms", outcome.longest_ms);
    }
}

/// A leader is stopped in the middle of a commit and wakes up, together with the readers of its
/// files, when another one leads. A leader that checked the epoch before that continues to publish
/// (d7, d12); with the protocol in use it does not.
#[test]
fn a_leader_overtaken_in_the_middle_of_a_commit_says_nothing() {
    for spot in [APPEND, JOURNAL] {
        for seed in 1..6 {
            let outcome = play(seed, overtaken(spot), |_| {});
            kept(&outcome);
            assert!(outcome.figures.takeovers >= 2);
        }
    }
}

/// The same run with d7 and d12. Which seeds fail changes with every file operation that is added.
#[test]
#[ignore = "seeds are tried until one breaks; sbin/check --slow"]
fn a_leader_overtaken_in_the_middle_of_a_commit_speaks_on_under_weaker_protocols() {
    for variant in [Variant::D7, Variant::D12] {
        let breaks = |seed| {
            let weak = play_variant(options(seed, variant), overtaken(APPEND), |_| {});
            !weak.broken.is_empty()
        };
        assert!((1..2000).any(breaks), "{} holds", variant.name());
    }
}

const APPEND: CallPattern = ("append", "/journal.");

fn overtaken(spot: CallPattern) -> Vec<(Trigger, Vec<ScriptedFault>)> {
    vec![
        (Trigger::Recovered, vec![]),
        (Trigger::After(2000), vec![]),
        (
            Trigger::Call(Role::Leader, spot),
            vec![ScriptedFault::Stop(12_000)],
        ),
    ]
}

/// Power is lost everywhere after each writing operation, with none, all or parts of the unsynced
/// data: some leader must be able to recover, and with everything that was ever acknowledged.
#[test]
fn every_crash_image_is_recovered_from() {
    let (from, seeds) = (number("CB_SIM_SEED", 1), number("CB_SIM_IMAGE_SEEDS", 1));
    let mut images = 0;
    for seed in from..from + seeds {
        let options = Options {
            steps: 700,
            hosts: 3,
            ..options(seed, Variant::D11)
        };
        let mut plan = plan::Plan::of(&options);
        plan.restore = false;
        let mut cluster = Cluster::new(plan);
        cluster.crash_points = Some(Vec::new());
        let (doc, points) = run_cluster(seed, cluster, false, |inner| {
            let cluster = &mut inner.cluster;
            (cluster.doc.take(), cluster.crash_points.take())
        });
        let cluster = doc.expect("a cluster").cluster;
        let points = points.unwrap_or_default();
        let mut rng = kernel::random_numbers(seed);
        for (n, point) in points.iter().enumerate() {
            let (judged, wrong) = crash_images::judge_all(point, &cluster, &mut rng);
            images += judged;
            assert!(
                wrong.is_empty(),
                "seed {seed}, after operation {n}: {wrong:?}"
            );
        }
    }
    println!("{images} crash images");
    assert!(images > 1000);
}

/// The cost of separate short jobs for the file server, by kind of file, in calls per job: a change
/// that adds a call to the path of a job shows here. Polls and what an idle cluster does are
/// excluded; the rest does not depend on the machine.
#[test]
fn a_separate_job_takes_few_calls_on_the_share() {
    let options = Options {
        steps: 1_500,
        leaders: 1,
        hosts: 2,
        clients: 1,
        ..options(3, Variant::D11)
    };
    let mut plan = plan::Plan::scripted(&options, Vec::new().into());
    (
        plan.workload.requests,
        plan.workload.task_ms,
        plan.workload.wide,
        plan.workload.actions,
    ) = (24, 20, 0, 0);
    (plan.sizes.slots, plan.snapshot_bytes, plan.segment_bytes) = (4, 1 << 30, 1 << 20);
    let outcome = run_plan(&options, plan, true);
    assert_eq!(outcome.broken, Vec::<String>::new());
    let jobs = outcome.figures.acked as f64;
    let calls = |what: &str, path: &str| {
        let of = |line: &&String| {
            let mut words = line.split_whitespace().skip_while(|word| *word != what);
            words.next().is_some() && words.next().is_some_and(|at| at.contains(path))
        };
        outcome.log.iter().filter(of).count() as f64 / jobs
    };
    // Includes what the cluster does once, at its start and end.
    for (what, path, most) in [
        ("fsync", "/journal.", 3.4),
        ("fsync", "/acks", 1.3),
        ("fsync", "/orders.", 2.2),
        ("fsync", "/reports.", 1.5),
        ("fsync", "view/", 2.8),
        ("open", "/reports.", 0.8),
        ("open", "/orders.", 0.8),
        ("open", "leader/epoch", 9.0),
        ("open", "blob", 0.7),
        ("open", "inbox/", 1.3),
        ("create", "inbox/", 1.3),
        ("unlink", "inbox/", 1.3),
    ] {
        let found = calls(what, path);
        println!("{what} {path}: {found:.2} for a job, at most {most}");
        assert!(
            found > 0.0 && found <= most,
            "{what} {path}: {found:.2} for a job"
        );
    }
}
