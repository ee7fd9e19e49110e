//! Programs of the site that look at submissions: they change and refuse them, and one that others
//! can write, or that fails, lets no job pass.

use crate::cluster::Cluster;
use crate::{executor_bed, policies};
use corral::sys::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn program(dir: &Path, name: &str, script: &str, mode: u32) {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn refused(site: &Cluster, args: &[&str]) -> String {
    let out = site.run("csub", args);
    assert!(!out.status.success(), "{args:?}");
    assert!(out.stdout.is_empty());
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn programs_of_the_site_change_and_refuse_submissions() {
    let site = policies::cluster(
        1,
        "hosts:\n- {name: h1, slots: 2}\nqueues:\n- {name: q}\n- {name: night}\n",
    );
    let (dir, work) = (site.dir().join("esub"), site.work());
    std::fs::create_dir(&dir).unwrap();
    let without = site.csub(&["-a", "fluent", "true"]);
    policies::until(&site, without, "DONE", policies::is("DONE"));
    let conf = site.dir().join("etc/cb.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, format!("{text}\nCB_ESUBDIR={}\n", dir.display())).unwrap();
    let general = "grep -q NOT \"$LSB_SUB_PARM_FILE\" && exit \"$LSB_SUB_ABORT_VALUE\"\n\
                   echo 'LSB_SUB_PROJECT_NAME=\"site\"' >\"$LSB_SUB_MODIFY_FILE\"; exit 0";
    program(&dir, "esub", general, 0o755);
    let fluent = "cp \"$LSB_SUB_PARM_FILE\" seen\n\
                  echo LSB_SUB_QUEUE=night >\"$LSB_SUB_MODIFY_FILE\"\n\
                  echo 'FLUENT_HOME=\"/opt/fluent v1\"' >\"$LSB_SUB_MODIFY_ENVFILE\"";
    program(&dir, "esub.fluent", fluent, 0o755);
    let job = site.csub(&["-q", "q", "-a", "fluent", "echo $FLUENT_HOME >home"]);
    let row = policies::until(&site, job, "DONE", policies::is("DONE"));
    assert_eq!(
        (&row["queue"], &row["project"]),
        (&"night".into(), &"site".into()),
        "{row}"
    );
    assert_eq!(
        std::fs::read_to_string(work.join("home")).unwrap(),
        "/opt/fluent v1\n"
    );
    let seen = std::fs::read_to_string(work.join("seen")).unwrap();
    assert!(seen.contains("LSB_SUB_PROJECT_NAME=\"site\"\n"), "{seen}");
    assert!(refused(&site, &["-J", "NOT", "true"]).contains("refused by"));
    assert!(refused(&site, &["-a", "nope", "true"]).contains("no program esub.nope"));
    assert!(refused(&site, &["-pack", "/dev/null"]).contains("-pack"));
    program(&dir, "esub.bad", "exit 3", 0o755);
    assert!(refused(&site, &["-a", "bad", "true"]).contains("exited with 3"));
    program(&dir, "esub.open", "exit 0", 0o777);
    assert!(refused(&site, &["-a", "open", "true"]).contains("all users may write"));
}

/// What the programs print goes with the job, up to a limit.
#[test]
fn what_esub_prints_goes_with_the_job_but_not_into_its_environment() {
    let site = policies::cluster(1, "hosts:\n- {name: h1, slots: 2}\nqueues:\n- {name: q}\n");
    let dir = site.dir().join("esub");
    std::fs::create_dir(&dir).unwrap();
    let conf = site.dir().join("etc/cb.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, format!("{text}\nCB_ESUBDIR={}\n", dir.display())).unwrap();
    program(&dir, "esub", "echo 'ticket of the site'", 0o755);
    let job = site.csub(&["-env", "all,CB_EEXEC_DATA=forged", "env >seen"]);
    policies::until(&site, job, "DONE", policies::is("DONE"));
    let seen = std::fs::read_to_string(site.work().join("seen")).unwrap();
    assert!(!seen.contains("CB_EEXEC_DATA"), "{seen}");
    let found = std::process::Command::new("grep")
        .args(["-rl", "\"CB_EEXEC_DATA\":\"ticket of the site"])
        .arg(site.share())
        .output()
        .unwrap();
    assert!(found.status.success(), "the data are not on the share");
    program(&dir, "esub", "head -c 40000 /dev/zero | tr '\\0' x", 0o755);
    assert!(refused(&site, &["true"]).contains("its output"));
    program(&dir, "esub", "printf '\\377'", 0o755);
    assert!(refused(&site, &["true"]).contains("not UTF-8 text"));
}

/// `eexec` runs around each job as its user with what `esub` left; one that fails, or that others
/// can write, lets no job begin.
#[test]
fn eexec_gets_the_data_at_the_start_and_the_end() {
    let mut c = executor_bed::Cluster::new();
    let conf = c.path("etc/cb.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    let dir = c.path("esub");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(&conf, format!("{text}CB_ESUBDIR={}\n", dir.display())).unwrap();
    let marks = c.path("marks").display().to_string();
    let eexec =
        format!("(echo $LS_EXEC_T $LSB_JOBID ${{OWN-none}} $LSB_JOBEXIT_STAT; cat) >>{marks}");
    program(&dir, "eexec", &eexec, 0o755);
    let env = br#"{"CB_EEXEC_DATA":"ticket\n","OWN":"lead"}"#;
    let sha = corral::model::sha256_hex(env);
    let blob = c.layout.blob(&sha);
    fs::mkdir_p(fs::parent(&blob), 0o755).unwrap();
    fs::publish(&blob, env).unwrap();
    c.spec(2, |spec| spec.env = sha);
    let job = format!("echo $OWN ${{CB_EEXEC_DATA-none}} >>{marks}; exit 3");
    c.start_of(1, 2, &job);
    c.start_exe();
    assert_eq!(c.end(1).code, Some(3));
    let wanted = "START 1 none\nticket\nlead none\nEND 1 none 768\nticket\n";
    assert_eq!(c.marks(), wanted);
    for (id, script, mode, why) in [
        (2, "exit 9", 0o755, "eexec (START) exited with 9"),
        (3, "true", 0o777, "all users may write"),
    ] {
        program(&dir, "eexec", script, mode);
        c.start_of(id, 2, &job);
        let end = c.end(id);
        assert!(
            end.pre_failed.is_some() && end.text.contains(why),
            "{end:?}"
        );
    }
    assert_eq!(c.marks(), wanted, "no job began");
}
