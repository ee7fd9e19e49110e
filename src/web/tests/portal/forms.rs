//! Forms of applications, jobs that are submitted again, script and environment of a job.

use crate::bed::{ME, OTHER, SUBMIT_TOKEN, TestPortal, job};
use axum::http::StatusCode;
use corral::model::{JobStat, Spec};
use corral::record::view::{JobRow, Row};

const SOLVER: &str = "\
name: solver
label: In-house <solver>
label_zh: 自研求解器
profile: cfd
params:
- {name: CASE, type: string, label: Case, label_zh: 算例}
- {name: SLOTS, type: int, default: 4, min: 1, max: 256}
- {name: GPU, type: bool, default: no}
- {name: MODE, type: choice, choices: [fast, exact], default: exact}
options:
- n: ${SLOTS}
script: |
  #!/bin/sh
  solve \"$CB_APP_CASE\"
";

/// A portal with an application, and a job of it with a script and an environment.
fn bed() -> TestPortal {
    let spec = |id: u32, uid: u32| Row::Spec {
        id,
        spec: Box::new(Spec {
            uid,
            user: format!("u{uid}"),
            queue: "normal".into(),
            app: "cfd".into(),
            cwd: "/w/run".into(),
            script: "ab01".into(),
            env: "cd02".into(),
            min: 2,
            max: 2,
            ..Spec::default()
        }),
    };
    let row = |id: u32, s: u32| {
        Row::Job(Box::new(JobRow {
            command: "solver 'CASE=a b' SLOTS=8".into(),
            ..job(id, s, JobStat::Run, "n")
        }))
    };
    let bed = TestPortal::with(
        true,
        vec![spec(1, ME), spec(2, OTHER), row(1, 1), row(3, 2)],
    );
    let put = |name: &str, text: &str| {
        let path = bed.share().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("conf/apps.d/solver.yaml", SOLVER);
    put("conf/apps.d/wrong.yaml", "name: wrong\nnonsense: 1\n");
    put("blobs/ab/ab01", "#!/bin/sh\n# <script> of me\n");
    put("blobs/cd/cd02", "{\"TOKEN\":\"s3cret<\",\"A\":\"1\"}");
    bed
}

#[tokio::test]
async fn a_form_has_the_fields_of_its_template() {
    let bed = bed();
    let login = bed.login().await;
    let page = bed.get("/submit", &[("cookie", &login.cookie)]).await;
    assert!(page.text.contains("/submit/app/solver") && !page.text.contains("wrong"));
    let cookie = format!("{}; corral_lang=zh-CN", login.cookie);
    let form = bed
        .get("/submit/app/solver?p.CASE=x%22y", &[("cookie", &cookie)])
        .await;
    assert_eq!(form.status, StatusCode::OK, "{}", form.text);
    assert!(form.text.contains("算例") && form.text.contains("自研求解器"));
    assert!(
        form.text.contains("name=\"p.CASE\" value=\"x&#34;y\""),
        "{}",
        form.text
    );
    assert!(form.text.contains("name=\"p.SLOTS\" value=\"4\""));
    assert!(form.text.contains("<option value=\"exact\" selected>"));
    let english = bed
        .get("/submit/app/solver", &[("cookie", &login.cookie)])
        .await;
    assert!(english.text.contains("In-house &#60;solver&#62;"));
    let none = bed
        .get("/submit/app/none", &[("cookie", &login.cookie)])
        .await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_form_gives_values_to_its_template() {
    let bed = bed();
    let login = bed.login().await;
    let send = async |path: &str, fields: &str| {
        let body = format!("csrf={}&{fields}", login.csrf);
        bed.form(path, &body, &[("cookie", &login.cookie)]).await
    };
    let fields = "p.CASE=a+b&p.SLOTS=8&p.GPU=yes&queue=normal&array=1-3&key=k";
    let checked = send("/submit/app/solver/check", fields).await;
    assert!(
        checked.text.contains("Would be accepted"),
        "{}",
        checked.text
    );
    assert!(checked.text.contains("value=\"a b\"") && checked.text.contains("value=\"8\""));
    let sent = send("/submit/app/solver", fields).await;
    assert_eq!(sent.header("location"), "/jobs/1", "{}", sent.text);
    let job = bed.done.lock().unwrap().jobs.pop().unwrap();
    let template = job.template.unwrap();
    assert_eq!(template.name, "solver");
    assert!(template.values.contains(&("CASE".into(), "a b".into())));
    assert!(job.script.is_empty() && job.named_options.contains(&("q", "normal".to_owned())));
    assert_eq!(job.array, "1-3");
    assert!(bed.done.lock().unwrap().jobs.is_empty());
}

#[tokio::test]
async fn a_job_is_repeated_as_it_is_or_in_its_form() {
    let bed = bed();
    let login = bed.login().await;
    let cookie = [("cookie", login.cookie.as_str())];
    let form = bed.get("/jobs/1/form", &cookie).await;
    let place = form.header("location");
    assert!(place.starts_with("/submit/app/solver?"), "{place}");
    assert!(place.contains("p.CASE=a+b&p.SLOTS=8"), "{place}");
    let page = bed.get(place, &cookie).await;
    assert!(page.text.contains("value=\"a b\""), "{}", page.text);
    let body = format!("csrf={}&key=k1", login.csrf);
    let sent = bed.form("/jobs/1/clone", &body, &cookie).await;
    assert_eq!(sent.header("location"), "/jobs/9", "{}", sent.text);
    let refused = bed.form("/jobs/1/clone", "key=k1", &cookie).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let auth = format!("Bearer {SUBMIT_TOKEN}");
    let headers = [("authorization", auth.as_str()), ("idempotency-key", "k2")];
    let rest = bed.post("/api/v1/jobs/1/clone", "", &headers).await;
    assert_eq!(
        (rest.status, rest.header("location")),
        (StatusCode::CREATED, "/api/v1/jobs/9")
    );
    let clones = bed.done.lock().unwrap().clones.clone();
    assert_eq!(
        clones,
        [("1".into(), "k1".into()), ("1".into(), "k2".into())]
    );
}

#[tokio::test]
async fn script_and_environment_are_for_the_jobs_user_alone() {
    let bed = bed();
    let login = bed.login().await;
    let cookie = [("cookie", login.cookie.as_str())];
    let own = bed.get("/jobs/1", &cookie).await.text;
    assert!(
        own.contains("TOKEN=s3cret&#60;") && own.contains("# &#60;script&#62; of me"),
        "{own}"
    );
    assert!(own.contains("/files?root=/w/run&#38;path="));
    let other = bed.get("/jobs/3", &cookie).await;
    assert_eq!(other.status, StatusCode::OK, "the job itself is seen");
    assert!(!other.text.contains("s3cret") && !other.text.contains("of me"));
    let texts = bed.get("/api/v1/jobs/1/texts", &cookie).await.json();
    assert_eq!(texts["env"]["variables"]["A"], "1");
    let texts = bed.get("/api/v1/jobs/3/texts", &cookie).await;
    assert!(!texts.text.contains("s3cret") && texts.text.contains("only its user"));
    let form = bed.get("/jobs/3/form", &cookie).await;
    assert!(!form.header("location").contains("of+me"));
}
