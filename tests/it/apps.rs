//! Applications on a real cluster: a profile, a template, and the commands that show them.

use crate::cluster::{Cluster, text};
use crate::patience::until_or;
use crate::policies;
use serde_json::Value;

/// Puts these lines at the end of the cluster's cb.yaml and has them obeyed.
fn reconfigure(cluster: &Cluster, more: &str) {
    let path = cluster.share().join("conf/cb.yaml");
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{before}\n{more}")).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
}

fn refused(cluster: &Cluster, args: &[&str], code: i32, why: &str) {
    let out = cluster.run("csub", args);
    assert_eq!(out.status.code(), Some(code), "{args:?}: {}", text(&out));
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(stderr.contains(why), "{args:?}: {stderr}");
}

fn done(cluster: &Cluster, id: u32) {
    cluster.wait(|states| states.get(&(id, 0)).is_some_and(|stat| stat == "DONE"));
}

/// Commands show the application of the job, and select by it.
fn shown(cluster: &Cluster, id: u32) {
    let page = |command: &str| {
        let page = cluster.ok(command, &["-l", &id.to_string()]);
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for command in ["cjobs", "chist"] {
        let page = page(command);
        assert!(page.contains("Application <cfd>"), "{command}: {page}");
    }
    let of_app = ["-a", "-noheader", "-o", "id app", "-app", "cf*"];
    assert_eq!(
        cluster
            .ok("cjobs", &of_app)
            .split_whitespace()
            .collect::<Vec<_>>(),
        [id.to_string(), "cfd".to_owned()]
    );
    let none = cluster.run("cjobs", &["-a", "-noheader", "-app", "plain"]);
    assert!(none.stdout.is_empty(), "{}", text(&none));
    let json = cluster.ok("cjobs", &["--json", &id.to_string()]);
    let json: Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(json["app"], "cfd");
    // Accounting is written a little after the end.
    let by_app = || cluster.ok("cacct", &["-by", "app"]);
    until_or(|| by_app().contains("\ncfd "), by_app);
}

#[test]
fn a_template_makes_a_job_that_counts_as_its_application() {
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let hooks = cluster.work().join("hooks");
    let profiles = format!(
        "apps:\n- {{name: cfd, description: flow, run_limit: 10 20, job_slots: 1 2 3,\n\
         \x20  pre_exec: 'echo before >> {}', job_starter: 'env STARTED=yes'}}\n\
         - {{name: plain}}\n",
        hooks.display()
    );
    reconfigure(&cluster, &profiles);
    let dir = cluster.share().join("conf/apps.d");
    assert!(
        dir.join("fluent.yaml").exists(),
        "the shipped ones are there"
    );
    let form = "name: flow\nlabel: Flow\nprofile: cfd\nparams:\n\
        - {name: CASE, type: file, label: Case}\n- {name: N, type: int, default: 2, max: 3}\n\
        options:\n- n: ${N}\n- o: out\n- 'no-report': yes\nargs: yes\ninclude: lib.sh\n\
        script: |\n  #!/bin/sh\n  eval \"set -- $CB_APP_ARGS\"\n  say \"$CB_APP_CASE\" \"$@\"\n";
    std::fs::write(dir.join("flow.yaml"), form).unwrap();
    let lib = "say() { printf '<%s>' \"$@\"; echo \"$LSB_DJOB_NUMPROC $STARTED\"; }\n";
    std::fs::write(dir.join("lib.sh"), lib).unwrap();
    std::fs::write(cluster.work().join("a 'b'.cas"), "x").unwrap();

    let args = [
        "-app",
        "flow",
        "CASE=a 'b'.cas",
        "x;touch injected",
        "$(id)",
    ];
    let id = cluster.csub(&args);
    done(&cluster, id);
    let case = cluster.work().join("a 'b'.cas");
    let out = std::fs::read_to_string(cluster.work().join("out")).unwrap();
    let want = format!("<{}><x;touch injected><$(id)>2 yes\n", case.display());
    assert_eq!(out, want);
    assert!(!cluster.work().join("injected").exists());
    assert_eq!(std::fs::read_to_string(hooks).unwrap(), "before\n");

    shown(&cluster, id);
    refused(
        &cluster,
        &["-app", "flow", "N=9", "CASE=none"],
        2,
        "N: 9 is above 3",
    );
    refused(
        &cluster,
        &["-app", "flow", "-W", "30", "CASE=out"],
        4,
        "of application cfd",
    );
    refused(
        &cluster,
        &["-app", "plian", "true"],
        1,
        "did you mean \"plain\"?",
    );
    let page = cluster.ok("capps", &["show", "flow"]);
    assert!(page.contains("CASE  file, required"), "{page}");
    assert!(cluster.ok("capps", &[]).lines().count() > 20);

    let on_hold = cluster.csub(&["-H", "-app", "plain", "true"]);
    cluster.ok("cmod", &["-app", "cfd", &on_hold.to_string()]);
    let app = cluster.ok("cjobs", &["-noheader", "-o", "app", &on_hold.to_string()]);
    assert_eq!(app.trim(), "cfd");

    std::fs::write(
        dir.join("flow.yaml"),
        form.replace("type: int", "type: integer"),
    )
    .unwrap();
    refused(&cluster, &["-app", "flow", "CASE=out"], 5, "flow.yaml:6:");
    let out = cluster.run("capps", &["check", "all"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out));
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(stderr.contains("write string, int, float"), "{stderr}");
}

#[test]
fn a_profile_gives_variables_and_says_which_ends_are_a_success() {
    let site = policies::cluster(
        1,
        "hosts:\n- {name: h1, slots: 4}\nqueues:\n- {name: q, success_exit_values: 9}\n\
         apps:\n- {name: own, success_exit_values: 3, env: {A: of app, B: of app}}\n",
    );
    let out = site.work().join("out");
    let out = out.to_str().unwrap();
    let job = "echo \"$A/$B\" >vars; exit 3";
    let own = site.csub(&["-app", "own", "-env", "all, B=mine", "-o", out, job]);
    let after = site.csub(&["-w", &format!("done({own})"), "exit 9"]);
    let failed = site.csub(&["-app", "own", "exit 9"]);
    policies::until(&site, own, "DONE", policies::is("DONE"));
    policies::until(&site, after, "DONE", policies::is("DONE"));
    policies::until(&site, failed, "EXIT", policies::is("EXIT"));
    let read = |path: &str| std::fs::read_to_string(site.work().join(path)).unwrap();
    assert_eq!(read("vars"), "of app/mine\n");
    let report = read("out");
    assert!(
        report.contains("Successfully completed with exit code 3."),
        "{report}"
    );
    let page = site.ok("chist", &["-l", &own.to_string()]);
    assert!(
        page.contains("Done successfully with exit code 3."),
        "{page}"
    );
    let ids = [own, after, failed].map(|id| id.to_string());
    let words = ["-noheader", "-o", "jobid: stat: exit_code:"];
    let words: Vec<&str> = words
        .into_iter()
        .chain(ids.iter().map(String::as_str))
        .collect();
    let all = format!("{own} DONE 3\n{after} DONE 9\n{failed} EXIT 9\n");
    // Records wait a second for company.
    let records = || {
        let out = site.run("cacct", &words);
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    until_or(|| records() == all, records);
}
