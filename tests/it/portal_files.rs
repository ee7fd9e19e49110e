//! The portal over a real cluster: a file goes up in parts and comes down, a form of an application
//! makes a job, the job is repeated, its user reads script and environment.

use crate::cluster::{Cluster, build};
use crate::portal::{Portal, ask, said, status};
use serde_json::Value;
use std::io::Read as _;

fn answered(text: &str) -> Value {
    let (_, body) = text.split_once("\r\n\r\n").expect(text);
    serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn done(cluster: &Cluster, id: u64) {
    let id = u32::try_from(id).unwrap();
    cluster.wait(|states| states.get(&(id, 0)).is_some_and(|stat| stat == "DONE"));
}

const TEMPLATE: &str = "name: count\nparams:\n- {name: INPUT, type: file, exists: yes}\n\
    - {name: SLOTS, type: int, default: 1, max: 2}\noptions:\n- n: ${SLOTS}\nscript: |\n  \
    #!/bin/sh\n  wc -c < \"$CB_APP_INPUT\" >> \"$CB_APP_INPUT.count\"\n";

#[test]
fn a_file_goes_up_a_form_makes_a_job_of_it_and_the_job_is_repeated() {
    build("--bins");
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let apps = cluster.share().join("conf/apps.d");
    std::fs::create_dir_all(&apps).unwrap();
    std::fs::write(apps.join("count.yaml"), TEMPLATE).unwrap();
    let work = std::fs::canonicalize(cluster.dir())
        .unwrap()
        .join("files of me");
    std::fs::create_dir(&work).unwrap();
    let portal = Portal::start(&cluster);
    let place = portal.place.as_str();
    let scope = ["create", "--scope", "submit", "--expires", "1h"];
    let auth = format!(
        "Authorization: Bearer {}",
        cluster.ok("ctoken", &scope).trim()
    );
    let root = work.to_str().unwrap().replace(' ', "%20");
    let send = |line: &str, body: &str| said(place, line, &[&auth], body);

    let upload = |offset: usize, part: &str| {
        let query = format!("root={root}&path=in.txt&size=10&offset={offset}");
        answered(&send(&format!("POST /api/v1/files/upload?{query}"), part))
    };
    assert_eq!(upload(0, "01234")["received"], 5);
    assert_eq!(upload(5, "56789")["done"], true);
    let content = format!("GET /api/v1/files/content?root={root}&path=in.txt");
    let mut part = String::new();
    let mut stream = ask(place, &content, &[&auth, "Range: bytes=7-"], "");
    stream.read_to_string(&mut part).unwrap();
    assert!(
        status(&part) == 206 && part.ends_with("\r\n\r\n789"),
        "{part}"
    );

    let json = "Content-Type: application/json";
    let submit = |params: Value| {
        let job = serde_json::json!({"app": "count", "cwd": work, "params": params});
        said(place, "POST /api/v1/jobs", &[&auth, json], &job.to_string())
    };
    let wrong = submit(serde_json::json!({"INPUT": "none.txt", "SLOTS": 9}));
    assert_eq!(status(&wrong), 400, "{wrong}");
    assert!(
        wrong.contains("none.txt does not exist") && wrong.contains("9 is above 2"),
        "{wrong}"
    );
    let made = submit(serde_json::json!({"INPUT": "in.txt", "SLOTS": 2}));
    assert_eq!(status(&made), 201, "{made}");
    let id = answered(&made)["id"].as_u64().unwrap();
    done(&cluster, id);
    let count = work.join("in.txt.count");
    assert_eq!(std::fs::read_to_string(&count).unwrap().trim(), "10");

    let texts = answered(&send(&format!("GET /api/v1/jobs/{id}/texts"), ""));
    let script = texts["script"]["text"].as_str().unwrap_or_default();
    assert!(script.contains("wc -c"), "{texts}");
    let input = work.join("in.txt");
    let known = &texts["env"]["variables"]["CB_APP_INPUT"];
    assert_eq!(known.as_str(), input.to_str(), "{texts}");

    let again = send(&format!("POST /api/v1/jobs/{id}/clone"), "");
    assert_eq!(status(&again), 201, "{again}");
    let clone = answered(&again)["id"].as_u64().unwrap();
    assert_ne!(clone, id);
    done(&cluster, clone);
    let counts = std::fs::read_to_string(&count).unwrap();
    assert_eq!(counts.lines().count(), 2, "{counts}");
}
