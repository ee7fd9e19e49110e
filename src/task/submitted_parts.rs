//! What a submission contains besides the options: variables that its application adds, and all of
//! it together as the text that is stored with a checkpoint. Pure: contents of blobs are arguments.

use crate::model::{Checkpoint, Spec, Stamp};
use crate::record::FORMAT;
use crate::record::byte_text::ByteText;
use crate::record::order::StartOrder;
use crate::record::saved_job::SavedJob;
use std::collections::BTreeMap;

/// Variables of an application that the submitted environment `own` does not have.
pub fn variables_of_app(
    of_app: &BTreeMap<String, String>,
    own: &BTreeMap<String, String>,
) -> Vec<String> {
    let given = of_app.iter().filter(|(name, _)| !own.contains_key(*name));
    given
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// The parts of a task's submission that are not in its specification.
#[derive(Default)]
pub struct SubmittedParts {
    pub env: BTreeMap<String, String>,
    pub script: ByteText,
    pub stdin: ByteText,
    pub params: String,
}

/// The text that is stored with a checkpoint, from which a job can be submitted again.
pub fn saved_job(
    order: &StartOrder,
    what: &Checkpoint,
    spec: &Spec,
    parts: SubmittedParts,
) -> String {
    let chkpnt = Checkpoint {
        from: String::new(),
        force: false,
        ..what.clone()
    };
    let SubmittedParts {
        env,
        script,
        stdin,
        params,
    } = parts;
    let job = SavedJob {
        format: FORMAT,
        j: order.a.j,
        t: Stamp(order.t),
        name: order.name.clone(),
        command: order.command.clone(),
        spec: Spec {
            chkpnt: Some(Box::new(chkpnt)),
            ..spec.clone()
        },
        env,
        script,
        stdin,
        params,
    };
    job.text()
}

#[cfg(test)]
mod tests {
    use super::super::build::task;
    use super::super::files::TaskFiles;
    use super::*;
    use crate::model::{AttemptId, JobKey};
    use crate::record::order::{CheckpointOrder, HookOrder};

    #[test]
    fn variables_of_an_application_never_replace_the_jobs() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let app = of(&[("A", "1 2"), ("B", "3")]);
        assert_eq!(variables_of_app(&app, &of(&[("B", "")])), ["A=1 2"]);
        assert_eq!(variables_of_app(&app, &of(&[])), ["A=1 2", "B=3"]);
    }

    /// The first attempt of an element.
    fn order() -> StartOrder {
        let a = AttemptId {
            j: JobKey::element(12, 3),
            at: 1,
        };
        let mut order = serde_json::to_value(a).unwrap();
        for (key, value) in [
            ("s", "1"),
            ("c", "\"prog\""),
            ("hosts", "[]"),
            ("limits", "{}"),
            ("t", "5"),
            ("grace_ms", "1"),
        ] {
            order[key] = serde_json::from_str(value).unwrap();
        }
        serde_json::from_value(order).unwrap()
    }

    #[test]
    fn a_job_of_crestart_is_a_restart_from_its_first_attempt_on() {
        let what = Checkpoint {
            from: "3".into(),
            ..Checkpoint::parse("/ck method=app").unwrap()
        };
        let checkpoint = CheckpointOrder {
            what: what.clone(),
            ..CheckpointOrder::default()
        };
        let hooks = HookOrder {
            checkpoint: Some(checkpoint),
            ..HookOrder::default()
        };
        let mut order = order();
        order.hooks = Some(Box::new(hooks));
        let spec = Spec::default();
        let task = task(&order, &spec, 0, &TaskFiles::default());
        assert!(task.env.contains(&"LSB_RESTART=Y".to_owned()));
        assert!(task.env.contains(&"LSB_CHKPNT_DIR=/ck/12.3".to_owned()));
        assert_eq!(task.argv[4..], ["/ck/12.3/.restart_cmd", "prog"]);
        // The text stored with its own checkpoints does not refer to an earlier job.
        let env = [("A".to_owned(), "1".to_owned())].into();
        let parts = SubmittedParts {
            env,
            script: "s".to_owned().into(),
            ..SubmittedParts::default()
        };
        let text = saved_job(&order, &what, &spec, parts);
        let saved = SavedJob::parse(text.as_bytes()).unwrap();
        let chkpnt = saved.spec.chkpnt.unwrap();
        assert_eq!((saved.j, chkpnt.from.as_str()), (order.a.j, ""));
        assert_eq!(chkpnt.method(), "app", "also where its queue says it");
        assert_eq!((saved.script.text().as_ref(), saved.env.len()), ("s", 1));
    }
}
