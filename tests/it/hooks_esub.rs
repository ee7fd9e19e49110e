//! Programs of the site that look at submissions: they change and refuse them, and one that others
//! can write, or that fails, lets no job pass.

use crate::cluster::Cluster;
use crate::policies;
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
    assert!(refused(&site, &["-a", "open", "true"]).contains("everybody may write"));
}
