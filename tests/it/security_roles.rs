//! A sample of the role table through real commands (S18, S19); the whole of it is held against
//! the code in `turn::tests::roles`.

use crate::cluster::text;
use crate::security::{Account, Case, Site};

pub const CASES: &[Case] = &[
    ("S18 another user's jobs", others_jobs),
    ("S18 an administrator's stop", administrators_stop),
    ("S19 administrators act in their reach", reach),
    ("S18 the cluster", of_the_cluster),
    ("users ask when their jobs start", when_jobs_start),
];

fn denied(site: &Site, who: &Account, name: &str, args: &[&str]) {
    let out = site.run(who, name, args);
    let output = text(&out);
    assert!(
        !out.status.success(),
        "{} {name} {args:?}: {output}",
        who.name
    );
    assert!(
        output.to_lowercase().contains("permission denied"),
        "{} {name} {args:?}: {output}",
        who.name
    );
}

fn held(site: &Site, who: &Account) -> String {
    site.csub(who, &["-H", "-o", "/dev/null", "true"])
        .to_string()
}

fn others_jobs(site: &Site) {
    let id = held(site, &site.alice);
    let id = id.as_str();
    let verbs: &[(&str, &[&str])] = &[
        ("ckill", &[id]),
        ("ckill", &["-r", id]),
        ("ckill", &["-s", "USR1", id]),
        ("cstop", &[id]),
        ("cresume", &[id]),
        ("cswitch", &["other", id]),
        ("cmod", &["-sp", "5", id]),
        ("cmod", &["-Z", "evil", id]),
        ("ctop", &[id]),
        ("cbot", &[id]),
        ("crun", &["-m", "h1", id]),
    ];
    for (name, args) in verbs {
        denied(site, &site.bob, name, args);
    }
    let all = site.run(&site.bob, "ckill", &["-u", "all", "0"]);
    let state = site.cluster.states()[&(id.parse().unwrap(), 0)].clone();
    assert_eq!(state, "PSUSP", "{}", text(&all));
    site.ok(&site.alice, "ckill", &[id]);
}

/// The journal is not theirs to read; what is published of their jobs is.
fn when_jobs_start(site: &Site) {
    let id = held(site, &site.alice);
    let out = site.run(&site.alice, "cbsim", &["when", &id]);
    let output = text(&out);
    assert_eq!(out.status.code(), Some(1), "{output}");
    assert!(
        output.contains(&format!("{id} has no reservation; it waits")),
        "{output}"
    );
    assert!(output.contains("ask one for 'cbsim when JOB'"), "{output}");
    let out = site.run(&site.alice, "cbsim", &["when", "99999"]);
    assert!(
        text(&out).contains("job 99999 does not wait or run"),
        "{}",
        text(&out)
    );
    site.ok(&site.alice, "ckill", &[&id]);
}

fn administrators_stop(site: &Site) {
    let id = held(site, &site.alice);
    site.ok(&site.alice, "cresume", &[&id]);
    site.ended(id.parse().unwrap());
    let script = ["-o", "/dev/null", "sleep 600"];
    let id = site.csub(&site.alice, &script);
    let is = |state: &'static str| {
        let get = move || site.cluster.states().get(&(id, 0)).cloned();
        site.until(state, || get().is_some_and(|s| s == state));
    };
    is("RUN");
    let id = id.to_string();
    site.ok(&site.group_admin, "cstop", &[&id]);
    is("USUSP");
    denied(site, &site.alice, "cresume", &[&id]);
    site.ok(&site.cluster_admin, "cresume", &[&id]);
    is("RUN");
    site.ok(&site.alice, "ckill", &[&id]);
}

fn reach(site: &Site) {
    let (alices, bobs) = (held(site, &site.alice), held(site, &site.bob));
    denied(site, &site.group_admin, "ckill", &[&bobs]);
    denied(site, &site.group_admin, "cmod", &["-Z", "evil", &alices]);
    denied(
        site,
        &site.cluster_admin,
        "cmod",
        &["-o", "/tmp/evil", &alices],
    );
    denied(site, &site.group_admin, "crun", &["-m", "h1", &alices]);
    site.ok(&site.group_admin, "cmod", &["-sp", "5", &alices]);
    site.ok(&site.group_admin, "ckill", &[&alices]);
    let elsewhere = site.csub(&site.bob, &["-H", "-q", "other", "-o", "/dev/null", "true"]);
    let elsewhere = elsewhere.to_string();
    denied(site, &site.queue_admin, "ckill", &[&elsewhere]);
    site.ok(&site.queue_admin, "ckill", &[&bobs]);
    site.ok(&site.cluster_admin, "ckill", &[&elsewhere]);
    site.ok(&site.queue_admin, "cadmin", &["qclose", "normal"]);
    site.ok(&site.queue_admin, "cadmin", &["qopen", "normal"]);
    denied(site, &site.queue_admin, "cadmin", &["qclose", "other"]);
}

fn of_the_cluster(site: &Site) {
    for who in [&site.alice, &site.group_admin, &site.queue_admin] {
        denied(site, who, "cadmin", &["reconfig"]);
        denied(site, who, "cadmin", &["hclose", "h1"]);
        denied(site, who, "cadmin", &["hlost", "--confirm", "h1"]);
    }
    site.ok(&site.cluster_admin, "cadmin", &["hclose", "h1"]);
    site.ok(&site.cluster_admin, "cadmin", &["hopen", "h1"]);
}
